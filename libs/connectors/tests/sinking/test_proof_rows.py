"""What the proof of a sink reads of a topic equals what the sink writes, and nothing else does."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
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
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from datarecs_connectors.errors import CorruptSourceError
from datarecs_core.sink.definition import MetadataColumns

from .proof_house import differences, land, records_of
from .sink_house import House

PLACES = (
    ("_kafka_topic", StringType()),
    ("_kafka_partition", IntegerType()),
    ("_kafka_offset", LongType()),
    ("_kafka_timestamp", TimestamptzType()),
    ("_kafka_key", BinaryType()),
)


def schema_of(**columns: IcebergType) -> Schema:
    named = (*columns.items(), *PLACES)
    return Schema(
        *(
            NestedField(number, name, kind, required=False)
            for number, (name, kind) in enumerate(named, 1)
        )
    )


def map_names(house: House, mapping: list[dict[str, Any]]) -> None:
    with house.table().transaction() as change:
        change.set_properties({"schema.name-mapping.default": json.dumps(mapping)})


def overwrite(house: House, row: int, column: str, value: object) -> None:
    """One cell, as another writer would."""
    table = house.table()
    content = table.scan().to_arrow()
    at = content.schema.get_field_index(column)
    kind = content.schema.field(at)
    cells = content.column(at).to_pylist()
    cells[row] = value
    table.overwrite(content.set_column(at, kind, pa.array(cells, kind.type)))


@pytest.mark.case("I63")
@pytest.mark.parametrize(
    ("mapping", "changes", "field"),
    [
        ([{"field-id": 2, "names": ["amount", "amt"]}], {}, "amt"),
        ([], {"case_insensitive": True}, "AMOUNT"),
        ([{"field-id": 2, "names": ["Amt"]}], {"case_insensitive": True}, "aMT"),
    ],
)
def test_a_field_with_another_name_than_its_column_is_compared(
    house: House, mapping: list[dict[str, Any]], changes: dict[str, Any], field: str
) -> None:
    house.lake.table("orders", schema_of(id=LongType(), amount=LongType()))
    if mapping:
        map_names(house, mapping)
    records = records_of(*(json.dumps({"id": n, field: n * 2}) for n in range(1, 6)))
    assert land(house, records, **changes) == set()
    assert differences(house, records, **changes) == set()
    overwrite(house, 3, "amount", None)
    assert differences(house, records, **changes) == {3}


@pytest.mark.case("I63")
@pytest.mark.parametrize(
    ("column", "value"),
    [("_kafka_timestamp", datetime(2026, 1, 1, tzinfo=UTC)), ("_kafka_key", b"forged")],
)
def test_a_forged_place_of_a_record_is_a_difference(
    house: House, column: str, value: object
) -> None:
    house.lake.table("orders", schema_of(id=LongType()))
    places = {"metadata_columns": MetadataColumns.ALL}
    records = records_of(*(json.dumps({"id": n}) for n in range(3)))
    land(house, records, **places)
    assert differences(house, records, **places) == set()
    overwrite(house, 1, column, value)
    assert differences(house, records, **places) == {1}


def test_a_column_that_begins_like_those_of_places_is_compared(house: House) -> None:
    house.lake.table("orders", schema_of(_kafka_lag=LongType()))
    records = records_of('{"_kafka_lag": 1}', '{"_kafka_lag": 2}')
    places = {"metadata_columns": MetadataColumns.ALL}
    land(house, records, **places)
    assert differences(house, records, **places) == set()
    overwrite(house, 1, "_kafka_lag", 3)
    assert differences(house, records, **places) == {1}


def test_a_column_with_a_point_in_its_name_is_no_member_of_an_object(house: House) -> None:
    house.lake.table("orders", schema_of(**{"a.b": LongType()}))
    records = records_of('{"a": {"b": 1}}', '{"a.b": 2}')
    land(house, records)
    assert differences(house, records, excluded=("_kafka_key",)) == set()


@pytest.mark.case("I63")
def test_a_record_outside_of_a_condition_on_its_place_is_not_decoded(house: House) -> None:
    house.lake.table("orders", schema_of(id=LongType()))
    records = records_of("no object", "[1]", '{"id": 1}', '{"id": 2}')
    places = {"metadata_columns": MetadataColumns.ALL}
    assert land(house, records, **places) == {0, 1}
    window = f"_kafka_timestamp >= TIMESTAMP '{datetime(2026, 1, 1, 0, 0, 2)}+00:00'"  # noqa: DTZ001  its text has the offset
    assert differences(house, records, condition=window, **places) == set()
    overwrite(house, 1, "id", 7)
    assert differences(house, records, condition=window, **places) == {3}
    with pytest.raises(CorruptSourceError, match="offset 0"):
        differences(house, records, **places)


DIGITS = st.text("0123456789", min_size=1, max_size=25)
DAYS = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30))  # noqa: DTZ001  texts without offset
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.integers(-1_000, 1_000).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.tuples(st.integers(-99, 99), DIGITS).map(lambda parts: f"{parts[0]}.{parts[1]}"),
    st.tuples(st.integers(-99, 99), st.integers(-330, 310)).map(lambda p: f"{p[0]}.50e{p[1]}"),
    st.sampled_from(["-0", "-0.0", "0.1", "0.1234567890123456789", "16777217", "1e400", "7.0"]),
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
TREES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=5,
)
OFFSETS = st.sampled_from(["Z", "+00:00", "+0130", "-05:45", "+14:00", "-00:00"])


def quoted(texts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return texts.map(lambda text: json.dumps(text, ensure_ascii=False))


def moments(form: str) -> st.SearchStrategy[str]:
    return DAYS.map(lambda moment: f"{moment.year:04}-{moment:%m-%d}{form.format(moment)}")


FORMS: dict[str, tuple[IcebergType, st.SearchStrategy[str]]] = {
    "boolean": (BooleanType(), st.sampled_from(["true", "false", '"true"', "1"])),
    "int": (IntegerType(), st.one_of(NUMBERS, quoted(st.integers().map(str)), quoted(DIGITS))),
    "long": (LongType(), st.one_of(NUMBERS, quoted(st.integers().map(str)))),
    "float": (FloatType(), st.one_of(NUMBERS, st.just('"1.5"'))),
    "double": (DoubleType(), st.one_of(NUMBERS, st.just('"NaN"'))),
    "decimal": (DecimalType(12, 3), st.one_of(NUMBERS, quoted(DIGITS), st.just('"0012.500"'))),
    "wide": (DecimalType(38, 0), st.one_of(NUMBERS, quoted(DIGITS))),
    "string": (
        StringType(),
        st.one_of(
            quoted(TEXTS),
            quoted(st.just("a\0b")),
            TREES.map(json.dumps),
            st.just('{"b": 1.50, "a": [1e2, -0, 0.10, "\\u00e9"]}'),
            NUMBERS,
        ),
    ),
    "date": (DateType(), quoted(st.one_of(moments(""), st.just("2026-02-30"), TEXTS))),
    "time": (
        TimeType(),
        quoted(
            st.one_of(
                st.times().map(lambda clock: clock.isoformat()),
                st.sampled_from(["12:00", "23:59:59.5", "12:00:00.123456000", "24:00:00", "7:00"]),
            )
        ),
    ),
    "timestamp": (
        TimestampType(),
        quoted(
            st.one_of(
                moments("T{0:%H:%M:%S.%f}"), moments(" {0:%H:%M}"), moments(""), moments("T25:00")
            )
        ),
    ),
    "timestamptz": (
        TimestamptzType(),
        quoted(
            st.one_of(
                st.tuples(moments("T{0:%H:%M:%S.%f}"), OFFSETS).map("".join),
                st.tuples(moments(" {0:%H:%M}"), OFFSETS).map("".join),
                moments("T{0:%H:%M}"),
            )
        ),
    ),
    "uuid": (
        UUIDType(),
        quoted(st.one_of(st.uuids().map(str), st.uuids().map(lambda one: str(one).upper()))),
    ),
    "binary": (BinaryType(), quoted(st.sampled_from(["", "AAH/", "AAH", "AAECAw==", "é"]))),
    "fixed": (FixedType(4), quoted(st.sampled_from(["AAECAw==", "AAH/"]))),
}
"""Every column type that docs/howto/sink.md names and a proof compares, with forms of values."""
OTHERS: dict[str, object] = {
    "boolean": True,
    "int": 41,
    "long": 41,
    "float": 0.5,
    "double": 0.5,
    "string": "another",
    "date": datetime(2001, 1, 1, tzinfo=UTC).date(),
    "timestamp": datetime(2001, 1, 1),  # noqa: DTZ001  a local one
    "timestamptz": datetime(2001, 1, 1, tzinfo=UTC),
    "binary": b"\x07",
    "fixed": b"\x07\x07\x07\x07",
}
SHORT = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.case("I63")
@pytest.mark.parametrize("name", FORMS)
def test_every_value_that_the_sink_writes_is_read_alike(house: House, name: str) -> None:
    kind, forms = FORMS[name]
    house.lake.table("orders", schema_of(x=kind))
    seen: list[str] = []

    @settings(max_examples=300, deadline=None, database=None)
    @given(st.one_of(forms, *(other for _, other in FORMS.values())))
    def collect(form: str) -> None:
        seen.append(form)

    collect()
    records = records_of(*(f'{{"x": {form}}}' for form in dict.fromkeys(seen)))
    dead = land(house, records, metadata_columns=MetadataColumns.ALL)
    assert len(dead) < len(records)
    assert differences(house, records, metadata_columns=MetadataColumns.ALL) == dead
