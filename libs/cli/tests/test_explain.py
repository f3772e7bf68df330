"""`explain`: a pattern with its evidence, and one key with its values before and after rules."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from datarecs_cli.main import run
from datarecs_testing.scripted_api import (
    RUN_ID,
    ScriptedApi,
    a_run_view,
    says,
    written_credentials,
)

Shown = pytest.CaptureFixture[str]
JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: explained}
spec:
  sources:
    - {name: ledger, kind: csv, path: ledger.csv}
    - {name: lake, kind: csv, path: lake.csv}
  normalize: {columns: {note: {trim: both}}}
  stages:
    - name: rows
      type: row
      dimensions: [id, day]
      measures: [{name: amount}, {name: note}]
"""


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> str:
    """Amounts a hundred times as large in lake, and one note that differs beyond its blanks."""
    monkeypatch.chdir(tmp_path)
    days = range(1, 9)
    ledger = [f"{at},2026-01-0{at},{at}.25,a" for at in days]
    lake = [f"{at},2026-01-0{at},{at}25,a" for at in days]
    lake[2] = lake[2][:-1] + " b "
    (tmp_path / "ledger.csv").write_text("\n".join(["id,day,amount,note", *ledger, ""]))
    (tmp_path / "lake.csv").write_text("\n".join(["id,day,amount,note", *lake, ""]))
    (tmp_path / "job.yaml").write_text(JOB)
    assert run(["compare", "job.yaml", "--out", "kept"]) == 1
    capsys.readouterr()
    return "kept"


