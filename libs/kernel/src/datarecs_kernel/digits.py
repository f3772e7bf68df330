"""Numbers as texts, read as digits and exponents of ten: exact for every length.

Texts without an exponent and with few digits, the usual case, are cast directly; the others are
parsed with a pattern.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datarecs_kernel.columns import Flags, Numbers, flags_of
from datarecs_kernel.whole_units import Integers

INT64_DIGITS = 18
"""Digits that always fit in 64 bits, also for a difference."""
_WRITTEN = r"^(?P<sign>-?)(?P<whole>\d+)\.?(?P<fraction>\d*)[eE]?\+?(?P<exponent>-?\d*)$"
_POWERS = 10 ** np.arange(INT64_DIGITS + 1)


class Digits(NamedTuple):
    """Digits times ten to the exponent; 0 if the text is not a finite number."""

    digits: Integers
    widths: Numbers
    """Number of digits; 0 for zero."""
    exponents: Numbers
    known: Flags

    def at(self, places: Numbers) -> "Digits":
        return Digits(
            self.digits[places], self.widths[places], self.exponents[places], self.known[places]
        )


def read_digits(texts: pa.Array, *, longest: int = INT64_DIGITS) -> Digits:
    """Read numbers; NULL, NaN and infinities are not known.

    Args:
        texts: decimal, with an exponent or without.
        longest: maximum length of a text without exponent that certainly has at most 18 digits.
    """
    has_letters = pc.match_substring_regex(texts, "[a-zA-Z]")
    is_short = pc.and_not(pc.less_equal(pc.binary_length(texts), longest), has_letters)
    short = flags_of(pc.fill_null(is_short, fill_value=False))
    if short.all():
        return _read_short(texts)
    if not short.any():
        return _read_long(texts)
    places = np.flatnonzero(short), np.flatnonzero(~short)
    parts = (
        _read_short(texts.take(pa.array(places[0]))),
        _read_long(texts.take(pa.array(places[1]))),
    )
    order = np.argsort(np.concatenate(places))
    columns = (np.concatenate(each)[order] for each in zip(*parts, strict=True))
    return Digits(*columns)


def _read_short(texts: pa.Array) -> Digits:
    points = pc.find_substring(texts, ".").to_numpy().astype(np.int64)
    lengths = pc.binary_length(texts).to_numpy().astype(np.int64)
    digits = pc.replace_substring(texts, ".", "", max_replacements=1).cast(pa.int64()).to_numpy()
    widths = np.searchsorted(_POWERS, np.abs(digits), side="right")
    exponents = np.where((points < 0) | (widths == 0), 0, points - lengths + 1)
    return Digits(digits, widths, exponents, np.ones(len(texts), np.bool_))


def _read_long(texts: pa.Array) -> Digits:
    parts = pc.extract_regex(texts, _WRITTEN)
    known = flags_of(pc.is_valid(parts))
    sign, whole, fraction, exponent = (each.fill_null("") for each in parts.flatten())
    every = pc.binary_join_element_wise(whole, fraction, "")
    digits = pc.ascii_rtrim(every, "0")
    dropped = pc.subtract(pc.binary_length(every), pc.binary_length(digits))
    shifted = pc.subtract(dropped, pc.binary_length(fraction))
    powers = pc.if_else(pc.equal(exponent, ""), "0", exponent).cast(pa.int32())
    digits = pc.ascii_ltrim(digits, "0")
    widths = pc.binary_length(digits).to_numpy().astype(np.int64)
    exponents = pc.add(powers, shifted).to_numpy().astype(np.int64)
    sizes = _integers(pc.if_else(pc.equal(digits, ""), "0", digits), widths)
    signed = np.where(flags_of(pc.equal(sign, "-")), -sizes, sizes)
    return Digits(signed, widths, np.where(widths > 0, exponents, 0), known)


def _integers(digits: pa.Array, widths: Numbers) -> Integers:
    if widths.max(initial=0) <= INT64_DIGITS:
        return np.asarray(digits.cast(pa.int64()).to_numpy())
    return np.array([int(each) for each in digits.to_pylist()], object)
