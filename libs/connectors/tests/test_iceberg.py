"""Iceberg: the living rows of the pinned snapshot, by field id, whatever happened to the table."""

import json
import struct
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from pyroaring import BitMap

from datarecs_connectors.errors import SourceUnsupportedError
from datarecs_connectors.extracted import extracted_rows
from datarecs_connectors.iceberg import deletes
from datarecs_connectors.registry import open_connector
from datarecs_core.comparison.planning.logical import LogicalSource, logical_source, query_source
from datarecs_core.comparison.planning.scan import Pin, Scan
from datarecs_core.comparison.values.canonical import canonical_text
from datarecs_core.comparison.values.translating import canonical
from datarecs_core.errors.base import DatarecsError
from datarecs_core.jobs.definition import Snapshot, Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_testing.conformance.connector import RecordedReads, scan_of
from datarecs_testing.lake import (
    Lake,
    a_lake,
    commit_deletes,
    data_files,
    delete_equal,
    delete_positions,
    path_at,
    path_of,
)

SOURCE = Source(name="lake", kind=SourceKind.ICEBERG, connection="c", relation="books.entries")
Rows = list[dict[str, object]]


def schema_of(**columns: IcebergType) -> Schema:
    return Schema(
        *(
            NestedField(number, name, kind, required=False)
            for number, (name, kind) in enumerate(columns.items(), 1)
        )
    )


def by(field: int, name: str) -> PartitionSpec:
    return PartitionSpec(PartitionField(field, 1000, IdentityTransform(), name))


ENTRIES = schema_of(id=LongType(), word=StringType())
ONE = pa.table({"id": [1, 2, 3], "word": ["a", "b", None]})
TWO = pa.table({"id": [4, 5], "word": ["b", "e"]})


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with ExitStack() as closing:
        yield a_lake(tmp_path / "lake", closing)


def scanned(lake: Lake, **source: object) -> Scan:
    changed_source = replace(SOURCE, **source)  # type: ignore[arg-type]  # fields of a source
    connector = open_connector(changed_source, lake.connection, {}, surroundings=lake.surroundings)
    return replace(scan_of(connector, changed_source), filter=changed_source.filter)


def rows(lake: Lake, **source: object) -> Rows:
    """Rows as canonical texts, sorted."""
    return read(lake, scanned(lake, **source))


def read(lake: Lake, scan: Scan) -> Rows:
    connector = open_connector(SOURCE, lake.connection, {}, surroundings=lake.surroundings)
    rows: Rows = [
        {
            column.name: canonical_text(canonical(value, column.type, "lake"))
            for column, value in zip(scan.columns, row, strict=True)
        }
        for row in connector.rows(scan)
    ]
    return sorted(rows, key=str)


def ids(lake: Lake, **source: object) -> list[int]:
    return sorted(int(str(row["id"])) for row in rows(lake, **source))


def refused(lake: Lake, **source: object) -> DatarecsError:
    with pytest.raises(DatarecsError) as caught:
        rows(lake, **source)
    return caught.value


def pin_of(lake: Lake) -> Pin:
    connector = open_connector(SOURCE, lake.connection, {}, surroundings=lake.surroundings)
    return connector.pin(SOURCE).pin


def as_of(moment: datetime) -> Snapshot:
    return Snapshot(as_of=moment.isoformat())


# --- types ---------------------------------------------------------------------------------------

MOMENT = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
EVERY_TYPE: Mapping[str, tuple[IcebergType, pa.DataType, object, str, str]] = {
    "flag": (BooleanType(), pa.bool_(), True, "bool", "true"),
    "small": (IntegerType(), pa.int32(), -(2**31), "int", "-2147483648"),
    "large": (LongType(), pa.int64(), 2**63 - 1, "int", "9223372036854775807"),
    "narrow": (FloatType(), pa.float32(), 0.1, "float32", "0.10000000149011612"),
    "wide": (DoubleType(), pa.float64(), 0.1, "float64", "0.1"),
    "money": (
        DecimalType(38, 10),
        pa.decimal128(38, 10),
        Decimal("1234567890123456789012345678.0123456789"),
        "decimal(38,10)",
        "1234567890123456789012345678.0123456789",
    ),
    "text": (StringType(), pa.string(), "zwei \u20ac", "text", "zwei \u20ac"),
    "raw": (BinaryType(), pa.binary(), b"\x00\xff", "binary", "00ff"),
    "fixed": (FixedType(3), pa.binary(3), b"\x00\x01\x02", "binary", "000102"),
    "uid": (
        UUIDType(),
        pa.binary(16),
        UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff").bytes,
        "uuid",
        "6f9619ff-8b86-d011-b42d-00c04fc964ff",
    ),
    "day": (DateType(), pa.date32(), date(1, 1, 1), "date", "0001-01-01"),
    "clock": (TimeType(), pa.time64("us"), time(23, 59, 59, 999999), "time", "23:59:59.999999"),
    "local": (
        TimestampType(),
        pa.timestamp("us"),
        MOMENT.replace(tzinfo=None),
        "local_timestamp",
        "2026-01-31T12:00:00.123456",
    ),
    "at": (
        TimestamptzType(),
        pa.timestamp("us", tz="UTC"),
        MOMENT,
        "instant",
        "2026-01-31T12:00:00.123456Z",
    ),
}


