"""The worker as a process: a folder of Parquet files becomes a published snapshot."""

import time
from pathlib import Path

import pytest

from datarecs_core.captures.items import WorkKind, WorkState
from datarecs_testing.capture_process import MODULE, House, wait_until
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.service_process import running_service

pytestmark = pytest.mark.integration


@pytest.fixture
def house(private_database: PreparedDatabase, tmp_path: Path) -> House:
    return House(private_database, tmp_path)


def test_a_folder_of_files_becomes_a_published_snapshot(house: House) -> None:
    house.fill("orders", 5)
    root = house.enqueue(house.connection())
    with running_service(MODULE, house.settings, log=house.folder / "log") as worker:
        wait_until(lambda: house.root(root).has_ended, worker.text)
        assert house.root(root).state is WorkState.SUCCEEDED, (house.items(), worker.text())
        assert worker.stop() == 0
    files = house.recorded()
    assert sorted(one.path for one in files) == [f"orders/{one:03}.parquet" for one in range(5)]
    assert sum(one.rows for one in files) == 50
    totals = house.totals(root)
    assert (totals["files_completed"], totals["indexes_written"]) == (5, 5)
    assert totals["snapshots_finalized"] == 1
    assert list((house.folder / "scratch").glob("child-*/*")) == []


@pytest.mark.case("Q33")
def test_without_slots_nothing_is_claimed_and_a_toggle_removes_its_kinds(house: House) -> None:
    house.fill("orders", 1)
    root = house.enqueue(house.connection())
    no_slots = house.settings | {"DATARECS_WORKER__MAX_PARALLELISM": "0"}
    with running_service(MODULE, no_slots, log=house.folder / "log") as worker:
        wait_until(lambda: "process_started" in worker.text(), worker.text)
        time.sleep(2.5)  # noqa: TID251  longer than a slot is idle
        assert worker.stop() == 0
    assert house.root(root).state is WorkState.QUEUED
    planners = house.settings | {"DATARECS_EXECUTOR__DEFAULT__ENABLED": "false"}
    with running_service(MODULE, planners, log=house.folder / "log") as worker:
        wait_until(lambda: house.root(root).state is WorkState.WAITING, worker.text)
        assert worker.stop() == 0
    (table,) = (item for item in house.items() if item.kind is WorkKind.PLAN_TABLE)
    assert table.epoch == 0
    finished = house.settings | {"DATARECS_EXECUTOR__PLANNER__ENABLED": "false"}
    with running_service(MODULE, finished, log=house.folder / "log") as worker:
        wait_until(lambda: house.root(root).has_ended, worker.text)
    assert house.root(root).state is WorkState.SUCCEEDED


def test_a_failure_of_the_source_is_the_failure_of_its_table_alone(house: House) -> None:
    house.fill("orders", 1)
    (house.files / "broken.parquet").write_bytes(b"PAR1 no parquet PAR1")
    root = house.enqueue(house.connection())
    with running_service(MODULE, house.settings, log=house.folder / "log") as worker:
        wait_until(lambda: house.root(root).has_ended, worker.text)
    assert house.root(root).state is WorkState.FAILED
    assert [one.path for one in house.recorded()] == ["orders/000.parquet"]
