"""Amounts are exact: texts and doubles of any length are the decimals that they stand for."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from datarecs_core.comparison.values.canonical import number_text
from datarecs_core.comparison.values.float32 import shortest_float32
from datarecs_core.values import EXACT
from datarecs_kernel.columns import Values
from datarecs_kernel.digits import read_digits
from datarecs_kernel.exact_amounts import amounts_of
from datarecs_kernel.float32 import nearest_float32
from datarecs_kernel.forms import DOUBLE, NUMBER
from datarecs_kernel.whole_units import doubles_of, unit_keys

MIDDLE = 2**24 + 1
"""Between two float32."""
BEYOND = 2**128 - 2**103
"""Between the largest float32 and infinity."""
UNITS = st.integers(-(10**60), 10**60) | st.integers(-1000, 1000)
SCALES = st.integers(0, 60)
SHORT = st.integers(-(10**6), 10**6).map(lambda each: each / 100)
DOUBLES = st.none() | SHORT | st.floats()


@example(pairs=[(None, 0.5)])
@given(pairs=st.lists(st.tuples(DOUBLES, DOUBLES), max_size=6))
def test_doubles_are_their_shortest_decimals(pairs: list[tuple[float, float]]) -> None:
    columns = [[one for one, _ in pairs], [other for _, other in pairs]]
    parts = amounts_of(DOUBLE, [Values(pa.array(each, pa.float64())) for each in columns])
    seen: list[int] = []
    for part in parts:
        places = range(len(pairs)) if part.at is None else part.at.tolist()
        seen += places
        for column, (numbers, known) in zip(columns, part.units, strict=True):
            for at, amount, is_known in zip(places, numbers.tolist(), known.tolist(), strict=True):
                plain = column[at]
                exact = Decimal("NaN") if plain is None else Decimal(repr(plain))
                assert is_known == exact.is_finite()
                assert Decimal(amount).scaleb(-part.scale, EXACT) == (exact if is_known else 0)
    assert sorted(seen) == list(range(len(pairs)))


@given(values=st.lists(st.none() | st.tuples(UNITS, SCALES), max_size=6), written=st.booleans())
def test_texts_are_read_digit_for_digit(
    values: list[tuple[int, int] | None], *, written: bool
) -> None:
    decimals = [None if each is None else Decimal(f"{each[0]}E-{each[1]}") for each in values]
    texts = [None if each is None else (str if written else number_text)(each) for each in decimals]
    digits = read_digits(pa.array(texts, pa.string()))
    assert digits.known.tolist() == [each is not None for each in decimals]
    read = zip(digits.digits.tolist(), digits.exponents.tolist(), strict=True)
    for each, (number, exponent) in zip(decimals, read, strict=True):
        assert Decimal(number).scaleb(exponent, EXACT) == (each or 0)


@example(units=[MIDDLE, MIDDLE + 2, -MIDDLE, BEYOND, -BEYOND, 0], scale=0)
@example(units=[MIDDLE * 10**30 + 1, MIDDLE * 10**30 - 1, MIDDLE * 10**30], scale=30)
@example(units=[BEYOND * 10 + 1, BEYOND * 10 - 1, 10**400], scale=1)
@example(units=[7 * 10**5, 71, 701], scale=46)
@given(units=st.lists(UNITS, min_size=1, max_size=4), scale=SCALES)
def test_the_nearest_float32_is_rounded_once(units: list[int], scale: int) -> None:
    numbers = np.array(units, object)
    exact = [shortest_float32(Decimal(each).scaleb(-scale, EXACT)) for each in units]
    singles = nearest_float32(numbers, scale)
    assert [float(each) for each in singles] == [np.float32(float(each)) for each in exact]


@pytest.mark.case("P01")
@given(units=st.lists(UNITS, min_size=2, max_size=6), scale=SCALES)
def test_doubles_of_sizes_are_in_the_order_of_their_keys(units: list[int], scale: int) -> None:
    sizes = np.abs(np.array(units, object))
    keyed = sorted(zip(unit_keys(sizes, scale).to_pylist(), doubles_of(sizes, scale), strict=True))
    assert [double for _, double in keyed] == sorted(doubles_of(sizes, scale))


def test_a_gap_beyond_all_doubles_is_infinite() -> None:
    values = [
        Values(pa.array([each])) for each in (1.7976931348623157e308, -1.7976931348623157e308)
    ]
    (part,) = amounts_of(DOUBLE, values)
    one, other = (each.numbers for each in part.units)
    gaps = np.concatenate([one - other, other - one])
    assert doubles_of(gaps, part.scale).tolist() == [float("inf"), float("-inf")]


def test_prices_share_the_scale_of_cents_beside_a_longer_number() -> None:
    prices = [each / 100 for each in range(3_000)]
    short, long = amounts_of(DOUBLE, [Values(pa.array([*prices, 0.1 + 0.2]))])
    assert (short.scale, short.units[0].numbers.tolist()) == (2, list(range(3_000)))
    assert (long.of(np.arange(3_001)).tolist(), long.scale) == ([3_000], 17)


def test_numbers_as_texts_may_be_infinite() -> None:
    texts = pa.array(["NaN", "Inf", "-Inf", None, "-0.5", "7"])
    known = {
        (at, number, part.scale)
        for part in amounts_of(NUMBER, [Values(texts)])
        for at, number, is_known in zip(part.of(np.arange(6)), *part.units[0], strict=True)
        if is_known
    }
    assert known == {(4, -5, 1), (5, 7, 0)}
