"""Records in Avro as a source: columns of their schemas, values as plain ones."""

import json
import math
import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import pytest
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
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from datarecs_connectors.avro.decoding import reader_of
from datarecs_connectors.avro.registries import RecordSchema, SchemaRegistry
from datarecs_connectors.avro.schemas import RecordNode, parsed_schema
from datarecs_connectors.avro.values import ExactDecimal, Unfit
from datarecs_connectors.errors import (
    CorruptSourceError,
    SourceLimitError,
    SourceUnsupportedError,
)
from datarecs_connectors.http_json import JsonServer
from datarecs_connectors.iceberg.snapshots import canonical_type
from datarecs_connectors.kafka.avro_columns import reader_of_avro
from datarecs_connectors.kafka.cluster import TopicRecord
from datarecs_connectors.kafka.decoding import Decoder
from datarecs_connectors.kafka.options import Decode, TopicOptions
from datarecs_connectors.kafka.written_values import reader_as_written
from datarecs_connectors.sinking.values import MismatchError, conversion_to
from datarecs_core.comparison.values.canonical import encode
from datarecs_core.comparison.values.translating import Invalid, canonical
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.resources.connection import RegistryConfig
from datarecs_testing.avro_values import confluent, record_of
from datarecs_testing.clock import NOON


def logical(kind: str, name: str, **facts: object) -> dict[str, object]:
    return {"type": kind, "logicalType": name, **facts}


def registry_of(*schemas: object) -> SchemaRegistry:
    """Knows these, numbered from 1, and reaches no server."""
    known: dict[int, RecordSchema] = {}
    for number, schema in enumerate(schemas, 1):
        node = parsed_schema(json.dumps(schema))
        assert isinstance(node, RecordNode)
        known[number] = RecordSchema(record=node, read=reader_of(node))
    policy = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)
    registry = SchemaRegistry(
        server=JsonServer(source="topic", policy=policy),
        config=RegistryConfig(url="http://127.0.0.1:1"),
        now=lambda: NOON,
    )
    registry._known.update(known)  # noqa: SLF001  as if they were requested before
    return registry


def decoder_of(
    *schemas: object, declared: Mapping[str, str] | None = None, **options: str
) -> Decoder:
    return Decoder(
        source="topic",
        topic="orders",
        options=TopicOptions.model_validate(
            {"decode": Decode.AVRO, "schema": declared or {}, **options}
        ),
        max_value_bytes=1_000,
        registry=registry_of(*schemas),
    )


def records_of(*values: bytes | None) -> list[TopicRecord]:
    return [TopicRecord(0, at, 0, None, value) for at, value in enumerate(values)]


def columns_of(decoder: Decoder, *values: bytes | None) -> dict[str, str]:
    inferred = decoder.inferred(iter(records_of(*values)))
    return {column.name: str(column.type) for column in inferred.columns}


def rows_of(decoder: Decoder, *values: bytes | None) -> list[dict[str, object]]:
    columns = decoder.plain_columns or decoder.inferred(iter(records_of(*values))).columns
    kinds = {column.name: column.type for column in columns}
    read = decoder.rows(list(kinds), kinds)
    return [read(record) for record in records_of(*values)]


ALL = record_of(
    {
        "flag": "boolean",
        "id": "long",
        "single": "float",
        "wide": ["null", "double"],
        "price": logical("bytes", "decimal", precision=9, scale=2),
        "huge": logical("bytes", "decimal", precision=39),
        "name": "string",
        "raw": "bytes",
        "uid": logical("string", "uuid"),
        "day": logical("int", "date"),
        "clock": logical("int", "time-millis"),
        "at": logical("long", "timestamp-millis"),
        "local": logical("long", "local-timestamp-micros"),
        "who": [
            "null",
            record_of({"name": "string", "tags": {"type": "array", "items": "int"}}, "W"),
        ],
        "marks": {"type": "map", "values": "bytes"},
        "any": ["int", "string"],
        "nothing": "null",
    }
)
VALUE = {
    "flag": True,
    "id": 2**62,
    "single": 0.5,
    "wide": (1, float("inf")),
    "price": b"\xfe\xdc",
    "huge": b"\5",
    "name": "é",
    "raw": b"\0",
    "uid": str(UUID(int=7)),
    "day": 1,
    "clock": 1,
    "at": -1,
    "local": 1,
    "who": (1, {"name": "a", "tags": [1]}),
    "marks": {"k": b"\0"},
    "any": (1, "x"),
    "nothing": None,
}


