"""Captures of an Iceberg table with history, over the twins."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from datarecs_core.captures.request import (
    CaptureMode,
    CapturePolicy,
    Output,
    SnapshotChoice,
    SnapshotSelection,
)
from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_runtime.clock import SystemClock
from datarecs_testing.capture_house import CaptureHouse
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.lake import NAMESPACE, Lake, a_lake

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))
ONE, TWO, THREE = (pa.table({"id": [number, number + 10]}) for number in (1, 2, 3))
EVERY = SnapshotSelection(kind=SnapshotChoice.ALL)
METADATA = {"mode": CaptureMode.METADATA_ONLY, "policy": CapturePolicy(), "selection": EVERY}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with ExitStack() as closing:
        yield a_lake(tmp_path / "lake", closing)


@pytest.fixture
def house(stores: Stores, lake: Lake, tmp_path: Path) -> CaptureHouse:
    """The table `entries` has two snapshots."""
    lake.table("entries", SCHEMA, ONE, TWO)
    reports = tmp_path / "reports"
    reports.mkdir()
    catalog = {"type": "sql", "name": "lake", "sqlite": str(lake.folder / "catalog.db")}
    return CaptureHouse(
        stores=stores,
        blobs=MemoryBlobStores(SystemClock()),
        root=lake.folder,
        reports=reports,
        spec={"type": "iceberg", "config": {"catalog": catalog}},
    )


def rows(house: CaptureHouse) -> list[int | None]:
    """Of the table in each of its snapshots, the newest first; None: not published."""
    table = house.table("entries")
    return [
        house.targets(table, one)["table"].rows if house.active(table, one) else None
        for one in house.snapshots(table)
    ]


def test_every_snapshot_of_the_history_is_captured(house: CaptureHouse) -> None:
    house.capture(selection=EVERY)
    assert rows(house) == [4, 2]


def test_snapshots_that_are_known_from_metadata_are_captured(house: CaptureHouse) -> None:
    house.capture(**METADATA)
    assert rows(house) == [None, None]
    house.capture()
    assert rows(house) == [4, None]
    house.capture(selection=EVERY)
    assert rows(house) == [4, 2]


def test_more_outputs_of_a_known_snapshot_are_captured(house: CaptureHouse) -> None:
    house.capture(policy=CapturePolicy(outputs=(Output.TABLE_STATS,)))
    house.capture()
    table = house.table("entries")
    assert len(house.targets(table, house.snapshots(table)[0])) == 2


def test_a_capture_again_opens_nothing_and_after_an_append_the_new_file_alone(
    house: CaptureHouse, lake: Lake
) -> None:
    house.capture()
    house.opened.clear()
    house.capture()
    assert house.opened == []
    lake.catalog.load_table((NAMESPACE, "entries")).append(THREE)
    again = house.capture()
    assert rows(house)[0] == 6
    totals = house.totals(again.id)
    assert (totals["files_reused"], totals["files_completed"]) == (2, 1)
    assert len(house.opened) == 1


def test_after_a_rollback_the_present_snapshot_is_the_current_one(
    house: CaptureHouse, lake: Lake
) -> None:
    house.capture(policy=CapturePolicy(outputs=(Output.TABLE_STATS,)))
    table = lake.catalog.load_table((NAMESPACE, "entries"))
    first, _ = table.metadata.snapshots
    table.manage_snapshots().set_current_snapshot(first.snapshot_id).commit()
    for is_full_rescan in (False, True):
        house.capture(is_full_rescan=is_full_rescan)
        assert rows(house) == [4, 2]
        assert current_rows(house) == 2
    lake.catalog.load_table((NAMESPACE, "entries")).append(THREE)
    house.capture()
    assert rows(house) == [4, 4, 2]
    assert current_rows(house) == 4


def current_rows(house: CaptureHouse) -> int | None:
    table = house.table("entries")
    snapshot = house.current(table)
    assert snapshot is not None
    return house.targets(table, snapshot)["table"].rows
