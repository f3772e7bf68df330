"""Captures of Iceberg: history, files of any snapshot, and figures of live rows alone."""

import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)
from pyroaring import BitMap

from datarecs_application.ports.capturing import CaptureSource, FileRequest
from datarecs_connectors.capturing.opening import open_capture_source
from datarecs_connectors.errors import (
    CorruptSourceError,
    QueryFailedError,
    SnapshotLostError,
    SourceError,
    SourceLimitError,
    SourceUnsupportedError,
)
from datarecs_connectors.iceberg import history, listing
from datarecs_core.captures.request import (
    CapturePolicy,
    CaptureScope,
    ColumnChoice,
    ObjectName,
    Output,
)
from datarecs_core.captures.source_facts import CapturedFile, Completion, SourceSnapshot
from datarecs_core.catalog.records import ViewDefinition
from datarecs_core.errors.run import RunDetail
from datarecs_core.resources.connection import (
    CatalogType,
    Connection,
    ConnectionType,
    IcebergConfig,
    PostgresConfig,
    RestCatalog,
    SqlCatalog,
    SslMode,
)
from datarecs_testing.lake import (
    NAMESPACE,
    Lake,
    a_lake,
    commit_deletes,
    data_files,
    delete_equal,
    delete_positions,
    path_at,
    path_of,
)
from datarecs_testing.lake_server import CLIENT, SECRET, LakeServer, serving
from datarecs_testing.stack import PostgresServer

EVERYTHING = CaptureScope()
ALL = CapturePolicy(
    outputs=(Output.TABLE_STATS, Output.COLUMN_STATS), column_choice=ColumnChoice.ALL
)
ROWS_ONLY = CapturePolicy(outputs=(Output.TABLE_STATS, Output.FILE_STATS))
VIEWS = "GET /v1/{prefix}/namespaces/{namespace}/views"


def schema_of(**columns: IcebergType) -> Schema:
    return Schema(
        *(
            NestedField(number, name, kind, required=False)
            for number, (name, kind) in enumerate(columns.items(), 1)
        )
    )


ENTRIES = schema_of(id=LongType(), word=StringType())
ONE = pa.table({"id": [1, 2, 3], "word": ["a", "b", None]})
TWO = pa.table({"id": [4, 5], "word": ["b", "e"]})
NAME = ObjectName(namespace=(NAMESPACE,), name="entries")


def named(*parts: str) -> ObjectName:
    return ObjectName(namespace=parts[:-1], name=parts[-1])


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with ExitStack() as closing:
        yield a_lake(tmp_path / "lake", closing)


def opened(lake: Lake, connection: Connection | None = None) -> CaptureSource:
    secrets = {"credential": f"{CLIENT}:{SECRET}"}
    return open_capture_source("lake", connection or lake.connection, secrets, lake.surroundings)


def snapshots(lake: Lake, known: tuple[str, ...] = ()) -> tuple[SourceSnapshot, ...]:
    return opened(lake).table(NAME, known=known).snapshots


def captured(
    lake: Lake,
    directory: Path,
    *,
    policy: CapturePolicy = ALL,
    at: int = 0,
    only: slice = slice(None),
) -> list[CapturedFile]:
    """The files of a snapshot, counted from the newest one, by path."""
    source = opened(lake)
    snapshot = source.table(NAME, known=()).snapshots[at]
    files = source.files(NAME, snapshot.native_id)[only]
    request = FileRequest(policy=policy, columns=snapshot.columns, directory=str(directory))
    made = list(source.capture_files(NAME, snapshot.native_id, files, request))
    assert source.opened_files == len(files)
    return made


# --- discovery -----------------------------------------------------------------------------------


def nested(lake: Lake) -> None:
    """Tables at three depths."""
    lake.table("entries", ENTRIES, ONE)
    lake.table("more", ENTRIES)
    for namespace in ((NAMESPACE, "old"), (NAMESPACE, "old", "er"), ("empty",)):
        lake.catalog.create_namespace(namespace)
    for namespace in ((NAMESPACE, "old"), (NAMESPACE, "old", "er")):
        lake.catalog.create_table((*namespace, "t"), ENTRIES)


TABLES = (
    named(NAMESPACE, "entries"),
    named(NAMESPACE, "more"),
    named(NAMESPACE, "old", "t"),
    named(NAMESPACE, "old", "er", "t"),
)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("scope", "tables"),
    [
        (EVERYTHING, TABLES),
        (CaptureScope(namespaces=((NAMESPACE, "old"),)), TABLES[2:3]),
        (CaptureScope(namespaces=(("absent",),)), ()),
        (CaptureScope(tables=(TABLES[3], named(NAMESPACE, "absent"))), TABLES[3:]),
    ],
)
def test_tables_of_nested_namespaces_are_listed(
    lake: Lake, scope: CaptureScope, tables: tuple[ObjectName, ...]
) -> None:
    nested(lake)
    listed = opened(lake).objects(scope)
    assert (set(listed.tables), listed.views) == (set(tables), ())
    with serving(lake.folder / "catalog.db") as server:
        assert opened(lake, rest(server)).objects(scope) == listed


def rest(server: LakeServer) -> Connection:
    catalog = RestCatalog(type=CatalogType.REST, uri=server.url, warehouse="main")
    return Connection(type=ConnectionType.ICEBERG, config=IcebergConfig(catalog=catalog))


