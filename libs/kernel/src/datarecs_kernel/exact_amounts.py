"""Values of all sources as integers of one scale: exact for every form and size.

Integers, decimals and times have this form. A double means its shortest decimal, and numeric
without precision its text: both are read as digits and an exponent. Places with a similar number of
digits share a scale, so nearly all of them fit in 64 bits.
"""

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from datarecs_kernel.columns import Flags, Numbers, Values, flags_of
from datarecs_kernel.digits import INT64_DIGITS, Digits, read_digits
from datarecs_kernel.forms import Form, FormKind
from datarecs_kernel.whole_units import Integers, Units, units_of, written_units

_SCALES = 16
"""Scales of doubles with at most 15 digits, from 0."""
_SAMPLE = 1_024
"""Number of sampled places that determine the scale of doubles."""
_LONGEST = 30
"""Characters of a double without exponent: at most 17 are significant digits."""
_NARROW_SCALE = 24
"""Limit up to which places are grouped by their scale."""
_WIDE_DIGITS = 40
"""Digits before and after the point; places with more digits are a separate part."""

Column = TypeVar("Column", Integers, Flags)


class Amounts(NamedTuple):
    """Some places, and the amounts of every source there in units of 10^-scale."""

    at: Numbers | None
    """Indexes of the places; None for all."""
    scale: int
    units: Sequence[Units]

    def of(self, column: Column) -> Column:
        """Select these places from a column of all places."""
        return column if self.at is None else column[self.at]


def amounts_of(form: Form, values: Sequence[Values]) -> list[Amounts]:
    """The amounts of all sources, in one part, or in several of different scales."""
    if not len(values[0].plain) or form.kind not in {FormKind.DOUBLE, FormKind.NUMBER}:
        return [Amounts(None, form.scale, [units_of(form, each.plain) for each in values])]
    columns = [each.plain for each in values]
    if form.kind is FormKind.DOUBLE:
        return list(_of_doubles(columns))
    return list(_by_scale([read_digits(each) for each in columns]))


def joined(parts: Sequence[Amounts], columns: Sequence[pa.Array]) -> pa.Array:
    """One column of all places, from one column per part."""
    if parts[0].at is None:
        return columns[0]
    places = np.concatenate([each.at for each in parts if each.at is not None])
    return pa.concat_arrays(columns).take(pa.array(np.argsort(places)))


def _of_doubles(columns: Sequence[pa.Array]) -> Iterator[Amounts]:
    known = [flags_of(pc.is_valid(each)) for each in columns]
    doubles = [each.fill_null(0).to_numpy() for each in columns]
    scale = _best_scale(doubles)
    units = [written_units(each, scale) for each in doubles]
    is_short = reduce(np.logical_and, (each for _, each in units))
    short, long = np.flatnonzero(is_short), np.flatnonzero(~is_short)
    if len(short):
        at = short if len(long) else None
        part = Amounts(at, scale, ())
        units_there = [
            Units(part.of(numbers), part.of(there))
            for (numbers, _), there in zip(units, known, strict=True)
        ]
        yield part._replace(units=units_there)
    if len(long):
        texts = [each.take(pa.array(long)).cast(pa.string()) for each in columns]
        for part in _by_scale([read_digits(each, longest=_LONGEST) for each in texts]):
            yield part._replace(at=part.of(long))


def _best_scale(doubles: Sequence[NDArray[np.float64]]) -> int:
    """The scale at which most places of a sample are decimals of 15 digits."""
    step = max(len(doubles[0]) // _SAMPLE, 1)
    sample = [each[::step] for each in doubles]
    best, most = 0, -1
    for scale in range(_SCALES):
        written = (written_units(each, scale)[1] for each in sample)
        places = int(np.count_nonzero(reduce(np.logical_and, written)))
        if places > most:
            best, most = scale, places
        if places == len(sample[0]):
            break
    return best


def _by_scale(written: Sequence[Digits]) -> Iterator[Amounts]:
    """Places that fit 64 bits by their scale, then the wide ones, then the longest."""
    scales = reduce(np.maximum, (-each.exponents for each in written)).clip(min=0)
    whole = reduce(np.maximum, (each.widths + each.exponents for each in written))
    narrow = (scales + whole <= INT64_DIGITS) & (scales <= _NARROW_SCALE)
    wide = ~narrow & (scales <= _WIDE_DIGITS) & (whole <= _WIDE_DIGITS)
    for scale in np.unique(scales[narrow]).tolist():
        at = np.flatnonzero(narrow & (scales == scale))
        parts = [each.at(at) for each in written]
        yield Amounts(at, scale, [_scaled(each, scale, np.dtype(np.int64)) for each in parts])
    for chosen in (wide, ~narrow & ~wide):
        at = np.flatnonzero(chosen)
        if len(at):
            scale, parts = int(scales[at].max()), [each.at(at) for each in written]
            yield Amounts(at, scale, [_scaled(each, scale, np.dtype(object)) for each in parts])


def _scaled(written: Digits, scale: int, kind: np.dtype[Any]) -> Units:
    shifts = np.where(written.widths > 0, written.exponents + scale, 0)
    powers = np.array([10**each for each in range(int(shifts.max()) + 1)], kind)
    return Units(written.digits.astype(kind) * powers[shifts], written.known)
