"""Paths, did-you-mean and what of a foreign key may be shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.faults import (
    Fault,
    Gap,
    Place,
    did_you_mean,
    distance,
    dotted,
    name_of,
    nearest,
    pointer,
    usable,
    visible,
)
from datarecs_core.errors.spec import SpecCode


def test_a_path_is_dotted_for_people_and_a_pointer_for_programs() -> None:
    path = ("spec", "stages", 2, "map", "a/b~c")
    assert (dotted(path), pointer(path)) == (
        'spec.stages[2].map["a/b~c"]',
        "/spec/stages/2/map/a~1b~0c",
    )


@pytest.mark.parametrize(
    ("word", "meant"),
    [("tolerence", "tolerances"), ("absolute", "ABSOLUTE"), ("xyz", None), ("q", None)],
)
def test_the_nearest_word_is_at_most_two_edits_away(word: str, meant: str | None) -> None:
    assert nearest(word, ("tolerances", "ABSOLUTE", "on")) == meant


def test_a_very_long_word_is_near_to_nothing() -> None:
    assert nearest("t" * 10_000, ("t" * 64,)) is None


def test_the_hint_is_empty_when_nothing_is_near() -> None:
    assert (did_you_mean("sourcs", ("sources",)), did_you_mean("q", ("sources",))) == (
        "did you mean 'sources'?",
        "",
    )


def test_the_hint_shows_the_word_of_an_enumeration() -> None:
    assert did_you_mean("valeu", Place) == "did you mean 'value'?"


@given(st.text(max_size=12), st.text(max_size=12))
def test_distance_is_symmetric_and_zero_only_for_equals(one: str, other: str) -> None:
    far = distance(one, other)
    assert (far == distance(other, one), far == 0) == (True, one == other)


def test_an_invisible_key_is_escaped_and_cut() -> None:
    assert visible("a\x00\u202eb") == "a\\x00\\u202eb"
    assert len(visible("k" * 1_000)) == 64


def test_a_missing_key_is_reported_at_its_mapping() -> None:
    fault = Fault(
        code=SpecCode.MISSING_FIELD, path=("spec", "name"), message="", place=Place.MISSING
    )
    assert fault.shown_path == ("spec",)


def test_gaps_are_passed_over_and_preserve_the_count() -> None:
    assert (list(usable(["a", Gap(), "b"])), name_of(Gap(name="x"))) == ([(0, "a"), (2, "b")], "x")


@pytest.mark.parametrize("family", [SpecCode, ApiCode])
def test_every_code_is_unique_and_explained(family: type[SpecCode] | type[ApiCode]) -> None:
    entries = [code.entry for code in family]
    assert len({entry.docs_id for entry in entries}) == len(entries)
    assert all(entry.meaning and entry.causes and entry.remedy for entry in entries)