def test_a_pattern_is_shown_with_rule_share_breaks_and_line(run_folder: str, capsys: Shown) -> None:
    assert run(["explain", run_folder]) == 0
    output = capsys.readouterr().out
    assert "rows amount: lake is exactly 100 times the reference" in output
    assert "CONSTANT_FACTOR, 8 of 8 breaks (100 %)" in output
    assert 'declare  sources[lake].columns: {amount: {expr: "amount * 0.01"}}' in output
    assert run(["explain", run_folder, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (stage,) = document["stages"]
    assert [hint["rule"] for hint in stage["hints"]] == ["CONSTANT_FACTOR"]
    assert len(stage["hints"][0]["examples"]) == 3


def test_a_key_shows_every_value_as_read_and_as_compared(run_folder: str, capsys: Shown) -> None:
    assert run(["explain", run_folder, "id=3", "day=2026-01-03"]) == 0
    output = capsys.readouterr().out
    assert "rows amount: OUTSIDE, BREAK" in output
    assert "lake  325  delta 321.75" in output
    assert "lake  b  (as read  b )" in output
    assert run(["explain", run_folder, "id=3", "day=2026-01-03", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)["differences"]
    assert {row["measure"] for row in document} == {"amount", "note"}


def test_a_key_without_a_difference_is_said_to_have_none(run_folder: str, capsys: Shown) -> None:
    assert run(["explain", run_folder, "id=9", "day=2026-01-03"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "no difference of id=9 day=2026-01-03 is stored" in err
    assert "unknown whether any source has the key" in err
    assert "equal" not in err


def test_a_key_of_other_columns_is_usage(run_folder: str, capsys: Shown) -> None:
    for key in ("id=3", "3"):
        assert run(["explain", run_folder, key]) == 2
        assert f"{key} is not a key of an executed stage" in capsys.readouterr().err


FOLDED = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: folded}
spec:
  sources:
    - {name: ledger, kind: csv, path: ledger.csv}
    - {name: lake, kind: csv, path: lake.csv}
  normalize: {strings: {case: fold, trim: both}}
  stages:
    - {name: rows, type: row, dimensions: [{name: account, column: id}], measures: [{name: v}]}
"""


def test_a_key_as_a_source_writes_it_finds_its_differences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ledger.csv").write_text("id,v\nACME Ltd,1\nequal,5\n")
    (tmp_path / "lake.csv").write_text("id,v\n acme LTD ,2\nEQUAL,5\n")
    (tmp_path / "job.yaml").write_text(FOLDED)
    assert run(["compare", "job.yaml", "--out", "kept"]) == 1
    capsys.readouterr()
    outputs = set()
    for key in ("ACME Ltd", " acme LTD ", "acme ltd", "account=ACME Ltd"):
        assert run(["explain", "kept", key]) == 0
        outputs.add(capsys.readouterr().out)
    (answer,) = outputs
    assert "lake  2  delta 1" in answer
    assert "ledger  key as read  ACME Ltd\n" in answer
    assert "lake  key as read   acme LTD \n" in answer
    assert run(["verify", "kept"]) == 0
    capsys.readouterr()
    assert run(["diff", "kept"]) == 1
    table = capsys.readouterr().out
    assert "KEY IN ledger" in table
    assert "ACME Ltd" in table
    assert run(["export", "kept", "--format", "csv", "--out", "d.csv"]) == 0
    head, row = (tmp_path / "d.csv").read_text().splitlines()[:2]
    assert head.endswith("key_as_written.ledger,key_as_written.lake")
    assert row.endswith(",ACME Ltd, acme LTD ")
    page = (tmp_path / "kept/report.html").read_text()
    assert "ledger: ACME Ltd; lake: &#34; acme LTD &#34;" in page
    assert run(["explain", "kept", "Nobody "]) == 0
    assert "no difference of Nobody  (compared as nobody) is stored" in capsys.readouterr().err


def test_without_a_pattern_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.csv").write_text("id,v\n1,1\n2,5\n")
    (tmp_path / "two.csv").write_text("id,v\n1,1\n2,6\n")
    assert run(["compare", "one.csv", "two.csv", "--key", "id", "--out", "kept"]) == 1
    assert run(["explain", "kept"]) == 0
    assert "no pattern was found" in capsys.readouterr().err
    assert run(["explain", "kept", "2"]) == 0
    assert "two  6  delta 1" in capsys.readouterr().out


def test_what_cannot_be_meant_is_usage(run_folder: str) -> None:
    assert run(["explain", "./nowhere"]) == 2
    assert run(["explain", run_folder, "--stage", "other"]) == 2
    assert run(["explain", run_folder, "-o", "csv"]) == 2


@pytest.fixture
def server(run_folder: str, tmp_path: Path) -> Iterator[ScriptedApi]:
    """A server that shows the same run."""
    written_credentials(tmp_path)
    api = ScriptedApi()
    view = a_run_view(status="COMPLETED", result="UNMATCHED")
    api.on("GET", f"/runs/{RUN_ID}", says(view))
    document = json.loads((tmp_path / run_folder / "run.json").read_text())
    api.on("GET", f"/runs/{RUN_ID}/report", says(document))
    with api.in_place_of_the_network():
        yield api


BREAK: dict[str, Any] = {
    "break_id": "abc",
    "stage": "rows",
    "measure": "amount",
    "class": "OUTSIDE",
    "presence": 3,
    "odd_one_out": None,
    "key": {"id": "3", "day": "2026-01-03"},
    "key_hash": "00ff",
    "values": {"ledger": "3.25", "lake": "325"},
    "raw_values": {"lake": " 325"},
    "deltas": {"lake": "321.75"},
}


@pytest.mark.usefixtures("server")
def test_a_run_of_a_server_shows_what_it_noted_at_its_end(capsys: Shown) -> None:
    assert run(["explain", RUN_ID]) == 0
    assert "rows amount: lake is exactly 100 times the reference" in capsys.readouterr().out
    assert run(["explain", RUN_ID, "--stage", "none"]) == 2


def test_a_key_of_a_server_is_searched_among_its_largest_differences(
    server: ScriptedApi, capsys: Shown
) -> None:
    server.on("GET", f"/runs/{RUN_ID}/mismatches", says({"items": [BREAK], "next": None}))
    assert run(["explain", RUN_ID, "id=3", "day=2026-01-03"]) == 0
    assert "lake  325  (as read  325)  delta 321.75" in capsys.readouterr().out
    assert run(["explain", RUN_ID, "id=4", "day=2026-01-03"]) == 0
    assert "is stored; a run stores only differences" in capsys.readouterr().err
    many = {"items": [BREAK] * 1000, "next": None}
    server.on("GET", f"/runs/{RUN_ID}/mismatches", says(many))
    assert run(["explain", RUN_ID, "id=4", "day=2026-01-03"]) == 0
    assert "among the largest differences that the server lists" in capsys.readouterr().err


def test_a_run_without_a_verdict_has_nothing_to_explain(server: ScriptedApi) -> None:
    server.on("GET", f"/runs/{RUN_ID}", says(a_run_view(status="ERRORED")))
    assert run(["explain", RUN_ID]) == 2


@pytest.mark.parametrize("command", [["diff"], ["explain"], ["export", "--format", "jsonl"]])
@pytest.mark.usefixtures("run_folder")
def test_rows_that_are_cut_by_the_limit_are_counted_wherever_rows_are_listed(
    command: list[str], capsys: Shown
) -> None:
    limited = JOB + "  results: {breaks: {max_rows: 3}}\n"
    Path("limited.yaml").write_text(limited)
    assert run(["compare", "limited.yaml", "--out", "few"]) == 1
    capsys.readouterr()
    name, *words = command
    run([name, "few", *words])
    assert "stage rows: 3 of 9 differences are stored" in capsys.readouterr().err
