"""The demo's data and declarations, before any platform is started."""

import json
import runpy
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from datarecs_cli.declared_files import check_files
from datarecs_cli.demo.books import LedgerPlace, admin_login, load_ledger, write_csv, write_exports
from datarecs_cli.demo.declarations import EXPORTS, JOB_FILE, JOB_TEXT, Places, surroundings_text
from datarecs_cli.demo.entries import Entry, exports, ledger
from datarecs_cli.demo.expected import FIRST, GAP, SECOND, departures
from datarecs_cli.main import run
from datarecs_cli.stack.failures import DemoFailedError
from datarecs_cli.stack.layout import Layout
from datarecs_cli.stack.psql import Login
from datarecs_core.resources.resource import Kind
from datarecs_testing.stack import PostgresServer

PLACES = Places(
    ledger=LedgerPlace(host="127.0.0.1", port=54329),
    password_file=Path("/project/.datarecs/tenant-secrets/t/demo-ledger"),
    folder=Path("/project/demo"),
    receiver_url="http://127.0.0.1:40000/",
)


def sums(rows: Iterable[Entry]) -> dict[int, Decimal]:
    totals: dict[int, Decimal] = {}
    for row in rows:
        totals[row.account] = totals.get(row.account, Decimal(0)) + row.amount
    return totals


@pytest.mark.case("F18")
def test_the_data_has_the_numbers_of_source_001() -> None:
    of_ledger, of_exports = sums(ledger()), sums(exports(corrected=False))
    both = of_ledger.keys() & of_exports.keys()
    outside = {one for one in both if abs(of_ledger[one] - of_exports[one]) > Decimal("0.01")}
    assert (len(ledger()), len(exports(corrected=False))) == (1000, 1005)
    assert (len(both), len(both - outside), len(outside)) == (980, 975, 5)
    assert (len(of_ledger.keys() - both), len(of_exports.keys() - both)) == (5, 20)
    assert sum(of_exports.values()) - sum(of_ledger.values()) == Decimal(GAP)
    assert (of_ledger[4711], of_exports[4711]) == (Decimal("1500.00"), Decimal("500.00"))


def test_fifteen_and_five_accounts_hold_two_rows() -> None:
    for rows, twice in ((ledger(), 15), (exports(corrected=False), 5)):
        held = Counter(Counter(row.account for row in rows).values())
        assert held == {1: len(sums(rows)) - twice, 2: twice}


def test_the_largest_difference_is_the_one_that_is_shown() -> None:
    of_ledger, of_exports = sums(ledger()), sums(exports(corrected=False))
    both = of_ledger.keys() & of_exports.keys()
    assert max(both, key=lambda one: abs(of_ledger[one] - of_exports[one])) == 4711


def test_some_amounts_are_within_and_not_equal() -> None:
    of_ledger, of_exports = sums(ledger()), sums(exports(corrected=True))
    apart = [abs(of_ledger[one] - of_exports[one]) for one in of_ledger]
    assert of_ledger.keys() == of_exports.keys()
    assert Counter(apart) == {Decimal("0.00"): 975, Decimal("0.01"): 10}


def test_each_start_makes_the_same_data(tmp_path: Path) -> None:
    assert ledger() == ledger()
    for name in ("one", "other"):
        write_exports(tmp_path / name, exports(corrected=False))
    assert pq.read_table(tmp_path / "one").equals(pq.read_table(tmp_path / "other"))


def payload_of(stage: dict[str, object]) -> dict[str, object]:
    """A stage of run.json in the words of the event."""
    counts, measures = stage["counts"], stage["measures"]
    assert isinstance(counts, dict)
    assert isinstance(measures, list)
    return {
        "source_row_counts": counts["source_row_counts"],
        "join_stats": {name: counts[name] for name in ("matched_groups", "unmatched_by_source")},
        "tolerances": [
            {
                "measure_name": one["name"],
                "tolerance_type": one["tolerances"][0]["type"],
                "tolerance_value_exact": one["tolerances"][0]["value"],
                "within_tolerance_count": one["within"],
                "outside_tolerance_count": one["outside"],
                "passed": one["passed"],
            }
            for one in measures
        ],
        "result": stage["result"],
        **{name: counts[name] for name in ("rows_compared", "rows_matched", "rows_unmatched")},
    }