@pytest.mark.integration
def test_tables_of_a_catalog_in_postgres_are_listed(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    url = postgres_server.fresh_database()
    fields = psycopg.conninfo.conninfo_to_dict(url.replace("postgresql+psycopg", "postgresql"))
    server = PostgresConfig(
        host="127.0.0.1",
        port=int(fields["port"] or 5432),
        database=str(fields["dbname"]),
        user=str(fields["user"]),
        sslmode=SslMode.DISABLE,
    )
    catalog = SqlCatalog(type=CatalogType.SQL, name="lake", postgres=server)
    connection = Connection(type=ConnectionType.ICEBERG, config=IcebergConfig(catalog=catalog))
    with ExitStack() as closing:
        lake = a_lake(tmp_path / "lake", closing, database=url)
        nested(lake)
        secrets = {"password": str(fields["password"])}
        source = open_capture_source("lake", connection, secrets, lake.surroundings)
        assert set(source.objects(EVERYTHING).tables) == set(TABLES)
        assert len(source.table(TABLES[0], known=()).snapshots) == 1


def test_folders_with_metadata_are_tables_and_others_namespaces(lake: Lake) -> None:
    warehouse = lake.folder / "warehouse"
    for place in (
        "a/t/metadata",
        "a/b/t/metadata",
        "a/.hidden/t/metadata",
        "empty",
        "top/metadata",
    ):
        (warehouse / place).mkdir(parents=True)
    (warehouse / "a" / "linked").symlink_to(warehouse / "a" / "t")
    source = opened(lake, lake.hadoop)
    assert source.objects(EVERYTHING).tables == (named("a", "t"), named("a", "b", "t"))
    scope = CaptureScope(namespaces=(("a", "b"), ("..",), ("absent",)))
    assert source.objects(scope).tables == (named("a", "b", "t"),)


@pytest.mark.parametrize("kind", ["sql", "hadoop"])
def test_a_catalog_with_too_many_tables_is_refused(
    lake: Lake, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_OBJECTS", 1)
    for number in range(2):
        lake.publish_to_folder(lake.table(f"t{number}", ENTRIES))
    with pytest.raises(SourceLimitError, match="more than 1 tables"):
        opened(lake, lake.hadoop if kind == "hadoop" else None).objects(EVERYTHING)


@pytest.mark.integration
def test_a_server_that_repeats_its_lists_ends(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_MAX_PAGES", 20)
    with serving(lake.folder / "catalog.db") as server:
        source = opened(lake, rest(server))
        server.answer = (
            200,
            json.dumps(
                {"access_token": "x", "namespaces": [["a"]], "next-page-token": "again"}
            ).encode(),
        )
        with pytest.raises(SourceLimitError, match="pages"):
            source.objects(EVERYTHING)


# --- views ---------------------------------------------------------------------------------------

VIEW_NAME = named(NAMESPACE, "seen")


def a_view(*statements: str) -> dict[str, object]:
    fields = [{"id": 1, "name": "id", "required": True, "type": "long"}]
    return {
        "view-uuid": "6f9619ff-8b86-d011-b42d-00c04fc964ff",
        "format-version": 1,
        "location": "file:///views/seen",
        "schemas": [{"type": "struct", "schema-id": 1, "fields": fields}],
        "current-version-id": len(statements),
        "versions": [
            {
                "version-id": number,
                "schema-id": 1,
                "timestamp-ms": 1,
                "summary": {},
                "representations": [{"type": "sql", "sql": statement, "dialect": "spark"}],
                "default-catalog": "lake",
                "default-namespace": [NAMESPACE],
            }
            for number, statement in enumerate(statements, 1)
        ],
        "version-log": [],
        "properties": {"comment": "for reports"},
    }


@pytest.mark.integration
@pytest.mark.case("Q56")
def test_a_view_of_a_server_is_described_by_its_current_version(lake: Lake) -> None:
    with serving(lake.folder / "catalog.db") as server:
        server.endpoints = [VIEWS]
        server.views[NAMESPACE, "seen"] = {"metadata": a_view("SELECT 1 AS id")}
        source = opened(lake, rest(server))
        assert source.objects(EVERYTHING).views == (VIEW_NAME,)
        view = source.view(VIEW_NAME)
        assert view.name == VIEW_NAME
        assert view.definitions == (ViewDefinition(sql="SELECT 1 AS id", dialect="spark"),)
        assert view.search_path == (f"lake.{NAMESPACE}",)
        assert [(one.name, one.type, one.nullable) for one in view.columns] == [
            ("id", "int", False)
        ]
        assert view.comment == "for reports"
        server.views[NAMESPACE, "seen"] = {"metadata": a_view("SELECT 1 AS id", "SELECT 2 AS id")}
        assert source.view(VIEW_NAME).definitions[0].sql == "SELECT 2 AS id"
        server.endpoints = None
        assert source.objects(EVERYTHING).views == ()
        with pytest.raises(QueryFailedError, match="no view"):
            source.view(named(NAMESPACE, "absent"))


def test_a_view_of_a_sql_catalog_is_described(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES)
    place = path_at(table.location()) / "metadata" / "view.json"
    place.write_text(json.dumps(a_view("SELECT 1 AS id")), encoding="utf-8")
    with lake.catalog.engine.begin() as session:
        session.exec_driver_sql(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, iceberg_type,"
            " metadata_location) VALUES ('lake', ?, 'seen', 'VIEW', ?)",
            (NAMESPACE, f"file://{place}"),
        )
    source = opened(lake)
    listed = source.objects(EVERYTHING)
    assert (listed.tables, listed.views) == ((NAME,), (VIEW_NAME,))
    assert source.view(VIEW_NAME).definitions[0].sql == "SELECT 1 AS id"
    place.write_text("{}", encoding="utf-8")
    with pytest.raises(CorruptSourceError, match="version 1"):
        source.view(VIEW_NAME)
    with pytest.raises(QueryFailedError, match="no view"):
        source.view(NAME)


# --- tables and snapshots ------------------------------------------------------------------------


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


# --- files ---------------------------------------------------------------------------------------


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


# --- figures -------------------------------------------------------------------------------------


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
