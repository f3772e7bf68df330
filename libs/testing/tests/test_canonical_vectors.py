"""The published vectors of c1 are complete and consistent, for every implementation."""

from itertools import combinations

import pytest

from datarecs_core.comparison.values.canonical import Tag
from datarecs_core.jobs.types import TypeKind
from datarecs_testing.conformance.canonical import Relation, TupleVector, Vector, published

ALL = published()


def test_every_tag_and_every_type_has_vectors() -> None:
    assert {one.encoding[0] for one in ALL.vectors} == set(Tag)
    assert {one.type.kind for one in ALL.vectors} == set(TypeKind) - {TypeKind.NULL}


def test_names_are_unique() -> None:
    assert len(ALL.encodings) == len(ALL.vectors) + len(ALL.tuples)


@pytest.mark.parametrize("vector", ALL.vectors, ids=lambda one: one.name)
def test_an_encoding_is_its_tag_its_length_and_so_many_bytes(vector: Vector) -> None:
    assert int.from_bytes(vector.encoding[1:5]) == len(vector.encoding) - 5


@pytest.mark.parametrize("vector", ALL.vectors, ids=lambda one: one.name)
def test_a_payload_of_text_is_the_value_as_people_read_it(vector: Vector) -> None:
    text_tags = {Tag.NUMBER, Tag.TEXT, Tag.DATE, Tag.INTERVAL, Tag.JSON}
    if vector.encoding[0] in text_tags and vector.text is not None:
        assert vector.encoding[5:].decode() == vector.text
    else:
        assert (vector.text is None) == (vector.encoding[0] == Tag.NULL)


@pytest.mark.parametrize("one", ALL.tuples, ids=lambda one: one.name)
def test_a_tuple_is_its_count_and_its_values(one: TupleVector) -> None:
    parts = b"".join(member.encoding for member in one.members)
    assert one.encoding == len(one.members).to_bytes(2) + parts


@pytest.mark.case("P23")
@pytest.mark.case("P30")
@pytest.mark.case("P36")
@pytest.mark.case("P40")
@pytest.mark.case("P42")
@pytest.mark.case("P50")
@pytest.mark.case("P53")
@pytest.mark.case("F13")
@pytest.mark.parametrize(
    "relation", ALL.relations, ids=lambda one: f"{one.case} {one.classes[0][0]}"
)
def test_encodings_are_equal_exactly_within_a_class(relation: Relation) -> None:
    classes = [{ALL.encodings[name] for name in names} for names in relation.classes]
    assert [len(one) for one in classes] == [1] * len(classes)
    assert all(one.isdisjoint(other) for one, other in combinations(classes, 2))
