"""A source that joins files, from the job file to the verdict, by every engine."""

import json
from pathlib import Path

import pytest

from datarecs_cli.main import run

Shown = pytest.CaptureFixture[str]
JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: desks}
spec:
  parameters: {least: {type: decimal, default: "0"}}
  sources:
    - name: trades
      kind: csv
      path: trades.csv
      tables:
        accounts: {path: ref/accounts.csv}
        rates: {kind: json, path: rates.json}
      query: |
        SELECT t.id, t.amount * r.rate AS amount, a.desk
        FROM trades t JOIN accounts a USING (account) JOIN rates r USING (ccy)
        WHERE t.amount > :least
    - {name: ledger, kind: csv, path: ledger.csv}
  stages:
    - name: rows
      type: row
      dimensions: [id]
      measures: [{name: amount, tolerances: [{type: ABSOLUTE, value: 0.01}]}, {name: desk}]
"""
CONNECTED = """\
apiVersion: datarecs.io/v1
kind: Connection
metadata: {name: files}
spec: {type: files, config: {root: "."}}
---
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "ref").mkdir()
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "trades.csv").write_text(
        "id,account,amount,ccy\n1,a,10.50,EUR\n2,b,20.00,USD\n3,a,1.00,EUR\n"
    )
    (tmp_path / "ref" / "accounts.csv").write_text("account,desk\na,rates\nb,credit\n")
    (tmp_path / "rates.json").write_text(
        '{"ccy": "EUR", "rate": 1.0}\n{"ccy": "USD", "rate": 0.5}\n'
    )
    (tmp_path / "ledger.csv").write_text(
        "id,amount,desk\n1,10.50,rates\n2,10.00,credit\n3,2.00,rates\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compared(capsys: Shown, *flags: str) -> dict[str, object]:
    run(["compare", "job.yaml", "-o", "json", *flags])
    captured = capsys.readouterr()
    assert captured.out, captured.err
    stage: dict[str, object] = json.loads(captured.out)["stages"][0]
    return stage


@pytest.mark.parametrize("engine", ["reference", "kernel"])
@pytest.mark.usefixtures("folder")
def test_every_engine_compares_the_joined_rows(capsys: Shown, engine: str) -> None:
    stage = compared(capsys, "--engine", engine, "--out", "kept")
    assert stage["result"] == "UNMATCHED"
    counts = stage["counts"]
    assert isinstance(counts, dict)
    assert counts["source_row_counts"] == {"source_0": 3, "source_1": 3}
    assert counts["rows_unmatched"] == 1
    proof = json.loads(Path("kept/run.json").read_text())["proof"]["sources"][0]
    listed = {file["path"]: file.get("table") for file in proof["pin"]["files"]}
    assert listed == {"ref/accounts.csv": "accounts", "rates.json": "rates", "trades.csv": None}
    assert run(["verify", "kept"]) == 0


@pytest.mark.usefixtures("folder")
def test_the_plan_and_validate_name_every_table(capsys: Shown) -> None:
    assert run(["plan", "job.yaml"]) == 0
    plan = capsys.readouterr().out
    assert "accounts: csv ref/accounts.csv" in plan
    assert "rates: json rates.json" in plan
    assert "SELECT t.id, t.amount * r.rate AS amount, a.desk" in plan
    assert "trades: delimiter ','" in plan or "accounts: delimiter" in plan
    connected = JOB.replace("kind: csv\n", "kind: csv\n      connection: files\n")
    connected = connected.replace("kind: csv, path", "kind: csv, connection: files, path")
    Path("job.yaml").write_text(CONNECTED + connected)
    assert run(["validate", "job.yaml"]) == 0, capsys.readouterr()
    Path("job.yaml").write_text(CONNECTED + connected.replace("ref/acc", "../ref/acc"))
    assert run(["validate", "job.yaml"]) == 2
    assert "spec.sources[0].tables.accounts.path" in capsys.readouterr().out


def test_absolute_paths_of_tables_are_read_by_compare(folder: Path, capsys: Shown) -> None:
    place = folder / "elsewhere" / "accounts.csv"
    place.parent.mkdir()
    (folder / "ref" / "accounts.csv").rename(place)
    (folder / "work").mkdir()
    for name in ("trades.csv", "rates.json", "ledger.csv"):
        (folder / name).rename(folder / "work" / name)
    (folder / "work" / "job.yaml").write_text(JOB.replace("ref/accounts.csv", str(place)))
    assert run(["compare", "work/job.yaml"]) == 1, capsys.readouterr()


@pytest.mark.usefixtures("folder")
def test_the_proof_of_rows_covers_the_joined_rows(capsys: Shown) -> None:
    Path("job.yaml").write_text(JOB + "  execution: {proof: rows}\n")
    compared(capsys, "--out", "kept")
    assert run(["verify", "kept", "--source", "trades=."]) == 0, capsys.readouterr().err
    accounts = Path("ref/accounts.csv")
    accounts.write_text(accounts.read_text().replace("b,credit", "b,rates"))
    assert run(["verify", "kept", "--source", "trades=."]) != 0


@pytest.mark.usefixtures("folder")
def test_a_query_beside_a_filter_and_tables_without_a_query_are_refused(capsys: Shown) -> None:
    query = JOB[JOB.index("      query:") : JOB.index("    - {name: ledger")]
    for job, words in (
        (JOB.replace(query, ""), "'query' is missing: only a query reads `tables`"),
        (JOB.replace("      tables:", "      filter: amount > 1\n      tables:"), "no filter"),
        (JOB.replace("rates: {kind", "trades: {kind"), "have this name already"),
        (JOB.replace("kind: json, path", "kind: xml, path"), "not one of"),
        (JOB.replace("kind: json, path", "kind: json, options: {header: true}, path"), "header"),
    ):
        Path("job.yaml").write_text(job)
        assert run(["compare", "job.yaml"]) == 2
        assert words in capsys.readouterr().out
