"""Places in the feed: they hide the number, and belong to one tenant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core_api.places import BEGINNING, TEXT_LENGTH, Places
from datarecs_testing.builders import A_TENANT, B_TENANT

PLACES = Places(bytes(32))
NUMBERS = st.integers(min_value=0, max_value=2**63 - 1)


@given(NUMBERS)
def test_a_place_is_read_as_it_was_written(number: int) -> None:
    text = PLACES.write(A_TENANT, number)
    assert len(text) == TEXT_LENGTH
    assert PLACES.read(A_TENANT, text) == number
    assert Places(bytes(32)).read(A_TENANT, text) == number


@pytest.mark.case("X03")
@given(NUMBERS)
def test_a_place_is_none_of_another_tenant_or_deployment(number: int) -> None:
    text = PLACES.write(A_TENANT, number)
    assert text != PLACES.write(B_TENANT, number)
    assert PLACES.read(B_TENANT, text) is None
    assert Places(b"x" * 32).read(A_TENANT, text) is None


def test_neighbours_have_nothing_in_common() -> None:
    texts = {PLACES.write(A_TENANT, number)[:4] for number in range(1_000)}
    assert len(texts) > 990


@pytest.mark.parametrize("text", ["", "1", "88121", "-1", 22 * "A", 22 * "é", 22 * " ", 21 * "A="])
def test_an_unwritten_place_is_refused(text: str) -> None:
    assert PLACES.read(A_TENANT, text) is None


def test_the_beginning_is_the_same_everywhere() -> None:
    assert PLACES.read(A_TENANT, BEGINNING) == PLACES.read(B_TENANT, BEGINNING) == 0
