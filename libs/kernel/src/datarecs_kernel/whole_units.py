"""Whole units as columns: the unscaled integers of numbers and times, of 64 bits if they fit.

Larger numbers are Python integers in an array of the same shape, so arithmetic is exact for every
size with the same code.
"""

from math import inf
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from datarecs_kernel.columns import Flags, flags_of
from datarecs_kernel.forms import Form, FormKind
from datarecs_kernel.sort_keys import KEY_DIGITS, KEY_SHIFT

Integers = NDArray[Any]
"""An array of 64-bit integers, or of Python integers."""
_DAY_MICROS = 86_400_000_000
_ROOM = 2**62
"""Limit below which the difference of two numbers fits in 64 bits."""
_EXACT_DOUBLES = 2**53
_EXACT_POWERS = 22
"""Powers of ten that a double holds exactly."""
_SURE_DOUBLES = 10**15
"""Limit of digits below which two different decimals are never the same double."""


class Units(NamedTuple):
    """One number per place, 0 if it is not known: for NULL and for values without a delta."""

    numbers: Integers
    known: Flags


def units_of(form: Form, values: pa.Array) -> Units:
    """The unscaled integers of values of a form; times in microseconds, or finer as the form."""
    known = flags_of(pc.is_valid(values))
    if form.precision:
        numbers = _unscaled(values)
    elif form.kind is FormKind.INTEGER or form.is_moment:
        numbers = values.fill_null(0).to_numpy()
    else:
        return Units(np.zeros(len(values), np.int64), np.zeros_like(known))
    numbers = np.where(known, numbers, 0)
    return Units(times(numbers, _DAY_MICROS if form.kind is FormKind.DATE else 1), known)


def _unscaled(values: pa.Array) -> Integers:
    """An unscaled decimal is an integer of 128 bits, lower half first."""
    words = np.frombuffer(values.buffers()[1], np.int64).reshape(-1, 2)
    chosen = words[values.offset : values.offset + len(values)]
    low, high = chosen[:, 0], chosen[:, 1]
    if np.array_equal(high, low >> 63):
        return low
    return np.asarray(high.astype(object) * 2**64 + low.view(np.uint64).astype(object))


def largest_of(numbers: Integers) -> int:
    """The largest |number|; 0 of none."""
    return max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))


def times(numbers: Integers, factor: int) -> Integers:
    """Exact products with a factor that is not negative; two of them can be subtracted."""
    if max(largest_of(numbers), 1) * factor < _ROOM:
        return numbers * factor
    return numbers.astype(object) * factor


def summed(numbers: Integers, often: NDArray[np.int64]) -> int:
    """The exact sum of numbers, each multiplied by its count."""
    if largest_of(numbers) * int(often.sum()) < _ROOM:
        return int(numbers @ often)
    return int((numbers.astype(object) * often).sum())


def cut_by(numbers: Integers, unit: int) -> Integers:
    """The number of whole units, floored."""
    return (numbers if unit < _ROOM else numbers.astype(object)) // unit


def doubles_of(numbers: Integers, scale: int) -> NDArray[np.float64]:
    """The doubles nearest to numbers of units of 10^-scale."""
    if largest_of(numbers) < _EXACT_DOUBLES and scale <= _EXACT_POWERS:
        return np.asarray(numbers, np.float64) / float(10**scale)
    power = 10**scale
    return np.array([_nearest(each, power) for each in numbers.tolist()])


def _nearest(number: int, power: int) -> float:
    try:
        return number / power
    except OverflowError:
        return inf if number > 0 else -inf


def written_units(values: NDArray[np.float64], scale: int) -> tuple[Integers, Flags]:
    """Doubles as units of 10^-scale, and whether these are their shortest decimals.

    A double has at most one decimal of up to 15 digits; it is then the shortest that reads back.
    A scale is 0 to 15; NaN and infinities have no units.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = np.rint(values * 10.0**scale)
        written = (np.abs(numbers) < _SURE_DOUBLES) & (numbers / 10.0**scale == values)
    return np.where(written, numbers, 0).astype(np.int64), written


def unit_texts(numbers: Integers, scale: int) -> pa.Array:
    """`decimal_text` of numbers of units of 10^-scale."""
    if not scale:
        return _written(numbers)
    digits = pc.ascii_lpad(_written(np.abs(numbers)), scale + 1, "0")
    pointed = pc.utf8_replace_slice(digits, -scale, -scale, ".")
    signs = pc.if_else(pa.array(numbers < 0), "-", "")
    shortest = pc.ascii_rtrim(pc.ascii_rtrim(pointed, "0"), ".")
    return pc.binary_join_element_wise(signs, shortest, "")


def unit_keys(numbers: Integers, scale: int) -> pa.Array:
    """`sort_keys.size_key_of` numbers of units of 10^-scale that are not negative."""
    digits = _written(numbers)
    exponents = pc.add(pc.binary_length(digits), KEY_SHIFT - 1 - scale).cast(pa.string())
    heads = pc.ascii_lpad(exponents, KEY_DIGITS, "0")
    keys = pc.binary_join_element_wise(heads, pc.ascii_rtrim(digits, "0"), "")
    return pc.if_else(pa.array(numbers == 0), "0", keys)


def unit_key(number: int, scale: int) -> str:
    """The same of one number."""
    (key,) = unit_keys(np.array([number]), scale).to_pylist()
    return str(key)


def _written(numbers: Integers) -> pa.Array:
    if numbers.dtype == np.int64:
        return pa.array(numbers).cast(pa.string())
    return pa.array([str(each) for each in numbers.tolist()], pa.string())
