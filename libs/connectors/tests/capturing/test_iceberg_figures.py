"""Captures of Iceberg: figures of live rows alone."""

import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)
from pyroaring import BitMap

from datarecs_application.ports.capturing import FileRequest
from datarecs_connectors.errors import (
    QueryFailedError,
    SnapshotLostError,
    SourceError,
    SourceUnsupportedError,
)
from datarecs_core.captures.request import (
    CapturePolicy,
    ColumnChoice,
    Output,
)
from datarecs_core.errors.run import RunDetail
from datarecs_testing.lake import (
    Lake,
    commit_deletes,
    data_files,
    delete_equal,
    delete_positions,
    path_of,
)
from datarecs_testing.lake_captures import (
    ALL,
    ENTRIES,
    NAME,
    ONE,
    ROWS_ONLY,
    TWO,
    captured,
    opened,
    schema_of,
    snapshots,
)


def test_figures_are_those_of_live_rows(lake: Lake, tmp_path: Path) -> None:
    table = lake.table(
        "entries", ENTRIES, pa.table({"id": [1, 2, 3, 9], "word": ["a", "b", None, "z"]}), TWO
    )
    first = next(each for each in data_files(table) if each.record_count == 4)
    delete_positions(table, {first.file_path: [3]}, like=first)
    delete_equal(table, pa.table({"word": ["b"]}))
    made = {each.path: each for each in captured(lake, tmp_path)}
    one = made.pop(first.file_path)
    (two,) = made.values()
    assert (one.rows, one.stored_rows, two.rows, two.stored_rows) == (2, 4, 1, 2)
    identity, word = one.columns
    assert (identity.rows, identity.nulls, identity.min, identity.max) == (2, 0, "1", "3")
    assert (identity.ndv, identity.ndv_method) == ("2", "exact")
    assert (word.nulls, word.min, word.max, word.ndv) == (1, "a", "a", "1")
    assert [(each.min, each.max) for each in two.columns] == [("5", "5"), ("e", "e")]
    assert one.is_complete
    assert two.is_complete


def deletion_vector(path: str, positions: list[int]) -> bytes:
    """A Puffin file with one vector, as format version 3 writes them."""
    payload = struct.pack("<QI", 1, 0) + BitMap(positions).serialize()
    framed = b"\xd1\xd3\x39\x64" + payload
    blob = struct.pack(">I", len(framed)) + framed + struct.pack(">I", zlib.crc32(framed))
    vector = {
        "type": "deletion-vector-v1",
        "fields": [2147483645],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": 4,
        "length": len(blob),
        "properties": {"referenced-data-file": path, "cardinality": str(len(positions))},
    }
    footer = json.dumps({"blobs": [vector]}).encode()
    return b"".join(
        (b"PFA1", blob, b"PFA1", footer, struct.pack("<I", len(footer)), bytes(4), b"PFA1")
    )


def test_a_deletion_vector_is_applied(lake: Lake, tmp_path: Path) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    (file,) = data_files(table)
    commit_deletes(
        table,
        deletion_vector(file.file_path, [0, 2]),
        content=DataFileContent.POSITION_DELETES,
        spec=0,
        file_format=FileFormat.PUFFIN,
    )
    (made,) = captured(lake, tmp_path)
    assert (made.rows, made.stored_rows, made.columns[0].min) == (1, 3, "2")
    (made,) = captured(lake, tmp_path, policy=ROWS_ONLY)
    assert (made.rows, made.stored_rows) == (1, 3)


def test_an_older_snapshot_is_captured_as_it_was(lake: Lake, tmp_path: Path) -> None:
    """Before its rows were deleted, with the names of its schema."""
    table = lake.table("entries", ENTRIES, ONE)
    with table.update_schema() as change:
        change.rename_column("word", "Wort")
    delete_equal(table, pa.table({"id": [1, 2, 3]}))
    (now,), (then,) = captured(lake, tmp_path), captured(lake, tmp_path, at=1)
    assert (now.rows, [each.name for each in now.columns]) == (0, ["id", "Wort"])
    assert (then.rows, [each.name for each in then.columns]) == (3, ["id", "word"])
    assert (now.columns[0].min, then.columns[0].max) == (None, "3")


@pytest.mark.parametrize("policy", [ALL, ROWS_ONLY])
def test_only_the_requested_files_are_opened(
    lake: Lake, tmp_path: Path, policy: CapturePolicy
) -> None:
    table = lake.table("entries", ENTRIES, ONE, TWO)
    other = sorted(data_files(table), key=lambda each: each.file_path)[1]
    path_of(other).unlink()
    (one,) = captured(lake, tmp_path, policy=policy, only=slice(0, 1))
    assert one.path != other.file_path


def test_rows_alone_come_from_footer_and_deletes(lake: Lake, tmp_path: Path) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    (file,) = data_files(table)
    delete_positions(table, {file.file_path: [0, 77]}, like=file)
    delete_equal(table, pa.table({"id": [3]}))
    (made,) = captured(lake, tmp_path, policy=ROWS_ONLY)
    assert (made.rows, made.stored_rows, made.columns, made.is_complete) == (1, 3, (), True)


