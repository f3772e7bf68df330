"""Prepared values in the form of their columns: amounts of sums with their state, and all others.

Used where values are prepared one by one; SQL that prepares whole columns gives the same result.
"""

from decimal import Decimal
from enum import IntFlag

from datarecs_core.comparison.values.canonical import Value, canonical_text
from datarecs_core.comparison.values.normalizing import round_half_even
from datarecs_core.comparison.values.translating import fits
from datarecs_kernel.decoding import represented
from datarecs_kernel.forms import Form
from datarecs_kernel.layout import Field, Role

FLOAT_PLACES = 18
"""Digits after the point in sums of floats."""
_FLOAT_LIMIT = Decimal(10**20)


class AmountState(IntFlag):
    """States of an amount that its decimal does not represent."""

    NAN = 1
    POSITIVE = 2
    NEGATIVE = 4
    WIDE = 8
    """Needs more digits than the decimal has."""
    ROUNDED = 16
    """A float that was rounded at the eighteenth place."""


def column_value(value: Value, field: Field) -> object:
    """The column value of a prepared value that is neither INVALID nor an amount.

    Raises:
        ArithmeticError: a time that is infinite or finer than the column.
    """
    if value.is_null:
        return None
    if field.role is Role.PRESENCE:
        return True
    if field.role is Role.DISTINCT and field.form.sql_type == "STRING":
        return canonical_text(value)
    return represented(value, field.form)


def column_amount(value: Value, form: Form, *, is_float: bool) -> tuple[Decimal | None, int]:
    """A number as a summand, and its state."""
    content = value.content
    if not isinstance(content, Decimal):
        return None, 0
    if content.is_nan():
        return None, AmountState.NAN
    if content.is_infinite():
        return None, AmountState.NEGATIVE if content.is_signed() else AmountState.POSITIVE
    exact = round_half_even(content, FLOAT_PLACES) if is_float else content
    state = AmountState.ROUNDED if exact != content else AmountState(0)
    if not fits(exact, form.scale, form.precision) or (
        is_float and exact.copy_abs() >= _FLOAT_LIMIT
    ):
        return None, AmountState.WIDE
    return exact, state
