"""Values of records in columns: equal after they are read back, or a bad record; never NULL."""

import base64
import json
import math
import string
import struct
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta, timezone
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
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.name_mapping import NameMapping
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

from datarecs_connectors.sinking.rows import RowConverter
from datarecs_core.errors.sink import BadRecordError
from datarecs_core.sink.definition import MetadataColumns

from .sink_house import House, a_record, from_json, records_of

EXAMPLES, ROWS = 50, 20
"""Together 1,000 records for each pair of types."""


def metadata_of(*fields: NestedField, **properties: str) -> TableMetadata:
    return new_table_metadata(
        Schema(*fields),
        UNPARTITIONED_PARTITION_SPEC,
        UNSORTED_SORT_ORDER,
        "file:///lake/t",
        {"format-version": "2", **properties},
    )


def column_of(kind: IcebergType, values: Sequence[Any]) -> list[Any]:
    """What a column of a type holds of these values, read back from Parquet."""
    converter = RowConverter(metadata_of(NestedField(1, "c", kind)), MetadataColumns.NONE)
    rows = converter.convert(records_of(*({"c": value} for value in values)))
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, store_decimal_as_integer=True)
    column: list[Any] = pq.read_table(pa.BufferReader(sink.getvalue())).column(0).to_pylist()
    return column


def refusal(kind: IcebergType, value: object) -> str:
    with pytest.raises(BadRecordError) as bad:
        column_of(kind, [None, value])
    assert (bad.value.path, bad.value.at) == ("c", 1)
    assert not str(value) or len(str(value)) < 4 or str(value) not in bad.value.reason
    return bad.value.reason


json_numbers = st.decimals(
    allow_nan=False, allow_infinity=False, places=3, min_value=-(10**7), max_value=10**7
)
instants = st.datetimes(min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29))  # noqa: DTZ001  naive on purpose
offsets = st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m)))
texts = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | json_numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
floats32 = st.floats(allow_nan=False, allow_infinity=False, width=32)

