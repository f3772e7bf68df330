"""What the proof of a sink reads of a topic equals what the sink writes, and nothing else does."""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.exceptions import NoSuchTableError
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

from datarecs_connectors.errors import CorruptSourceError, SourceUnsupportedError
from datarecs_core.sink.definition import MetadataColumns, SinkMode
from datarecs_testing.lake import NAMESPACE

from .proof_house import differences, land, records_of
from .sink_house import House

PLACES = (
    ("_kafka_topic", StringType()),
    ("_kafka_partition", IntegerType()),
    ("_kafka_offset", LongType()),
    ("_kafka_timestamp", TimestamptzType()),
    ("_kafka_key", BinaryType()),
)

PLACED: Mapping[str, Any] = {"metadata_columns": MetadataColumns.ALL}


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
    records = records_of(*(json.dumps({"id": n}) for n in range(3)))
    land(house, records, **PLACED)
    assert differences(house, records, **PLACED) == set()
    overwrite(house, 1, column, value)
    assert differences(house, records, **PLACED) == {1}


def test_a_place_that_the_table_does_not_have_is_not_compared(house: House) -> None:
    fields = schema_of(id=LongType()).fields
    house.lake.table("orders", Schema(*(one for one in fields if one.name != "_kafka_timestamp")))
    records = records_of('{"id": 1}')
    land(house, records)
    assert differences(house, records, excluded=("_kafka_key",)) == set()


def test_a_column_that_begins_like_those_of_places_is_compared(house: House) -> None:
    house.lake.table("orders", schema_of(_kafka_lag=LongType()))
    records = records_of('{"_kafka_lag": 1}', '{"_kafka_lag": 2}')
    land(house, records, **PLACED)
    assert differences(house, records, **PLACED) == set()
    overwrite(house, 1, "_kafka_lag", 3)
    assert differences(house, records, **PLACED) == {1}


def test_a_column_with_a_point_in_its_name_is_no_member_of_an_object(house: House) -> None:
    house.lake.table("orders", schema_of(**{"a.b": LongType()}))
    records = records_of('{"a": {"b": 1}}', '{"a.b": 2}')
    land(house, records)
    assert differences(house, records, excluded=("_kafka_key",)) == set()


@pytest.mark.case("I63")
def test_a_record_outside_of_a_condition_on_its_place_is_not_decoded(house: House) -> None:
    house.lake.table("orders", schema_of(id=LongType()))
    records = records_of("no object", "[1]", '{"id": 1}', '{"id": 2}')
    assert land(house, records, **PLACED) == {0, 1}
    window = f"_kafka_timestamp >= TIMESTAMP '{datetime(2026, 1, 1, 0, 0, 2)}+00:00'"  # noqa: DTZ001  its text has the offset
    assert differences(house, records, condition=window, **PLACED) == set()
    overwrite(house, 1, "id", 7)
    assert differences(house, records, condition=window, **PLACED) == {3}
    with pytest.raises(CorruptSourceError, match="offset 0"):
        differences(house, records, **PLACED)


DIGITS = st.text("0123456789", min_size=1, max_size=25)
DAYS = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30))  # noqa: DTZ001  texts without offset
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.integers(-1_000, 1_000).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.tuples(st.integers(-99, 99), DIGITS).map(lambda parts: f"{parts[0]}.{parts[1]}"),
    st.tuples(st.integers(-99, 99), st.integers(-330, 310)).map(lambda p: f"{p[0]}.50e{p[1]}"),
    st.sampled_from([f"1.{'0' * 42}", "0e300", "5e-324", "0." + "0" * 50]),
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
    "_kafka_timestamp": datetime(2001, 1, 1, tzinfo=UTC),
    "_kafka_key": b"another",
}

