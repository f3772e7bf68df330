"""Values that are no numbers, from two files to every report: counted, shown, never added up."""

import json
from pathlib import Path

import pytest

from datarecs_cli.main import run
from datarecs_reports.html import run_report
from datarecs_reports.markdown import run_markdown

Shown = pytest.CaptureFixture[str]
JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: unreadable}
spec:
  sources:
    - {name: ledger, kind: csv, path: ledger.csv, cast: {amount: "decimal(20,4)"}}
    - {name: exports, kind: csv, path: exports.csv, cast: {amount: "decimal(20,4)"}}
  stages:
    - name: totals
      type: aggregate
      dimensions: [branch]
      measures: [{name: amount, tolerances: [{type: ABSOLUTE, value: 0.01}]}]
    - name: rows
      type: row
      dimensions: [id]
      measures: [{name: amount, tolerances: [{type: ABSOLUTE, value: 0.01}]}]
"""
UNKNOWN = "unknown (3 unreadable values in exports)"
WHY = "3 unreadable values in exports (could not be read as decimal(20,4): '1,500.00')"
LEDGER = "id,branch,amount\n1,A,100.50\n2,A,2308296.79\n3,B,1500.00\n4,B,7.00\n"
EXPORTS = 'id,branch,amount\n1,A,100.50\n2,A,"2,308,296.79"\n3,B,"1,500.00"\n4,B,7.00\n9,C,"n/a"\n'


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> str:
    """What `compare` prints; it leaves the folder `kept`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ledger.csv").write_text(LEDGER)
    (tmp_path / "exports.csv").write_text(EXPORTS)
    (tmp_path / "job.yaml").write_text(JOB)
    assert run(["compare", "job.yaml", "--out", "kept"]) == 1
    return capsys.readouterr().out


def test_the_verdict_says_how_many_values_are_unreadable_and_why(output: str) -> None:
    assert output.count(f"gap {UNKNOWN}") == 2
    assert output.count(f"amount {WHY}") == 2
    assert "0x" not in output


@pytest.mark.usefixtures("output")
def test_the_sealed_total_is_null_with_its_reason_and_verifies(
    tmp_path: Path, capsys: Shown
) -> None:
    document = json.loads((tmp_path / "kept/run.json").read_text())
    for stage in document["proof"]["stages"]:
        (measure,) = (each for each in stage["measures"] if each["name"] == "amount")
        assert measure["total_by_source"]["source_1"] is None
        assert measure["gap_by_source"] == {"source_0": "0", "source_1": None}
        assert measure["unreadable_by_source"] == {"source_0": 0, "source_1": 3}
        assert measure["waterfall_by_source"]["source_1"] is None
    assert run(["verify", "kept"]) == 0
    capsys.readouterr()
    first = (tmp_path / "kept/run.json").read_bytes()
    assert run(["compare", "job.yaml", "--out", "again"]) == 1
    again = json.loads((tmp_path / "again/run.json").read_text())
    assert again["proof_hash"] == json.loads(first)["proof_hash"]


@pytest.mark.usefixtures("output")
def test_a_total_that_somebody_writes_beside_unreadable_values_is_detected(
    tmp_path: Path, capsys: Shown
) -> None:
    path = tmp_path / "kept/run.json"
    document = json.loads(path.read_text())
    (measure,) = document["proof"]["stages"][0]["measures"]
    measure["total_by_source"]["source_1"] = "107.5"
    path.write_text(json.dumps(document))
    assert run(["verify", "kept"]) == 1
    assert "F18" in capsys.readouterr().out


@pytest.mark.usefixtures("output")
def test_reports_show_the_text_and_no_number(tmp_path: Path) -> None:
    document = json.loads((tmp_path / "kept/run.json").read_text())
    page = run_report(document, {}, samples=True).decode()
    words = run_markdown(document, samples=True).decode()
    for shown in (page.replace("&#39;", "'"), words.replace("\\", "")):
        assert UNKNOWN in shown
        assert WHY in shown
        assert "could not be read as decimal(20,4): '2,308,296.79'" in shown
        assert "INVALID(0x" not in shown


@pytest.mark.usefixtures("output")
def test_who_may_not_see_values_sees_the_count_alone(tmp_path: Path) -> None:
    document = json.loads((tmp_path / "kept/run.json").read_text())
    page = run_report(document, {}, samples=False).decode()
    assert UNKNOWN in page
    assert "1,500.00" not in page
    assert "1,500.00" not in run_markdown(document, samples=False).decode()


@pytest.mark.usefixtures("output")
def test_commands_show_the_text(capsys: Shown, tmp_path: Path) -> None:
    assert run(["explain", "kept", "3", "--stage", "rows"]) == 0
    assert "exports  could not be read as decimal(20,4): '1,500.00'" in capsys.readouterr().out
    assert run(["diff", "kept"]) == 1
    shown = capsys.readouterr().out
    assert "INVALID('1,500.00')" in shown
    for form in ("csv", "jsonl", "xlsx", "parquet"):
        assert run(["export", "kept", "--format", form, "--out", f"d.{form}"]) == 0
    for form in ("csv", "jsonl"):
        written = (tmp_path / f"d.{form}").read_text()
        assert "INVALID('1,500.00')" in written
        assert "INVALID(0x" not in written
