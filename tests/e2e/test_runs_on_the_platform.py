"""What people see of runs on the started platform: outcomes, errors, kills."""

import gzip
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.e2e

CONNECTION = """
apiVersion: datarecs.io/v1
kind: Connection
metadata: {name: here}
spec: {type: files, config: {root: .}}
"""
RULE = """---
apiVersion: datarecs.io/v1
kind: NotificationRule
metadata: {name: everybody}
spec:
  match: {outcomes: [MATCHED, UNMATCHED, ERRORED]}
  notify: every_run
  to: [{address: finance@demo.localhost}]
"""


def job(name: str, *sources: str) -> str:
    kinds = [path.rsplit(".", 1)[-1] for path in sources]
    listed = "".join(
        f"    - {{name: s{index}, kind: {kind}, connection: here, path: {path}}}\n"
        for index, (kind, path) in enumerate(zip(kinds, sources, strict=True))
    )
    return f"""{CONNECTION}---
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {{name: {name}}}
spec:
  sources:
{listed}  stages:
    - {{name: counts, type: counts}}
    - name: rows
      type: row
      dimensions: [id]
      measures: [{{name: amount, tolerances: [{{type: ABSOLUTE, value: "0.01"}}]}}]
"""


def rows(count: int, change: int = 0) -> str:
    lines = [f"{number},{number % 97}.{25 if number >= change else 75}" for number in range(count)]
    return "id,amount\n" + "\n".join(lines) + "\n"


@pytest.fixture
def small(platform: Any) -> Any:  # noqa: ANN401  the platform
    platform.write("a.csv", rows(100))
    platform.write("b.csv", rows(100))
    platform.write("c.csv", rows(103, change=4))
    platform.apply("small.yaml", job("same", "a.csv", "b.csv") + RULE)
    platform.apply("other.yaml", job("other", "a.csv", "c.csv"))
    return platform


@pytest.mark.case("L01", "U08")
def test_one_matched_and_one_unmatched_run_end_to_end(small: Any) -> None:  # noqa: ANN401  as above
    same, other = small.trigger("same"), small.trigger("other")
    assert small.ended(same)["result"] == "MATCHED"
    unmatched = small.ended(other)
    assert (unmatched["status"], unmatched["result"]) == ("COMPLETED", "UNMATCHED")
    assert unmatched["summary"]["rows_compared"] == 103
    assert unmatched["summary"]["rows_unmatched"] == 7
    event_types = small.event_names(other)
    assert event_types.count("run.finalised") == 1
    assert event_types.index("run.completed") < event_types.index("run.finalised")
    assert event_types.index("run.stage.started") < event_types.index("run.extraction.started")
    report = small.client.get(f"/api/v1/runs/{other}/report").text
    assert "UNMATCHED" in report
    mismatches = small.client.get(f"/api/v1/runs/{other}/mismatches").json()["items"]
    assert sum(one["stage"] == "rows" for one in mismatches) == 7


@pytest.mark.case("K05", "U08")
def test_the_command_line_has_an_exit_code_for_each_outcome(small: Any) -> None:  # noqa: ANN401  as above
    assert small.datarecs("run", "same").returncode == 0
    assert small.datarecs("run", "other").returncode == 1
    assert small.datarecs("run", "nobody").returncode == 2


def test_an_ended_run_is_retried_with_the_exit_code_of_the_new_one(small: Any) -> None:  # noqa: ANN401  as above
    first = small.trigger("other")
    small.ended(first)
    again = small.datarecs("retry", first, "--reason", "the export is complete", "-o", "json")
    assert again.returncode == 1, again.stdout + again.stderr
    run = json.loads(again.stdout)["run"]
    assert (run["retry_of"], run["trigger_reason"]) == (first, "the export is complete")


def test_the_doctor_sees_no_fault_in_a_running_platform(platform: Any) -> None:  # noqa: ANN401  as above
    checked = platform.datarecs("doctor", "--platform", "-o", "json")
    rows = json.loads(checked.stdout)["items"]
    assert [row for row in rows if row["state"] in {"fail", "skipped"}] == []
    assert checked.returncode == 0
    parts = {row["source"] for row in rows}
    assert {"machine", "database", "kafka", "blobs", "core-api", "webhook-service"} <= parts


