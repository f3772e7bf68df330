"""Strings that stand for numbers sort as the numbers do."""

from decimal import Decimal
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.comparison.values.canonical import (
    NULL,
    Tag,
    Value,
    canonical_order,
    invalid,
    number,
)
from datarecs_kernel.sort_keys import number_order_of, size_key_of, size_of, sort_key_of

NUMBERS = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**40), max_value=10**40),
    st.sampled_from([Decimal(text) for text in ("-Infinity", "Infinity", "0", "-0", "1E-324")]),
    st.floats(allow_nan=False).map(lambda value: Decimal(repr(value))),
)


@given(one=NUMBERS, other=NUMBERS)
def test_number_order_is_the_order_of_values(one: Decimal, other: Decimal) -> None:
    keys = number_order_of(number_of(one)), number_order_of(number_of(other))
    assert (keys[0] < keys[1]) is (one < other)
    assert (keys[0] == keys[1]) is (one == other)


def number_of(plain: Decimal) -> Decimal:
    content = number(plain).content
    assert isinstance(content, Decimal)
    return content


@given(size=NUMBERS.filter(lambda each: each.is_finite()))
def test_a_size_key_says_exactly_its_number(size: Decimal) -> None:
    assert size_of(size_key_of(size.copy_abs())) == size.copy_abs()


def test_values_sort_by_their_keys_null_first_and_invalid_last() -> None:
    values = [
        NULL,
        number(Decimal("-Infinity")),
        number(-2),
        number(Decimal("-1.5")),
        number(0),
        number(Decimal("1.5")),
        number(15),
        number(Decimal("Infinity")),
        number(Decimal("NaN")),
        invalid("s", b"\x00"),
        invalid("s", b"\xff"),
    ]
    assert values == sorted(values, key=canonical_order)
    keys = [sort_key_of(value) for value in values]
    assert keys[0] is None
    assert all(str(one) < str(other) for one, other in pairwise(keys[1:]))


def test_texts_sort_by_code_point_and_bytes_by_byte() -> None:
    for tag, contents in ((Tag.TEXT, ["", "A", "a", "é"]), (Tag.BINARY, [b"", b"\x00", b"\xff"])):
        keys = [str(sort_key_of(Value(tag, content))) for content in contents]
        assert keys == sorted(keys)
