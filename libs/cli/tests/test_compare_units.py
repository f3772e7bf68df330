"""A measure with a unit: a tolerance and total for each, and never a sum over many."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_cli.main import run
from datarecs_testing.command_line import run_command

Shown = pytest.CaptureFixture[str]
ENGINES = ["reference", "kernel", pytest.param("spark", marks=pytest.mark.spark)]
JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: books}
spec:
  sources:
    - {name: ours, kind: csv, path: ours.csv, cast: {amount: "decimal(20,4)"}}
    - name: theirs
      kind: parquet
      path: theirs.parquet
      columns: {amount: Betrag, currency: {expr: "UPPER(ccy)"}}
      cast: {amount: "decimal(20,4)"}
  stages:
    - name: sums
      type: aggregate
      dimensions: [branch]
      measures:
        - name: amount
          tolerances: [{type: ABSOLUTE, value: "0.01"}]
          unit: {column: currency, values: [EUR], tolerances: {JPY: [{type: ABSOLUTE, value: 1}]}}
    - name: rows
      type: row
      dimensions: [id]
      measures:
        - name: amount
          tolerances: [{type: ABSOLUTE, value: "0.01"}]
          unit: {column: currency, values: [EUR], tolerances: {JPY: [{type: ABSOLUTE, value: 1}]}}
      warn_at: {gap: {"amount JPY": "0.50"}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    ours = [
        "id,branch,currency,amount",
        "1,a,EUR,10.00",
        "2,a,JPY,1000",
        "3,a,USD,5.00",
        "4,b,EUR,7.00",
        "5,b,,3.00",
        "6,b,EUR,9.00",
    ]
    Path("ours.csv").write_text("\n".join(ours))
    theirs = {
        "id": [1, 2, 3, 4, 5, 6],
        "branch": ["a", "a", "a", "b", "b", "b"],
        "ccy": ["eur", "jpy", "usd", "eur", None, "jpy"],
        "Betrag": ["10.01", "1001", "5.00", "7.50", "3.00", "9.00"],
    }
    pq.write_table(pa.table(theirs), "theirs.parquet")
    Path("job.yaml").write_text(JOB)
    return tmp_path


def stages(engine: str) -> dict[str, dict[str, Any]]:
    """Measures by name, of each stage."""
    words = ("compare", "job.yaml", "--engine", engine, "--out", "out")
    ended = run_command(None, *words, cwd=Path.cwd())
    assert ended.returncode == 1, ended.stderr
    proof = json.loads(Path("out/run.json").read_text())["proof"]
    return {
        stage["name"]: {each["name"]: each for each in stage["measures"]}
        for stage in proof["stages"]
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_each_unit_has_its_tolerance_and_its_total(engine: str) -> None:
    stage_results = stages(engine)
    rows = stage_results["rows"]
    assert list(rows) == ["amount EUR", "amount JPY", "amount other", "$rows"]
    assert [rows[f"amount {unit}"]["outside"] for unit in ("EUR", "JPY", "other")] == [2, 1, 0]
    assert [rows[f"amount {unit}"]["equal"] for unit in ("EUR", "JPY", "other")] == [3, 4, 6]
    assert rows["amount JPY"]["within"] == 5
    sums = stage_results["sums"]
    assert [sums[f"amount {unit}"]["outside"] for unit in ("EUR", "JPY", "other")] == [1, 1, 0]


@pytest.mark.parametrize("engine", ENGINES)
def test_units_that_the_job_does_not_list_have_no_total(engine: str) -> None:
    rows = stages(engine)["rows"]
    assert rows["amount EUR"]["total_by_source"] == {"source_0": "26", "source_1": "17.51"}
    assert rows["amount EUR"]["gap_by_source"]["source_1"] == "-8.49"
    assert rows["amount JPY"]["total_by_source"] == {"source_0": "1000", "source_1": "1010"}
    assert set(rows["amount other"]["total_by_source"].values()) <= {None}
    assert set(rows["amount other"]["gap_by_source"].values()) <= {None}


def test_columns_behind_expressions_are_not_called_left_out(capsys: Shown) -> None:
    assert run(["compare", "job.yaml", "--out", "out"]) == 1
    assert "not compared" not in capsys.readouterr().err


def test_a_plan_shows_a_measure_for_each_unit(capsys: Shown) -> None:
    for words in (["plan", "job.yaml"], ["plan", "job.yaml", "--offline"]):
        assert run(words) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "amount EUR, amount by currency = EUR: at most 0.01 apart" in shown
        assert "amount JPY, amount by currency = JPY: at most 1 apart" in shown
        assert "amount other, amount by currency other: at most 0.01 apart" in shown


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("column: currency", "column: curency", "no column 'curency'"),
        ("column: currency", "column: id", "id of source ours is int; a unit is text"),
        ("values: [EUR], tolerances: {JPY: [{type: ABSOLUTE, value: 1}]}", "values: []", "needs"),
        ('"amount JPY": "0.50"', 'amount: "0.50"', "no measure of this name"),
    ],
)
def test_a_unit_that_does_not_fit_is_named(capsys: Shown, old: str, new: str, said: str) -> None:
    text = Path("job.yaml").read_text()
    assert old in text
    Path("job.yaml").write_text(text.replace(old, new))
    assert run(["plan", "job.yaml"]) == 2
    assert said in " ".join("".join(capsys.readouterr()).split())


def test_a_mask_of_the_amount_holds_for_each_unit() -> None:
    text = Path("job.yaml").read_text()
    masked = f"{text}  results: {{breaks: {{mask: {{amount: redact}}}}}}\n"
    Path("job.yaml").write_text(masked)
    assert run(["compare", "job.yaml", "--out", "out"]) == 1
    assert "7.50" not in Path("out/run.json").read_text()