SHORT = settings(
    max_examples=20,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.case("I63")
@pytest.mark.parametrize("name", FORMS)
def test_every_value_that_the_sink_writes_is_read_alike(house: House, name: str) -> None:
    kind, forms = FORMS[name]
    house.lake.table("orders", schema_of(x=kind))
    others = st.one_of(*(other for _, other in FORMS.values()))
    seen: dict[str, None] = {}

    @settings(max_examples=300, deadline=None, database=None)
    @given(st.booleans().flatmap(lambda is_other: others if is_other else forms))
    def collect(form: str) -> None:
        seen[form] = None

    collect()
    records = records_of(*(f'{{"x": {form}}}' for form in seen))
    dead = land(house, records, **PLACED)
    assert len(dead) < len(records)
    assert differences(house, records, **PLACED) == dead


@st.composite
def fields_of(draw: st.DrawFn, columns: Mapping[str, str]) -> str:
    """A value with fields for some of the columns, by names in any case, and one without column."""
    parts = ['"no column": [1]'] if draw(st.booleans()) else []
    for name, form in columns.items():
        match draw(st.sampled_from(["column", "column", "column", "alias", "null", "absent"])):
            case "absent":
                continue
            case "null":
                literal, field = "null", name
            case place:
                literal = draw(FORMS[form][1])
                field = f"{name} by mapping" if place == "alias" else name
        field = draw(st.sampled_from([field, field, field.upper()]))
        parts.append(f"{json.dumps(field)}: {literal}")
    return f"{{{', '.join(draw(st.permutations(parts)))}}}"


@pytest.mark.case("I63")
@pytest.mark.parametrize("ignores_case", [False, True])
def test_an_intact_table_equals_its_topic_and_one_changed_cell_does_not(
    house: House, *, ignores_case: bool
) -> None:
    changes = {**PLACED, "case_insensitive": ignores_case}

    @SHORT
    @given(st.data())
    def check(data: st.DataObject) -> None:
        forms = data.draw(st.lists(st.sampled_from(sorted(FORMS)), min_size=1, max_size=6))
        columns = {f"c{number} {form}": form for number, form in enumerate(forms)}
        with suppress(NoSuchTableError):
            house.lake.catalog.drop_table(f"{NAMESPACE}.orders")
        house.lake.table("orders", schema_of(**{n: FORMS[f][0] for n, f in columns.items()}))
        map_names(
            house,
            [
                {"field-id": number, "names": [f"{name} by mapping"]}
                for number, name in enumerate(columns, 1)
            ],
        )
        values = data.draw(st.lists(fields_of(columns), min_size=1, max_size=20))
        records = records_of(*values)
        dead = land(house, records, **changes)
        assert differences(house, records, **changes) == dead
        changed = change_cell(house, data, columns)
        if changed is not None:
            assert differences(house, records, **changes) == dead | {changed}

    check()


def change_cell(house: House, data: st.DataObject, columns: Mapping[str, str]) -> int | None:
    """The offset of the row with another value; None for a cell that has none."""
    rows = house.table().scan().to_arrow().to_pylist()
    if not rows:
        return None
    row = data.draw(st.sampled_from(range(len(rows))))
    names = [*columns, "_kafka_timestamp", "_kafka_key"]
    column = data.draw(st.sampled_from(names))
    value = OTHERS.get(columns.get(column, column))
    before = rows[row][column]
    if before is not None and (value is None or data.draw(st.booleans())):
        value = None
    if value == before:
        return None
    overwrite(house, row, column, value)
    return int(rows[row]["_kafka_offset"])


IDS = Schema(
    NestedField(1, "a", LongType(), required=True),
    NestedField(2, "b", StringType(), required=True),
    NestedField(3, "n", LongType(), required=False),
    *(NestedField(4 + at, name, kind) for at, (name, kind) in enumerate(PLACES)),
    identifier_field_ids=[1, 2],
)
UPSERT = {**PLACED, "mode": SinkMode.UPSERT}


@pytest.mark.case("I65")
@pytest.mark.parametrize("id_columns", [(), ("a", "b")])
def test_rows_are_folded_by_the_values_of_their_id_columns(
    house: House, id_columns: tuple[str, ...]
) -> None:
    """As the sink does, whatever the bytes of the keys of the records are."""
    house.lake.table("orders", IDS)
    map_names(house, [{"field-id": 1, "names": ["A"]}])
    topic = [
        one._replace(key=key, value=value)
        for one, (key, value) in zip(
            records_of(*[""] * 9),
            [
                (b'{"b":"k","a":1}', b'{"A":1,"b":"k","n":1}'),
                (None, b'{"A":1e0,"b":"k","n":2}'),
                (b"other", b'{"a":2,"b":"k","n":3}'),
                (b'{"a":2,"b":"k"}', None),
                (None, b'{"a":3,"b":"k","n":5}'),
                (b'{"a":"3"}', None),
                (b"no key", None),
                (None, None),
                (b'{"b":"k","a":3}', b'{"a":null,"b":"k","n":9}'),
            ],
            strict=True,
        )
    ]
    land(house, [topic[1], topic[4]], **PLACED)
    upsert = {**UPSERT, "id_columns": id_columns}
    assert differences(house, topic, **upsert) == {8}
    overwrite(house, 0, "n", None)
    assert len(differences(house, topic, **upsert)) == 2


def test_a_key_that_the_table_does_not_have_is_refused(house: House) -> None:
    house.lake.table("orders", schema_of(id=LongType()))
    with pytest.raises(SourceUnsupportedError, match="no identifier fields"):
        differences(house, [], **UPSERT)
    with pytest.raises(SourceUnsupportedError, match="no column 'other'"):
        differences(house, [], **{**UPSERT, "id_columns": ("other",)})
