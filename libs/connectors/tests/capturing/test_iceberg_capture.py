"""Captures of Iceberg: its tables, their history, and the files of any snapshot."""

import re
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import (
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

from datarecs_connectors.errors import (
    QueryFailedError,
    SnapshotLostError,
    SourceLimitError,
    SourceUnsupportedError,
)
from datarecs_connectors.iceberg import history
from datarecs_core.captures.source_facts import Completion
from datarecs_testing.lake import (
    NAMESPACE,
    Lake,
    commit_deletes,
    data_files,
    delete_equal,
    delete_positions,
    path_at,
    path_of,
)
from datarecs_testing.lake_captures import (
    ENTRIES,
    NAME,
    ONE,
    TWO,
    named,
    opened,
    snapshots,
)


def test_a_table_has_its_columns_by_field_id_and_its_partitions(lake: Lake) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True, doc="a number"),
        NestedField(3, "at", TimestamptzType(), required=False),
        NestedField(4, "tags", ListType(5, StringType()), required=False),
    )
    spec = PartitionSpec(
        PartitionField(1, 1000, IdentityTransform(), "id"),
        PartitionField(3, 1001, DayTransform(), "at_day"),
        PartitionField(1, 1002, BucketTransform(4), "id_bucket"),
    )
    made = lake.table("entries", schema, spec=spec)
    table = opened(lake).table(NAME, known=())
    ids = [each.field_id for each in made.schema().fields]
    assert [(one.field_id, one.name, one.type, one.nullable) for one in table.columns] == [
        (ids[0], "id", "int", False),
        (ids[1], "at", "instant", True),
        (ids[2], "tags", "array<text>", True),
    ]
    assert table.columns[0].comment == "a number"
    assert table.partition_keys == ("id", "at")
    assert history.partition_text(made.metadata) == "id, day(at), bucket[4](id)"
    assert (table.format, table.completion) == ("iceberg", Completion.FILE_GROUPS)
    assert (table.uri, table.snapshots) == (made.location(), ())