def test_every_type_arrives_exactly(lake: Lake, tmp_path: Path) -> None:
    kinds = {name: kind for name, (kind, *_) in EVERY_TYPE.items()}
    table = pa.table(
        {name: pa.array([value, None], kind) for name, (_, kind, value, _, _) in EVERY_TYPE.items()}
    )
    lake.table("entries", schema_of(**kinds), table)
    scan = scanned(lake)
    assert {one.name: str(one.type) for one in scan.schema.columns} == {
        name: kind for name, (_, _, _, kind, _) in EVERY_TYPE.items()
    }
    nothing: dict[str, object] = dict.fromkeys(EVERY_TYPE)
    expected: dict[str, object] = {name: text for name, (_, _, _, _, text) in EVERY_TYPE.items()}
    both: Rows = [expected, nothing]
    assert rows(lake) == sorted(both, key=str)
    connector = open_connector(SOURCE, lake.connection, {}, surroundings=lake.surroundings)
    connector.extract(scan, str(tmp_path / "out"), RecordedReads())
    stored = pq.read_table(tmp_path / "out")
    assert stored.column("uid").to_pylist() == [expected["uid"], None]
    assert stored.column("money").type == pa.decimal128(38, 10)
    assert stored.column("at").to_pylist() == [MOMENT, None]


NANOS = 1_769_860_800_123_456_789


def in_nanoseconds(table: Table) -> None:
    """Times as format version 3 has them; no library here writes it."""
    metadata = path_at(table.metadata_location)
    document = json.loads(metadata.read_text()) | {"format-version": 3, "next-row-id": 0}
    for field in document["schemas"][0]["fields"]:
        if field["type"].startswith("timestamp"):
            field["type"] += "_ns"
    (file,) = data_files(table)
    metadata.write_text(json.dumps(document))
    rows = pq.read_table(path_of(file))
    for at, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            finer = field.with_type(pa.timestamp("ns", field.type.tz))
            rows = rows.set_column(at, finer, pa.array([NANOS, None]).cast(finer.type))
    pq.write_table(rows, path_of(file))


def test_nanoseconds_are_read_to_the_last_digit(lake: Lake, tmp_path: Path) -> None:
    kinds = {"id": LongType(), "at": TimestamptzType(), "local": TimestampType()}
    moments = pa.array([MOMENT, None], pa.timestamp("us", tz="UTC"))
    table = pa.table({"id": [1, 2], "at": moments, "local": moments.cast(pa.timestamp("us"))})
    in_nanoseconds(lake.table("entries", schema_of(**kinds), table))
    scan = scanned(lake)
    assert [str(one.type) for one in scan.schema.columns] == [
        "int",
        "instant(9)",
        "local_timestamp(9)",
    ]
    text = "2026-01-31T12:00:00.123456789"
    assert rows(lake)[0] == {"id": "1", "at": f"{text}Z", "local": text}
    assert ids(lake, filter="at > TIMESTAMP '2026-01-31T12:00:00.123456Z'") == [1]
    connector = open_connector(SOURCE, lake.connection, {}, surroundings=lake.surroundings)
    brought = connector.extract(scan, str(tmp_path / "out"), RecordedReads())
    assert brought.extract is not None
    assert sorted(extracted_rows(brought, brought.extract)) == sorted(connector.rows(scan))


PLACE = StructType(
    NestedField(10, "town", StringType(), required=False),
    NestedField(11, "zip", IntegerType(), required=False),
)
TAGS = ListType(element_id=12, element_type=LongType(), element_required=False)
RATES = MapType(13, StringType(), 14, DecimalType(9, 2), value_required=False)
NESTED: Mapping[str, tuple[IcebergType, pa.DataType, object]] = {
    "place": (PLACE, pa.struct([("town", pa.string()), ("zip", pa.int32())]), {"town": "Ulm"}),
    "id": (LongType(), pa.int64(), None),
    "tags": (TAGS, pa.list_(pa.int64()), [1, None]),
    "rates": (RATES, pa.map_(pa.string(), pa.decimal128(9, 2)), [("a", Decimal("1.10"))]),
}


