"""Records in Avro in tables: equal after they are read back, columns by the producer's schema."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
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

from datarecs_application.ports.sinking import SinkRecord
from datarecs_connectors.avro.decoding import reader_of
from datarecs_connectors.avro.schemas import RecordNode, parsed_schema
from datarecs_connectors.sinking.creating import inferred_schema
from datarecs_connectors.sinking.rows import RowConverter
from datarecs_core.errors.sink import BadRecordError
from datarecs_core.sink.definition import Evolution, MetadataColumns
from datarecs_testing.avro_values import confluent, record_of
from datarecs_testing.lake import NAMESPACE

from .sink_house import SINK, House, a_record

BARE = replace(SINK, auto_create=True, metadata_columns=MetadataColumns.NONE)
EPOCH, EPOCH_UTC = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)  # noqa: DTZ001  local
DAY = 86_400_000
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999


def avro_records(schema: object, *values: Any) -> list[SinkRecord]:  # noqa: ANN401  the schema decides
    node = parsed_schema(json.dumps(schema))
    assert isinstance(node, RecordNode)
    read = reader_of(node)
    records = []
    for offset, value in enumerate(values):
        members = read(confluent(1, schema, value))
        assert isinstance(members, dict)
        records.append(replace(a_record(members, offset), schema=node))
    return records


def logical(kind: str, name: str, **facts: object) -> dict[str, object]:
    return {"type": kind, "logicalType": name, **facts}


def unscaled(digits: int) -> bytes:
    return digits.to_bytes(digits.bit_length() // 8 + 1, signed=True)


@dataclass(frozen=True)
class Pair:
    """A type of Avro, a column, and what the column has of a value."""

    avro: object
    column: IcebergType
    values: st.SearchStrategy[Any]
    stored: Any = None
    """None: the value itself."""


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
LONGS = st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)
MILLIS = st.integers(FIRST_MS, LAST_MS)
MICROS = st.integers(FIRST_MS * 1_000, LAST_MS * 1_000)
NANOS = st.integers(-(2**53), 2**53).map(lambda micros: micros * 1_000)
DIGITS = st.integers(-(10**9) + 1, 10**9 - 1)
AMOUNT = logical("bytes", "decimal", precision=9, scale=2)
FIXED = {"type": "fixed", "name": "F", "size": 4}
FIXED_AMOUNT = {**FIXED, "size": 8, "logicalType": "decimal", "precision": 9, "scale": 2}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
BYTES = st.binary(max_size=9)


def micros_later(start: datetime, scale: float) -> Any:  # noqa: ANN401  a function
    return lambda value: start + timedelta(microseconds=int(value * scale))


def clock(scale: int) -> Any:  # noqa: ANN401  a function
    return lambda value: (EPOCH + timedelta(microseconds=value * scale)).time()


def amount(value: bytes) -> Decimal:
    return Decimal(int.from_bytes(value, signed=True)).scaleb(-2)


PAIRS: dict[str, Pair] = {
    "boolean": Pair("boolean", BooleanType(), st.booleans()),
    "int to int": Pair("int", IntegerType(), INTS),
    "int to long": Pair("int", LongType(), INTS),
    "long to int": Pair("long", IntegerType(), INTS),
    "long": Pair("long", LongType(), LONGS),
    "long to decimal": Pair("long", DecimalType(38, 2), LONGS, Decimal),
    "long to float": Pair("long", FloatType(), st.integers(-(2**24), 2**24), float),
    "long to double": Pair("long", DoubleType(), st.integers(-(2**53), 2**53), float),
    "float": Pair("float", FloatType(), st.floats(width=32)),
    "float to double": Pair("float", DoubleType(), st.floats(width=32)),
    "double": Pair("double", DoubleType(), st.floats()),
    "double to float": Pair("double", FloatType(), st.floats(width=32)),
    "decimal": Pair(AMOUNT, DecimalType(9, 2), DIGITS.map(unscaled), amount),
    "decimal to wider": Pair(AMOUNT, DecimalType(20, 5), DIGITS.map(unscaled), amount),
    "fixed decimal": Pair(
        FIXED_AMOUNT,
        DecimalType(9, 2),
        DIGITS.map(lambda value: value.to_bytes(8, signed=True)),
        amount,
    ),
    "string": Pair("string", StringType(), TEXTS),
    "string to date": Pair("string", DateType(), st.dates().map(str), date.fromisoformat),
    "string to long": Pair("string", LongType(), LONGS.map(str), int),
    "enum": Pair(ENUM, StringType(), st.sampled_from("AB")),
    "bytes": Pair("bytes", BinaryType(), BYTES),
    "bytes to fixed": Pair("bytes", FixedType(3), st.binary(min_size=3, max_size=3)),
    "fixed": Pair(FIXED, FixedType(4), st.binary(min_size=4, max_size=4)),
    "fixed to binary": Pair(FIXED, BinaryType(), st.binary(min_size=4, max_size=4)),
    "uuid": Pair(logical("string", "uuid"), UUIDType(), st.uuids().map(str), UUID),
    "uuid to string": Pair(logical("string", "uuid"), StringType(), st.uuids().map(str)),
    "fixed uuid": Pair(
        {**FIXED, "size": 16, "logicalType": "uuid"},
        UUIDType(),
        st.uuids().map(lambda value: value.bytes),
        lambda value: UUID(bytes=value),
    ),
    "date": Pair(
        logical("int", "date"),
        DateType(),
        st.integers(FIRST_MS // DAY, LAST_MS // DAY),
        lambda value: date(1970, 1, 1) + timedelta(days=value),
    ),
    "time-millis": Pair(
        logical("int", "time-millis"), TimeType(), st.integers(0, DAY - 1), clock(1_000)
    ),
    "time-micros": Pair(
        logical("long", "time-micros"), TimeType(), st.integers(0, DAY * 1_000 - 1), clock(1)
    ),
    "timestamp-millis": Pair(
        logical("long", "timestamp-millis"),
        TimestamptzType(),
        MILLIS,
        lambda value: EPOCH_UTC + timedelta(microseconds=value * 1_000),
    ),
    "timestamp-micros": Pair(
        logical("long", "timestamp-micros"),
        TimestamptzType(),
        MICROS,
        lambda value: EPOCH_UTC + timedelta(microseconds=value),
    ),
    "timestamp-nanos": Pair(
        logical("long", "timestamp-nanos"),
        TimestamptzType(),
        NANOS,
        lambda value: EPOCH_UTC + timedelta(microseconds=value // 1_000),
    ),
    "local-timestamp-millis": Pair(
        logical("long", "local-timestamp-millis"),
        TimestampType(),
        MILLIS,
        lambda value: EPOCH + timedelta(microseconds=value * 1_000),
    ),
    "local-timestamp-micros": Pair(
        logical("long", "local-timestamp-micros"),
        TimestampType(),
        MICROS,
        lambda value: EPOCH + timedelta(microseconds=value),
    ),
    "local-timestamp-nanos": Pair(
        logical("long", "local-timestamp-nanos"),
        TimestampType(),
        NANOS,
        lambda value: EPOCH + timedelta(microseconds=value // 1_000),
    ),
    "array": Pair(
        {"type": "array", "items": "long"},
        ListType(2, LongType(), element_required=False),
        st.lists(LONGS, max_size=3),
    ),
    "map": Pair(
        {"type": "map", "values": AMOUNT},
        MapType(2, StringType(), 3, DecimalType(9, 2), value_required=False),
        st.dictionaries(TEXTS, DIGITS.map(unscaled), max_size=3),
        lambda value: [(name, amount(item)) for name, item in value.items()],
    ),
    "record": Pair(
        record_of({"x": "long", "y": ["null", "string"]}, "In"),
        StructType(
            NestedField(2, "y", StringType(), required=False),
            NestedField(3, "x", LongType(), required=True),
        ),
        st.tuples(LONGS, TEXTS).map(lambda pair: {"x": pair[0], "y": (1, pair[1])}),
        lambda value: {"x": value["x"], "y": value["y"][1]},
    ),
    "record to string": Pair(
        record_of({"x": "long", "y": "bytes"}, "In"),
        StringType(),
        st.just({"x": 5, "y": b"\0"}),
        lambda _: '{"x":5,"y":"AA=="}',
    ),
    "array to string": Pair(
        {"type": "array", "items": logical("int", "date")},
        StringType(),
        st.just([0, 1]),
        lambda _: '["1970-01-01","1970-01-02"]',
    ),
}


def column_of(avro: object, column: IcebergType, values: Sequence[Any]) -> list[Any]:
    """What a column has of these values, read back from Parquet; None is null."""
    schema = record_of({"c": ["null", avro]})
    records = avro_records(
        schema, *({"c": (0, None) if value is None else (1, value)} for value in values)
    )
    metadata = new_table_metadata(
        Schema(NestedField(1, "c", column, required=False)),
        UNPARTITIONED_PARTITION_SPEC,
        UNSORTED_SORT_ORDER,
        "file:///lake/t",
        {"format-version": "2"},
    )
    rows = RowConverter(metadata, MetadataColumns.NONE).convert(records)
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, store_decimal_as_integer=True)
    column_read: list[Any] = pq.read_table(pa.BufferReader(sink.getvalue())).column(0).to_pylist()
    return column_read


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.case("I45")
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_value_of_avro_is_equal_after_it_was_read_back(name: str, data: st.DataObject) -> None:
    pair = PAIRS[name]
    values = data.draw(st.lists(st.none() | pair.values, min_size=1, max_size=20))
    read = column_of(pair.avro, pair.column, values)
    for value, back in zip(values, read, strict=True):
        if isinstance(value, float) and math.isnan(value):
            assert math.isnan(back)
        else:
            stored = value if pair.stored is None or value is None else pair.stored(value)
            assert back == stored


COLUMNS = {str(pair.column): pair.column for pair in PAIRS.values()}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.case("I45")
@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_value_of_avro_is_stored_or_refused_in_any_column_and_never_null(
    name: str, data: st.DataObject
) -> None:
    pair = PAIRS[name]
    column = COLUMNS[data.draw(st.sampled_from(sorted(COLUMNS)))]
    value = data.draw(pair.values)
    try:
        stored = column_of(pair.avro, column, [value])
    except BadRecordError:
        return
    assert None not in stored


@pytest.mark.parametrize(
    ("avro", "column", "value", "word"),
    [
        ("long", IntegerType(), 2**31, "range of int"),
        ("long", DoubleType(), 2**53 + 1, "digits"),
        ("double", LongType(), 1.0, "a number"),
        ("double", DecimalType(9, 2), 0.5, "a number"),
        ("double", FloatType(), 0.1, "float"),
        (AMOUNT, DecimalType(9, 1), unscaled(15), "digits"),
        (AMOUNT, DoubleType(), unscaled(15), "a decimal"),
        (AMOUNT, LongType(), unscaled(100), "a decimal"),
        (AMOUNT, StringType(), unscaled(100), "a decimal"),
        (logical("bytes", "decimal", precision=2), DecimalType(9, 0), unscaled(100), "declares"),
        ("bytes", StringType(), b"x", "bytes"),
        ("bytes", FixedType(3), b"xx", "not 3"),
        (logical("string", "uuid"), UUIDType(), "x", "no uuid"),
        (logical("int", "date"), StringType(), 0, "a date"),
        (logical("int", "date"), TimestampType(), 0, "a date"),
        (logical("int", "date"), DateType(), 2**31 - 1, "years 1 to 9999"),
        (logical("long", "timestamp-millis"), TimestampType(), 0, "a timestamp"),
        (logical("long", "timestamp-millis"), LongType(), 0, "a timestamp"),
        (logical("long", "local-timestamp-millis"), TimestamptzType(), 0, "a timestamp"),
        (logical("long", "timestamp-nanos"), TimestamptzType(), 1, "six digits"),
        ({"type": "array", "items": "double"}, StringType(), [math.nan], "NaN"),
    ],
    ids=str,
)
@pytest.mark.case("I45")
def test_a_value_of_avro_that_would_change_is_a_bad_record(
    avro: object, column: IcebergType, value: object, word: str
) -> None:
    with pytest.raises(BadRecordError) as refused:
        column_of(avro, column, [None, value])
    assert (refused.value.path, refused.value.at) == ("c", 1)
    assert word in refused.value.reason


def test_columns_have_the_types_of_the_schema_also_without_a_value() -> None:
    kinds = {name: pair.avro for name, pair in PAIRS.items() if " to " not in name}
    others: dict[str, object] = {
        "several": ["null", "int", "string"],
        "nothing": "null",
        "empty": record_of({"x": "null"}, "Empty"),
        "wide decimal": logical("bytes", "decimal", precision=50),
    }
    fields = {
        name: ["null", {**kind, "name": f"N{at}"} if isinstance(kind, dict) else kind]
        for at, (name, kind) in enumerate(kinds.items())
    }
    nulls = dict.fromkeys((*fields, "several"), (0, None))
    records = avro_records(
        record_of({**fields, **others}),
        {**nulls, "nothing": None, "empty": {"x": None}, "wide decimal": b"\0"},
    )
    schema = inferred_schema(BARE, records)
    assert {field.name: str(field.field_type) for field in schema.fields} == {
        "boolean": "boolean",
        "long": "long",
        "float": "double",
        "double": "double",
        "decimal": "decimal(9, 2)",
        "fixed decimal": "decimal(9, 2)",
        "string": "string",
        "enum": "string",
        "bytes": "binary",
        "fixed": "fixed[4]",
        "uuid": "uuid",
        "fixed uuid": "uuid",
        "date": "date",
        "time-millis": "time",
        "time-micros": "time",
        "timestamp-millis": "timestamptz",
        "timestamp-micros": "timestamptz",
        "timestamp-nanos": "timestamptz",
        "local-timestamp-millis": "timestamp",
        "local-timestamp-micros": "timestamp",
        "local-timestamp-nanos": "timestamp",
        "array": "list<long>",
        "map": "map<string, decimal(9, 2)>",
        "record": "struct<28: x: optional long, 29: y: optional string>",
        "several": "string",
        "wide decimal": "string",
    }
    assert not any(field.required for field in schema.fields)


ORDER = record_of(
    {
        "id": "long",
        "ts": logical("long", "timestamp-millis"),
        "who": ["null", record_of({"name": "string", "age": ["null", "int"]}, "Who")],
        "amount": AMOUNT,
    },
    "Order",
)
ORDERS = (
    {"id": 1, "ts": 1_767_225_600_000, "who": (0, None), "amount": unscaled(150)},
    {
        "id": 2,
        "ts": 1_767_229_200_001,
        "who": (1, {"name": "b", "age": (1, 7)}),
        "amount": unscaled(-1),
    },
)


@pytest.mark.case("I41")
def test_a_table_of_a_schema_is_created_with_partitions_and_identifiers(house: House) -> None:
    files = house.write(
        avro_records(ORDER, *ORDERS),
        auto_create=True,
        id_columns=("id",),
        partition_by=("hour(ts)",),
        metadata_columns=MetadataColumns.NONE,
    )
    house.commit(house.request(*files))
    table = house.table()
    assert table.schema().identifier_field_names() == {"id"}
    assert [(one.name, str(one.field_type), one.required) for one in table.schema().fields] == [
        ("id", "long", True),
        ("ts", "timestamptz", False),
        ("who", "struct<5: name: optional string, 6: age: optional long>", False),
        ("amount", "decimal(9, 2)", False),
    ]
    assert [(one.name, str(one.transform)) for one in table.spec().fields] == [("ts_hour", "hour")]
    assert len(files) == 2
    assert sorted(house.rows(), key=lambda row: row["id"]) == [
        {"id": 1, "ts": at(1_767_225_600_000), "who": None, "amount": Decimal("1.50")},
        {
            "id": 2,
            "ts": at(1_767_229_200_001),
            "who": {"name": "b", "age": 7},
            "amount": Decimal("-0.01"),
        },
    ]


def at(millis: int) -> datetime:
    return EPOCH_UTC + timedelta(milliseconds=millis)


def test_a_new_field_of_a_schema_becomes_a_column_of_its_type(house: House) -> None:
    changes: dict[str, Any] = {
        "auto_create": True,
        "evolve": Evolution.ADD,
        "metadata_columns": MetadataColumns.NONE,
    }
    writer = house.tables(**changes).writer(SINK.tables[0])
    writer.add(avro_records(ORDER, *ORDERS))
    who = record_of({"name": "string", "age": ["null", "int"], "born": DATE}, "Who")
    newer = record_of(
        {
            "id": "long",
            "ts": logical("long", "timestamp-millis"),
            "who": ["null", who],
            "amount": AMOUNT,
            "seen": ["null", logical("long", "local-timestamp-micros")],
            "tags": {"type": "map", "values": "Who"},
        },
        "Order",
    )
    inside = {"name": "c", "age": (0, None), "born": 0}
    third = {**ORDERS[0], "id": 3, "who": (1, inside), "seen": (0, None), "tags": {"k": inside}}
    writer.add(avro_records(newer, third))
    house.commit(house.request(*writer.finish()))
    types = {one.name: str(one.field_type) for one in house.table().schema().fields}
    assert types["seen"] == "timestamp"
    assert types["who"].endswith("born: optional date>")
    assert types["tags"].startswith("map<string, struct<")
    rows = {row["id"]: row for row in house.rows()}
    born = {"name": "c", "age": None, "born": date(1970, 1, 1)}
    assert (rows[3]["who"], rows[3]["tags"], rows[3]["seen"]) == (born, [("k", born)], None)
    assert (rows[1]["seen"], rows[2]["who"]["born"]) == (None, None)


def test_a_new_field_inside_of_a_map_becomes_a_column_of_its_type(house: House) -> None:
    changes: dict[str, Any] = {
        "auto_create": True,
        "evolve": Evolution.FULL,
        "metadata_columns": MetadataColumns.NONE,
    }
    writer = house.tables(**changes).writer(SINK.tables[0])
    for fields, inside in (
        ({"n": "int"}, {"n": 1}),
        ({"n": "int", "day": DATE, "amount": AMOUNT}, {"n": 1, "day": 0, "amount": unscaled(5)}),
    ):
        schema = record_of({"marks": {"type": "map", "values": record_of(fields, "In")}})
        writer.add(avro_records(schema, {"marks": {"k": inside}}))
    house.commit(house.request(*writer.finish()))
    assert sorted(house.rows(), key=str) == [
        {"marks": [("k", {"n": 1, "day": None, "amount": None})]},
        {"marks": [("k", {"n": 1, "day": date(1970, 1, 1), "amount": Decimal("0.05")})]},
    ]


def test_a_map_in_a_struct_adds_no_column_without_a_known_type(house: House) -> None:
    inner = StructType(NestedField(3, "x", DateType(), required=False))
    house.lake.catalog.create_table(
        f"{NAMESPACE}.orders", Schema(NestedField(1, "marks", inner, required=False))
    )
    schema = record_of({"marks": {"type": "map", "values": DATE}})
    records = avro_records(schema, {"marks": {"x": 0, "y": 1}})
    files = house.write(records, evolve=Evolution.ADD, metadata_columns=MetadataColumns.NONE)
    house.commit(house.request(*files))
    assert house.rows() == [{"marks": {"x": date(1970, 1, 1)}}]


DATE = logical("int", "date")


def test_two_schemas_in_one_batch_make_one_table() -> None:
    older = avro_records(record_of({"a": "long", "b": AMOUNT}), {"a": 1, "b": unscaled(1)})
    newer = avro_records(record_of({"a": "long", "c": DATE}), {"a": 1, "c": 0})
    schema = inferred_schema(BARE, [*older, *newer])
    assert [(one.name, str(one.field_type)) for one in schema.fields] == [
        ("a", "long"),
        ("b", "decimal(9, 2)"),
        ("c", "date"),
    ]
