"""`datarecs plan`: everything a run would do is shown before it does it, and what cannot be is."""

import json
from pathlib import Path

import pytest

from datarecs_cli.main import run
from datarecs_core.errors.api import ApiCode
from datarecs_testing.scripted_api import ScriptedApi, refuses, says, written_credentials

Shown = pytest.CaptureFixture[str]
JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: orders}
spec:
  parameters: {least: {type: int, default: "1"}}
  sources:
    - {name: ledger, kind: csv, path: ledger.csv, cast: {amount: "decimal(18,2)"}}
    - {name: lake, kind: csv, path: lake.csv, filter: "id >= :least", columns: {amount: total}}
  normalize: {strings: {trim: both}}
  schema: {mode: compatible, ignore: [load_ts]}
  stages:
    - {name: shape, type: schema}
    - {name: counts, type: counts, on_unmatched: stop}
    - name: totals
      type: aggregate
      dimensions: [owner]
      measures:
        - name: amount
          function: sum
          tolerances: [{type: ABSOLUTE, value: 0.01}, {type: PERCENTAGE, value: 1}]
          combine: any
      on_unmatched: escalate
    - {name: rows, type: row, dimensions: [id], measures: [{name: amount}]}
  results: {breaks: {mask: {id: hash}}}
  execution: {proof: rows, partitions: 7, spill: 3GiB}
"""

REMEDY = "add it to options.null_words, or skip its line with options.skip"
PERCENT = "at most 1 % of the value in ledger apart"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(JOB)
    Path("ledger.csv").write_text("id,owner,amount\n1,ana,10.00\n2,bo,secret\n")
    Path("lake.csv").write_text("id,owner,total,load_ts\n1,ana,10.00,x\n2,bo,3,y\n")
    return tmp_path


def lines(shown: Shown) -> list[str]:
    return [" ".join(line.split()) for line in shown.readouterr().out.splitlines()]


def test_a_plan_shows_what_is_read_compared_relaxed_and_written(capsys: Shown) -> None:
    assert run(["plan", "job.yaml"]) == 0
    shown_lines = lines(capsys)
    for line in (
        "job orders",
        "engine reference: about 0.0 s in memory, Spark alone starts in 4 s",
        'param least = "1"',
        "source ledger (reference)",
        "read csv ledger.csv",
        "expected 2 rows, 40 bytes",
        "id: text → int",
        "columns amount from total: text → decimal(4,2)",
        "filter id >= 1",
        "compares totals by group: owner",
        f"measure amount, sum of amount: at most 0.01 apart or {PERCENT}",
        "scope only groups that differ in totals; skipped when none does (NOTHING_IN_SCOPE)",
        "then if this stage is UNMATCHED, later stages are skipped (STOPPED_BY)",
        "strategy full (`execution.strategy` is auto)",
        "not narrow: only row stages that compare row by row are narrowed",
        "not narrow: fewer than 100,000 rows are expected",
        "work 7 partitions, at most 3.0 GiB of disk for intermediate data",
        "Stage shape: types need only be comparable, not equal",
        "Stage shape: ignored are load_ts",
        "owner: white space at both ends is ignored",
        "⚠ amount of ledger is read as decimal(18,2), not as text",
        "masked: id (hash)",
        "as delimiter ',', detected in the first lines of ledger.csv",
        f"note column amount is text because of 'secret' in line 3; {REMEDY}",
    ):
        assert line in shown_lines


def test_a_plan_shows_no_value_of_a_masked_column(capsys: Shown) -> None:
    Path("job.yaml").write_text(JOB.replace("mask: {id: hash}", "mask: {id: hash, amount: redact}"))
    assert run(["plan", "job.yaml"]) == 0
    assert "secret" not in " ".join(lines(capsys))


def test_a_recheck_is_part_of_the_plan(capsys: Shown) -> None:
    stage_fields = "measures: [{name: amount}], confirm: {after: PT2M, max_keys: 500}}"
    Path("job.yaml").write_text(JOB.replace("measures: [{name: amount}]}", stage_fields))
    assert run(["plan", "job.yaml"]) == 0
    sentence = (
        "differing groups are read again up to 2 times, after 2 min, unless more than 500 groups"
    )
    assert any(sentence in line for line in lines(capsys))


@pytest.mark.case("U20")
def test_a_plan_is_the_same_twice_and_leaves_nothing(capsys: Shown, folder: Path) -> None:
    before = sorted(folder.iterdir())
    assert run(["plan", "job.yaml"]) == 0
    first = capsys.readouterr().out
    assert run(["plan", "job.yaml"]) == 0
    assert capsys.readouterr().out == first
    assert sorted(folder.iterdir()) == before


def test_as_json_a_plan_is_complete_and_says_nothing_of_this_machine(
    capsys: Shown, folder: Path
) -> None:
    assert run(["plan", "job.yaml", "-o", "json"]) == 0
    written = capsys.readouterr().out
    document = json.loads(written)
    assert document["schema"] == "datarecs.cli.plan/1"
    assert document["engine"] == "reference"
    assert [each["stage"] for each in document["strategies"]] == [
        "shape",
        "counts",
        "totals",
        "rows",
    ]
    assert document["statements"] == {"ledger": None, "lake": None}
    assert len(document["plan"]["stages"]) == 4
    assert str(folder) not in written


@pytest.mark.case("U20")
@pytest.mark.parametrize(
    ("code", "job", "message"),
    [
        ("DR1060", JOB.replace("[owner]", "[owners]"), "source ledger has no column 'owners'"),
        (
            "DR1062",
            JOB.replace(
                "    - {name: ledger, kind: csv, path: ledger.csv, cast: {amount:"
                ' "decimal(18,2)"}}',
                "    - {name: ledger, kind: csv, path: ledger.csv}",
            ),
            "amount",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_read(
    capsys: Shown, code: str, job: str, message: str
) -> None:
    Path("job.yaml").write_text(job)
    assert run(["plan", "job.yaml"]) == 2
    assert run(["compare", "job.yaml", "--out", "kept"]) == 2
    shown = capsys.readouterr().out
    assert shown.count(code) >= 2
    assert message in shown
    assert not Path("kept/run.json").exists()


def test_two_columns_of_one_name_are_ambiguous(capsys: Shown) -> None:
    Path("ledger.csv").write_text("id,owner,amount,amount\n1,ana,1.00,2.00\n")
    assert run(["plan", "job.yaml"]) == 2
    assert "DR1061" in capsys.readouterr().out


def test_naive_and_aware_times_need_a_zone(capsys: Shown) -> None:
    Path("a.csv").write_text("id,at\n1,2026-01-31T12:00:00\n")
    Path("b.csv").write_text("id,at\n1,2026-01-31T12:00:00Z\n")
    assert run(["plan", "a.csv", "b.csv", "--key", "id"]) == 2
    assert "DR1063" in capsys.readouterr().err


def test_files_and_flags_can_be_planned_too(capsys: Shown) -> None:
    assert run(["plan", "ledger.csv", "lake.csv", "--key", "id", "--measure", "owner"]) == 0
    assert "compares row by row: id" in lines(capsys)


def test_sources_are_tested_first_on_request(capsys: Shown) -> None:
    assert run(["plan", "job.yaml", "--check-connections"]) == 0
    assert "ok    ledger" in capsys.readouterr().err
    Path("lake.csv").unlink()
    assert run(["plan", "job.yaml", "--check-connections"]) == 3
    output = capsys.readouterr()
    assert "FAIL  lake" in output.err
    assert output.out == ""


def test_a_source_that_is_not_there_ends_with_3(capsys: Shown) -> None:
    Path("lake.csv").unlink()
    assert run(["plan", "job.yaml"]) == 3
    assert "lake" in capsys.readouterr().err
    assert run(["plan", "job.yaml", "-o", "csv"]) == 2


APPLIED = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: applied}
spec:
  sources:
    - {name: one, kind: csv, connection: files, path: a.csv}
    - {name: two, kind: csv, connection: files, path: a.csv}
  stages:
    - {name: rows, type: row, dimensions: [id], measures: "*"}
"""


