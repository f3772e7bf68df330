"""`datarecs demo --template iceberg-kafka` on a running platform: what it says is what there is."""

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from datarecs_connectors.iceberg.local_lake import LocalLake
from datarecs_runtime.environment import process_environment

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
ROWS = 20_000


@pytest.fixture(scope="module")
def shown(platform: Any) -> str:  # noqa: ANN401  the platform of this folder's conftest
    done = subprocess.run(
        [sys.executable, "-m", "datarecs_cli", "demo", "--template", "iceberg-kafka"],
        cwd=platform.folder,
        env=process_environment() | {"LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_event_is_a_row_although_a_worker_and_the_coordinator_were_killed(
    platform: Any,  # noqa: ANN401  as above
    shown: str,
) -> None:
    kills = re.findall(
        r"^  kill ([12]) task ([01]), (worker(?: and coordinator)?): ", shown, re.MULTILINE
    )
    assert [number for number, _, _ in kills] == ["1", "2"]
    assert {role for _, _, role in kills} == {"worker", "worker and coordinator"}
    assert f"{ROWS:,} events in the topic, {ROWS:,} rows in the table\n" in shown
    status = json.loads(platform.datarecs("sink", "status", "demo-events", "-o", "json").stdout)
    assert sum(one["committed"] for one in status["partitions"]) == ROWS


def test_the_proof_is_matched_and_names_the_row_that_is_deleted_then(
    platform: Any,  # noqa: ANN401  as above
    shown: str,
) -> None:
    assert f"  run 1  OK MATCHED      {ROWS:,} of {ROWS:,} groups within tolerance\n" in shown
    assert f"  run 2  DIFF UNMATCHED  {ROWS - 1:,} in both | 1 only in topic\n" in shown
    assert "lost     topic demo.events  partition 2  offset 1234\n" in shown
    lake = LocalLake(folder=platform.folder / "demo/lake", name="lake")
    assert lake.count("demo.events") == ROWS - 1


def test_what_the_demo_names_as_next_works(platform: Any, shown: str) -> None:  # noqa: ANN401  as above
    assert "Ready" in platform.datarecs("sink", "status", "demo-events").stdout
    (run_id,) = re.findall(r"datarecs diff ([0-9a-f-]{36})", shown)
    assert platform.datarecs("diff", run_id).returncode == 1