@pytest.mark.parametrize(
    ("name", "content", "detail"),
    [
        ("gone.csv", None, "NO_FILES"),
        ("broken.csv", b'id,amount\n1,"x\n', "CORRUPT_SOURCE"),
        ("broken.parquet", b"PAR1 this is no parquet file PAR1", "CORRUPT_SOURCE"),
        ("other.csv", b"id,betrag\n1,2\n", "COLUMN_NOT_FOUND"),
    ],
)
def test_a_source_that_cannot_be_read_is_errored_and_never_matched(
    small: Any,  # noqa: ANN401  as above
    name: str,
    content: bytes | None,
    detail: str,
) -> None:
    if content is not None:
        (small.folder / name).write_bytes(content)
    label = name.replace(".", "-")
    # A check of the job would find the fault as well, and then no run starts.
    paused = f"metadata: {{name: {label}, annotations: {{datarecs.io/paused: 'true'}}}}"
    declared = job(label, "a.csv", name).replace(f"metadata: {{name: {label}}}", paused)
    assert paused in declared
    small.apply(f"{label}.yaml", declared)
    run = small.ended(small.trigger(label))
    assert (run["status"], run["result"]) == ("ERRORED", None)
    assert (run["error"]["code"], run["error"]["detail_code"]) == ("QUERY_FAILED", detail)
    assert small.datarecs("run", label).returncode == 3


@pytest.mark.parametrize(
    "place",
    [".datarecs/credentials.toml", ".datarecs/*", "*/credentials.toml", "link/credentials.toml"],
)
def test_the_data_directory_of_the_platform_is_no_source(small: Any, place: str) -> None:  # noqa: ANN401  as above
    link = small.folder / "link"
    if not link.is_symlink():
        link.symlink_to(small.folder / ".datarecs")
    label = f"keys-{len(place)}"
    small.apply(
        f"{label}.yaml", job(label, "a.csv", "b.csv").replace("path: b.csv", f'path: "{place}"')
    )
    run = small.ended(small.trigger(label))
    assert (run["status"], run["error"]["code"]) == ("ERRORED", "QUERY_FAILED")
    expected = "NO_FILES" if place.startswith("*") else "PATH_REFUSED"
    assert run["error"]["detail_code"] == expected
    assert "api_key" not in str(run)


def test_a_compressed_file_is_compared_with_a_plain_one(small: Any) -> None:  # noqa: ANN401  as above
    (small.folder / "packed.csv.gz").write_bytes(gzip.compress(rows(100).encode()))
    spec = job("packed", "a.csv", "b.csv").replace("path: b.csv", "path: packed.csv.gz")
    small.apply("packed.yaml", spec)
    assert small.ended(small.trigger("packed"))["result"] == "MATCHED"


def test_a_parquet_file_cut_in_the_middle_is_errored(small: Any) -> None:  # noqa: ANN401  as above
    whole = small.folder / "whole.parquet"
    pq.write_table(pa.table({"id": list(range(50_000)), "amount": ["1.25"] * 50_000}), whole)
    data = whole.read_bytes()
    Path(small.folder / "cut.parquet").write_bytes(data[: len(data) // 2])
    small.apply("cut.yaml", job("cut", "a.csv", "cut.parquet"))
    run = small.ended(small.trigger("cut"))
    assert (run["status"], run["error"]["detail_code"]) == ("ERRORED", "CORRUPT_SOURCE")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_full_disk_ends_the_run_errored_and_the_next_run_works(small: Any) -> None:  # noqa: ANN401  as above
    small.write("big.csv", rows(200_000))
    small.apply("full.yaml", job("full", "big.csv", "big.csv"))
    scratch = small.folder / ".datarecs/scratch/runs"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", scratch], check=True)
    try:
        run = small.ended(small.trigger("full"))
    finally:
        subprocess.run(["umount", scratch], check=True)
    assert (run["status"], run["error"]["detail_code"]) == ("ERRORED", "SPILL_EXHAUSTED")
    assert small.ended(small.trigger("same"))["result"] == "MATCHED"


@pytest.mark.crash
@pytest.mark.case("L29")
def test_a_killed_child_ends_its_run_crashed_and_the_next_run_works(small: Any) -> None:  # noqa: ANN401  as above
    small.write("big.csv", rows(400_000))
    small.apply("big.yaml", job("big", "big.csv", "big.csv") + RULE)
    run_id = small.trigger("big")
    small.until(run_id, {"RUNNING"})
    (child,) = small.pids("datarecs_reconciliation_worker.child")
    os.kill(child, signal.SIGKILL)
    run = small.ended(run_id)
    assert (run["status"], run["error"]["code"]) == ("ERRORED", "CRASHED")
    assert small.event_names(run_id).count("run.finalised") == 1
    assert small.ended(small.trigger("same"))["result"] == "MATCHED"


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.case("X78")
def test_a_killed_worker_loses_no_run_and_mails_once(small: Any) -> None:  # noqa: ANN401  as above
    small.write("big.csv", rows(400_000))
    small.apply("big.yaml", job("big", "big.csv", "big.csv") + RULE)
    run_id = small.trigger("big")
    small.until(run_id, {"RUNNING"})
    for pid in small.pids("datarecs_reconciliation_worker"):
        os.kill(pid, signal.SIGKILL)
    run = small.ended(run_id, within_s=240)
    assert (run["status"], run["result"], run["attempt"]) == ("COMPLETED", "MATCHED", 2)
    event_types = small.event_names(run_id)
    assert event_types.count("run.finalised") == 1
    assert len(small.mails(run_id)) == 1
