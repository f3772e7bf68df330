"""`doctor FILE`: every source is opened step by step; what fails has a fix, and no secret shows."""

import json
import socket
from pathlib import Path

import pytest

from datarecs_cli.main import run

Shown = pytest.CaptureFixture[str]
SECRET = "hunter2-secret"
JOB = """\
apiVersion: datarecs.io/v1
kind: Connection
metadata: {name: ledger}
spec:
  type: postgres
  config: {host: HOST, port: PORT, database: books, user: reader}
  auth: {password: "env:LEDGER_PASSWORD"}
---
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: orders}
spec:
  sources:
    - {name: ledger, kind: postgres, connection: ledger, relation: public.orders}
    - {name: lake, kind: csv, path: lake.csv}
  stages:
    - {name: rows, type: row, dimensions: [id], measures: [{name: amount}]}
"""
FILES = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: orders}
spec:
  sources:
    - {name: ledger, kind: csv, path: ledger.csv}
    - {name: lake, kind: csv, path: lake.csv}
  stages:
    - {name: rows, type: row, dimensions: [id], measures: [{name: amount}]}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LEDGER_PASSWORD", SECRET)
    Path("lake.csv").write_text("id,amount\n1,2.00\n")
    Path("files.yaml").write_text(FILES)


def rows_of(shown: Shown) -> dict[tuple[str, str], dict[str, object]]:
    items = json.loads(shown.readouterr().out)["items"]
    return {(each["source"], each["step"]): each for each in items}


def test_files_that_can_be_read_pass_every_step(capsys: Shown) -> None:
    Path("ledger.csv").write_text("id,amount\n1,2.00\n")
    assert run(["doctor", "files.yaml", "-o", "json"]) == 0
    assert {row["state"] for row in rows_of(capsys).values()} == {"ok"}


def test_a_missing_file_fails_at_its_step_and_the_next_source_is_tried(capsys: Shown) -> None:
    assert run(["doctor", "files.yaml", "-o", "json"]) == 3
    rows = rows_of(capsys)
    assert rows["ledger", "files"]["state"] == "fail"
    assert rows["ledger", "files"]["fix"]
    assert rows["lake", "files"]["state"] == "ok"


@pytest.mark.integration
def test_a_closed_port_fails_with_a_fix_and_without_the_secret(capsys: Shown) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    Path("job.yaml").write_text(JOB.replace("HOST", "127.0.0.1").replace("PORT", str(port)))
    assert run(["doctor", "job.yaml", "-o", "json"]) == 3
    out, err = capsys.readouterr()
    assert SECRET not in out + err
    steps = [each for each in json.loads(out)["items"] if each["source"] == "ledger"]
    assert [each["state"] for each in steps] == ["ok", "fail"]
    assert steps[-1]["fix"]


def test_a_secret_that_is_not_set_is_named(capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEDGER_PASSWORD")
    Path("job.yaml").write_text(JOB.replace("HOST", "127.0.0.1").replace("PORT", "5432"))
    assert run(["doctor", "job.yaml", "-o", "json"]) == 3
    row = rows_of(capsys)["ledger", "connection"]
    assert "env:LEDGER_PASSWORD" in str(row["seen"])
    assert row["fix"]


def test_doctor_takes_a_job_file(capsys: Shown) -> None:
    assert run(["doctor", "lake.csv"]) == 2
    assert "doctor needs a job file" in capsys.readouterr().err
