"""Whole units as columns: texts, size keys and doubles are those of the decimals they stand for."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.documents import decimal_text
from datarecs_core.values import EXACT
from datarecs_kernel.forms import INTEGER, TEXT, Form, FormKind, decimal
from datarecs_kernel.sort_keys import size_key_of
from datarecs_kernel.whole_units import (
    cut_by,
    doubles_of,
    summed,
    times,
    unit_keys,
    unit_texts,
    units_of,
    written_units,
)

MOST = 10**38 - 1
UNITS = st.lists(st.integers(-MOST, MOST) | st.integers(-10_000, 10_000), min_size=1, max_size=5)
SCALES = st.integers(0, 38)


def decimals(units: list[int], scale: int) -> list[Decimal]:
    return [Decimal(each).scaleb(-scale, EXACT) for each in units]


@given(units=UNITS, scale=SCALES)
def test_a_decimal_is_its_units_and_its_units_say_it(units: list[int], scale: int) -> None:
    values = decimals(units, scale)
    column = pa.array([None, *values], pa.decimal128(38, scale))
    numbers, known = units_of(decimal(38, scale), column.slice(1))
    assert numbers.tolist() == units
    assert known.all()
    assert unit_texts(numbers, scale).to_pylist() == list(map(decimal_text, values))
    sizes = np.abs(numbers)
    keys = [size_key_of(each.copy_abs()) for each in values]
    assert unit_keys(sizes, scale).to_pylist() == keys
    assert doubles_of(numbers, scale).tolist() == list(map(float, values))


@given(units=UNITS, factor=st.integers(0, 10**20), unit=st.integers(1, 10**20))
def test_no_size_makes_arithmetic_inexact(units: list[int], factor: int, unit: int) -> None:
    column = pa.array(decimals(units, 0), pa.decimal128(38, 0))
    numbers = units_of(decimal(38, 0), column).numbers
    assert times(numbers, factor).tolist() == [each * factor for each in units]
    assert cut_by(numbers, unit).tolist() == [each // unit for each in units]
    often = np.arange(len(units)) + 2**40
    pairs = zip(units, often.tolist(), strict=True)
    assert summed(numbers, often) == sum(each * many for each, many in pairs)


@pytest.mark.parametrize(
    ("form", "plain", "units"),
    [
        (INTEGER, [2**63 - 1, None, -(2**63)], [2**63 - 1, 0, -(2**63)]),
        (Form(kind=FormKind.DATE), [1, None, -5_000_000_000], [86_400_000_000, 0, -432 * 10**18]),
        (Form(kind=FormKind.INSTANT), [-500, None, 7], [-500, 0, 7]),
    ],
)
def test_what_is_null_is_not_known(form: Form, plain: list[int | None], units: list[int]) -> None:
    numbers, known = units_of(form, pa.array(plain, pa.int64()))
    assert numbers.tolist() == units
    assert known.tolist() == [True, False, True]


def test_texts_have_no_units() -> None:
    numbers, known = units_of(TEXT, pa.array(["a", None]))
    assert (numbers.tolist(), numbers.dtype.kind) == ([0, 0], "i")
    assert not known.any()


def test_the_difference_of_two_products_is_exact_at_the_edge_of_64_bits() -> None:
    one, other = times(np.array([2**62, -(2**62)]), 1)
    assert one - other == 2**63


def test_a_unit_above_64_bits_cuts_all_small_numbers() -> None:
    assert cut_by(np.array([5, -5]), 10**20).tolist() == [0, -1]


def test_texts_of_no_numbers_are_texts() -> None:
    assert unit_texts(np.array([], object), 0).equals(pa.array([], pa.string()))


def test_a_signalling_nan_has_no_units() -> None:
    nan = np.array([0x7FF0000000000001], np.uint64).view(np.float64)
    assert not written_units(nan, 2)[1].any()


DOUBLES = (
    st.floats()
    | st.integers(-(10**16), 10**16).map(float)
    | st.builds(lambda units, scale: units / 10**scale, st.integers(-(10**16), 10**16), SCALES)
)


@given(double=DOUBLES, scale=st.integers(0, 15))
def test_units_of_a_double_are_the_decimal_that_it_is_written_as(double: float, scale: int) -> None:
    numbers, written = written_units(np.array([double]), scale)
    exact = Decimal(repr(double))
    if written[0]:
        assert Decimal(int(numbers[0])).scaleb(-scale, EXACT) == exact
    else:
        whole = exact.scaleb(scale, EXACT)
        is_short = whole.is_finite() and whole == whole.to_integral_value()
        assert not is_short or whole.copy_abs() >= 10**15
