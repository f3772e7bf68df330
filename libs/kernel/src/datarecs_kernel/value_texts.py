"""Canonical texts of valid values, a column at a time.

The texts of `canonical.canonical_text`; a test compares both. Only dates outside the years 1 to
9999 are written one by one.
"""

from decimal import Decimal
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datarecs_core.comparison.values.calendar import date_text
from datarecs_kernel.columns import Flags, Numbers, Values
from datarecs_kernel.exact_amounts import amounts_of, joined
from datarecs_kernel.forms import MICROS_DIGITS, Form, FormKind
from datarecs_kernel.whole_units import Integers, unit_texts, units_of

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""Days of the years 1 and 9999, since 1970."""
_DAY = 86_400
"""Seconds."""
_UUID_PARTS = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))


@cache
def _two_digits() -> pa.Array:
    """Texts of minutes and seconds; created on first use, because Arrow then imports pandas."""
    return pa.array([f"{each:02}" for each in range(60)], pa.string())


def valid_texts(form: Form, plain: pa.Array) -> pa.Array:
    """Canonical texts of a column without INVALID values; NULL of NULL."""
    match form.kind:
        case FormKind.TEXT | FormKind.JSON | FormKind.NUMBER:
            return plain
        case FormKind.BOOL:
            return pc.if_else(plain, "true", "false")
        case FormKind.BINARY | FormKind.UUID:
            return _hexadecimal(form, plain)
        case FormKind.DOUBLE:
            return _doubles(form, plain)
        case FormKind.INTEGER | FormKind.DECIMAL:
            return number_texts(form, plain)
        case _:
            return _moments(form, plain)


def number_texts(form: Form, plain: pa.Array) -> pa.Array:
    """The numbers of integers, decimals and times."""
    numbers, known = units_of(form, plain)
    return _known(unit_texts(numbers, form.scale), known)


def _known(texts: pa.Array, known: Flags) -> pa.Array:
    return (
        texts if known.all() else pc.if_else(pa.array(known), texts, pa.scalar(None, pa.string()))
    )


def _hexadecimal(form: Form, plain: pa.Array) -> pa.Array:
    rows = len(plain)
    _, offsets, data = plain.buffers()
    edges = np.frombuffer(offsets, np.int32)[plain.offset : plain.offset + rows + 1]
    digits = b"" if data is None else data[edges[0] : edges[-1]].to_pybytes().hex().encode()
    doubled = pa.py_buffer((edges - edges[0]) * 2)
    texts = pa.Array.from_buffers(pa.string(), rows, [None, doubled, pa.py_buffer(digits)])
    texts = pc.if_else(pc.is_valid(plain), texts, pa.scalar(None, pa.string()))
    if form.kind is FormKind.BINARY:
        return texts
    parts = [pc.utf8_slice_codeunits(texts, *each) for each in _UUID_PARTS]
    return pc.binary_join_element_wise(*parts, "-")


def _doubles(form: Form, plain: pa.Array) -> pa.Array:
    parts = amounts_of(form, [Values(plain)])
    finite = joined(
        parts,
        [_known(unit_texts(numbers, scale), known) for _, scale, ((numbers, known),) in parts],
    )
    if finite.null_count == plain.null_count:
        return finite
    infinite = pc.if_else(pc.less(plain, 0), "-Inf", "Inf")
    return pc.coalesce(finite, pc.if_else(pc.is_nan(plain), "NaN", infinite))


def _moments(form: Form, plain: pa.Array) -> pa.Array:
    numbers, known = units_of(form, plain)
    second = 10 ** (MICROS_DIGITS + form.scale)
    if form.kind is FormKind.TIME:
        return _known(_clock(numbers, second), known)
    days = (numbers // (_DAY * second)).astype(np.int64)
    dates = _dates(days)
    if form.kind is FormKind.DATE:
        return _known(dates, known)
    clock = _clock(numbers % (_DAY * second), second)
    zone = "Z" if form.kind is FormKind.INSTANT else ""
    return _known(pc.binary_join_element_wise(dates, "T", clock, zone, ""), known)


def _dates(days: Numbers) -> pa.Array:
    is_near = (days >= _FIRST_DAY) & (days <= _LAST_DAY)
    near = pa.array(np.where(is_near, days, 0).astype(np.int32)).cast(pa.date32())
    texts = near.cast(pa.string())
    if is_near.all():
        return texts
    far = [date_text(Decimal(each)) for each in days[~is_near].tolist()]
    return pc.replace_with_mask(texts, pa.array(~is_near), pa.array(far, pa.string()))


def _clock(numbers: Integers, second: int) -> pa.Array:
    """Time of day, with a fraction if there is one."""
    seconds, rest = (each.astype(np.int64) for each in (numbers // second, numbers % second))
    hours = pc.ascii_lpad(pa.array(seconds // 3600).cast(pa.string()), 2, "0")
    minutes, left = (_two_digits().take(pa.array(each)) for each in np.divmod(seconds % 3600, 60))
    clock = pc.binary_join_element_wise(hours, minutes, left, ":")
    if not rest.any():
        return clock
    digits = pc.ascii_lpad(pa.array(rest).cast(pa.string()), len(str(second)) - 1, "0")
    fractions = pc.binary_join_element_wise(".", pc.ascii_rtrim(digits, "0"), "")
    fractions = pc.if_else(pa.array(rest == 0), "", fractions)
    return pc.binary_join_element_wise(clock, fractions, "")
