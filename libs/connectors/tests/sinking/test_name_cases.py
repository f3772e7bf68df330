"""Names of fields that differ from those of columns in case."""

from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, NestedField, StructType

from datarecs_core.errors.sink import BadRecordError
from datarecs_core.sink.definition import Evolution

from .sink_house import TARGET, House, records_of

POINT = StructType(NestedField(11, "PosX", LongType(), required=False))
SCHEMA = Schema(
    NestedField(1, "Id", LongType(), required=False),
    NestedField(2, "size", LongType(), required=False),
    NestedField(3, "SIZE", LongType(), required=False),
    NestedField(4, "points", ListType(5, POINT, element_required=False), required=False),
)


def written(house: House, *values: dict[str, Any], **changes: Any) -> None:  # noqa: ANN401  fields of SinkTable
    files = house.write(records_of(*values), **{"case_insensitive": True, **changes})
    house.commit(house.request(*files))


@pytest.mark.case("I44")
def test_a_field_goes_to_the_column_of_its_name_in_any_case(house: House) -> None:
    house.lake.table("orders", SCHEMA)
    written(house, {"ID": 1, "Points": [{"posx": 5}]}, {"id": 2}, {"Id": 3})
    assert sorted(row["Id"] for row in house.rows()) == [1, 2, 3]
    (points,) = house.duck("SELECT points[1].PosX FROM ORDERS WHERE Id = 1")
    assert points == (5,)


@pytest.mark.case("I44")
def test_a_name_mapping_is_matched_in_any_case_too(house: House) -> None:
    house.lake.table("orders", SCHEMA)
    mapping = '[{"field-id": 1, "names": ["Number"]}]'
    with house.table().transaction() as change:
        change.set_properties({"schema.name-mapping.default": mapping})
    written(house, {"NUMBER": 7})
    assert [row["Id"] for row in house.rows()] == [7]


@pytest.mark.case("I44")
@pytest.mark.parametrize("evolve", Evolution)
@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        ({"Size": 1}, "Size", "two columns"),
        ({"id": 1, "ID": 2}, "ID", "two fields"),
        ({"points": [{"PosX": 1, "posx": 2}]}, "points[0].posx", "two fields"),
    ],
)
def test_two_candidates_are_a_bad_record(
    house: House, evolve: Evolution, value: dict[str, Any], path: str, reason: str
) -> None:
    house.lake.table("orders", SCHEMA)
    writer = house.tables(case_insensitive=True, evolve=evolve).writer(TARGET)
    with pytest.raises(BadRecordError, match=reason) as refused:
        writer.add(records_of({"Id": 1}, {**value, "more": 1}))
    assert (refused.value.at, refused.value.path) == (1, path)
    assert len(house.table().schema().fields) == 4


def test_a_column_of_the_very_name_is_no_second_candidate(house: House) -> None:
    house.lake.table("orders", SCHEMA)
    written(house, {"size": 1, "SIZE": 2})
    assert [(row["size"], row["SIZE"]) for row in house.rows()] == [(1, 2)]


def test_case_matters_unless_it_is_declared(house: House) -> None:
    house.lake.table("orders", SCHEMA)
    written(house, {"ID": 1}, case_insensitive=False)
    assert [row["Id"] for row in house.rows()] == [None]


@pytest.mark.parametrize("evolve", [Evolution.ADD, Evolution.FULL])
def test_one_new_column_for_every_case_of_a_name(house: House, evolve: Evolution) -> None:
    house.lake.table("orders", SCHEMA)
    written(house, {"Color": {"Red": 1}}, {"COLOR": {"RED": 2}, "id": 4}, evolve=evolve)
    written(house, {"color": {"red": 3, "Green": 4}}, evolve=evolve)
    assert [field.name for field in house.table().schema().fields][4:] == ["Color"]
    colors = house.duck("SELECT Color.Red FROM ORDERS")
    assert sorted(colors) == [(1,), (2,), (3,)]


def test_a_created_table_has_one_column_for_every_case(house: House) -> None:
    written(
        house,
        {"ID": 1, "Name": "a"},
        {"id": 2, "NAME": "b"},
        auto_create=True,
        id_columns=("id",),
    )
    names = [field.name for field in house.table().schema().fields]
    assert names[:2] == ["id", "Name"]
    assert sorted((row["id"], row["Name"]) for row in house.rows()) == [(1, "a"), (2, "b")]
