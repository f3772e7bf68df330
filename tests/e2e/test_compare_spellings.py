"""Keys as sources write them, through the command: the oracle and Spark export the same lines."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e
JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: folded}
spec:
  sources:
    - {name: ledger, kind: csv, path: ledger.csv}
    - {name: lake, kind: csv, path: lake.csv}
  normalize: {strings: {case: fold, trim: both}}
  stages:
    - {name: groups, type: aggregate, dimensions: [owner], measures: [{name: v}]}
    - {name: rows, type: row, dimensions: [owner, id], measures: [{name: v}],
       scope: {from_stage: groups}}
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "datarecs_cli", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_both_engines_export_the_same_spellings(tmp_path: Path) -> None:
    (tmp_path / "ledger.csv").write_text("owner,id,v\nACME,A1,1\nAcme,A2,1\nSame,s,5\n")
    (tmp_path / "lake.csv").write_text("owner,id,v\n acme ,a1,2\nacme,a2,1\nSAME,S,5\n")
    (tmp_path / "job.yaml").write_text(JOB)
    documents, exports = [], []
    for engine in ("reference", "spark"):
        ended = run(tmp_path, "compare", "job.yaml", "--engine", engine, "--out", engine)
        assert ended.returncode == 1, ended.stdout + ended.stderr
        verified = run(tmp_path, "verify", engine)
        assert verified.returncode == 0, verified.stdout + verified.stderr
        documents.append(json.loads((tmp_path / engine / "run.json").read_text()))
        exported = run(tmp_path, "export", engine, "--format", "csv", "--out", f"{engine}.csv")
        assert exported.returncode == 0, exported.stdout + exported.stderr
        exports.append(sorted((tmp_path / f"{engine}.csv").read_text().splitlines()))
        assert "ledger: ACME; Acme" in (tmp_path / engine / "report.html").read_text()
    assert documents[0]["proof"] == documents[1]["proof"]
    assert exports[0] == exports[1]
    assert any('"ACME, A1"' in line for line in exports[0])
