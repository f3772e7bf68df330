"""Sums in DuckDB's SQL that are exact for every size.

DuckDB ends a query with an error if an intermediate sum exceeds 38 digits, so numbers with many
digits are added in parts that cannot overflow for any number of rows.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from datarecs_core.values import EXACT
from datarecs_kernel.forms import Form, FormKind

PART_DIGITS = 28
"""10^10 decimals with this many digits can be added within 38 digits."""
HALF = 10**19
"""Divides an integer of 38 digits into two parts."""
_PIECES = {"hi": (0, 19), "lo": (0, 0), "f1": (1, -19), "f2": (1, -38)}
"""A piece of a number's text: before or after the point, and the power of its last digit."""
_PIECE_DIGITS = 19


class Part(NamedTuple):
    """One summand of each value."""

    sql: str
    weight: int
    """Power of ten by which its sum is shifted."""


def parts_of(form: Form, value: str) -> tuple[Part, ...]:
    """The summands of finite numbers of a form; NaN and infinities add nothing."""
    if form.kind is FormKind.INTEGER or 0 < form.precision <= PART_DIGITS:
        return (Part(value, 0),)
    if form.kind is FormKind.DECIMAL and form.scale <= PART_DIGITS:
        return (Part(large_part(form, value), large_weight(form)), Part(small_part(form, value), 0))
    return _text_parts(value)


def halves_of(units: str) -> tuple[Part, ...]:
    """The summands of integers of up to 38 digits (HUGEINT)."""
    return (Part(f"{units} // {HALF}", len(str(HALF)) - 1), Part(f"{units} % {HALF}", 0))


def read_sum(parts: Sequence[Part], sums: Sequence[int | Decimal | None]) -> Decimal:
    """The sum of all values from the sums of their parts; 0 without any."""
    total = Decimal(0)
    for part, part_sum in zip(parts, sums, strict=True):
        if part_sum is not None:
            total = EXACT.add(total, Decimal(part_sum).scaleb(part.weight, EXACT))
    return total


def large_weight(form: Form) -> int:
    """The power of ten of the unit of `large_part`, for decimals with more than 28 digits."""
    return PART_DIGITS - form.scale


def large_part(form: Form, value: str) -> str:
    """The number of whole 10^28 units of the last digit in a decimal: an integer of ten digits."""
    whole = f"CAST(trunc({value}) AS HUGEINT) // {10 ** large_weight(form)}"
    return f"CASE WHEN {_is_small(form, value)} THEN 0 ELSE CAST({whole} AS BIGINT) END"


def small_part(form: Form, value: str) -> str:
    """The rest: a decimal of 28 digits."""
    counted = f"CAST({large_part(form, value)} AS HUGEINT) * {10 ** large_weight(form)}"
    rest = f"{value} - CAST({counted} AS {form.sql_type})"
    return f"CASE WHEN {_is_small(form, value)} THEN {value} ELSE {rest} END"


def _is_small(form: Form, value: str) -> str:
    limit = f"CAST('{10 ** large_weight(form)}' AS {form.sql_type})"
    return f"{value} > -{limit} AND {value} < {limit}"


def _text_parts(value: str) -> tuple[Part, ...]:
    """Four pieces of 19 digits of a number's text."""
    text = f"CAST({value} AS VARCHAR)"
    finite = f"{text} NOT IN ('NaN', 'Inf', '-Inf')"
    sign = f"CASE WHEN starts_with({text}, '-') THEN '-' ELSE '' END"
    size = f"ltrim({text}, '-')"
    digits = (
        f"lpad(split_part({size}, '.', 1), {2 * _PIECE_DIGITS}, '0')",
        f"rpad(split_part({size}, '.', 2), {2 * _PIECE_DIGITS}, '0')",
    )
    parts = []
    for name, (side, weight) in _PIECES.items():
        start = 1 if name in {"hi", "f1"} else 1 + _PIECE_DIGITS
        piece = f"substr({digits[side]}, {start}, {_PIECE_DIGITS})"
        parts.append(
            Part(f"CASE WHEN {finite} THEN CAST({sign} || {piece} AS HUGEINT) END", weight)
        )
    return tuple(parts)
