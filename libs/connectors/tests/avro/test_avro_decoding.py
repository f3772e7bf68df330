"""Avro's binary form to values: exact, by the schema of the producer, and bounded."""

import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_connectors.avro.decoding import AvroValueError, reader_of, schema_id
from datarecs_connectors.avro.schemas import AvroSchemaError, parsed_schema
from datarecs_connectors.avro.values import ExactDecimal, Unfit
from datarecs_testing.avro_values import avro_bytes, confluent, long_bytes, record_of


def decoded(kind: object, value: object) -> object:
    """What the decoder makes of one field."""
    schema = record_of({"f": kind})
    made = reader_of(parsed_schema(json.dumps(schema)))(confluent(1, schema, {"f": value}))
    assert isinstance(made, dict)
    return made["f"]


def refusal(schema: object, content: bytes) -> str:
    read = reader_of(parsed_schema(json.dumps(schema)))
    with pytest.raises(AvroValueError) as refused:
        read(b"\0\0\0\0\1" + content)
    return str(refused.value)


def logical(kind: str, name: str, **facts: object) -> dict[str, object]:
    return {"type": kind, "logicalType": name, **facts}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("boolean", st.booleans()),
        ("int", st.integers(-(2**31), 2**31 - 1)),
        ("long", st.integers(-(2**63), 2**63 - 1)),
        ("float", st.floats(width=32)),
        ("double", st.floats()),
        ("bytes", st.binary()),
        ("string", st.text(st.characters(exclude_categories=["Cs"]))),
        ({"type": "array", "items": "long"}, st.lists(st.integers(-9, 9))),
        ({"type": "map", "values": "int"}, st.dictionaries(st.text("abc"), st.integers(0, 9))),
        ({"type": "fixed", "name": "F", "size": 3}, st.binary(min_size=3, max_size=3)),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, st.sampled_from("AB")),
    ],
    ids=str,
)
@given(data=st.data())
def test_a_value_is_read_as_it_was_written(
    kind: object, values: st.SearchStrategy[object], data: st.DataObject
) -> None:
    value = data.draw(values)
    made = decoded(kind, value)
    if isinstance(value, float) and math.isnan(value):
        assert isinstance(made, float)
        assert math.isnan(made)
    else:
        assert (type(made), made) == (type(value), value)


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        (logical("bytes", "decimal", precision=5, scale=2), b"\xfe\xdc", ExactDecimal("-2.92")),
        (logical("bytes", "decimal", precision=5, scale=2), b"\0" * 90 + b"\5", Decimal("0.05")),
        (logical("bytes", "decimal", precision=40, scale=1), b"\5", "0.5"),
        (
            {"type": "fixed", "name": "D", "size": 16, **logical("fixed", "decimal", precision=9)},
            b"\xff" * 15 + b"\xfe",
            Decimal(-2),
        ),
        (logical("string", "uuid"), "7f6f8d0c-0000-4000-8000-000000000001", None),
        (
            {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
            bytes(15) + b"\7",
            UUID(int=7),
        ),
        (logical("int", "date"), -719162, date(1, 1, 1)),
        (logical("int", "time-millis"), 86_399_999, time(23, 59, 59, 999_000)),
        (logical("long", "time-micros"), 1, time(0, 0, 0, 1)),
        (logical("long", "timestamp-millis"), -1, datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)),
        (logical("long", "timestamp-micros"), 1, datetime(1970, 1, 1, 0, 0, 0, 1, UTC)),
        (
            logical("long", "timestamp-nanos"),
            -1_000,
            datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        ),
        (logical("long", "local-timestamp-millis"), 5, datetime(1970, 1, 1, 0, 0, 0, 5000)),  # noqa: DTZ001  local on purpose
        (logical("long", "local-timestamp-micros"), 5, datetime(1970, 1, 1, 0, 0, 0, 5)),  # noqa: DTZ001  local on purpose
        (logical("long", "local-timestamp-nanos"), 5_000, datetime(1970, 1, 1, 0, 0, 0, 5)),  # noqa: DTZ001  local on purpose
        (logical("int", "timestamp-millis"), 5, 5),
        (logical("long", "made-up"), 5, 5),
        (logical("bytes", "decimal", precision=2, scale=3), b"\5", b"\5"),
        (["null", "long"], (0, None), None),
        (["null", "long"], (1, 7), 7),
        (["string", "null"], (0, "x"), "x"),
        (["null", "int", "string"], (1, 5), "5"),
        (["null", "int", "string"], (2, "5"), '"5"'),
        (["null", "int", "string"], (0, None), None),
        (["bytes", logical("int", "date")], (1, 0), '"1970-01-01"'),
        (["bytes", "long"], (0, b"\0"), '"AA=="'),
        (["double", "long"], (0, 1e22), "1E+22"),
        (
            [{"type": "array", "items": ["int", "string"]}, "long"],
            (0, [(0, 1), (1, "x")]),
            '[1,"x"]',
        ),
    ],
    ids=str,
)
def test_logical_types_and_unions(kind: object, written: object, value: object) -> None:
    made = decoded(kind, written)
    assert made == (written if kind == logical("string", "uuid") else value)


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (logical("bytes", "decimal", precision=2), b"\x64"),
        (logical("bytes", "decimal", precision=2), b"\1" + bytes(1_000)),
        (logical("int", "date"), 2**31 - 1),
        (logical("int", "time-millis"), 86_400_000),
        (logical("long", "time-micros"), -1),
        (logical("long", "timestamp-millis"), 2**63 - 1),
        (logical("long", "timestamp-micros"), -(2**62)),
        (logical("long", "timestamp-nanos"), 1),
        (["double", "long"], (0, math.nan)),
    ],
    ids=str,
)
def test_a_value_that_no_column_holds_is_marked_and_not_changed(
    kind: object, written: object
) -> None:
    assert isinstance(decoded(kind, written), Unfit)


