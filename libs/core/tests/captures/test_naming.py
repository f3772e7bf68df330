"""Names of namespaces and tables as one text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.captures.naming import joined_name, split_name

PARTS = st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=5).map(tuple)


@given(PARTS)
def test_a_joined_name_is_split_into_its_parts(parts: tuple[str, ...]) -> None:
    assert split_name(joined_name(parts)) == parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("orders", ("orders",)),
        ("sales.eu.orders", ("sales", "eu", "orders")),
        ('"eu.sales".orders', ("eu.sales", "orders")),
        ('"say ""hi""".t', ('say "hi"', "t")),
    ],
)
def test_dots_in_quotes_belong_to_a_part(text: str, parts: tuple[str, ...]) -> None:
    assert split_name(text) == parts
    assert joined_name(parts) == text


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", 'a"b', '"a', '""', '"a"b', "a b"])
def test_other_texts_are_no_names(text: str) -> None:
    assert split_name(text) is None
