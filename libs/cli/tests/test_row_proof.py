"""`proof: rows`: what is sealed of every row, and what `verify` finds when one byte was touched."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_cli.main import run
from datarecs_core.comparison.results.row_digests import Leaf, merkle_root
from datarecs_reports.digest_file import digest_file, read_digests

Shown = pytest.CaptureFixture[str]
JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: sealed}
spec:
  sources:
    - {name: ledger, kind: csv, path: ledger.csv, cast: {amount: "decimal(18,2)"}}
    - {name: lake, kind: parquet, path: lake.parquet, columns: {amount: total}}
  normalize: {strings: {trim: both}}
  stages:
    - {name: shape, type: schema}
    - {name: counts, type: counts}
    - name: totals
      type: aggregate
      dimensions: [owner]
      measures: [{name: amount, function: sum}]
      on_unmatched: escalate
    - {name: scoped, type: row, dimensions: [id], measures: [{name: amount}]}
    - {name: rows, type: row, dimensions: [id], measures: [{name: amount}]}
    - {name: bytes, type: digest, dimensions: [id], measures: "*"}
  execution: {proof: rows}
"""
ROWS = [(1, "ana", "10.00"), (2, "ana ", "20.50"), (3, "bo", "30.00"), (4, "bo", "1.00")]


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> Path:
    """What a sealed comparison leaves, of which one total differs."""
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(JOB)
    lines = [f"{key},{owner},{amount}" for key, owner, amount in ROWS]
    Path("ledger.csv").write_text("\n".join(["id,owner,amount", *lines, ""]))
    other = [*ROWS[:3], (4, "bo", "1.25")]
    table = pa.table(
        {
            "id": [key for key, _, _ in other],
            "owner": [owner for _, owner, _ in other],
            "total": pa.array([Decimal(amount) for _, _, amount in other], pa.decimal128(18, 2)),
        }
    )
    pq.write_table(table, "lake.parquet")
    assert run(["compare", "job.yaml", "--out", "kept"]) == 1
    capsys.readouterr()
    return tmp_path / "kept"


SOURCES = ["--source", "ledger=ledger.csv", "--source", "lake=lake.parquet"]


def verify(run_folder: Path, shown: Shown, *more: str) -> tuple[int, dict[str, Any]]:
    code = run(["verify", str(run_folder), *more, "-o", "json"])
    document: dict[str, Any] = json.loads(shown.readouterr().out)
    return code, document


@pytest.mark.case("F17")
def test_the_root_over_the_stored_digests_is_the_one_that_is_sealed(
    run_folder: Path, capsys: Shown
) -> None:
    digests = json.loads((run_folder / "run.json").read_bytes())["proof"]["digests"]
    leaves = read_digests(run_folder / "digests.parquet")
    assert digests == {
        "file": "digests.parquet",
        "leaves": len(leaves),
        "merkle_root": merkle_root(leaves),
    }
    assert leaves == sorted(leaves)
    rows: dict[tuple[str, str], int] = {}
    for leaf in leaves:
        rows[leaf.stage, leaf.source] = rows.get((leaf.stage, leaf.source), 0) + leaf.rows
    assert {stage: rows[stage, "lake"] for stage, source in rows if source == "lake"} == {
        "shape": 3,
        "counts": 1,
        "totals": 2,
        "scoped": 2,
        "rows": 4,
        "bytes": 4,
    }
    assert verify(run_folder, capsys)[0] == 0


@pytest.mark.case("P63")
def test_the_data_of_every_source_is_checked_against_its_digests(
    run_folder: Path, capsys: Shown
) -> None:
    code, result = verify(run_folder, capsys, *SOURCES)
    assert (code, result["findings"]) == (0, [])
    assert "rows of source ledger against their digests" in result["checked"]
    assert "source lake in stage shape: it compares columns, not rows" in (result["not_checked"])