PAIRS: dict[str, tuple[IcebergType, st.SearchStrategy[Any], Any]] = {
    "bool": (BooleanType(), st.booleans(), lambda v: v),
    "int": (IntegerType(), st.integers(-(2**31), 2**31 - 1), lambda v: v),
    "int of text": (IntegerType(), st.integers(-(2**31), 2**31 - 1).map(str), int),
    "int of decimal": (
        IntegerType(),
        st.integers(-(2**31), 2**31 - 1).map(lambda v: Decimal(f"{v}.0")),
        int,
    ),
    "long": (LongType(), st.integers(-(2**63), 2**63 - 1), lambda v: v),
    "long of text": (LongType(), st.integers(-(2**63), 2**63 - 1).map(str), int),
    "float of int": (FloatType(), st.integers(-(2**24), 2**24), float),
    "float of its digits": (FloatType(), floats32.map(lambda v: Decimal(repr(v))), float),
    "double": (
        DoubleType(),
        st.floats(allow_nan=False, allow_infinity=False).map(lambda v: Decimal(repr(v))),
        float,
    ),
    "double of int": (DoubleType(), st.integers(-(2**53), 2**53), float),
    "decimal": (DecimalType(12, 3), json_numbers, lambda v: v),
    "decimal of int": (DecimalType(38, 3), st.integers(-(10**34), 10**34), Decimal),
    "decimal of text": (DecimalType(12, 3), json_numbers.map(lambda v: format(v, "f")), Decimal),
    "string": (StringType(), texts, lambda v: v),
    "string of object": (StringType(), st.dictionaries(texts, json_values, max_size=3), None),
    "string of array": (StringType(), st.lists(json_values, max_size=3), None),
    "date": (DateType(), st.dates().map(str), date.fromisoformat),
    "time": (TimeType(), st.times().map(time.isoformat), time.fromisoformat),
    "timestamp": (TimestampType(), instants.map(datetime.isoformat), datetime.fromisoformat),
    "timestamptz": (
        TimestamptzType(),
        st.builds(lambda at, zone: at.replace(tzinfo=zone).isoformat(), instants, offsets),
        lambda v: datetime.fromisoformat(v).astimezone(UTC),
    ),
    "uuid": (UUIDType(), st.uuids().map(str), UUID),
    "binary": (
        BinaryType(),
        st.binary().map(lambda v: base64.b64encode(v).decode()),
        base64.b64decode,
    ),
    "fixed": (
        FixedType(4),
        st.binary(min_size=4, max_size=4).map(lambda v: base64.b64encode(v).decode()),
        base64.b64decode,
    ),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.case("I45")
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_value_of_the_right_kind_is_equal_after_it_was_read_back(
    pair: str, data: st.DataObject
) -> None:
    kind, values, expected = PAIRS[pair]
    rows = data.draw(st.lists(st.none() | values, min_size=1, max_size=ROWS))
    read = column_of(kind, rows)
    for value, back in zip(rows, read, strict=True):
        if value is None:
            assert back is None
        elif expected is None:
            assert json.loads(back, parse_float=Decimal) == json.loads(
                json.dumps(value, default=str), parse_float=Decimal
            ) or isinstance(back, str)
        else:
            assert back == expected(value)


KINDS: Sequence[IcebergType] = (
    BooleanType(),
    IntegerType(),
    LongType(),
    FloatType(),
    DoubleType(),
    DecimalType(9, 2),
    StringType(),
    DateType(),
    TimeType(),
    TimestampType(),
    TimestamptzType(),
    UUIDType(),
    BinaryType(),
    FixedType(3),
    ListType(2, LongType(), element_required=False),
    MapType(2, StringType(), 3, LongType(), value_required=False),
    StructType(NestedField(2, "x", LongType(), required=False)),
)
texts_of_types = st.sampled_from(
    [
        "1",
        "-0",
        "1.5",
        "2026-01-31",
        "2026-02-30",
        "12:00",
        "24:00:00",
        "2026-01-31T12:00:00Z",
        "2026-01-31T12:00",
        "AAAA",
        "AA==",
        "true",
    ]
)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.case("I45")
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(values=st.lists(json_values | texts_of_types | st.floats(), min_size=1, max_size=ROWS))
def test_any_value_is_stored_or_refused_and_never_null(
    kind: IcebergType, values: list[Any]
) -> None:
    try:
        read = column_of(kind, values)
    except BadRecordError:
        good = [value for value in values if _is_accepted(kind, value)]
        assert len(good) < len(values)
        read, values = column_of(kind, good), good
    assert [value is None for value in values] == [back is None for back in read]


def _is_accepted(kind: IcebergType, value: object) -> bool:
    try:
        column_of(kind, [value])
    except BadRecordError:
        return False
    return True


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (BooleanType(), 1),
        (BooleanType(), "true"),
        (IntegerType(), 2**31),
        (IntegerType(), True),
        (IntegerType(), Decimal("1.5")),
        (IntegerType(), "01"),
        (IntegerType(), "+1"),
        (IntegerType(), "-0"),
        (LongType(), 2**63),
        (LongType(), Decimal("1.5")),
        (LongType(), Decimal("1E+999999")),
        (LongType(), [1]),
        (FloatType(), 2**24 + 1),
        (FloatType(), Decimal("0.12345678901")),
        (FloatType(), Decimal("1e39")),
        (DoubleType(), 2**53 + 1),
        (DoubleType(), Decimal("1e400")),
        (DoubleType(), Decimal("1e-400")),
        (DoubleType(), "1.5"),
        (DoubleType(), True),
        (DecimalType(5, 2), Decimal("1.505")),
        (DecimalType(5, 2), Decimal("5E-324")),
        (DecimalType(5, 2), 1000),
        (DecimalType(5, 2), Decimal(1000)),
        (DecimalType(5, 2), "1e2"),
        (DecimalType(5, 2), True),
        (DecimalType(38, 2), Decimal("1e-999999")),
        (StringType(), 1),
        (StringType(), Decimal("1.5")),
        (StringType(), True),
        (StringType(), "\ud800"),
        (DateType(), "2026-02-30"),
        (DateType(), "20260131"),
        (DateType(), "2026-01-31T00:00:00"),
        (TimeType(), "24:00:00"),
        (TimeType(), "12:00:00.1234567"),
        (TimestampType(), "2026-01-31T12:00:00Z"),
        (TimestampType(), "2026-02-01"),
        (TimestamptzType(), "2026-01-31T12:00:00"),
        (TimestamptzType(), "2026-01-31T12:00:00.1234567Z"),
        (TimestamptzType(), 1_700_000_000),
        (UUIDType(), "0" * 32),
        (BinaryType(), "AA"),
        (BinaryType(), "AB=="),
        (FixedType(3), "AA=="),
        (ListType(2, LongType(), element_required=False), {"a": 1}),
        (MapType(2, StringType(), 3, LongType(), value_required=False), [1]),
        (StructType(NestedField(2, "x", LongType(), required=False)), "x"),
    ],
    ids=str,
)
@pytest.mark.case("I45")
def test_a_value_that_would_change_is_a_bad_record(kind: IcebergType, value: object) -> None:
    assert refusal(kind, value)


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        (IntegerType(), Decimal("1e3"), 1000),
        (DecimalType(5, 2), Decimal("1.500"), Decimal("1.50")),
        (DecimalType(5, 2), Decimal("1E+2"), Decimal("100.00")),
        (DecimalType(5, 2), Decimal(f"1.{'0' * 42}"), Decimal("1.00")),
        (DecimalType(5, 2), Decimal("0E+300"), Decimal("0.00")),
        (DoubleType(), 2**60, float(2**60)),
        (DoubleType(), Decimal("-0.0"), 0.0),
        (FloatType(), Decimal("0.1"), struct.unpack("<f", struct.pack("<f", 0.1))[0]),
        (
            TimestamptzType(),
            "2026-01-31 12:00:00.123456000+01:00",
            datetime(2026, 1, 31, 11, 0, 0, 123456, UTC),
        ),
        (TimestamptzType(), "2026-01-31T12:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        (TimeType(), "23:59", time(23, 59)),
        (StringType(), {"a": [1, Decimal("1.50"), None, "é"]}, '{"a":[1,1.50,null,"é"]}'),
        (ListType(2, LongType(), element_required=False), [1, None], [1, None]),
        (
            MapType(2, IntegerType(), 3, DateType(), value_required=False),
            {"7": "2026-01-31"},
            [(7, date(2026, 1, 31))],
        ),
    ],
    ids=str,
)
def test_forms_of_equal_values_are_taken(kind: IcebergType, value: object, stored: object) -> None:
    assert column_of(kind, [value, None]) == [stored, None]


