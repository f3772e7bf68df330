"""The plan of a snapshot: groups of files, and what the finaliser compares."""

from uuid import UUID

import pytest

from datarecs_core.captures.plan import (
    GROUP_BYTES,
    GROUP_CELLS,
    GROUP_FILES,
    SnapshotPlan,
    captured_by,
    coverage_faults,
    group_files,
)
from datarecs_core.captures.request import CapturePolicy, ObjectName, Output
from datarecs_core.captures.source_facts import Completion, SourceFile
from datarecs_core.documents import from_document, to_document
from datarecs_testing.captured_files import source_file

TABLE = UUID("019b0000-0000-7000-8000-000000000021")


def plan(files: tuple[SourceFile, ...], groups: tuple[tuple[str, ...], ...]) -> SnapshotPlan:
    return SnapshotPlan(
        table_id=TABLE,
        snapshot_id=2**63 - 1,
        native_id="n1",
        object=ObjectName(namespace=("sales", "eu"), name="orders"),
        generation="g1",
        completion=Completion.FILE_GROUPS,
        policy=CapturePolicy(outputs=(Output.COLUMN_STATS,)),
        columns=("id", "amount"),
        files=files,
        reused=(),
        groups=groups,
    )


@pytest.mark.case("Q35")
def test_a_thousand_files_are_grouped_once_each_within_the_limits_and_always_alike() -> None:
    sizes_in_turn = (1024, 2**20, 300 * 2**20, 2 * 2**30)
    files = [
        source_file(f"part-{number}.parquet", size_bytes=sizes_in_turn[number % 4])
        for number in range(1000)
    ]
    groups = group_files(files, columns=4)
    assert sorted(path for group in groups for path in group) == sorted(f.path for f in files)
    sizes = {file.path: file.size_bytes for file in files}
    assert max(map(len, groups)) <= GROUP_FILES
    heaviest = max(sum(sizes[path] for path in group) for group in groups)
    assert heaviest <= GROUP_BYTES + max(sizes.values())
    assert group_files(files[::-1], columns=4) == groups


@pytest.mark.parametrize("columns", [0, 1, 100, GROUP_CELLS, 10 * GROUP_CELLS])
def test_wide_tables_have_small_groups_and_never_an_empty_one(columns: int) -> None:
    groups = group_files([source_file(f"{n}.parquet") for n in range(300)], columns=columns)
    assert all(groups)
    assert max(map(len, groups)) * columns <= max(GROUP_CELLS, columns)


def test_no_files_are_no_groups() -> None:
    assert group_files([], columns=3) == ()


def test_a_plan_is_read_as_it_was_written() -> None:
    files = (source_file("a"), source_file("b", deletes=("d1", "d2"), sequence_number=7))
    written = plan(files, (("a", "b"),))
    assert from_document(SnapshotPlan, to_document(written)) == written
    assert written.group(0) == files


@pytest.mark.case("Q37")
def test_missing_unplanned_and_doubled_files_are_named_exactly() -> None:
    assert coverage_faults({"a", "b"}, ["a", "b"]) == ()
    assert coverage_faults({"a", "b"}, ["a"]) == ("missing: b",)
    assert coverage_faults({"a"}, ["a", "c"]) == ("not planned: c",)
    assert coverage_faults({"a"}, ["a", "a"]) == ("recorded twice: a",)
    many = coverage_faults({f"{n:03}" for n in range(150)}, [])
    assert many[0].endswith("099 and 50 more")


def test_a_capture_covers_fewer_outputs_of_the_same_columns_alone() -> None:
    table, column = Output.TABLE_STATS, Output.COLUMN_STATS
    both = captured_by(CapturePolicy(outputs=(column, table)), ("id", "amount"))
    assert both.covers(captured_by(CapturePolicy(outputs=(table,)), ()))
    assert both.covers(captured_by(CapturePolicy(outputs=(column,)), ("id", "amount")))
    assert not both.covers(captured_by(CapturePolicy(outputs=(column,)), ("id",)))
    only_table = captured_by(CapturePolicy(outputs=(table,)), ())
    assert not only_table.covers(both)