@pytest.mark.case("P63")
def test_one_byte_of_a_source_is_named_with_its_file_and_bucket(
    run_folder: Path, capsys: Shown
) -> None:
    written = Path("ledger.csv").read_text()
    Path("ledger.csv").write_text(written.replace("30.00", "30.01"))
    code, result = verify(run_folder, capsys, *SOURCES)
    assert code == 1
    findings = {(each["check"], each["stage"], each["source"]) for each in result["findings"]}
    assert findings == {
        ("source", None, "ledger"),
        ("leaves", "totals", "ledger"),
        ("leaves", "rows", "ledger"),
        ("leaves", "bytes", "ledger"),
    }
    (bytes_of_3,) = (each["message"] for each in result["findings"] if each["stage"] == "bytes")
    assert "other rows than the proof seals in 1 of 4 buckets" in bytes_of_3


@pytest.mark.case("P63")
@pytest.mark.parametrize("field", ["rows", "total", "bucket"])
def test_one_byte_of_a_leaf_is_named(run_folder: Path, capsys: Shown, field: str) -> None:
    leaves = read_digests(run_folder / "digests.parquet")
    first = leaves[0]
    changed = Leaf(
        stage=first.stage,
        source=first.source,
        bucket=first.bucket ^ (field == "bucket"),
        rows=first.rows + (field == "rows"),
        total=first.total ^ (field == "total"),
    )
    (run_folder / "digests.parquet").write_bytes(digest_file([changed, *leaves[1:]]))
    code, result = verify(run_folder, capsys)
    assert code == 1
    assert "digests" in [each["check"] for each in result["findings"]]


@pytest.mark.case("P63")
def test_one_byte_of_the_sealed_root_is_named(run_folder: Path, capsys: Shown) -> None:
    document = json.loads((run_folder / "run.json").read_bytes())
    root = document["proof"]["digests"]["merkle_root"]
    document["proof"]["digests"]["merkle_root"] = root[:-1] + ("0" if root[-1] != "0" else "1")
    (run_folder / "run.json").write_text(json.dumps(document))
    code, result = verify(run_folder, capsys)
    assert code == 1
    assert {each["check"] for each in result["findings"]} == {"proof_hash", "digests"}


def test_digests_may_lie_elsewhere_and_must_be_digests(
    run_folder: Path, capsys: Shown, tmp_path: Path
) -> None:
    moved = (run_folder / "digests.parquet").rename(tmp_path / "moved.parquet")
    code, result = verify(run_folder, capsys)
    assert code == 0
    assert result["not_checked"] == ["row digests: digests.parquet beside run.json is missing"]
    assert verify(run_folder, capsys, "--digests", str(moved))[0] == 0
    moved.write_bytes(b"no parquet")
    code, result = verify(run_folder, capsys, "--digests", str(moved))
    assert (code, result["findings"][0]["check"]) == (1, "digests")
    pq.write_table(pa.table({"a": [1]}), moved)
    assert verify(run_folder, capsys, "--digests", str(moved))[0] == 1
    assert run(["verify", str(run_folder), "--digests", "nowhere.parquet"]) == 2


def test_another_key_makes_other_digests(run_folder: Path, capsys: Shown) -> None:
    key = Path("key")
    key.write_text("ab" * 32)
    code, result = verify(run_folder, capsys, *SOURCES, "--key-file", "key")
    assert (code, {each["check"] for each in result["findings"]}) == (1, {"leaves"})
    for wrong in ("ab" * 31, "zz" * 32):
        key.write_text(wrong)
        assert run(["verify", str(run_folder), "--key-file", "key"]) == 2
    assert run(["verify", str(run_folder), "--key-file", "absent"]) == 2


def test_without_key_or_plan_the_rows_are_said_to_be_unchecked(
    run_folder: Path, capsys: Shown
) -> None:
    document = json.loads((run_folder / "run.json").read_bytes())
    del document["run"]["plan"]
    (run_folder / "run.json").write_text(json.dumps(document))
    _, result = verify(run_folder, capsys, "--source", "ledger=ledger.csv")
    left = "rows of source ledger: run.json has no plan of this run"
    assert result["not_checked"] == [left]


def test_a_proof_of_counts_has_no_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "b.csv"):
        Path(name).write_text("id\n1\n")
    assert run(["compare", "a.csv", "b.csv", "--key", "id", "--out", "kept"]) == 0
    assert not Path("kept/digests.parquet").exists()
    assert run(["verify", "kept", "--digests", "any.parquet"]) == 2
