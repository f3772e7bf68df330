"""JSON lines through the command: the oracle and Spark read the same lines and agree."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e
OURS = ("not compared ", "warning ")
"""How lines begin that are no results; Java's own have no place among them."""
JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: events}
spec:
  sources:
    - {name: landed, kind: json, path: landed.jsonl, options: &types {schema:
        {day: date, amount: "decimal(20,4)", ref.uid: uuid, ref.at: instant, rate: float64}}}
    - {name: sent, kind: json, path: sent.jsonl, options: *types}
  stages:
    - {name: how-many, type: counts}
    - {name: sums, type: aggregate, dimensions: [day], measures: [{name: amount}]}
    - {name: each, type: row, dimensions: [id], measures: "*", on_unmatched: escalate}
    - {name: again, type: row, dimensions: [id], measures: [{name: amount}]}
"""


def line(at: int) -> dict[str, object]:
    return {
        "id": 2**53 + at,
        "day": f"2026-01-{at % 28 + 1:02}",
        "amount": at / 4,
        "rate": 0.1 * at,
        "tags": ["\u00e9", at, 1.50, {"b": 1, "a": None}],
        "ref": {"uid": f"0188F0C8-0000-7000-8000-{at:012X}", "at": "2026-01-31T12:00:00.5+02:00"},
    }


@pytest.mark.case("P32")
@pytest.mark.case("P42")
@pytest.mark.case("P53")
def test_the_oracle_and_spark_have_one_proof(tmp_path: Path) -> None:
    rows = [line(at) for at in range(60)]
    landed = [json.dumps(row) for row in rows]
    rows[3]["amount"] = "3.00001"
    rows[4]["tags"] = [4, "\u00e9"]
    rows[5]["ref"] = {"uid": None, "at": "soon"}
    rows[6]["late"] = 10**40
    sent = [json.dumps(row, ensure_ascii=False, separators=(" ,", ": ")) for row in rows]
    (tmp_path / "landed.jsonl").write_text("\n".join(landed), encoding="utf-8")
    (tmp_path / "sent.jsonl").write_bytes(
        "\n".join(sent).encode().replace(b'\xc3\xa9" ,7', b'\xff" ,7')
    )
    (tmp_path / "job.yaml").write_text(JOB)
    proofs = []
    for engine in ("reference", "spark"):
        arguments = ["compare", "job.yaml", "--engine", engine, "--out", engine, "--quiet"]
        ended = subprocess.run(
            [sys.executable, "-m", "datarecs_cli", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 1, ended.stdout + ended.stderr
        lines = ended.stderr.splitlines()
        assert [line for line in lines if not line.startswith(OURS)] == []
        parts = {each.name for each in (tmp_path / engine / "differences").iterdir()}
        assert all(name.startswith("stage=") for name in parts), parts
        proofs.append(json.loads((tmp_path / engine / "run.json").read_text())["proof"])
    assert proofs[0] == proofs[1]
    outside = {one["name"]: one["outside"] for one in proofs[0]["stages"][2]["measures"]}
    assert {name: outside[name] for name in ("amount", "tags", "ref.uid", "ref.at", "rate")} == {
        "amount": 1,
        "tags": 2,
        "ref.uid": 1,
        "ref.at": 1,
        "rate": 0,
    }
