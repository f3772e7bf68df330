import struct
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.comparison.values.float32 import shortest_float32
from datarecs_core.values import EXACT


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_single_float_comes_back_from_its_shortest_decimal(single: float) -> None:
    shortest = shortest_float32(Decimal(repr(single)))
    assert struct.unpack(">f", struct.pack(">f", float(shortest)))[0] == single
    assert shortest_float32(shortest) == shortest


@pytest.mark.parametrize(
    ("value", "shortest"),
    [
        ("0.10000000149011612", "0.1"),
        ("16777217", "16777216"),
        ("16777219", "16777220"),
        ("-0.3", "-0.3"),
        ("1.4e-45", "1e-45"),
        ("1.2292531499e-29", "1.22925315e-29"),
        ("1e39", "Infinity"),
        ("-1e60", "-Infinity"),
        ("340282356779733661637539395458142568447", "3.4028235E+38"),
        ("340282356779733661637539395458142568448", "Infinity"),
        ("1e-60", "0"),
        ("Infinity", "Infinity"),
    ],
)
def test_what_is_no_single_float_goes_to_the_nearest(value: str, shortest: str) -> None:
    assert shortest_float32(Decimal(value)) == Decimal(shortest)


def test_rounding_happens_once() -> None:
    """Through a double, this would first fall on the middle and then on the even neighbour."""
    with localcontext(EXACT):
        just_above_middle = Decimal(1) + Decimal(2) ** -24 + Decimal(2) ** -80
    assert shortest_float32(just_above_middle) > 1
