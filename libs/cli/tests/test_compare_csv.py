"""Files as other systems write them: what is recognised is said, and what is odd is named."""

import json
from pathlib import Path

import pytest

from datarecs_cli.main import run
from datarecs_testing.command_line import run_command

Shown = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("ours.csv").write_text("id,amount\n1,10.00\n2,20.00\n3,30.00\n")
    return tmp_path


def test_a_tolerance_on_text_names_the_value_that_made_it_text(capsys: Shown) -> None:
    Path("theirs.csv").write_text("id;amount\n1;10.00\n2;n/a\n3;30.00\n")
    assert run(["compare", "ours.csv", "theirs.csv", "--key", "id", "--measure", "amount=1"]) == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert "DR1062" in shown
    assert "source theirs: column amount is text because of 'n/a' in line 3; add it to" in shown


def test_two_texts_under_a_tolerance_name_both_values(capsys: Shown) -> None:
    Path("theirs.csv").write_text("id;amount\n1;10,00\n2;20,00\n3;30,00\n")
    Path("ours.csv").write_text("id,amount\n1,10.00\n2,?\n3,3.5\n")
    assert run(["compare", "ours.csv", "theirs.csv", "--key", "id", "--measure", "amount=1"]) == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert "DR1042" in shown
    assert "source ours: column amount is text because of '?' in line 3" in shown
    assert "source theirs: column amount is text because of '10,00' in line 2; declare" in shown


def test_a_comparison_says_how_it_read_the_files_and_why_a_column_is_text(capsys: Shown) -> None:
    Path("theirs.csv").write_text("id;amount\n1;10.00\n2;n/a\n3;30.00\n")
    assert run(["compare", "ours.csv", "theirs.csv", "--key", "id", "--out", "out"]) == 1
    notes = capsys.readouterr().err
    assert "theirs: delimiter ';', detected in the first lines of theirs.csv" in notes
    assert "theirs: column amount is text because of 'n/a' in line 3" in notes
    document = json.loads(Path("out/run.json").read_text())
    assert "n/a" not in json.dumps(document["proof"]["warnings"])
    report = Path("out/report.html").read_text()
    assert "detected in the first lines of theirs.csv" in report
    assert "is text because of" in report


JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: custodian}
spec:
  sources:
    - {name: ours, kind: csv, path: ours.csv}
    - name: theirs
      kind: csv
      path: theirs.csv
      columns: {id: Ref, amount: Betrag}
      options:
        encoding: windows-1252
        decimal: ","
        thousands: "."
        null_words: [n/a]
        skip: {last: 1, prefixes: ["#"]}
  stages:
    - {name: rows, type: row, dimensions: [id], measures: [{name: amount}]}
"""


@pytest.mark.parametrize(
    "engine", ["reference", "kernel", pytest.param("spark", marks=pytest.mark.spark)]
)
def test_a_custodians_file_is_compared_as_it_is(engine: str, folder: Path) -> None:
    Path("ours.csv").write_text("id,amount\n1,1234.50\n2,\n3,30.00\n")
    Path("theirs.csv").write_bytes(
        '# St\u00fcck\nRef;Betrag\n1;1.234,50\n2;n/a\n3;30,00\n"Summe; \u20ac";1.264,50\n'.encode(
            "windows-1252"
        )
    )
    Path("job.yaml").write_text(JOB)
    ended = run_command(None, "compare", "job.yaml", "--engine", engine, cwd=folder)
    assert ended.returncode == 0, ended.stderr
