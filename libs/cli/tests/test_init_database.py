"""`datarecs init` over a table of a database: by address, and by the name of a connection."""

from pathlib import Path

import psycopg
import pytest

from datarecs_cli.main import run
from datarecs_testing.stack import PostgresServer

pytestmark = pytest.mark.integration
Shown = pytest.CaptureFixture[str]


@pytest.fixture
def address(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """A table of 60,000 trades, more than a sample takes, and a custodian's file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PGPASSWORD", raising=False)
    admin = postgres_server.fresh_database().replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(admin, autocommit=True) as session:
        session.execute(
            "CREATE TABLE trades (trade_id bigint, booked date, amount numeric(12,4), tags text[])"
        )
        session.execute(
            "INSERT INTO trades SELECT i, date '2026-01-01' + (i % 300)::int, i + 0.1234, '{a}'"
            " FROM generate_series(1, 60000) AS i"
        )
    lines = [f"{at};{at},12" for at in range(1, 60_001)]
    Path("custodian.csv").write_text("\n".join(["Trade-ID;Betrag", *lines, ""]))
    fields = psycopg.conninfo.conninfo_to_dict(admin)
    return {name: str(fields[name]) for name in ("user", "password", "port", "dbname")}


def test_a_table_is_sampled_by_its_address_and_compared_by_a_variable(
    address: dict[str, str], capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "postgresql://{user}:{password}@127.0.0.1:{port}/{dbname}".format(**address)
    assert run(["init", f"{place}?table=public.trades&sslmode=disable", "custodian.csv"]) == 0
    shown = capsys.readouterr().out
    assert "read      trades: the first 50,000 rows read" in shown
    written = Path("trades-vs-custodian.recon.yaml").read_text()
    assert 'type: ABSOLUTE, value: "0.005"' in written
    assert "tags of trades" in written
    assert address["password"] not in written + shown
    export = next(line for line in shown.splitlines() if line.startswith("first"))
    variable = export.split()[2].partition("=")[0]
    monkeypatch.setenv(variable, address["password"])
    assert run(["compare", "trades-vs-custodian.recon.yaml", "--engine", "reference"]) == 0


def test_a_connection_of_a_file_stands_in_the_job(
    address: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOKS", address["password"])
    config = "{{host: 127.0.0.1, port: {port}, database: {dbname}, user: {user}, sslmode: disable}}"
    Path("connections.yaml").write_text(
        "apiVersion: datarecs.io/v1\nkind: Connection\nmetadata: {name: pg-books}\n"
        f"spec:\n  type: postgres\n  config: {config.format(**address)}\n"
        '  auth: {password: "env:BOOKS"}\n'
    )
    assert run(["init", "pg-books:public.trades", "custodian.csv"]) == 0
    written = Path("trades-vs-custodian.recon.yaml").read_text()
    assert "connection: pg-books\n      relation: public.trades" in written
    assert written.count("kind: Connection") == 1