@pytest.fixture
def nested(lake: Lake) -> LogicalSource:
    """A source over a table with a struct, a list and a map, its columns as a job names them."""
    schema = schema_of(**{name: kind for name, (kind, *_) in NESTED.items()})
    values = {name: pa.array([value] * 3, kind) for name, (_, kind, value) in NESTED.items()}
    table = lake.table("entries", schema, pa.table({**values, "id": [1, 2, 3]}))
    delete_equal(table, pa.table({"id": [2]}))
    return logical_source(SOURCE, 0, scanned(lake).schema)


def test_nested_columns_are_reported_with_their_types_and_brought_by_no_row(
    lake: Lake, nested: LogicalSource, tmp_path: Path
) -> None:
    assert {one.name: str(one.type) for one in nested.schema.columns} == {
        "place": "struct<town: text, zip: int>",
        "id": "int",
        "tags": "array<int>",
        "rates": "map<text, decimal(9,2)>",
    }
    assert [name for name, _ in nested.schema.undelivered] == ["place", "tags", "rates"]
    assert dict(nested.schema.undelivered)["tags"] == "list<long>"
    scan = nested.scan(pin_of(lake), frozenset(nested.columns))
    assert read(lake, scan) == [{"id": "1"}, {"id": "3"}]
    connector = open_connector(SOURCE, lake.connection, {}, surroundings=lake.surroundings)
    connector.extract(scan, str(tmp_path / "out"), RecordedReads())
    extracted = pq.read_table(tmp_path / "out")
    assert (extracted.column_names, extracted.num_rows) == (["id", "$invalid.id"], 2)


def test_a_query_takes_the_plain_columns_of_a_table_with_nested_ones(
    lake: Lake, nested: LogicalSource, tmp_path: Path
) -> None:
    def answered(query: str) -> list[object]:
        query_of_table = query_source(nested.source, query)
        connector = open_connector(
            query_of_table, lake.connection, {}, surroundings=lake.surroundings
        )
        pin = connector.pin(query_of_table).pin
        described = logical_source(query_of_table, 0, connector.describe(query_of_table, pin))
        scan = described.scan(pin, frozenset(described.columns))
        connector.extract(scan, str(tmp_path / "out"), RecordedReads())
        return list(pq.read_table(tmp_path / "out").column("n").to_pylist())

    assert answered("SELECT count(*) AS n FROM lake") == [2]
    assert answered("SELECT sum(id)::int AS n FROM lake") == [4]
    with pytest.raises(SourceUnsupportedError, match=r"'tags' has the type list<long>"):
        answered("SELECT tags[1] AS n FROM lake")


def test_a_table_of_which_nothing_can_be_compared_is_refused(lake: Lake) -> None:
    lake.table("entries", schema_of(tags=TAGS))
    error = refused(lake)
    assert (error.code.name, "none of its columns" in str(error)) == ("SOURCE_UNSUPPORTED", True)


def test_text_that_is_no_utf8_is_invalid_and_not_replaced(lake: Lake, tmp_path: Path) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    (file,) = data_files(table)
    written = pq.read_table(path_of(file))
    broken = pa.array([b"a", b"\xff", None], pa.binary()).cast(pa.string(), safe=False)
    pq.write_table(written.set_column(1, written.schema.field(1), broken), path_of(file))
    scan = scanned(lake)
    connector = open_connector(SOURCE, lake.connection, {}, surroundings=lake.surroundings)
    brought = connector.extract(scan, str(tmp_path / "out"), RecordedReads())
    assert brought.extract is not None
    assert brought.extract.invalid_columns == ("word",)
    rows_by_id = {row["id"]: row for row in pq.read_table(tmp_path / "out").to_pylist()}
    assert (rows_by_id[2]["word"], rows_by_id[2]["$invalid.word"]) == (None, b"\xff")
    assert "2" in {row["id"] for row in rows(lake) if row["word"] not in {"a", None}}


# --- time travel ---------------------------------------------------------------------------------


