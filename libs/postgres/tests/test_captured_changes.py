"""Incremental captures over PostgreSQL equal full ones over the twins."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_memory.store import MemoryStore
from datarecs_runtime.clock import SystemClock
from datarecs_testing.captured_changes import (
    POLICIES,
    ChangedFolder,
    ChangedLake,
    ReportingHouse,
    TwoCaptures,
)
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.lake import a_lake
from datarecs_testing.memory_stores import memory_stores

pytestmark = pytest.mark.integration


def captures(stores: Stores, folder: Path, spec: Mapping[str, object] | None = None) -> TwoCaptures:
    clock = ManualClock()
    twins = memory_stores(MemoryStore(clock, FixedIds()), clock)
    (folder / "data").mkdir(exist_ok=True)
    houses = []
    for name, used in (("incremental", stores), ("full", twins)):
        (folder / name).mkdir()
        house = ReportingHouse(
            stores=used,
            blobs=MemoryBlobStores(SystemClock()),
            root=folder / "data",
            reports=folder / name,
            spec=spec,
        )
        houses.append(house)
    return TwoCaptures(incremental=houses[0], full=houses[1])


def test_captures_of_changed_files_equal_full_ones(stores: Stores, tmp_path: Path) -> None:
    both = captures(stores, tmp_path)
    files = ChangedFolder(root=tmp_path / "data", format="csv")
    for how, where in ((0, 0), (1, 1), (7, 1), (2, 2), (5, 3), (3, 0)):
        files.change(how, where)
        both.check(POLICIES[0])


def test_captures_of_a_changed_lake_table_equal_full_ones(stores: Stores, tmp_path: Path) -> None:
    with ExitStack() as closing:
        lake = a_lake(tmp_path / "data", closing)
        catalog = {"type": "sql", "name": "lake", "sqlite": str(lake.folder / "catalog.db")}
        both = captures(stores, tmp_path, {"type": "iceberg", "config": {"catalog": catalog}})
        table = ChangedLake(lake)
        for how in (0, 1, 2, 3, 4):
            table.change(how, 0)
            both.check(POLICIES[0])