ROW = record_of({"f": "long"})


@pytest.mark.parametrize(
    ("schema", "content", "word"),
    [
        (ROW, b"", "too early"),
        (ROW, b"\x80", "too early"),
        (ROW, b"\2\0", "1 bytes follow"),
        (ROW, b"\xff" * 9 + b"\x02", "64 bits"),
        (ROW, b"\xff" * 11, "64 bits"),
        (record_of({"f": "int"}), long_bytes(2**31), "32 bits"),
        (record_of({"f": "boolean"}), b"\2", "boolean"),
        (record_of({"f": "string"}), b"\2\xff", "UTF-8"),
        (record_of({"f": "string"}), b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1", "too early"),
        (record_of({"f": "bytes"}), b"\1", "too early"),
        (record_of({"f": ["null", "long"]}), b"\4", "branch"),
        (record_of({"f": {"type": "enum", "name": "E", "symbols": ["A"]}}), b"\2", "symbol"),
        (record_of({"f": {"type": "map", "values": "long"}}), b"\4\2a\0\2a\0\0", "twice"),
        (record_of({"f": {"type": "array", "items": "long"}}), long_bytes(10**7), "more than"),
        (record_of({"f": logical("bytes", "decimal", precision=2)}), b"\0", "no bytes"),
    ],
    ids=str,
)
def test_bytes_that_are_no_value_are_refused(schema: object, content: bytes, word: str) -> None:
    assert word in refusal(schema, content)


@given(content=st.binary(max_size=60))
def test_any_bytes_are_a_value_or_refused(content: bytes) -> None:
    inner = record_of({"a": ["null", "string"], "b": {"type": "array", "items": "long"}}, "In")
    fields = {"i": inner, "m": {"type": "map", "values": "In"}, "d": ["int", "double", "In"]}
    read = reader_of(parsed_schema(json.dumps(record_of(fields))))
    try:
        assert isinstance(read(b"\0\0\0\0\1" + content), dict)
    except AvroValueError:
        return


@pytest.mark.parametrize("value", [b"", b"\0\0\0\1", b"{}....", b"\1\0\0\0\1"])
def test_a_value_without_the_head_of_a_registry_is_refused(value: bytes) -> None:
    with pytest.raises(AvroValueError, match="zero byte"):
        schema_id(value)


def nested(levels: int) -> object:
    kind: object = "long"
    for _ in range(levels):
        kind = {"type": "array", "items": kind}
    return kind


def doubled(times: int) -> dict[str, object]:
    """Each type uses the one before ten times."""
    kind: object = record_of({"x": "long"}, "T0")
    for number in range(1, times):
        fields = {f"f{at}": kind if at == 0 else f"T{number - 1}" for at in range(10)}
        kind = record_of(fields, f"T{number}")
    return record_of({"f": kind})


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        (
            {"type": "record", "name": "L", "fields": [{"name": "n", "type": ["null", "L"]}]},
            "itself",
        ),
        (record_of({"f": nested(16)}), "levels"),
        (record_of({"f": {"type": "array", "items": "null"}}), "no bytes"),
        (record_of({"f": {"type": "array", "items": record_of({}, "E")}}), "no bytes"),
        (doubled(6), "fields"),
        (record_of({"f": "Nothing"}), "Nothing"),
        (record_of({"f": record_of({}, "Row")}), "twice"),
        ({"type": "record", "name": "R"}, "no schema"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}] * 2}, "one name"),
        (5, "no schema"),
        (None, "no schema"),
        ({"type": "fixed", "name": "F", "size": -1}, "size"),
    ],
    ids=str,
)
def test_schemas_without_bound_are_refused(schema: object, word: str) -> None:
    with pytest.raises(AvroSchemaError, match=word):
        parsed_schema(json.dumps(schema))


def test_a_text_of_deep_brackets_is_no_schema() -> None:
    with pytest.raises(AvroSchemaError):
        parsed_schema("[" * 500_000)


def test_fifteen_levels_are_read() -> None:
    value: object = 7
    for _ in range(15):
        value = [value]
    assert decoded(nested(15), value) == value


def test_a_name_is_that_of_its_namespace_or_of_none() -> None:
    schema = {
        "type": "record",
        "name": "a.b.Row",
        "fields": [
            {"name": "one", "type": {"type": "fixed", "name": "F", "size": 1}},
            {"name": "two", "type": "F"},
            {"name": "three", "type": "a.b.F"},
            {"name": "four", "type": record_of({"x": "F"}, "c.In")},
        ],
    }
    with pytest.raises(AvroSchemaError, match="'F'"):
        parsed_schema(json.dumps(schema))
    schema["fields"] = schema["fields"][:3]
    assert reader_of(parsed_schema(json.dumps(schema)))(b"\0\0\0\0\1abc") == {
        "one": b"a",
        "two": b"b",
        "three": b"c",
    }


def test_types_of_referenced_schemas_are_known() -> None:
    address = json.dumps(record_of({"city": "string"}, "geo.Address"))
    node = parsed_schema(json.dumps(record_of({"at": "geo.Address"})), [address])
    value = avro_bytes(record_of({"at": json.loads(address)}), {"at": {"city": "Wien"}})
    assert reader_of(node)(b"\0\0\0\0\1" + value) == {"at": {"city": "Wien"}}