@pytest.mark.case("F18")
@pytest.mark.parametrize("corrected", [False, True])
def test_the_demos_job_finds_what_the_demo_expects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, corrected: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "ledger.csv", ledger())
    write_exports(tmp_path / EXPORTS, exports(corrected=corrected))
    local = JOB_TEXT.replace(
        "kind: postgres, connection: demo-ledger, relation: demo.ledger",
        "kind: csv, path: ledger.csv",
    ).replace("connection: demo-files, ", "")
    (tmp_path / "job.yaml").write_text(local, encoding="utf-8")
    run(["compare", "job.yaml", "--out", "out", "--quiet"])
    (stage,) = json.loads((tmp_path / "out" / "run.json").read_bytes())["proof"]["stages"]
    wanted = SECOND if corrected else FIRST
    assert list(departures(wanted, payload_of(stage))) == []


def test_a_number_that_drifted_is_named() -> None:
    actual = {**FIRST, "rows_matched": 974, "tolerances": []}
    differences = list(departures(FIRST, actual))
    assert differences[1] == "rows_matched is 974 instead of 975"
    assert differences[0].startswith("tolerances is []")


def test_what_the_demo_declares_is_sound(tmp_path: Path) -> None:
    around, job = tmp_path / "platform.yaml", tmp_path / JOB_FILE
    around.write_text(surroundings_text(PLACES), encoding="utf-8")
    job.write_text(JOB_TEXT, encoding="utf-8")
    files = check_files([str(around), str(job)])
    assert [one.findings for file in files for one in file.documents] == [()] * 5
    kinds = [one.declared.kind for file in files for one in file.documents if one.declared]
    others = {Kind.SCHEDULE, Kind.RETENTION_POLICY, Kind.CAPTURE, Kind.SINK_TABLE}
    assert sorted(kinds) == sorted([*(set(Kind) - others), Kind.CONNECTION])


def test_a_folder_with_odd_characters_stays_one_value(tmp_path: Path) -> None:
    odd = Places(
        ledger=PLACES.ledger,
        password_file=PLACES.password_file,
        folder=Path('/pro ject/"d: #{x}'),
        receiver_url=PLACES.receiver_url,
    )
    path = tmp_path / "platform.yaml"
    path.write_text(surroundings_text(odd), encoding="utf-8")
    declared = check_files([str(path)])[0].documents[1].declared
    assert declared is not None
    assert declared.spec["config"] == {"root": '/pro ject/"d: #{x}'}


def test_the_example_in_the_documentation_is_the_demos_job() -> None:
    example = Path(__file__).parents[3] / "docs" / "examples" / JOB_FILE
    assert example.read_text(encoding="utf-8") == JOB_TEXT


def test_the_example_without_a_server_shows_the_same_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = Path(__file__).parents[3] / "docs" / "examples"
    runpy.run_path(str(examples / "demo_data.py"))["main"](tmp_path)
    job = str(tmp_path / "books.recon.yaml")
    assert run(["compare", job, "--out", str(tmp_path / "out"), "--quiet"]) == 1
    assert "975 within" in capsys.readouterr().out


def test_a_password_that_would_need_quotes_is_refused(tmp_path: Path) -> None:
    login = Login(psql=tmp_path / "psql", host="127.0.0.1", port=1, user="u", password="p")
    login.psql.write_text("#!/bin/sh\necho 1\n", encoding="utf-8")
    login.psql.chmod(0o755)
    with pytest.raises(ValueError, match="need quotes"):
        load_ledger(login, ledger(), "it's")


def test_without_a_server_the_demo_says_so(tmp_path: Path) -> None:
    with pytest.raises(DemoFailedError, match="was found"):
        admin_login(Layout(tmp_path), {})


def test_the_server_of_a_url_is_meant_where_one_is_set(tmp_path: Path) -> None:
    url = "postgresql://admin:p%40ss@db.example:5433/x"
    login = admin_login(Layout(tmp_path), {"DATARECS_DATABASE__URL": url})
    assert (login.host, login.port, login.user) == ("db.example", 5433, "admin")
    assert login.password == "p@ss"


@pytest.mark.integration
def test_the_reader_may_read_the_ledger_and_nothing_else(postgres_server: PostgresServer) -> None:
    admin = postgres_server.login
    load_ledger(admin, ledger(), "another")
    place = load_ledger(admin, ledger(), "pass-word_1")
    reader = Login(
        psql=admin.psql,
        host=place.host,
        port=place.port,
        user=place.user,
        password="pass-word_1",
    )
    assert reader.query("select count(*) from demo.ledger", database="demo").text == "1000"
    for statement in (
        "delete from demo.ledger",
        "create table demo.x ()",
        "create table public.x ()",
        "create role x",
        "copy demo.ledger to program 'true'",
    ):
        assert reader.query(statement, database="demo").refused


def test_a_wish_that_cannot_be_meant_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEMO_KEEP", "maybe")
    assert run(["demo"]) == 2
    assert "DEMO_KEEP=maybe: 1 or 0" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
