"""`results.reports` of a job: every form is a file beside run.json, and none outlives its run."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from datarecs_cli import exporting
from datarecs_cli.main import run

FURTHER = ("report.md", "junit.xml", "mismatches.csv", "mismatches.xlsx", "mismatches.parquet")
JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: orders}
spec:
  sources:
    - {name: one, kind: csv, path: one.csv}
    - {name: two, kind: csv, path: two.csv}
  stages:
    - {name: rows, type: row, dimensions: [id], measures: [{name: amount}]}
  results: {reports: [markdown, junit, csv, xlsx, parquet, csv]}
"""
Shown = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("one.csv").write_text("id,amount\n1,1.10\n2,2.20\n")
    Path("two.csv").write_text("id,amount\n1,1.20\n3,2.20\n")
    Path("job.yaml").write_text(JOB)
    return tmp_path


def test_every_form_is_a_file_beside_run_json(folder: Path, capsys: Shown) -> None:
    assert run(["compare", "job.yaml", "--out", "out"]) == 1
    out = folder / "out"
    assert {each.name for each in out.iterdir() if each.is_file()} == {
        "run.json",
        "report.html",
        *FURTHER,
    }
    assert pq.read_table(out / "mismatches.parquet").num_rows == 3
    assert 'failures="2"' in (out / "junit.xml").read_text()
    capsys.readouterr()
    assert run(["compare", "job.yaml", "-o", "md"]) == 1
    assert (out / "report.md").read_text() == capsys.readouterr().out
    assert run(["export", "out", "--out", "exported.csv"]) == 0
    assert (out / "mismatches.csv").read_bytes() == Path("exported.csv").read_bytes()


def test_a_comparison_that_fails_removes_no_result_of_an_earlier_one(folder: Path) -> None:
    """Only junit.xml says how the latest run ended, so that no pipeline takes an old one for it."""
    out = folder / "out"
    assert run(["compare", "job.yaml", "--out", "out"]) == 1
    earlier = {each: each.read_bytes() for each in out.rglob("*") if each.is_file()}
    (folder / "two.csv").write_text('id,amount\n1,"1.20\n')
    assert run(["compare", "job.yaml", "--out", "out"]) == 3
    later = {each: each.read_bytes() for each in out.rglob("*") if each.is_file()}
    assert set(later) - set(earlier) == {out / "error.html"}
    assert [each for each in earlier if earlier[each] != later[each]] == [out / "junit.xml"]
    assert 'errors="1"' in (out / "junit.xml").read_text()


def test_what_no_spreadsheet_holds_is_said_and_the_verdict_stands(
    folder: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "MAX_XLSX_ROWS", 2)
    assert run(["compare", "job.yaml", "--out", "out"]) == 1
    assert "not written  out/mismatches.xlsx: more than 2 rows" in capsys.readouterr().err
    assert not (folder / "out" / "mismatches.xlsx").exists()
    assert (folder / "out" / "run.json").exists()


@pytest.mark.usefixtures("folder")
def test_plan_names_them(capsys: Shown) -> None:
    assert run(["plan", "job.yaml"]) == 0
    listed = "  run.json, report.html, report.md, junit.xml, mismatches.csv"
    assert listed in capsys.readouterr().out


@pytest.mark.usefixtures("folder")
def test_plan_refuses_what_has_no_effect(capsys: Shown) -> None:
    Path("job.yaml").write_text(JOB + "  execution: {extract: stream}\n")
    assert run(["plan", "job.yaml"]) == 2
    assert "DR1009 spec.execution: 'extract' has no effect" in capsys.readouterr().out