def test_columns_have_the_types_of_the_schema() -> None:
    assert columns_of(decoder_of(ALL), None, confluent(1, ALL, VALUE)) == {
        "flag": "bool",
        "id": "int",
        "single": "float32",
        "wide": "float64",
        "price": "decimal(9,2)",
        "huge": "text",
        "name": "text",
        "raw": "binary",
        "uid": "uuid",
        "day": "date",
        "clock": "time",
        "at": "instant",
        "local": "local_timestamp",
        "who.name": "text",
        "who.tags": "json",
        "marks": "json",
        "any": "text",
        "nothing": "null",
    }


def test_values_are_plain_values_of_their_columns() -> None:
    row, tombstone = rows_of(decoder_of(ALL), confluent(1, ALL, VALUE), None)
    assert row == {
        "flag": True,
        "id": 2**62,
        "single": 0.5,
        "wide": float("inf"),
        "price": Decimal("-2.92"),
        "huge": "5",
        "name": "é",
        "raw": b"\0",
        "uid": UUID(int=7),
        "day": Decimal(1),
        "clock": Decimal(1_000),
        "at": Decimal(-1_000),
        "local": Decimal(1),
        "who.name": "a",
        "who.tags": "[1]",
        "marks": '{"k":"AA=="}',
        "any": '"x"',
        "nothing": None,
    }
    assert set(tombstone.values()) == {None}


def test_a_value_that_its_column_cannot_hold_is_invalid() -> None:
    schema = record_of({"day": logical("int", "date"), "raw": "bytes", "wide": "double"})
    value = confluent(1, schema, {"day": 2**31 - 1, "raw": b"x", "wide": float("nan")})
    declared = {"raw": "text", "wide": "int"}
    (row,) = rows_of(decoder_of(schema, declared=declared), value)
    assert [type(one) for one in row.values()] == [Invalid, Invalid, Invalid]


def test_schemas_of_one_topic_are_one_table() -> None:
    one = record_of(
        {"id": "int", "wide": "float", "price": logical("bytes", "decimal", precision=4)}
    )
    two = record_of({"id": "long", "wide": "double", "price": "long", "more": "string"})
    values = (
        confluent(1, one, {"id": 1, "wide": 0.5, "price": b"\5"}),
        confluent(2, two, {"id": 2, "wide": 0.1, "price": 7, "more": "x"}),
    )
    decoder = decoder_of(one, two)
    assert columns_of(decoder, *values) == {
        "id": "int",
        "wide": "float64",
        "price": "decimal",
        "more": "text",
    }
    assert [row["price"] for row in rows_of(decoder, *values)] == [5, 7]


def test_two_types_of_one_column_must_be_declared() -> None:
    one, two = record_of({"a": "int"}), record_of({"a": "string"})
    values = (confluent(1, one, {"a": 1}), confluent(2, two, {"a": "x"}))
    with pytest.raises(SourceUnsupportedError, match=r"'a' is int .* options.schema"):
        columns_of(decoder_of(one, two), *values)
    (first, second) = rows_of(decoder_of(one, two, declared={"a": "text"}), *values)
    assert (first["a"], second["a"]) == ("1", "x")


def test_the_columns_of_a_table_are_read_as_a_sink_writes_them() -> None:
    declared = {"id": "int", "raw": "binary", "who": "text", "wide": "float64", "gone": "text"}
    schema = record_of(
        {"id": "long", "raw": "bytes", "who": record_of({"d": "double"}, "W"), "wide": "double"}
    )
    value = {"id": 1, "raw": b"x", "who": {"d": 1e22}, "wide": -0.0}
    (row,) = rows_of(
        decoder_of(schema, declared=declared, infer="none"), confluent(1, schema, value)
    )
    assert row == {"id": 1, "raw": b"x", "who": '{"d":1E+22}', "wide": 0.0, "gone": None}


