"""The functions of measures over the prepared values of one group and source, exactly.

Sums do not depend on any order: decimals are added as decimals, floats as their shortest decimals
rounded to 18 places. What needs more than 38 digits is an error, never wrapped and never NULL.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from typing import assert_never

from datarecs_core.comparison.values.canonical import NULL, Value, canonical_order, encode, number
from datarecs_core.comparison.values.normalizing import round_half_even
from datarecs_core.comparison.values.translating import fits
from datarecs_core.jobs.types import CanonicalType
from datarecs_core.jobs.vocabulary import Function
from datarecs_core.values import EXACT

FLOAT_PLACES = 18
FLOAT_LIMIT = Decimal(10**20)


class OverflowedError(ArithmeticError):
    """A sum needs more than 38 digits; the caller knows the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregated:
    """A function's result, and how many float values were rounded on the way."""

    value: Value
    rounded: int = 0


def aggregate(
    function: Function, values: Sequence[Value], kind: CanonicalType, places: int | None
) -> Aggregated:
    """Apply a function to the values of one group and source, NULLs included.

    An INVALID value makes the result INVALID (the smallest in canonical order); NULLs are ignored;
    without a value the sum, minimum, maximum and average are NULL and the counts 0.

    Raises:
        OverflowedError: the sum needs more than 38 digits, or a float sum reaches 10^20.
    """
    broken = [value for value in values if value.is_invalid]
    if broken:
        return Aggregated(value=min(broken, key=canonical_order))
    present = [value for value in values if not value.is_null]
    match function:
        case Function.COUNT:
            return Aggregated(value=number(len(present)))
        case Function.COUNT_DISTINCT:
            return Aggregated(value=number(len({encode(value) for value in present})))
        case Function.MIN | Function.MAX | Function.VALUE:
            return Aggregated(value=_extreme(function, present))
        case Function.SUM | Function.AVG:
            return _added(function, present, kind, places)
    assert_never(function)


def _extreme(function: Function, present: Sequence[Value]) -> Value:
    if not present:
        return NULL
    choose = max if function is Function.MAX else min
    return choose(present, key=canonical_order)


def _added(
    function: Function, present: Sequence[Value], kind: CanonicalType, places: int | None
) -> Aggregated:
    if not present:
        return Aggregated(value=NULL)
    amounts = [value.content for value in present if isinstance(value.content, Decimal)]
    special = _special([amount for amount in amounts if not amount.is_finite()])
    if special is not None:
        return Aggregated(value=number(special))
    rounded = 0
    if kind.is_float:
        exact = amounts
        amounts = [round_half_even(amount, FLOAT_PLACES) for amount in exact]
        rounded = sum(one != other for one, other in zip(exact, amounts, strict=True))
    total = add(amounts)
    if _overflows(amounts, total, kind):
        raise OverflowedError
    if function is Function.AVG:
        total = average(total, len(amounts), FLOAT_PLACES if places is None else places)
    return Aggregated(value=number(total), rounded=rounded)


def _special(amounts: Sequence[Decimal]) -> Decimal | None:
    """NaN for any NaN or both infinities, else the infinity; None when all are finite."""
    signs = {amount.is_signed() for amount in amounts if amount.is_infinite()}
    if len(signs) > 1 or any(amount.is_nan() for amount in amounts):
        return Decimal("NaN")
    return next(iter(amounts), None)


def _overflows(amounts: Sequence[Decimal], total: Decimal, kind: CanonicalType) -> bool:
    if kind.is_float:
        return any(each.copy_abs() >= FLOAT_LIMIT for each in (*amounts, total))
    return not fits(total, kind.scale)


def add(amounts: Sequence[Decimal]) -> Decimal:
    """The exact sum of finite numbers."""
    return reduce(EXACT.add, amounts, Decimal(0))


def average(total: Decimal, count: int, places: int) -> Decimal:
    """The exact quotient, rounded half-even once."""
    shifted = round(Fraction(total) * 10**places / count)
    return Decimal(shifted).scaleb(-places, EXACT)