def test_a_snapshot_a_tag_a_branch_and_a_moment_are_read(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    first = table.history()[0]
    table.manage_snapshots().create_tag(first.snapshot_id, "closing").commit()
    table.manage_snapshots().create_branch(first.snapshot_id, "audit").commit()
    table.append(TWO)
    assert ids(lake) == ids(lake, snapshot=Snapshot(ref="main")) == [1, 2, 3, 4, 5]
    then = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=first.timestamp_ms)
    for snapshot in (
        Snapshot(snapshot_id=first.snapshot_id),
        Snapshot(ref="closing"),
        Snapshot(ref="audit"),
        as_of(then),
    ):
        assert ids(lake, snapshot=snapshot) == [1, 2, 3]
    assert ids(lake, snapshot=as_of(then + timedelta(seconds=30))) == [1, 2, 3, 4, 5]


def test_a_moment_before_the_table_and_an_unknown_ref_are_reported(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    first = table.history()[0].snapshot_id
    for snapshot, why in (
        (as_of(datetime(2000, 1, 1, tzinfo=UTC)), "no snapshot at 2000-01-01"),
        (Snapshot(as_of="2026-01-31T12:00:00"), "is not a time with its offset"),
        (Snapshot(as_of="yesterday"), "is not a time"),
        (as_of(datetime(9998, 1, 1, tzinfo=UTC)), "snapshot.as_of is still to come"),
        (Snapshot(ref="mian"), "no branch or tag 'mian'"),
        (Snapshot(snapshot_id=42), "no snapshot 42"),
        (Snapshot(snapshot_id=first, ref="main"), "declare only one of"),
    ):
        error = refused(lake, snapshot=snapshot)
        assert (error.code.name, why in str(error)) == ("QUERY_ERROR", True)


def test_a_snapshot_has_the_names_of_its_time_and_a_branch_those_of_now(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    first = table.history()[0].snapshot_id
    with table.update_schema() as change:
        change.rename_column("word", "label")
    assert [one.name for one in scanned(lake).schema.columns] == ["id", "label"]
    earlier = scanned(lake, snapshot=Snapshot(snapshot_id=first))
    assert [one.name for one in earlier.schema.columns] == ["id", "word"]
    assert ids(lake, snapshot=Snapshot(snapshot_id=first), filter="word = 'b'") == [2]


# --- changed schemas -----------------------------------------------------------------------------


def test_columns_are_selected_by_their_ids(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    with table.update_schema() as change:
        change.rename_column("word", "label")
    with table.update_schema() as change:
        change.add_column("word", StringType())
        change.update_column("id", doc="number")
    table.append(pa.table({"id": [4], "label": ["new"], "word": ["other"]}))
    assert rows(lake) == [
        {"id": "1", "label": "a", "word": None},
        {"id": "2", "label": "b", "word": None},
        {"id": "3", "label": None, "word": None},
        {"id": "4", "label": "new", "word": "other"},
    ]


def test_a_dropped_column_is_gone_and_stays_gone_under_its_old_name(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    with table.update_schema() as change:
        change.delete_column("word")
    assert rows(lake) == [{"id": "1"}, {"id": "2"}, {"id": "3"}]
    with table.update_schema() as change:
        change.add_column("word", StringType())
    assert {row["word"] for row in rows(lake)} == {None}


def test_widened_types_are_widened_exactly(lake: Lake) -> None:
    table = lake.table(
        "entries",
        schema_of(id=IntegerType(), ratio=FloatType(), money=DecimalType(9, 2)),
        pa.table(
            {
                "id": pa.array([1], pa.int32()),
                "ratio": pa.array([0.1], pa.float32()),
                "money": pa.array([Decimal("1.10")], pa.decimal128(9, 2)),
            }
        ),
    )
    with table.update_schema() as change:
        change.update_column("id", LongType())
        change.update_column("ratio", DoubleType())
        change.update_column("money", DecimalType(38, 2))
    assert {one.name: str(one.type) for one in scanned(lake).schema.columns} == {
        "id": "int",
        "ratio": "float64",
        "money": "decimal(38,2)",
    }
    assert rows(lake) == [{"id": "1", "ratio": "0.10000000149011612", "money": "1.1"}]


def test_a_file_that_holds_another_type_is_corrupt(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    (file,) = data_files(table)
    written = pq.read_table(path_of(file))
    field = written.schema.field("id").with_type(pa.string())
    other = written.set_column(0, field, written.column("id").cast(pa.string()))
    pq.write_table(other, path_of(file))
    error = refused(lake)
    assert (error.code.name, "'id' as string" in str(error)) == ("CORRUPT_SOURCE", True)


def test_files_that_came_without_ids_are_read_by_the_name_mapping(
    lake: Lake, tmp_path: Path
) -> None:
    place = lake.folder / "warehouse/plain.parquet"
    pq.write_table(ONE, place)
    table = lake.table("entries", ENTRIES)
    table.add_files([f"file://{place}"])
    with table.update_schema() as change:
        change.rename_column("word", "label")
    assert [row["label"] for row in rows(lake)] == ["a", "b", None]
    with table.transaction() as change:
        change.remove_properties("schema.name-mapping.default")
    assert "no name mapping" in str(refused(lake))
    assert tmp_path.is_dir()


# --- partitions and pruning ----------------------------------------------------------------------

DAYS = schema_of(id=LongType(), day=DateType(), amount=DecimalType(9, 2), word=StringType())


def of_day(day: date, *numbers: int) -> pa.Table:
    return pa.table(
        {
            "id": list(numbers),
            "day": pa.array([day] * len(numbers), pa.date32()),
            "amount": pa.array([Decimal(one) / 10 for one in numbers], pa.decimal128(9, 2)),
            "word": [f"w{one}" for one in numbers],
        }
    )


FRIDAY, SATURDAY = date(2026, 1, 30), date(2026, 1, 31)


@pytest.mark.parametrize("spec", [None, by(2, "day")])
def test_files_that_a_filter_cannot_touch_are_not_opened(
    lake: Lake, spec: PartitionSpec | None
) -> None:
    table = lake.table("entries", DAYS, of_day(FRIDAY, 1, 2), of_day(SATURDAY, 3, 4), spec=spec)
    other = next(
        file
        for file in data_files(table)
        if 1 in pq.read_table(path_of(file)).column("id").to_pylist()
    )
    path_of(other).unlink()
    for condition in (
        "day = DATE '2026-01-31'",
        "NOT (day < DATE '2026-01-31')",
        "DATE '2026-01-31' <= day AND word <> 'w9'",
        "day IN (DATE '2026-01-31', DATE '2026-02-01')",
    ):
        assert ids(lake, filter=condition) == [3, 4]
    assert ids(lake, filter="day = DATE '2026-01-31' AND id = 3") == [3]
    assert refused(lake, filter="day >= DATE '2026-01-30'").code.name == "SNAPSHOT_LOST"


CONDITIONS = (
    "id > 2",
    "2 < id",
    "3 >= id",
    "id <> 3",
    "amount = 0.3",
    "amount > 0.25 AND amount <= 0.4",
    "amount = 0.333",
    "word IS NULL OR word = 'w1'",
    "word IS NOT NULL",
    "NOT (word = 'w1' OR id = 5)",
    "ratio > 0.5",
    "ratio <= 0.5",
    "flag",
    "NOT flag",
    "flag = FALSE",
    "at >= TIMESTAMP '2026-01-31 12:00:03Z'",
    "at = TIMESTAMP '2026-01-31T12:00:02+00:00'",
    "id IN (1, 6, NULL)",
    "id NOT BETWEEN 2 AND 4",
    "TRUE",
)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_leaving_files_out_never_changes_what_a_filter_selects(lake: Lake, condition: str) -> None:
    """One row per file, so that bounds are as sharp as they can be; then the same in one file."""
    kinds = schema_of(
        id=LongType(),
        amount=DecimalType(9, 2),
        word=StringType(),
        ratio=DoubleType(),
        flag=BooleanType(),
        at=TimestamptzType(),
    )
    table = pa.table(
        {
            "id": [1, 2, 3, 4, 5, 6],
            "amount": pa.array([Decimal(n) / 10 for n in range(1, 7)], pa.decimal128(9, 2)),
            "word": ["w1", None, "w3", "w4", "w5", "w6"],
            "ratio": [0.1, float("nan"), 0.9, None, -0.0, 0.5],
            "flag": [True, False, None, True, False, True],
            "at": pa.array(
                [MOMENT.replace(second=n, microsecond=0) for n in range(6)],
                pa.timestamp("us", tz="UTC"),
            ),
        }
    )
    lake.table("entries", kinds, *(table.slice(at, 1) for at in range(table.num_rows)))
    lake.table("whole", kinds, table)
    selected = ids(lake, filter=condition)
    assert selected == ids(lake, relation="books.whole", filter=condition)
    if condition == "ratio > 0.5":
        assert 2 in selected  # NaN is the largest number, and bounds do not know it


def test_a_filter_over_two_types_or_an_unknown_column_is_refused(lake: Lake) -> None:
    lake.table("entries", ENTRIES, ONE)
    for condition in ("word = 3", "wrod = 'a'"):
        assert refused(lake, filter=condition).code.name == "SOURCE_UNSUPPORTED"


def test_a_table_partitioned_anew_is_read_whole(lake: Lake) -> None:
    table = lake.table("entries", DAYS, of_day(FRIDAY, 1))
    with table.update_spec() as change:
        change.add_field("day", IdentityTransform(), "day")
    table.append(of_day(SATURDAY, 2))
    with table.update_spec() as change:
        change.remove_field("day")
        change.add_field("word", IdentityTransform(), "word")
    table.append(of_day(SATURDAY, 3))
    assert ids(lake) == [1, 2, 3]
    assert ids(lake, filter="day = DATE '2026-01-31'") == [2, 3]
    assert ids(lake, filter="word = 'w3'") == [3]
    with table.update_schema() as change:
        change.delete_column("day")
    assert ids(lake, filter="id >= 2") == [2, 3]


def test_what_a_file_lacks_is_the_value_of_its_partition(lake: Lake) -> None:
    table = lake.table("entries", DAYS, of_day(FRIDAY, 1, 2), spec=by(2, "day"))
    (file,) = data_files(table)
    pq.write_table(pq.read_table(path_of(file)).drop_columns(["day"]), path_of(file))
    assert {row["day"] for row in rows(lake)} == {"2026-01-30"}
    assert ids(lake, filter="day = DATE '2026-01-30'") == [1, 2]


# --- deletes -------------------------------------------------------------------------------------


def test_a_delete_touches_no_row_that_was_written_after_it(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    delete_equal(table, pa.table({"id": [2, 5]}))
    table.append(pa.table({"id": [2, 5], "word": ["again", "first"]}))
    assert [row["word"] for row in rows(lake) if row["id"] == "2"] == ["again"]
    assert ids(lake) == [1, 2, 3, 5]


def test_null_is_deleted_like_any_key(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE, pa.table({"id": [None, 7], "word": ["x", "x"]}))
    delete_equal(table, pa.table({"word": pa.array([None], pa.string())}))
    assert sorted(str(row["id"]) for row in rows(lake)) == ["1", "2", "7", "None"]
    delete_equal(table, pa.table({"id": pa.array([None], pa.int64()), "word": ["x"]}))
    assert ids(lake) == [1, 2, 7]


def test_an_equality_delete_may_hold_for_one_partition(lake: Lake) -> None:
    table = lake.table(
        "entries", DAYS, of_day(FRIDAY, 1, 2), of_day(SATURDAY, 1, 2), spec=by(2, "day")
    )
    friday = next(file for file in data_files(table) if file.partition[0] in {FRIDAY, 20483})
    delete_equal(table, pa.table({"id": [1]}), like=friday)
    assert [(row["id"], row["day"]) for row in rows(lake) if row["id"] == "1"] == [
        ("1", "2026-01-31")
    ]


def test_an_equality_delete_without_a_partition_holds_everywhere(lake: Lake) -> None:
    table = lake.table("entries", DAYS, of_day(FRIDAY, 1, 2))
    with table.update_spec() as change:
        change.add_field("day", IdentityTransform(), "day")
    table.append(of_day(SATURDAY, 1, 3))
    delete_equal(table, pa.table({"id": [1]}), spec=0)
    assert ids(lake) == [2, 3]


def test_a_filter_on_another_column_preserves_the_deletes(lake: Lake) -> None:
    """A delete file may carry columns that are no key, with bounds that the filter excludes."""
    table = lake.table("entries", DAYS, of_day(FRIDAY, 1, 2, 3))
    keys = of_day(SATURDAY, 1).select(["id", "day"])
    fields = [
        pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("day", pa.date32(), metadata={"PARQUET:field_id": "2"}),
    ]
    commit_deletes(
        table,
        keys.cast(pa.schema(fields)),
        content=DataFileContent.EQUALITY_DELETES,
        spec=0,
        equality_ids=[1],
    )
    assert ids(lake, filter="day = DATE '2026-01-30'") == [2, 3]


def test_rows_deleted_by_a_column_that_was_dropped_stay_deleted(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    delete_equal(table, pa.table({"word": ["b"]}))
    with table.update_schema() as change:
        change.delete_column("word")
    assert ids(lake) == [1, 3]


def test_positions_name_rows_of_the_file_whatever_batch_they_are_in(lake: Lake) -> None:
    many = 150_000
    numbers = list(range(many))
    table = lake.table("entries", ENTRIES, pa.table({"id": numbers, "word": ["x"] * many}))
    (file,) = data_files(table)
    dead = [0, 65_535, 65_536, 131_071, 131_072, many - 1]
    delete_positions(table, {file.file_path: dead}, like=file)
    delete_equal(table, pa.table({"id": [70_000, 140_000]}))
    scan = scanned(lake)
    connector = open_connector(SOURCE, lake.connection, {}, surroundings=lake.surroundings)
    ids = {row[0] for row in connector.rows(scan)}
    assert set(numbers) - ids == {*dead, 70_000, 140_000}
    assert len(ids) == many - 8


def deletion_vector(path: str, positions: list[int]) -> bytes:
    """A Puffin file with one vector, as format version 3 writes them."""
    bitmap = BitMap(positions).serialize()
    payload = struct.pack("<Q", 1) + struct.pack("<I", 0) + bitmap
    framed = b"\xd1\xd3\x39\x64" + payload
    blob = struct.pack(">I", len(framed)) + framed + struct.pack(">I", zlib.crc32(framed))
    footer = (
        '{"blobs": [{"type": "deletion-vector-v1", "fields": [2147483645], "snapshot-id": -1,'
        f' "sequence-number": -1, "offset": 4, "length": {len(blob)}, "properties":'
        f' {{"referenced-data-file": "{path}", "cardinality": "{len(positions)}"}}}}]}}'
    ).encode()
    tail = b"PFA1" + footer + struct.pack("<I", len(footer)) + b"\x00" * 4 + b"PFA1"
    return b"PFA1" + blob + tail


def vector_over(table: Table, content: bytes) -> None:
    commit_deletes(
        table,
        content,
        content=DataFileContent.POSITION_DELETES,
        spec=0,
        file_format=FileFormat.PUFFIN,
    )


def test_a_deletion_vector_is_applied(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE, TWO)
    file = next(one for one in data_files(table) if one.record_count == ONE.num_rows)
    vector_over(table, deletion_vector(file.file_path, [0, 2]))
    assert ids(lake) == [2, 4, 5]


@pytest.mark.parametrize("content", [b"", b"PFA1 and no more PFA1", b"x" * 100])
def test_a_broken_deletion_vector_is_corrupt(lake: Lake, content: bytes) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    vector_over(table, content)
    assert refused(lake).code.name == "CORRUPT_SOURCE"


def test_a_deletion_vector_with_another_bit_is_corrupt(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    good = deletion_vector(data_files(table)[0].file_path, [0])
    at = good.index(b"\xd1\xd3\x39\x64") + 4 + 12 + 16
    assert good[at : at + 2] == b"\x00\x00"
    vector_over(table, good[:at] + b"\x01" + good[at + 1 :])
    assert refused(lake).code.name == "CORRUPT_SOURCE"


def test_a_position_delete_without_rows_deletes_none(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    (file,) = data_files(table)
    delete_positions(table, {}, like=file)
    assert ids(lake) == [1, 2, 3]


def test_a_key_that_is_no_utf8_is_no_null(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    (file,) = data_files(table)
    written = pq.read_table(path_of(file))
    broken = pa.array([b"a", b"\xff", None], pa.binary()).cast(pa.string(), safe=False)
    pq.write_table(written.set_column(1, written.schema.field(1), broken), path_of(file))
    delete_equal(table, pa.table({"word": pa.array([None], pa.string())}))
    assert ids(lake) == [1, 2]


def test_deletes_by_a_float_are_refused_and_never_ignored(lake: Lake) -> None:
    kinds = schema_of(id=LongType(), ratio=DoubleType())
    table = lake.table("entries", kinds, pa.table({"id": [1], "ratio": [0.5]}))
    delete_equal(table, pa.table({"ratio": [0.5]}))
    error = refused(lake)
    assert (error.code.name, "'ratio'" in str(error)) == ("SOURCE_UNSUPPORTED", True)


def test_deletes_beyond_memory_are_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    delete_equal(table, pa.table({"id": [1, 2]}))
    delete_equal(table, pa.table({"id": [3]}))
    limit = "datarecs_connectors.iceberg.deletes.MAX_EQUALITY_ROWS"
    monkeypatch.setattr(limit, 2)
    assert refused(lake).code.name == "SOURCE_LIMIT"
    monkeypatch.setattr(limit, 3)
    assert ids(lake) == []


def deletes_that_spill(lake: Lake, patch: pytest.MonkeyPatch) -> None:
    """All rows but one, by longer keys than memory holds."""
    patch.setattr(deletes, "_SETTINGS", {**deletes._SETTINGS, "memory_limit": "24MiB"})  # noqa: SLF001  all the others as they are
    many = 100_000
    keys = pa.array([f"{number:0300}" for number in range(many)])
    table = lake.table("entries", ENTRIES, pa.table({"id": range(many), "word": keys}))
    delete_equal(table, pa.table({"word": keys[1:]}))


@pytest.mark.usefixtures("full_disk")
def test_a_disk_too_full_for_deletes_is_not_reported_as_a_fault_of_the_table(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    deletes_that_spill(lake, monkeypatch)
    with pytest.raises(OSError, match="No space left on device"):
        ids(lake)


def test_deletes_spill_below_their_extract_or_the_temporary_folder_and_nowhere_else(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    deletes_that_spill(lake, monkeypatch)
    spilled: dict[str, list[str]] = {}

    def record_spill(_read: object = None) -> None:
        for folder in tmp_path.glob("*/**/*duckdb_temp*"):
            spilled.setdefault(folder.relative_to(tmp_path).parts[0], []).append(folder.name)

    connector = open_connector(SOURCE, lake.connection, {}, surroundings=lake.surroundings)
    scan = scanned(lake)
    connector.extract(scan, str(tmp_path / "out"), record_spill)
    assert (list(spilled), ids(lake)) == (["out"], [0])
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["part-00000.parquet"]
    for _ in connector.rows(scan):
        record_spill()
    assert list(spilled) == ["out", "temporary"]
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_delete_file_that_is_gone_loses_the_snapshot(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    delete_equal(table, pa.table({"id": [1]}))
    (deletes,) = path_of(data_files(table)[0]).parent.glob("delete-*.parquet")
    deletes.unlink()
    assert refused(lake).code.name == "SNAPSHOT_LOST"


@pytest.mark.parametrize("kind", [FileFormat.ORC, FileFormat.AVRO])
def test_files_of_another_format_are_refused(lake: Lake, kind: FileFormat) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    commit_deletes(
        table,
        pa.table({"id": [1]}),
        content=DataFileContent.EQUALITY_DELETES,
        spec=0,
        equality_ids=[1],
        file_format=kind,
    )
    error = refused(lake)
    assert (error.code.name, kind.value in str(error)) == ("SOURCE_UNSUPPORTED", True)


def test_a_file_with_fewer_rows_than_its_manifest_says_is_corrupt(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    (file,) = data_files(table)
    pq.write_table(pq.read_table(path_of(file)).slice(0, 2), path_of(file))
    error = refused(lake)
    assert (error.code.name, "2 rows" in str(error)) == ("CORRUPT_SOURCE", True)


def test_a_manifest_that_is_cut_is_corrupt(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES, ONE)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    (manifest,) = snapshot.manifests(table.io)
    place = Path(manifest.manifest_path.removeprefix("file://"))
    place.write_bytes(place.read_bytes()[:100])
    assert refused(lake).code.name == "CORRUPT_SOURCE"


NUMBERED = schema_of(id=LongType(), key=LongType(), word=StringType())


@pytest.mark.parametrize("seed", range(6))
def test_any_history_of_writes_and_deletes_leaves_the_rows_of_a_list(lake: Lake, seed: int) -> None:
    """Against the plainest model there is: rows by number, and what each delete takes from it."""
    chance = Random(seed)  # noqa: S311  a repeatable history
    table = lake.table("entries", NUMBERED, spec=by(3, "word") if seed % 2 else None)
    model: dict[int, int] = {}
    for step in range(9):
        if step < 2 or chance.random() < 0.3:
            word, first = chance.choice("ab"), 10 * step
            new = {first + at: chance.randrange(5) for at in range(4)}
            columns = {"id": list(new), "key": list(new.values()), "word": [word] * 4}
            table.append(pa.table(columns))
            model |= new
        elif chance.random() < 0.5:
            dead = chance.randrange(5)
            for place in {str(file.partition): file for file in data_files(table)}.values():
                delete_equal(table, pa.table({"key": [dead]}), like=place)
            model = {number: key for number, key in model.items() if key != dead}
        else:
            file = chance.choice(data_files(table))
            numbers = pq.read_table(path_of(file)).column("id").to_pylist()
            positions = chance.sample(range(4), 2)
            delete_positions(table, {file.file_path: positions}, like=file)
            for at in positions:
                model.pop(numbers[at], None)
        assert ids(lake) == sorted(model)
        assert ids(lake, filter="key >= 2") == sorted(n for n, key in model.items() if key > 1)