NESTED = (
    NestedField(1, "id", LongType(), required=True),
    NestedField(
        2,
        "who",
        StructType(
            NestedField(3, "name", StringType(), required=True),
            NestedField(
                4, "tags", ListType(5, StringType(), element_required=True), required=False
            ),
        ),
        required=False,
    ),
    NestedField(
        6,
        "marks",
        MapType(
            7,
            StringType(),
            8,
            StructType(NestedField(9, "n", IntegerType(), required=False)),
            value_required=False,
        ),
        required=False,
    ),
)


def test_nested_values_are_read_back(house: House) -> None:
    house.lake.table("orders", Schema(*NESTED))
    records = from_json(
        '{"id": 1, "who": {"name": "a", "tags": ["x", "y"]}, "marks": {"k": {"n": 1}, "l": null}}',
        '{"id": 2, "who": null, "marks": {}}',
        '{"id": 3, "who": {"name": "c", "tags": null}}',
    )
    house.commit(house.request(*house.write(records)))
    assert sorted(house.rows(), key=lambda row: row["id"]) == [
        {
            "id": 1,
            "who": {"name": "a", "tags": ["x", "y"]},
            "marks": [("k", {"n": 1}), ("l", None)],
        },
        {"id": 2, "who": None, "marks": []},
        # pyiceberg 0.12 shows a map that is NULL as an empty one.
        {"id": 3, "who": {"name": "c", "tags": None}, "marks": []},
    ]
    assert house.duck("SELECT id FROM ORDERS WHERE marks IS NULL") == [(3,)]
    assert house.duck("SELECT who.name, len(who.tags) FROM ORDERS ORDER BY id") == [
        ("a", 2),
        (None, None),
        ("c", None),
    ]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"id": null}', "id"),
        ('{"who": null}', "id"),
        ('{"id": 1, "who": {"tags": []}}', "who.name"),
        ('{"id": 1, "who": {"name": "a", "tags": ["x", null]}}', "who.tags[1]"),
        ('{"id": 1, "who": {"name": "a", "tags": ["x", 5]}}', "who.tags[1]"),
        ('{"id": 1, "who": []}', "who"),
        ('{"id": 1, "marks": {"secret": {"n": "x"}}}', "marks (value).n"),
    ],
)
def test_a_bad_record_names_its_path_and_its_place_in_the_batch(text: str, path: str) -> None:
    converter = RowConverter(metadata_of(*NESTED), MetadataColumns.NONE)
    good = '{"id": 1, "who": {"name": "a"}}'
    with pytest.raises(BadRecordError) as bad:
        converter.convert(from_json(good, good, text, '{"id": "also bad"}'))
    assert (bad.value.path, bad.value.at) == (path, 2)