@pytest.mark.parametrize(
    ("value", "error", "word"),
    [
        (b"{}", CorruptSourceError, "zero byte"),
        (b"\0\0\0\0\1\2\0", CorruptSourceError, "1 bytes follow"),
        (b"\0" * 1_001, SourceLimitError, "more than 1000 bytes"),
    ],
)
def test_a_record_that_cannot_be_read_is_named_by_its_place(
    value: bytes, error: type[Exception], word: str
) -> None:
    schema = record_of({"id": "long"})
    for read in (columns_of, rows_of):
        with pytest.raises(error, match=rf"topic orders partition 0 offset 1.*{word}"):
            read(decoder_of(schema), confluent(1, schema, {"id": 1}), value)


def test_a_field_with_the_name_of_a_place_is_refused() -> None:
    schema = record_of({"_kafka_offset": "long"})
    with pytest.raises(CorruptSourceError, match="_kafka_offset"):
        columns_of(decoder_of(schema), confluent(1, schema, {"_kafka_offset": 1}))


def test_a_connection_without_registry_is_named() -> None:
    decoder = decoder_of()
    without = Decoder(
        source="topic", topic="orders", options=decoder.options, max_value_bytes=1_000
    )
    with pytest.raises(SourceUnsupportedError, match="schema registry"):
        columns_of(without, b"\0\0\0\0\1")


NATIVE: tuple[object, ...] = (
    True,
    *(0, 7, -(2**31), 2**53 + 1, 2**63 - 1),
    *(0.0, -0.0, 0.1, 0.5, 1e300, 3.4e38, 5e-324, 2.0**53, math.nan, math.inf),
    struct.unpack("<f", struct.pack("<f", 0.1))[0],
    *(ExactDecimal("12.50"), ExactDecimal("0E-7"), ExactDecimal("7"), ExactDecimal(10**38 - 1)),
    *("text", "a\0b", "7", "0012.50", "2026-01-31", "12:00", "AAECAw==", str(UUID(int=7))),
    *("2026-01-31T12:00:00.5+01:30", "1969-12-31 23:59:59.999999", "1969-12-31T23:59:59Z"),
    *(b"", b"\0\1\2\3", UUID(int=7), time(23, 59, 59, 999_999)),
    *(date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)),
    datetime(1969, 12, 31, 23, 59, 59, 999_999),  # noqa: DTZ001  a local one
    datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    {"a": [ExactDecimal("1.50"), 0.1, 1e22, b"\1", UUID(int=7), date(2026, 1, 31), None]},
    [datetime(2026, 1, 31, tzinfo=UTC), ExactDecimal("0E-7"), True, "é"],
    Unfit("too fine"),
)


@pytest.mark.parametrize(
    "column",
    [
        BooleanType(),
        IntegerType(),
        LongType(),
        FloatType(),
        DoubleType(),
        DecimalType(12, 3),
        DecimalType(38, 0),
        StringType(),
        DateType(),
        TimeType(),
        TimestampType(),
        TimestamptzType(),
        UUIDType(),
        BinaryType(),
        FixedType(4),
    ],
    ids=str,
)
def test_a_value_that_a_sink_writes_into_a_column_is_read_alike(column: IcebergType) -> None:
    """From every value that Avro has, into every type of a column."""
    kind = canonical_type(column)
    assert kind is not None
    read, convert, count = reader_of_avro(kind, reader_as_written(kind)), conversion_to(column), 0
    for value in NATIVE:
        try:
            written = convert(value)
        except MismatchError:
            continue
        if isinstance(column, UUIDType):
            written = UUID(bytes=written)  # type: ignore[arg-type]  # the 16 bytes of a uuid
        expected = encode(canonical(written, kind, "table"))
        assert encode(canonical(read(value), kind, "topic")) == expected, value
        count += 1
    assert count
