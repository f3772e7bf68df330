"""`datarecs plan` over a database: what it is queried for, and how it would answer."""

import json
from pathlib import Path

import psycopg
import pytest

from datarecs_cli.main import run
from datarecs_connectors.postgres import PostgresConnector
from datarecs_testing.stack import PostgresServer

pytestmark = pytest.mark.integration
Shown = pytest.CaptureFixture[str]
JOB = """\
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: pg}}
spec:
  type: postgres
  config: {{host: 127.0.0.1, port: {port}, database: {dbname}, user: {user}, sslmode: disable}}
  auth: {{password: "env:PLAN_PASSWORD"}}
---
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {{name: books}}
spec:
  sources:
    - {{name: ledger, kind: postgres, connection: pg, relation: public.book}}
    - {{name: copy, kind: postgres, connection: pg, relation: public.book}}
  stages:
    - name: totals
      type: aggregate
      dimensions: [account]
      where: "account <> 'x'"
      measures: [{{name: amount}}]
      on_unmatched: escalate
    - {{name: rows, type: row, dimensions: [id], measures: [{{name: amount}}]}}
  execution: {{strategy: {strategy}}}
"""


@pytest.fixture
def job(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    monkeypatch.chdir(tmp_path)
    admin = postgres_server.fresh_database().replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(admin, autocommit=True) as session:
        session.execute("CREATE TABLE book (id bigint, account text, amount numeric(12,2))")
        session.execute("INSERT INTO book SELECT i, i % 3, i FROM generate_series(1, 60) AS i")
        session.execute("ANALYZE book")
    fields = psycopg.conninfo.conninfo_to_dict(admin)
    monkeypatch.setenv("PLAN_PASSWORD", str(fields["password"]))
    return {name: str(fields[name]) for name in ("port", "dbname", "user")}


def test_a_plan_shows_what_is_pushed_down_and_why_not(job: dict[str, str], capsys: Shown) -> None:
    Path("job.yaml").write_text(JOB.format(strategy="pushdown", **job))
    assert run(["plan", "job.yaml", "--explain"]) == 0
    shown_lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "strategy pushdown (`execution.strategy` is pushdown)" in shown_lines
    assert (
        'groups ledger: SELECT "account"::text COLLATE "C", sum("amount") FILTER'
        ' (WHERE ("account"::text COLLATE "C" <> \'x\'::text COLLATE "C")),'
    ) in "\n".join(shown_lines)
    assert (
        "keys ledger: only rows of groups that differ, up to 10,000 of them; else all rows"
        in shown_lines
    )
    assert "expected 60 rows, 8.0 KiB" in shown_lines
    assert "explain copy for stage totals" in shown_lines
    assert any(line.startswith("HashAggregate") for line in shown_lines)
    assert run(["plan", "job.yaml", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert sorted(document["groups"]["totals"]) == ["copy", "ledger"]
    Path("job.yaml").write_text(JOB.format(strategy="auto", **job))
    assert run(["plan", "job.yaml"]) == 0
    assert "pushdown: fewer than 1,000,000 rows are expected" in capsys.readouterr().out


def test_the_oracle_answers_what_is_small_whatever_could_be_pushed(
    job: dict[str, str], capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the rows that were brought: a second read of the database would fail."""
    monkeypatch.delattr(PostgresConnector, "rows")
    Path("job.yaml").write_text(JOB.format(strategy="auto", **job))
    assert run(["compare", "job.yaml", "--out", "kept", "-o", "json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["stages"]
    assert first["counts"]["source_row_counts"] == {"source_0": 60, "source_1": 60}
    assert (second["status"], second["reason"]) == ("SKIPPED", "NOTHING_IN_SCOPE")