def test_a_batch_with_a_bad_record_adds_nothing(house: House) -> None:
    house.lake.table("orders", Schema(NestedField(1, "id", LongType(), required=True)))
    writer = house.tables().writer(house.sink.tables[0])
    writer.add(records_of({"id": 1}))
    with pytest.raises(BadRecordError):
        writer.add(records_of({"id": 2}, {"id": "x"}))
    writer.add(records_of({"id": 3}))
    house.commit(house.request(*writer.finish()))
    assert [row["id"] for row in house.rows()] == [1, 3]


class TestNames:
    def converter(self, mapping: NameMapping | None = None) -> RowConverter:
        properties = (
            {} if mapping is None else {"schema.name-mapping.default": mapping.model_dump_json()}
        )
        fields = (
            NestedField(1, "id", LongType(), required=False),
            NestedField(
                2, "b", StructType(NestedField(3, "x", LongType(), required=False)), required=False
            ),
        )
        return RowConverter(metadata_of(*fields, **properties), MetadataColumns.NONE)

    MAPPING = NameMapping.model_validate(
        [
            {"field-id": 1, "names": ["id", "identity", "key"]},
            {"field-id": 2, "names": ["b"], "fields": [{"field-id": 3, "names": ["x", "ex"]}]},
        ]
    )

    @pytest.mark.case("I44")
    def test_aliases_of_the_name_mapping_fill_their_column(self) -> None:
        rows = self.converter(self.MAPPING).convert(
            records_of({"identity": 1}, {"key": 2, "b": {"ex": 3}}, {"id": 4, "b": {"x": 5}})
        )
        assert rows.column("id").to_pylist() == [1, 2, 4]
        assert rows.column("b").to_pylist() == [None, {"x": 3}, {"x": 5}]

    @pytest.mark.parametrize(
        ("row", "path"), [({"id": 1, "key": 1}, "key"), ({"b": {"x": 1, "ex": 1}}, "b.ex")]
    )
    @pytest.mark.case("I44")
    def test_two_fields_for_one_column_are_a_bad_record(
        self, row: dict[str, Any], path: str
    ) -> None:
        with pytest.raises(BadRecordError) as bad:
            self.converter(self.MAPPING).convert(
                records_of({"key": 1, "b": {"ex": 2}}, {"id": 1, "b": {"x": 2}}, row)
            )
        assert (bad.value.path, bad.value.at) == (path, 2)

    def test_fields_without_a_column_are_dropped_and_counted(self) -> None:
        converter = self.converter()
        converter.convert(records_of({"id": 1, "other": 1, "b": {"x": 1, "y": 2}}, {"more": None}))
        assert converter.dropped_fields == 3