def test_values_of_every_order_have_canonical_bounds(lake: Lake, tmp_path: Path) -> None:
    schema = schema_of(
        money=DecimalType(10, 2), ratio=DoubleType(), day=DateType(), at=TimestamptzType()
    )
    at = datetime(2026, 1, 31, 12, 0, 0, 500000, tzinfo=UTC)
    rows = pa.table(
        {
            "money": pa.array([Decimal("1.10"), Decimal("-2.00")], pa.decimal128(10, 2)),
            "ratio": pa.array([float("nan"), -0.0], pa.float64()),
            "day": pa.array([date(1, 1, 1), date(9999, 12, 31)], pa.date32()),
            "at": pa.array([at, None], pa.timestamp("us", tz="UTC")),
        }
    )
    lake.table("entries", schema, rows)
    (made,) = captured(lake, tmp_path)
    assert [(each.min, each.max) for each in made.columns] == [
        ("-2", "1.1"),
        ("0.0", "NaN"),
        ("0001-01-01", "9999-12-31"),
        ("2026-01-31T12:00:00.500000Z", "2026-01-31T12:00:00.500000Z"),
    ]
    assert made.columns[1].nans == 1


def test_a_nested_column_has_its_rows_and_is_reported(lake: Lake, tmp_path: Path) -> None:
    schema = Schema(
        NestedField(1, "tags", ListType(3, StringType(), element_required=False), required=False),
        NestedField(2, "id", LongType(), required=False),
    )
    lake.table("entries", schema, pa.table({"tags": [["a"], None], "id": [1, 2]}))
    (made,) = captured(lake, tmp_path)
    tags, identity = made.columns
    assert (tags.name, tags.rows, tags.nulls, tags.ndv) == ("tags", 2, None, None)
    assert (identity.min, identity.max) == ("1", "2")
    assert not made.is_complete
    first = replace(ALL, column_choice=ColumnChoice.FIRST_N, first_columns=1)
    (made,) = captured(lake, tmp_path, policy=first)
    assert ([each.name for each in made.columns], made.rows) == (["tags"], 2)


def test_an_index_of_a_file_has_its_columns_and_row_groups(lake: Lake, tmp_path: Path) -> None:
    lake.table("entries", ENTRIES, ONE)
    policy = CapturePolicy(outputs=(Output.PARQUET_PAGE_INDEX,))
    (made,) = captured(lake, tmp_path, policy=policy)
    assert made.sidecar is not None
    assert (made.sidecar.columns, made.sidecar.rows) == (("id", "word"), 2)
    assert (made.columns, made.rows, made.is_complete) == ((), 3, True)
    index = pq.ParquetFile(tmp_path / f"{made.sidecar.sha256}.parquet")
    assert index.read().column("max").to_pylist() == ["3", "b"]
    (again,) = captured(lake, tmp_path, policy=policy)
    assert again.sidecar == made.sidecar


def test_only_columns_of_the_policy_are_read(lake: Lake, tmp_path: Path) -> None:
    lake.table("entries", ENTRIES, ONE)
    explicit = replace(ALL, column_choice=ColumnChoice.EXPLICIT_ONLY, columns=("word", "absent"))
    (made,) = captured(lake, tmp_path, policy=explicit)
    assert [each.name for each in made.columns] == ["word"]


def _unlink(path: Path) -> None:
    path.unlink()


def _lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def _damage(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize("policy", [ALL, ROWS_ONLY])
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (_unlink, RunDetail.SNAPSHOT_LOST),
        (_lengthen, RunDetail.SNAPSHOT_LOST),
        (_damage, RunDetail.CORRUPT_SOURCE),
    ],
)
def test_a_file_that_is_gone_changed_or_damaged_is_an_error(
    lake: Lake,
    tmp_path: Path,
    policy: CapturePolicy,
    change: Callable[[Path], None],
    code: RunDetail,
) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    change(path_of(data_files(table)[0]))
    with pytest.raises(SourceError) as caught:
        captured(lake, tmp_path, policy=policy)
    assert caught.value.code is code


def test_a_file_that_is_planned_otherwise_is_lost(lake: Lake, tmp_path: Path) -> None:
    lake.table("entries", ENTRIES, ONE)
    source = opened(lake)
    snapshot = source.table(NAME, known=()).snapshots[0]
    (file,) = source.files(NAME, snapshot.native_id)
    request = FileRequest(policy=ALL, columns=snapshot.columns, directory=str(tmp_path))
    for other in (replace(file, path=f"{file.path}x"), replace(file, deletes=("d",))):
        with pytest.raises(SnapshotLostError, match="as it was planned"):
            list(source.capture_files(NAME, snapshot.native_id, [other], request))
    assert source.opened_files == 0


def test_a_column_that_the_snapshot_does_not_have_is_an_error(lake: Lake, tmp_path: Path) -> None:
    lake.table("entries", ENTRIES, ONE)
    source = opened(lake)
    snapshot = source.table(NAME, known=()).snapshots[0]
    files = source.files(NAME, snapshot.native_id)
    columns = (replace(snapshot.columns[0], field_id=99),)
    request = FileRequest(policy=ALL, columns=columns, directory=str(tmp_path))
    with pytest.raises(QueryFailedError, match="id 99"):
        list(source.capture_files(NAME, snapshot.native_id, files, request))


def test_an_empty_table_has_no_snapshots_and_an_emptied_one_no_files(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES)
    assert snapshots(lake) == ()
    table.append(ONE)
    table.delete()
    newest = snapshots(lake)[0]
    assert opened(lake).files(NAME, newest.native_id) == []


def test_a_table_is_captured_by_its_files(lake: Lake) -> None:
    with pytest.raises(SourceUnsupportedError, match="file by file"):
        opened(lake).capture_table(NAME, ALL)
