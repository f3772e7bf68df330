"""Files of a source as relations: names, folders, physical types, damage."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.scan import FileList, PinnedFile
from datarecs_core.errors.run import RunDetail
from datarecs_kernel.database import Connection, Resources, connected
from datarecs_kernel.delivered import delivered
from datarecs_kernel.layout import layout_of
from datarecs_kernel.reading_failures import reading_failure
from datarecs_kernel.refusals import SourceFailedError
from datarecs_kernel.relations import create_relation, rows_behind_filter
from datarecs_testing.comparisons import a_measure, rows_by
from datarecs_testing.tables import NOON, a_job, a_table, plan_of

Files = dict[str, dict[str, Any]]


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    (tmp_path / "spill").mkdir()
    with connected(
        Resources(
            directory=str(tmp_path / "spill"), threads=2, memory_bytes=2**28, spill_bytes=2**30
        )
    ) as opened:
        yield opened


def a_stage(columns: str, folder: Path, files: Files, **source: Any) -> StagePlan:  # noqa: ANN401 - any field of Source
    """A row stage over files, the first column being the key; both sources read the same."""
    tables = [a_table(name, columns) for name in ("one", "two")]
    names = [name for name, _ in tables[0].columns]
    job = a_job(tables, rows_by(names[0], *map(a_measure, names[1:])), sources={"one": source})
    stage = plan_of(job, tables).stages[0]
    pin = FileList(root=str(folder), files=tuple(written(folder, files)), taken_at=NOON)
    return replace(stage, scans=tuple(replace(scan, pin=pin) for scan in stage.scans))


def written(folder: Path, files: Files) -> Iterator[PinnedFile]:
    for name, columns in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        table = pa.table(list(columns.values()), names=[each.strip() for each in columns])
        pq.write_table(table, path)
        yield PinnedFile(path=name, size_bytes=path.stat().st_size, rows=table.num_rows)


def rows_of(connection: Connection, stage: StagePlan) -> list[tuple[Any, ...]]:
    """Without `dst`, ordered by the key."""
    sources = [delivered(connection, scan) for scan in stage.scans]
    layout = layout_of(stage, sources)
    relation = create_relation(connection, layout, sources[0])
    rows = connection.execute(f"FROM {relation} SELECT * EXCLUDE dst ORDER BY k0").fetchall()
    return list(rows)


@pytest.mark.case("P43")
def test_columns_are_selected_by_their_exact_names_in_every_file(
    connection: Connection, tmp_path: Path
) -> None:
    files: Files = {
        "a.parquet": {"k": [1], "Month": [10], "month": [20], "month_1": [30]},
        "b.parquet": {"month_1": [3], "month": [2], "k": [2], "Month": [1]},
    }
    stage = a_stage("k int, month int, Month int, month_1 int", tmp_path, files)
    names = [each.inputs[0].column for each in stage.measures if each.inputs[0]]
    assert [dict(zip(names, row[1:], strict=True)) for row in rows_of(connection, stage)] == [
        {"Month": 10, "month": 20, "month_1": 30},
        {"Month": 1, "month": 2, "month_1": 3},
    ]


def test_a_column_that_a_file_lacks_is_null(connection: Connection, tmp_path: Path) -> None:
    files: Files = {"a.parquet": {"k": [1], "v": [10]}, "b.parquet": {"k": [2]}}
    stage = a_stage("k int, v int", tmp_path, files, options={"merge_schema": True})
    assert rows_of(connection, stage) == [(1, 10), (2, None)]


def test_a_column_that_no_file_has_any_more_is_named(
    connection: Connection, tmp_path: Path
) -> None:
    stage = a_stage("k int, v int", tmp_path, {"a.parquet": {"k": [1]}})
    with pytest.raises(SourceFailedError, match="no longer has column 'v'") as refused:
        rows_of(connection, stage)
    assert refused.value.code is RunDetail.SCHEMA_CHANGED


def test_folders_are_columns_of_their_types(connection: Connection, tmp_path: Path) -> None:
    files: Files = {
        "day=2026-01-31/at=a%20+b/x.parquet": {"k": [1, 2]},
        "day=2026-02-01/at='/x.parquet": {"k": [3]},
        "day=2026-02-02/y.parquet": {"k": [4]},
    }
    stage = a_stage("k int, day date, at text", tmp_path, files)
    first = (date(2026, 1, 31) - date(1970, 1, 1)).days
    assert rows_of(connection, stage) == [
        *((1, first, "a%20+b"), (2, first, "a%20+b")),
        *((3, first + 1, "'"), (4, first + 2, None)),
    ]


def test_a_filter_may_name_a_folder_and_a_column_that_nobody_compares(
    connection: Connection, tmp_path: Path
) -> None:
    files: Files = {
        "n=1/x.parquet": {"k": [1, 2], "status": ["a", "b"]},
        "n=2/x.parquet": {"k": [3, 4], "status": ["a", "b"]},
    }
    stage = a_stage("k int, n int, status text", tmp_path, files, filter="n = 2 AND status = 'a'")
    stage = replace(stage, measures=())
    assert rows_of(connection, stage) == [(3,)]
    source = delivered(connection, stage.scans[0])
    assert (rows_behind_filter(connection, source), source.pinned_rows) == (1, None)


def test_rows_of_files_are_counted_from_their_footers(
    connection: Connection, tmp_path: Path
) -> None:
    files: Files = {"a.parquet": {"k": [1, 2]}, "b.parquet": {"k": [3]}}
    source = delivered(connection, a_stage("k int", tmp_path, files).scans[0])
    assert (rows_behind_filter(connection, source), source.pinned_rows) == (3, 3)


D, ONE = Decimal, UUID(int=1)
PHYSICAL: list[tuple[str, pa.Array, Sequence[object]]] = [
    ("int", pa.array([1, None], pa.int8()), [1, None]),
    ("int", pa.array([2**32 - 1, None], pa.uint32()), [2**32 - 1, None]),
    ("int", pa.array([2**64 - 1, None], pa.uint64()), [Decimal(2**64 - 1), None]),
    (
        "decimal(9,2)",
        pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
        [Decimal("1.50"), None],
    ),
    ("float32", pa.array([0.5, None], pa.float32()), [0.5, None]),
    ("text", pa.array(["a", None], pa.large_string()), ["a", None]),
    ("text", pa.array(["a", None]).dictionary_encode(), ["a", None]),
    ("binary", pa.array([b"ab", None], pa.binary(2)), [b"ab", None]),
    ("binary", pa.array([ONE.bytes, None], pa.binary(16)), [ONE.bytes, None]),
    ("uuid", pa.array([ONE.bytes, None], pa.uuid()), [ONE.bytes, None]),
    ("binary", pa.array([ONE.bytes, None], pa.uuid()), [ONE.bytes, None]),
    ("uuid", pa.array([str(ONE), None]), [ONE.bytes, None]),
    ("date", pa.array([-1, 3_000_000], pa.date32()), [-1, 3_000_000]),
    ("date", pa.array([86_400_000, None], pa.date64()), [1, None]),
    ("time(3)", pa.array([1, None], pa.time32("ms")), [1000, None]),
    ("time", pa.array([1, None], pa.time64("us")), [1, None]),
    ("time(9)", pa.array([1, None], pa.time64("ns")), [Decimal("0.001"), None]),
    ("instant(3)", pa.array([-1, None], pa.timestamp("ms", tz="UTC")), [-1000, None]),
    ("instant", pa.array([-1, 2**63 - 1], pa.timestamp("us", tz="Asia/Tokyo")), [-1, 2**63 - 1]),
    ("instant(9)", pa.array([-1, None], pa.timestamp("ns", tz="UTC")), [Decimal("-0.001"), None]),
    ("local_timestamp", pa.array([-(2**63) + 1, 5], pa.timestamp("us")), [-(2**63) + 1, 5]),
    ("local_timestamp(9)", pa.array([1, None], pa.timestamp("ns")), [Decimal("0.001"), None]),
]


@pytest.mark.parametrize(("kind", "stored", "expected"), PHYSICAL)
def test_every_physical_type_is_read_in_the_form_of_its_column(
    connection: Connection, tmp_path: Path, kind: str, stored: pa.Array, expected: Sequence[object]
) -> None:
    stage = a_stage(f"k int, v {kind}", tmp_path, {"a.parquet": {"k": [1, 2], "v": stored}})
    assert rows_of(connection, stage) == list(zip([1, 2], expected, strict=True))


def test_paths_are_no_patterns(connection: Connection, tmp_path: Path) -> None:
    files: Files = {"a[1]*?{b}.parquet": {"k": [1]}, "a1.parquet": {"k": [9]}}
    stage = a_stage("k int", tmp_path, files)
    pin = stage.scans[0].pin
    assert isinstance(pin, FileList)
    first = replace(pin, files=pin.files[:1])
    stage = replace(stage, scans=tuple(replace(scan, pin=first) for scan in stage.scans))
    assert rows_of(connection, stage) == [(1,)]


def test_a_path_with_a_backslash_beside_a_bracket_is_read(
    connection: Connection, tmp_path: Path
) -> None:
    """DuckDB's patterns have no word for it, so Arrow opens such a file."""
    stage = a_stage("k int, t text", tmp_path, {"a\\[1].parquet": {"k": [1], "t": ["x"]}})
    assert rows_of(connection, stage) == [(1, "x", None)]


