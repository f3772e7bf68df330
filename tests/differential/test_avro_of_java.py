"""Records that Apache's Avro for Java has written are read by its specification, value by value.

The producers of most topics are Java; the writer of the other tests is of this repository.
"""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from datarecs_connectors.avro.decoding import reader_of
from datarecs_connectors.avro.schemas import parsed_schema
from datarecs_spark.session import SparkRuntime

pytestmark = pytest.mark.spark
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "com.example",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "small", "type": "int"},
        {"name": "flag", "type": "boolean"},
        {"name": "single", "type": "float"},
        {"name": "wide", "type": "double"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {
            "name": "amount",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "four", "type": {"type": "fixed", "name": "Four", "size": 4}},
        {"name": "again", "type": "Four"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "fine", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [{"name": "n", "type": "int"}, {"name": "raw", "type": "bytes"}],
                },
            },
        },
        {"name": "marks", "type": {"type": "map", "values": ["null", "com.example.Line"]}},
        {"name": "any", "type": ["null", "long", "string", "Line"]},
    ],
}
WRITTEN: dict[str, Any] = {
    "id": -(2**63),
    "small": 2**31 - 1,
    "flag": True,
    "single": 0.5,
    "wide": 1e-300,
    "note": {"string": "é\U0001f600"},
    "amount": "\u00fe\u00dc",
    "four": "\0\1\2\u00ff",
    "again": "abcd",
    "state": "PAID",
    "day": -1,
    "clock": 1,
    "at": -1,
    "fine": 1_000,
    "local": 1,
    "lines": [{"n": n, "raw": "\u00ff" * n} for n in range(300)],
    "marks": {"a": {"com.example.Line": {"n": 1, "raw": ""}}, "b": None},
    "any": {"com.example.Line": {"n": 7, "raw": "\0"}},
}
READ = {
    "id": -(2**63),
    "small": 2**31 - 1,
    "flag": True,
    "single": 0.5,
    "wide": 1e-300,
    "note": "é\U0001f600",
    "amount": Decimal("-2.92"),
    "four": b"\0\1\2\xff",
    "again": b"abcd",
    "state": "PAID",
    "day": date(1969, 12, 31),
    "clock": time(0, 0, 0, 1_000),
    "at": datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC),
    "fine": datetime(1970, 1, 1, 0, 0, 0, 1, UTC),
    "local": datetime(1970, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001  local
    "lines": [{"n": n, "raw": b"\xff" * n} for n in range(300)],
    "marks": {"a": {"n": 1, "raw": b""}, "b": None},
    "any": '{"n":7,"raw":"AA=="}',
}


@pytest.mark.parametrize("encoder", ["binaryEncoder", "blockingBinaryEncoder"])
@pytest.mark.case("I45")
def test_a_record_that_java_has_written_is_read(spark_runtime: SparkRuntime, encoder: str) -> None:
    content = java_bytes(spark_runtime, encoder)
    read = reader_of(parsed_schema(json.dumps(SCHEMA)))
    assert read(b"\0\0\0\0\1" + content) == READ


def java_bytes(runtime: SparkRuntime, encoder: str) -> bytes:
    java: Any = runtime.session().sparkContext._jvm  # noqa: SLF001  py4j's
    avro = java.org.apache.avro
    schema = getattr(avro, "Schema$Parser")().parse(json.dumps(SCHEMA))
    source = avro.io.DecoderFactory.get().jsonDecoder(schema, json.dumps(WRITTEN))
    value = avro.generic.GenericDatumReader(schema).read(None, source)
    target = java.java.io.ByteArrayOutputStream()
    writing = getattr(avro.io.EncoderFactory.get(), encoder)(target, None)
    avro.generic.GenericDatumWriter(schema).write(value, writing)
    writing.flush()
    return bytes(target.toByteArray())