@pytest.fixture
def applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job whose connection is not in its file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "delivered").mkdir()
    (tmp_path / "delivered" / "a.csv").write_text("id,amount\n1,2\n")
    (tmp_path / "job.yaml").write_text(APPLIED)
    return tmp_path


@pytest.mark.parametrize("command", ["plan", "compare"])
def test_a_connection_of_the_server_is_used(
    applied: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    written_credentials(applied)
    api = ScriptedApi()
    spec = {"type": "files", "config": {"root": "delivered"}, "auth": {}}
    api.on("GET", "/connections/files", says({"kind": "Connection", "spec": spec}))
    with api.in_place_of_the_network():
        assert run([command, "job.yaml"]) == 0
    assert len(api.requests) == 1
    assert "DR1023" not in "".join(capsys.readouterr())


def test_a_connection_that_nobody_knows_is_refused_at_its_place(
    applied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written_credentials(applied)
    api = ScriptedApi()
    api.on("GET", "/connections/files", refuses(404, ApiCode.NOT_FOUND))
    with api.in_place_of_the_network():
        assert run(["plan", "job.yaml"]) == 2
    assert "job.yaml:6:42 DR1023 spec.sources[0].connection" in capsys.readouterr().out


@pytest.mark.usefixtures("applied")
def test_without_a_server_only_declared_connections_are_known(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["plan", "job.yaml"]) == 2
    assert "declare it in the same file, or apply it first" in capsys.readouterr().out