def test_columns_whose_names_differ_in_case_alone_may_hold_texts_that_are_no_text(
    connection: Connection, tmp_path: Path
) -> None:
    texts = pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())
    files: Files = {"a.parquet": {"k": [1, 2], "v": texts, "V": ["b", "c"]}}
    stage = a_stage("k int, v text, V text", tmp_path, files)
    sources = [delivered(connection, scan, check_texts=True) for scan in stage.scans]
    relation = create_relation(connection, layout_of(stage, sources), sources[0])
    names = [each.inputs[0].column for each in stage.measures if each.inputs[0]]
    at = {name: f"m{number}" for number, name in enumerate(names)}
    rows = connection.execute(f"FROM {relation} SELECT {at['v']}, {at['V']} ORDER BY k0")
    assert rows.fetchall() == [("a", "b"), (None, "c")]


def test_a_file_that_is_gone_is_a_lost_snapshot(connection: Connection, tmp_path: Path) -> None:
    stage = a_stage("k int", tmp_path, {"a.parquet": {"k": [1]}})
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(SourceFailedError) as refused:
        delivered(connection, stage.scans[0])
    assert refused.value.code is RunDetail.SNAPSHOT_LOST


@pytest.mark.parametrize("damaged", [slice(4, 40), slice(-60, -10)])
def test_a_damaged_file_is_named(connection: Connection, tmp_path: Path, damaged: slice) -> None:
    stage = a_stage("k int", tmp_path, {"a.parquet": {"k": list(range(10_000))}})
    raw = bytearray((tmp_path / "a.parquet").read_bytes())
    raw[damaged] = b"\xff" * len(raw[damaged])
    (tmp_path / "a.parquet").write_bytes(raw)
    failure = failure_of(connection, stage)
    assert isinstance(failure, SourceFailedError)
    assert (failure.code, failure.source) == (RunDetail.CORRUPT_SOURCE, "one")


def failure_of(connection: Connection, stage: StagePlan) -> Exception | None:
    try:
        sources = [delivered(connection, scan) for scan in stage.scans]
    except SourceFailedError as failure:
        return failure
    layout = layout_of(stage, sources)
    relation = create_relation(connection, layout, sources[0])
    try:
        connection.execute(f"FROM {relation}").fetchall()
    except duckdb.Error as failure:
        return reading_failure(connection, failure, layout, sources)
    return None
