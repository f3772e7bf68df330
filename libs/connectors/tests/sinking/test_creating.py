"""Tables that a sink creates: columns of records, declared partitions, a race has one winner."""

from dataclasses import replace

import pytest
from pyiceberg.exceptions import NoSuchTableError

from datarecs_connectors.sinking.creating import inferred_schema, new_table
from datarecs_connectors.sinking.sql_catalogs import SqlTables
from datarecs_core.errors.sink import BadRecordError, SinkCode, SinkError
from datarecs_core.sink.definition import MetadataColumns, SinkTarget

from .sink_house import SINK, TARGET, House, from_json, records_of

BARE = replace(SINK, auto_create=True, metadata_columns=MetadataColumns.NONE)


def columns_of(*texts: str) -> dict[str, str]:
    schema = inferred_schema(BARE, from_json(*texts))
    return {field.name: str(field.field_type) for field in schema.fields}


def test_columns_have_the_types_of_the_values() -> None:
    assert columns_of(
        '{"b": true, "i": 1, "d": 1.5, "s": "x", "n": null, "l": [], "o": {}, "w": 1}',
        '{"l": [null, [1]], "o": {"x": {"y": "z"}}, "w": 1.5, "s": 5}',
    ) == {
        "b": "boolean",
        "i": "long",
        "d": "double",
        "s": "string",
        "w": "double",
        "l": "list<list<long>>",
        "o": "struct<10: x: optional struct<11: y: optional string>>",
    }