class TestPlaces:
    COLUMNS = (
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "_kafka_topic", StringType(), required=False),
        NestedField(3, "_kafka_partition", IntegerType(), required=False),
        NestedField(4, "_kafka_offset", LongType(), required=False),
        NestedField(5, "_kafka_timestamp", TimestamptzType(), required=False),
        NestedField(6, "_kafka_key", BinaryType(), required=False),
        NestedField(
            7,
            "_kafka_headers",
            MapType(8, StringType(), 9, BinaryType(), value_required=False),
            required=False,
        ),
    )

    def test_columns_say_where_a_record_came_from(self) -> None:
        converter = RowConverter(metadata_of(*self.COLUMNS), MetadataColumns.ALL)
        headers = (("h", b"1"), ("n", None), ("h", b"2"))
        records = [
            a_record({"id": 1}, 7, partition=3, headers=headers),
            a_record({"id": 2}, 8, key=None, timestamp_ms=-1),
        ]
        assert converter.convert(records).to_pylist() == [
            {
                "id": 1,
                "_kafka_topic": "orders",
                "_kafka_partition": 3,
                "_kafka_offset": 7,
                "_kafka_timestamp": datetime(2026, 1, 1, tzinfo=UTC),
                "_kafka_key": b"k",
                "_kafka_headers": [("h", b"2"), ("n", None)],
            },
            {
                "id": 2,
                "_kafka_topic": "orders",
                "_kafka_partition": 0,
                "_kafka_offset": 8,
                "_kafka_timestamp": None,
                "_kafka_key": None,
                "_kafka_headers": [],
            },
        ]

    def test_a_field_with_the_name_of_such_a_column_is_a_bad_record(self) -> None:
        converter = RowConverter(metadata_of(*self.COLUMNS), MetadataColumns.OFFSETS)
        with pytest.raises(BadRecordError, match="fills") as bad:
            converter.convert(records_of({"id": 1}, {"_kafka_offset": 1}))
        assert (bad.value.path, bad.value.at) == ("_kafka_offset", 1)

    def test_such_a_column_of_another_type_is_a_bad_record(self) -> None:
        fields = (NestedField(1, "_kafka_topic", LongType(), required=False),)
        converter = RowConverter(metadata_of(*fields), MetadataColumns.OFFSETS)
        with pytest.raises(BadRecordError, match="_kafka_topic"):
            converter.convert(records_of({}))


def test_names_that_files_cannot_have_are_read_by_their_ids(house: House) -> None:
    names = ("a.b", "c d", "é", "1st")
    house.lake.table(
        "orders",
        Schema(*(NestedField(number, name, LongType()) for number, name in enumerate(names, 1))),
    )
    house.commit(house.request(*house.write(records_of(dict.fromkeys(names, 5)))))
    assert house.rows() == [dict.fromkeys(names, 5)]


def test_the_text_of_numbers_is_not_rounded() -> None:
    long = "1." + string.digits * 3
    (back,) = column_of(StringType(), [{"n": Decimal(long)}])
    assert back == f'{{"n":{long}}}'
    assert math.isclose(column_of(DoubleType(), [Decimal(long)])[0], float(long), rel_tol=0)
    assert replace(a_record({})).value == {}
