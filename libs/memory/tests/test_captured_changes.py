"""Incremental captures equal full ones after any changes, over the twins."""

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from datarecs_core.captures.items import WorkKind
from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_memory.store import MemoryStore
from datarecs_runtime.clock import SystemClock
from datarecs_testing.capture_house import CaptureHouse
from datarecs_testing.captured_changes import (
    FORMATS,
    POLICIES,
    TABLE,
    Change,
    ChangedFolder,
    ChangedLake,
    ReportingHouse,
    TwoCaptures,
)
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.lake import a_lake
from datarecs_testing.memory_stores import memory_stores

NUMBERS = st.integers(0, 11)
CHANGES = st.lists(
    st.tuples(NUMBERS, NUMBERS, st.integers(0, len(POLICIES) - 1)), min_size=1, max_size=5
)


def house(folder: Path, name: str, spec: dict[str, object] | None = None) -> ReportingHouse:
    reports = folder / name
    reports.mkdir()
    (folder / "data").mkdir(exist_ok=True)
    clock = ManualClock()
    return ReportingHouse(
        stores=memory_stores(MemoryStore(clock, FixedIds()), clock),
        blobs=MemoryBlobStores(SystemClock()),
        root=folder / "data",
        reports=reports,
        spec=spec,
    )


@pytest.mark.slow
@pytest.mark.parametrize("format_name", FORMATS)
@settings(max_examples=8, deadline=None)
@given(changes=CHANGES)
@example(changes=[(1, 1, 0), (7, 1, 0), (2, 2, 2)])
def test_captures_of_changed_files_equal_full_ones(format_name: str, changes: list[Change]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        both = TwoCaptures(incremental=house(folder, "one"), full=house(folder, "other"))
        files = ChangedFolder(root=folder / "data", format=format_name)
        files.change(0, 0)
        both.check(POLICIES[0])
        for how, where, policy in changes:
            files.change(how, where)
            both.check(POLICIES[policy])


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(changes=CHANGES)
@example(changes=[(number, 0, 0) for number in range(7)])
@example(changes=[(6, 0, 0), (1, 0, 0)])
def test_captures_of_a_changed_lake_table_equal_full_ones(changes: list[Change]) -> None:
    with TemporaryDirectory() as name, ExitStack() as closing:
        folder = Path(name)
        lake = a_lake(folder / "data", closing)
        catalog = {"type": "sql", "name": "lake", "sqlite": str(lake.folder / "catalog.db")}
        spec: dict[str, object] = {"type": "iceberg", "config": {"catalog": catalog}}
        both = TwoCaptures(
            incremental=house(folder, "one", spec), full=house(folder, "other", spec)
        )
        table = ChangedLake(lake)
        both.check(POLICIES[0])
        for how, where, policy in changes:
            table.change(how, where)
            both.check(POLICIES[policy])


def figures(captured: CaptureHouse) -> dict[str, tuple[str, str | None, str | None]]:
    """Type, smallest and largest value of each column."""
    table = captured.table(TABLE)
    snapshot = captured.current(table)
    assert snapshot is not None
    scalars = [one.scalar for one in captured.targets(table, snapshot).values()]
    return {one.name: (one.type, one.min, one.max) for one in scalars if one is not None}


def test_a_type_that_other_files_decide_is_that_of_all_figures(tmp_path: Path) -> None:
    captured, folder = house(tmp_path, "one"), tmp_path / "data" / TABLE
    folder.mkdir()
    (folder / "a.csv").write_text("v\n10\n9\n")
    captured.capture()
    assert figures(captured) == {"v": ("int", "9", "10")}
    (folder / "b.csv").write_text("v\nx\n")
    captured.capture()
    assert figures(captured) == {"v": ("text", "10", "x")}
    (folder / "b.csv").unlink()
    captured.capture()
    assert figures(captured) == {"v": ("int", "9", "10")}


def test_files_are_opened_again_for_another_column_and_not_for_another_name(
    tmp_path: Path,
) -> None:
    with ExitStack() as closing:
        lake = a_lake(tmp_path / "data", closing)
        schema = Schema(
            NestedField(1, "net", LongType(), required=False),
            NestedField(2, "gross", LongType(), required=False),
        )
        made = lake.table(TABLE, schema, pa.table({"net": [100], "gross": [119]}))
        catalog = {"type": "sql", "name": "lake", "sqlite": str(lake.folder / "catalog.db")}
        captured = house(tmp_path, "one", {"type": "iceberg", "config": {"catalog": catalog}})
        captured.capture()
        for old, new in (("gross", "both"), ("net", "gross"), ("both", "net")):
            with made.update_schema() as update:
                update.rename_column(old, new)
        made.append(pa.table({"gross": [200], "net": [238]}))
        captured.opened.clear()
        captured.capture()
        assert figures(captured) == {"net": ("int", "119", "238"), "gross": ("int", "100", "200")}
        assert captured.opened == [WorkKind.EXEC_FILE_GROUP]
        with made.update_schema(allow_incompatible_changes=True) as update:
            update.delete_column("net")
        with made.update_schema() as update:
            update.add_column("net", LongType())
        made.append(pa.table({"gross": [1], "net": [5]}))
        captured.opened.clear()
        captured.capture()
        assert figures(captured) == {"net": ("int", "5", "5"), "gross": ("int", "1", "200")}
        assert captured.opened == [WorkKind.EXEC_FILE_GROUP] * 3