@pytest.mark.case("I41")
def test_a_table_is_created_with_its_columns_partitions_and_identifiers(house: House) -> None:
    records = from_json(
        '{"id": 1, "who": {"name": "a", "age": 5}, "tags": ["x"], "amount": 1.5}',
        '{"id": 2, "who": {"name": "b", "land": "at"}}',
    )
    terms = ("hour(_kafka_timestamp)", "bucket(4, id)", "truncate(2, who.name)", "amount")
    changes: dict[str, object] = {
        "auto_create": True,
        "id_columns": ("id",),
        "metadata_columns": MetadataColumns.ALL,
        "partition_by": terms,
    }
    target = SinkTarget(catalog="lake", namespace=("north", "sales"), name="orders")
    files = house.write(records, target, **changes)
    house.commit(house.request(*files, target=target), target)
    table = house.lake.catalog.load_table("north.sales.orders")
    assert table.format_version == 2
    schema = table.schema()
    assert schema.identifier_field_names() == {"id"}
    assert [(field.name, str(field.field_type), field.required) for field in schema.fields] == [
        ("id", "long", True),
        (
            "who",
            "struct<11: name: optional string, 12: age: optional long, 13: land: optional string>",
            False,
        ),
        ("tags", "list<string>", False),
        ("amount", "double", False),
        ("_kafka_topic", "string", False),
        ("_kafka_partition", "int", False),
        ("_kafka_offset", "long", False),
        ("_kafka_timestamp", "timestamptz", False),
        ("_kafka_key", "binary", False),
        ("_kafka_headers", "map<string, binary>", False),
    ]
    assert [(field.name, str(field.transform)) for field in table.spec().fields] == [
        ("_kafka_timestamp_hour", "hour"),
        ("id_bucket", "bucket[4]"),
        ("who.name_trunc", "truncate[2]"),
        ("amount", "identity"),
    ]
    rows = {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
    assert rows[1]["who"] == {"name": "a", "age": 5, "land": None}
    assert (rows[2]["_kafka_offset"], rows[2]["_kafka_key"]) == (1, b"k")
    assert table.location().startswith(f"file://{house.lake.folder}/")


@pytest.mark.parametrize(
    ("term", "place", "word"),
    [
        ("dya(id)", "character 1:", "'dya'"),
        ("day(id)", "character 1:", "'id' of type long"),
        ("day(nothing)", "character 5:", "'nothing'"),
        ("nothing", "character 1:", "'nothing'"),
        ("bucket(id)", "character 7:", "bucket(16, col)"),
        ("bucket(0, id)", "character 8:", "bucket(16, col)"),
        ("bucket(99999999999, id)", "character 7:", "bucket(16, col)"),
        ("day(2, at)", "character 5:", "day(col)"),
        ("bucket(4, id) x", "character 15:", "bucket(16, col)"),
        ("who", "character 1:", "struct"),
        ("", "character 1:", "col"),
    ],
)
@pytest.mark.case("I41")
def test_a_wrong_term_is_named_with_its_position_and_no_table_is_made(
    house: House, term: str, place: str, word: str
) -> None:
    records = from_json('{"id": 1, "at": "2026-01-31T12:00:00Z", "who": {"x": 1}}')
    with pytest.raises(SinkError) as refused:
        house.write(records, auto_create=True, partition_by=("id", term))
    assert refused.value.code is SinkCode.PARTITION_TERM_INVALID
    text = str(refused.value)
    assert f"partition_by[1] {term!r}, {place}" in text
    assert word in text
    with pytest.raises(NoSuchTableError):
        house.table()


def test_two_terms_with_one_name_are_refused() -> None:
    with pytest.raises(SinkError, match="one name") as refused:
        new_table(
            replace(BARE, partition_by=("bucket(2, id)", "bucket(4, id)")), from_json('{"id": 1}')
        )
    assert refused.value.code is SinkCode.PARTITION_TERM_INVALID


@pytest.mark.parametrize("column", ["missing", "d", "who"])
def test_an_id_column_that_identifies_nothing_is_refused(column: str) -> None:
    records = from_json('{"d": 1.5, "who": {"x": 1}, "id": 1}')
    with pytest.raises(SinkError, match=repr(column)) as refused:
        new_table(replace(BARE, id_columns=(column,)), records)
    assert refused.value.code is SinkCode.IDENTIFIER_MISSING


@pytest.mark.parametrize(
    "text", ["{}", '{"a": null, "b": {}, "c": []}', '{"a": {"b": 1}, "a.b": 1}']
)
def test_records_that_make_no_table_are_bad(text: str) -> None:
    with pytest.raises(BadRecordError) as bad:
        new_table(BARE, from_json(text))
    assert bad.value.at == 0


def test_the_loser_of_a_race_loads_the_table_of_the_winner(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = SqlTables.create
    raced: list[int] = []

    def second(self: SqlTables, *arguments: object) -> None:
        if not raced:
            raced.append(1)
            files = house.write(records_of({"id": 1}), auto_create=True)
            house.commit(house.request(*files))
        create(self, *arguments)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(SqlTables, "create", second)
    files = house.write(records_of({"id": 2, "late": 1}), auto_create=True)
    house.commit(house.request(*files))
    assert sorted(row["id"] for row in house.rows()) == [1, 2]
    assert "late" not in house.rows()[0]
    left = list((house.lake.folder / "books" / "orders" / "metadata").glob("00000-*.json"))
    assert len(left) == 1


def test_a_table_is_created_at_the_location_of_its_namespace(house: House) -> None:
    place = f"file://{house.lake.folder}/elsewhere"
    house.lake.catalog.create_namespace("placed", {"location": place})
    target = replace(TARGET, namespace=("placed",))
    house.write(records_of({"id": 1}), target, auto_create=True)
    assert house.lake.catalog.load_table("placed.orders").location() == f"{place}/orders"


@pytest.mark.case("I67")
def test_a_namespace_outside_the_places_of_the_connection_is_refused(house: House) -> None:
    house.lake.catalog.create_namespace("placed", {"location": "file:///elsewhere"})
    target = replace(TARGET, namespace=("placed",))
    with pytest.raises(SinkError) as refused:
        house.write(records_of({"id": 1}), target, auto_create=True)
    assert refused.value.code is SinkCode.FILE_LOCATION_REFUSED
    with pytest.raises(NoSuchTableError):
        house.lake.catalog.load_table("placed.orders")
