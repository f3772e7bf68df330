"""Upserts and deletes: one row for each key, as its last record says."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
    UUIDType,
)

from datarecs_application.ports.sinking import CommitRequest, PendingFiles, SinkRecord
from datarecs_connectors.iceberg.catalogs import TableName
from datarecs_connectors.sinking import change_writer, resolving
from datarecs_connectors.sinking.catalog_changes import TableChange
from datarecs_connectors.sinking.sql_catalogs import SqlTables
from datarecs_core.errors.base import ErrorCode
from datarecs_core.errors.sink import BadRecordError, SinkCode, SinkError
from datarecs_core.sink.checkpoint import TableCommit
from datarecs_core.sink.definition import RowChange, SinkMode
from datarecs_testing.lake import path_at

from .sink_house import TARGET, House, a_record

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    identifier_field_ids=[1],
)
BY_NAME = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))
INSERT, UPDATE, DELETE = RowChange


@pytest.fixture
def table(house: House) -> Table:
    return house.lake.table("orders", SCHEMA)


def change(
    number: int,
    name: str | None,
    offset: int,
    kind: RowChange = UPDATE,
    **fields: Any,  # noqa: ANN401  of LogRecord
) -> SinkRecord:
    value = {"id": number} if kind is DELETE else {"id": number, "name": name}
    return replace(a_record(value, offset, **fields), change=kind)


def written(house: House, records: Sequence[SinkRecord], **changes: Any) -> PendingFiles:  # noqa: ANN401  fields of SinkTable
    """What one worker sends; the message is the next of the control topic."""
    writer = house.tables(**{"mode": SinkMode.UPSERT, **changes}).writer(TARGET)
    writer.add(records)
    files = writer.finish()
    pending = PendingFiles(offset=house.offset, data_files=files, keys=writer.key_file())
    house.offset += 1
    return pending


def request(house: House, *pending: PendingFiles) -> CommitRequest:
    return house.request(pending=pending)


def committed(house: House, *workers: Sequence[SinkRecord], **changes: Any) -> TableCommit:  # noqa: ANN401  see above
    pending = [written(house, records, **changes) for records in workers]
    commit = house.commit(request(house, *pending))
    assert commit is not None
    return commit


def pairs(house: House) -> list[tuple[int, str | None]]:
    return sorted((row["id"], row["name"]) for row in house.rows())


def duck_pairs(house: House) -> list[tuple[int, str | None]]:
    """As DuckDB reads data and delete files."""
    rows: list[tuple[int, str | None]] = []
    with duckdb.connect() as database:
        for task in house.table().scan().plan_files():
            place = task.file.file_path.removeprefix("file://")
            deletes = [one.file_path.removeprefix("file://") for one in task.delete_files]
            dead = "SELECT ''::VARCHAR file_path, 0::BIGINT pos WHERE false"
            if deletes:
                dead = f"SELECT file_path, pos FROM read_parquet({deletes!r})"  # noqa: S608  of the test
            rows += database.execute(
                f"SELECT id, name FROM read_parquet('{place}', file_row_number = true) "  # noqa: S608  as above
                f"WHERE file_row_number NOT IN (SELECT pos FROM ({dead}) "
                f"WHERE file_path = '{task.file.file_path}')"
            ).fetchall()
    return sorted(rows)


def key_files(house: House) -> list[Path]:
    return sorted(house.lake.folder.rglob("*-keys.parquet"))


def delete_files(house: House) -> list[Path]:
    return sorted(house.lake.folder.rglob("*-deletes.parquet"))


@pytest.mark.usefixtures("table")
class TestKeys:
    @pytest.mark.case("I48")
    def test_the_last_of_ten_records_of_a_key_stays_over_all_cycles(self, house: House) -> None:
        for cycle in range(3):
            first = cycle * 10
            committed(house, [change(1, f"v{first + at}", first + at) for at in range(10)])
            assert pairs(house) == duck_pairs(house) == [(1, f"v{first + 9}")]
        assert key_files(house) == []

    @pytest.mark.case("I47")
    def test_changes_over_two_workers_leave_the_living_keys_with_their_last_values(
        self, house: House
    ) -> None:
        both = (
            [change(1, "a", 0, INSERT), change(3, "a", 1, INSERT), change(1, None, 2, DELETE)],
            [change(2, "a", 0, INSERT, partition=1)],
        )
        committed(house, *both, mode=SinkMode.CDC)
        assert pairs(house) == [(2, "a"), (3, "a")]
        committed(house, [change(3, "b", 3)], mode=SinkMode.CDC)
        assert pairs(house) == duck_pairs(house) == [(2, "a"), (3, "b")]

    @pytest.mark.case("I49")
    def test_a_key_of_two_partitions_has_the_row_of_the_later_record_and_is_counted(
        self, house: House
    ) -> None:
        late, early = 2_000, 1_000
        commit = committed(
            house,
            [change(1, "late", 0, timestamp_ms=late), change(2, "x", 1, timestamp_ms=early)],
            [
                change(1, "early", 5, timestamp_ms=early, partition=1),
                change(2, "y", 6, timestamp_ms=early, partition=1),
            ],
        )
        assert pairs(house) == duck_pairs(house) == [(1, "late"), (2, "y")]
        snapshot = house.table().snapshot_by_id(commit.snapshot_id)
        assert snapshot is not None
        assert snapshot.summary is not None
        assert snapshot.summary["datarecs.sink.key-collisions"] == "2"

    def test_in_one_partition_the_offset_decides_whatever_the_timestamps(
        self, house: House
    ) -> None:
        first, second = change(1, "a", 0, timestamp_ms=9), change(1, "b", 1, timestamp_ms=1)
        other = change(1, "c", 0, timestamp_ms=5, partition=1)
        committed(house, [other, first], [second])
        assert pairs(house) == [(1, "c")]

    @pytest.mark.case("I50")
    def test_a_delete_needs_the_key_alone(self, house: House) -> None:
        committed(house, [change(1, "a", 0), change(2, "b", 1)])
        committed(house, [change(1, None, 2, DELETE)])
        assert pairs(house) == duck_pairs(house) == [(2, "b")]

    def test_a_delete_before_an_insert_removes_the_rows_of_the_table(self, house: House) -> None:
        committed(house, [change(1, "a", 0, INSERT)], mode=SinkMode.CDC)
        both = [change(1, None, 1, DELETE), change(1, "b", 2, INSERT)]
        committed(house, both, mode=SinkMode.CDC)
        assert pairs(house) == [(1, "b")]

    def test_a_delete_of_nothing_is_a_snapshot_that_states_it(self, house: House) -> None:
        commit = committed(house, [change(7, None, 0, DELETE)])
        assert commit.control_offset == house.offset
        assert (pairs(house), key_files(house), delete_files(house)) == ([], [], [])

    def test_a_key_that_is_written_twice_for_want_of_memory_is_one_row(self, house: House) -> None:
        writer = house.tables(mode=SinkMode.UPSERT).writer(TARGET)
        for at in range(4):
            writer.add([change(1, f"v{at}", at), change(at + 2, "x", at + 10)])
            writer.flush()
            assert writer.size() == 0
        pending = PendingFiles(offset=0, data_files=writer.finish(), keys=writer.key_file())
        house.offset = 1
        house.commit(request(house, pending))
        rows = [(1, "v3"), (2, "x"), (3, "x"), (4, "x"), (5, "x")]
        assert pairs(house) == duck_pairs(house) == rows

    def test_a_full_buffer_is_written_at_once(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(change_writer, "MOST_RECORDS", 3)
        writer = house.tables(mode=SinkMode.UPSERT).writer(TARGET)
        writer.add([change(at, "a", at) for at in range(3)])
        assert writer.size() == 0
        assert len(key_files(house)) == 1
        writer.discard()
        assert key_files(house) == []

    def test_the_first_record_that_does_not_fit_is_named(self, house: House) -> None:
        writer = house.tables(mode=SinkMode.UPSERT).writer(TARGET)
        bad_row = replace(change(1, "a", 2), value={"id": "no number"})
        bad_key = replace(change(1, None, 1, DELETE), value={"name": "a"})
        with pytest.raises(BadRecordError) as refused:
            writer.add([change(1, "a", 0), bad_key, bad_row])
        assert (refused.value.at, refused.value.path) == (1, "id")

    def test_rows_of_others_with_the_key_are_replaced(self, house: House) -> None:
        rows = pa.Table.from_pylist(
            [{"id": 1, "name": "x"}, {"id": 1, "name": "y"}, {"id": 2, "name": "z"}],
            schema=pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())]),
        )
        house.table().append(rows)
        committed(house, [change(1, "a", 0)])
        assert pairs(house) == [(1, "a"), (2, "z")]

    def test_files_out_of_the_bounds_of_the_keys_are_not_read(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        committed(house, [change(at, "a", at) for at in range(10)])
        committed(house, [change(100 + at, "a", 10 + at) for at in range(5)])
        monkeypatch.setattr(resolving, "MOST_ROWS", 5)
        committed(house, [change(102, "b", 20)])
        assert (102, "b") in pairs(house)
        assert len(pairs(house)) == 15

    @pytest.mark.case("I52")
    def test_a_search_of_too_many_rows_is_refused_and_the_cycle_stays(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        committed(house, [change(at, "a", at) for at in range(10)])
        monkeypatch.setattr(resolving, "MOST_ROWS", 9)
        waiting = written(house, [change(1, "b", 10)])
        with pytest.raises(SinkError) as refused:
            house.commit(request(house, waiting))
        assert refused.value.code is SinkCode.SCAN_LIMIT_EXCEEDED
        monkeypatch.undo()
        house.commit(request(house, waiting))
        assert (1, "b") in pairs(house)

    def test_a_key_file_that_was_changed_is_refused(self, house: House) -> None:
        waiting = written(house, [change(1, "b", 10)])
        (place,) = key_files(house)
        place.write_bytes(place.read_bytes()[:-1] + b"?")
        with pytest.raises(SinkError, match="was changed"):
            house.commit(request(house, waiting))

    def test_a_repeated_commit_adds_nothing(self, house: House) -> None:
        waiting = written(house, [change(1, "a", 0)])
        first = house.commit(request(house, waiting))
        again = house.commit(request(house, waiting))
        assert first == again
        assert pairs(house) == [(1, "a")]

    @pytest.mark.case("I51")
    def test_a_compaction_between_search_and_commit_is_searched_again(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        committed(house, [change(1, "a", 0), change(2, "b", 1)])
        store = SqlTables.commit
        compactions = iter([True])

        def commit(self: SqlTables, name: TableName, current: Any, change: TableChange) -> None:  # noqa: ANN401  of the port
            if next(compactions, False):
                rows = house.table().scan().to_arrow()
                house.table().overwrite(rows)
            store(self, name, current, change)

        waiting = written(house, [change(1, "c", 2), change(2, None, 3, DELETE)])
        monkeypatch.setattr(SqlTables, "commit", commit)
        house.commit(request(house, waiting))
        assert pairs(house) == duck_pairs(house) == [(1, "c")]
        live = {
            one.file_path for task in house.table().scan().plan_files() for one in task.delete_files
        }
        assert {str(path) for path in delete_files(house)} == {str(path_at(one)) for one in live}


def test_rows_of_many_partitions_are_deleted_by_files_of_their_partition(house: House) -> None:
    house.lake.table("orders", SCHEMA, spec=BY_NAME)
    committed(house, [change(at, f"p{at % 3}", at) for at in range(9)])
    committed(house, [change(at, "new", 10 + at) for at in range(0, 9, 2)])
    committed(house, [change(3, None, 30, DELETE)])
    expected = [(0, "new"), (1, "p1"), (2, "new"), (4, "new"), (5, "p2"), (6, "new"), (7, "p1")]
    assert pairs(house) == duck_pairs(house) == [*expected, (8, "new")]
    snapshot = house.table().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary["added-position-deletes"] == "1"
    assert snapshot.summary["total-position-deletes"] == "6"


KEYS: list[tuple[IcebergType, str | int, str | int]] = [
    (IntegerType(), 1, 2),
    (StringType(), "a" * 40 + "ä", "b"),
    (DateType(), "2026-01-01", "1969-12-31"),
    (TimestamptzType(), "2026-01-01T00:00:00.000001Z", "1969-12-31T00:00:00Z"),
    (DecimalType(30, 2), "12345678901234567890.12", "1"),
    (UUIDType(), "018f6f7c-0000-7000-8000-000000000001", "018f6f7c-0000-7000-8000-000000000002"),
    (BinaryType(), "AAEC", "/////w=="),
]


@pytest.mark.parametrize(("kind", "one", "other"), KEYS, ids=lambda value: str(value)[:12])
def test_keys_of_every_type_are_replaced_and_deleted(
    house: House, kind: IcebergType, one: object, other: object
) -> None:
    schema = Schema(
        NestedField(1, "name", StringType()),
        NestedField(2, "id", kind, required=True),
        NestedField(3, "part", LongType(), required=True),
        identifier_field_ids=[2, 3],
    )
    house.lake.table("orders", schema)

    def row(key: object, name: str | None, offset: int, what: RowChange = UPDATE) -> SinkRecord:
        value = {"id": key, "part": 1, "name": name}
        return replace(a_record(value, offset), change=what)

    other_part = replace(row(one, "kept", 2), value={"id": one, "part": 2, "name": "kept"})
    committed(house, [row(one, "a", 0), row(other, "b", 1), other_part])
    assert len(house.rows()) == 3
    committed(house, [row(one, "c", 3), row(other, None, 4, DELETE)])
    assert sorted(line["name"] for line in house.rows()) == ["c", "kept"]


@pytest.mark.case("I52")
class TestRefusals:
    def refused(self, house: House, schema: Schema, **changes: Any) -> ErrorCode:  # noqa: ANN401  fields of SinkTable
        house.lake.table("orders", schema, version=changes.pop("version", 2))
        with pytest.raises(SinkError) as refusal:
            written(house, [change(1, "a", 0)], **changes)
        return refusal.value.code

    def test_a_table_of_format_version_1(self, house: House) -> None:
        code = self.refused(house, SCHEMA, version=1)
        assert code is SinkCode.FORMAT_VERSION_UNSUPPORTED

    def test_a_table_without_identifier_fields(self, house: House) -> None:
        schema = Schema(NestedField(1, "id", LongType(), required=True))
        assert self.refused(house, schema) is SinkCode.IDENTIFIER_MISSING

    @pytest.mark.parametrize("name", ["name", "amount", "none"])
    def test_an_id_column_that_identifies_nothing(self, house: House, name: str) -> None:
        schema = Schema(
            NestedField(1, "id", LongType(), required=True),
            NestedField(2, "name", StringType()),
            NestedField(3, "amount", DoubleType(), required=True),
        )
        assert self.refused(house, schema, id_columns=(name,)) is SinkCode.IDENTIFIER_MISSING


def test_a_created_table_has_the_id_columns_as_its_key(house: House) -> None:
    first = written(house, [change(1, "a", 0)], auto_create=True, id_columns=("id",))
    house.commit(request(house, first))
    second = written(house, [change(1, "b", 1)], auto_create=True, id_columns=("id",))
    house.commit(request(house, second))
    assert [(row["id"], row["name"]) for row in house.rows()] == [(1, "b")]