def test_snapshots_are_listed_newest_first_with_their_details(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    with table.update_schema() as change:
        change.add_column("late", StringType())
    table.append(pa.table({"id": [4], "word": ["d"], "late": ["x"]}))
    newest, oldest = snapshots(lake)
    first, second = table.metadata.snapshots
    assert (oldest.native_id, newest.native_id) == (str(first.snapshot_id), str(second.snapshot_id))
    assert newest.parent_native_id == oldest.native_id
    assert (oldest.parent_native_id, oldest.sequence_number, newest.sequence_number) == (None, 1, 2)
    assert (oldest.schema_id, newest.schema_id) == (0, 1)
    assert [one.name for one in oldest.columns] == ["id", "word"]
    assert [one.name for one in newest.columns] == ["id", "word", "late"]
    assert newest.manifest_list == second.manifest_list
    assert newest.metadata_location == table.metadata_location
    assert newest.summary["operation"] == "append"
    assert newest.summary["added-records"] == "1"
    assert newest.committed_at == datetime.fromtimestamp(0, UTC) + timedelta(
        milliseconds=second.timestamp_ms
    )


def test_known_snapshots_are_left_out(lake: Lake) -> None:
    lake.table("entries", ENTRIES, ONE, TWO)
    newest, oldest = snapshots(lake)
    assert snapshots(lake, known=(oldest.native_id,)) == (newest,)
    assert snapshots(lake, known=(oldest.native_id, newest.native_id)) == ()


def test_every_snapshot_is_described_or_reported_as_known(lake: Lake) -> None:
    lake.table("entries", ENTRIES, ONE, TWO)
    newest, oldest = (one.native_id for one in snapshots(lake))
    for known in ((), (oldest,), (newest,), (oldest, newest), ("17", oldest)):
        table = opened(lake).table(NAME, known=known)
        assert set(table.known_snapshots) == {oldest, newest} & set(known)
        described = {one.native_id for one in table.snapshots}
        assert described == {oldest, newest} - set(known)


@pytest.mark.parametrize(
    ("limit", "value", "listed"),
    [("MAX_SNAPSHOTS", 1, 1), ("MAX_SNAPSHOT_COLUMNS", 4, 2), ("MAX_SNAPSHOT_COLUMNS", 1, 1)],
)
def test_older_snapshots_follow_when_the_newest_are_known(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, listed: int
) -> None:
    lake.table("entries", ENTRIES, ONE, TWO, ONE)
    every = snapshots(lake)
    assert len(every) == 3
    monkeypatch.setattr(history, limit, value)
    assert snapshots(lake) == every[:listed]
    known = tuple(each.native_id for each in every[:listed])
    assert snapshots(lake, known=known) == every[listed : 2 * listed]


def test_a_table_with_too_many_columns_is_refused(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.table("entries", ENTRIES)
    monkeypatch.setattr(history, "MAX_COLUMNS", 1)
    with pytest.raises(SourceLimitError, match="more than 1 columns"):
        opened(lake).table(NAME, known=())


@pytest.mark.case("Q44")
def test_the_newest_snapshot_is_first_although_its_id_is_smaller(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE, TWO)
    lake.publish_to_folder(table)
    first, second = (str(each.snapshot_id) for each in table.metadata.snapshots)
    (metadata,) = path_at(table.location()).glob("metadata/v*.metadata.json")
    text = metadata.read_text(encoding="utf-8").replace(first, "9000000000000000001")
    metadata.write_text(re.sub(rf"\b{second}\b(?!-)", "17", text), encoding="utf-8")
    source = opened(lake, lake.hadoop)
    listed = source.table(named(NAMESPACE, "entries"), known=()).snapshots
    assert [each.native_id for each in listed] == ["17", "9000000000000000001"]
    assert listed[0].committed_at > listed[1].committed_at


def test_snapshots_of_other_branches_and_rolled_back_ones_are_no_history(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    first = table.metadata.snapshots[0].snapshot_id
    table.append(TWO)
    with table.manage_snapshots() as change:
        change.create_branch(first, "audit")
    table.append(TWO, branch="audit")
    table.refresh()
    second = table.metadata.current_snapshot_id
    assert [each.native_id for each in snapshots(lake)] == [str(second), str(first)]
    with table.manage_snapshots() as change:
        change.rollback_to_snapshot(first)
    assert [each.native_id for each in snapshots(lake)] == [str(first)]


def test_an_expired_snapshot_is_lost(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    source = opened(lake)
    native_id = snapshots(lake)[0].native_id
    assert len(source.files(NAME, native_id)) == 1
    lake.catalog.drop_table(table.name())
    lake.table("entries", ENTRIES, TWO)
    with pytest.raises(SnapshotLostError, match="expired"):
        source.files(NAME, native_id)
    lake.catalog.drop_table(table.name())
    with pytest.raises(SnapshotLostError, match="dropped"):
        source.files(NAME, native_id)
    with pytest.raises(QueryFailedError, match="no table"):
        source.table(NAME, known=())


def test_a_file_has_its_partition_sequence_number_and_deletes(lake: Lake) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "word"))
    table = lake.table(
        "entries", ENTRIES, pa.table({"id": [1, 2], "word": ["a", "b/c"]}), spec=spec
    )
    first = next(each for each in data_files(table) if each.partition[0] == "a")
    delete_positions(table, {first.file_path: [0]}, like=first)
    files = opened(lake).files(NAME, snapshots(lake)[0].native_id)
    assert [each.path for each in files] == sorted(each.path for each in files)
    by_partition = {each.partition: each for each in files}
    assert set(by_partition) == {"word=a", "word=b%2Fc"}
    deleted, other = by_partition["word=a"], by_partition["word=b%2Fc"]
    assert deleted.path == first.file_path
    assert deleted.size_bytes == path_of(first).stat().st_size
    assert (deleted.sequence_number, deleted.etag, deleted.format) == (1, "1", "parquet")
    assert len(deleted.deletes) == 1
    assert other.deletes == ()
    before = opened(lake).files(NAME, snapshots(lake)[1].native_id)
    assert [each.deletes for each in before] == [(), ()]
    assert {each.identity for each in before} & {other.identity} == {other.identity}


def test_an_equality_delete_applies_to_older_files_alone(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    delete_equal(table, pa.table({"id": [2]}))
    table.append(pa.table({"id": [2], "word": ["new"]}))
    files = opened(lake).files(NAME, snapshots(lake)[0].native_id)
    assert sorted((each.sequence_number, len(each.deletes)) for each in files) == [(1, 1), (3, 0)]


@pytest.mark.parametrize(("bounds", "applies"), [("self", 1), ("other", 0), ("", 1)])
def test_a_position_delete_applies_to_paths_within_its_bounds(
    lake: Lake, bounds: str, applies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    (file,) = data_files(table)
    delete_positions(table, {file.file_path: [0]}, like=file)
    path = {"self": file.file_path, "other": file.file_path + "x"}.get(bounds)
    if path is not None:
        encoded = {2147483546: path.encode()}
        monkeypatch.setattr(type(file), "lower_bounds", property(lambda _: encoded))
        monkeypatch.setattr(type(file), "upper_bounds", property(lambda _: encoded))
    (listed,) = opened(lake).files(NAME, snapshots(lake)[0].native_id)
    assert len(listed.deletes) == applies


def test_other_formats_than_parquet_are_refused(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    commit_deletes(
        table,
        b"avro",
        content=DataFileContent.POSITION_DELETES,
        spec=0,
        file_format=FileFormat.AVRO,
    )
    with pytest.raises(SourceUnsupportedError, match="only Parquet"):
        opened(lake).files(NAME, snapshots(lake)[0].native_id)
