"""Conditions of sources and stages in Polars' language, part by part as `kernel_conditions` in SQL.

Logic is three-valued in both: a row is kept where all of them hold.
"""

import operator
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from functools import partial, reduce
from typing import assert_never, cast

import polars as pl

from datarecs_core.comparison.expressions.condition_tree import (
    SIGNS,
    AnyOf,
    Bare,
    Column,
    Compared,
    Condition,
    IsNull,
    Negated,
    Operand,
)
from datarecs_core.comparison.expressions.exact_conditions import Digits
from datarecs_core.comparison.values.canonical import Tag, Value
from datarecs_core.jobs.types import TypeKind
from datarecs_spark.kernel_conditions import EPOCH, MOMENTS
from datarecs_spark.kernel_work import KernelCondition
from datarecs_spark.native_errors import NotNativeError

_Compares = Callable[[pl.Expr, pl.Expr], pl.Expr]


def frame_condition(condition: KernelCondition) -> pl.Expr:
    """Over physical columns."""
    return _holds(condition, condition.exact.holds)


def _holds(condition: KernelCondition, part: Condition) -> pl.Expr:
    match part:
        case AnyOf(parts):
            return reduce(operator.or_, map(partial(_holds, condition), parts))
        case Negated(inner):
            return ~_holds(condition, inner)
        case IsNull(one):
            return _operand(condition, one, None).is_null()
        case Bare(one):
            return _operand(condition, one, None)
        case Compared(sign, one, other):
            digits = condition.exact.digits(one, other)
            first, second = (_operand(condition, each, digits) for each in (one, other))
            compared = cast("_Compares", SIGNS[sign])
            return compared(first, second)
        case _:
            assert_never(part)


def _operand(condition: KernelCondition, operand: Operand, digits: Digits | None) -> pl.Expr:
    if not isinstance(operand, Column):
        return _constant(operand.value, digits)
    column = pl.col(condition.names[operand.name])
    if digits is not None:
        return column.cast(_decimal(digits))
    if condition.reads_texts and condition.exact.types[operand.name].kind is TypeKind.TEXT:
        return column + pl.lit("")
    is_moment = condition.exact.types[operand.name].kind in MOMENTS
    return column.cast(pl.Int64) if is_moment else column


def _decimal(digits: Digits) -> pl.Decimal:
    return pl.Decimal(max(digits.whole + digits.scale, 1), digits.scale)


def _constant(value: Value, digits: Digits | None) -> pl.Expr:
    match value.tag, value.content:
        case Tag.NUMBER, Decimal() as number if digits is not None:
            return pl.lit(number, _decimal(digits))
        case (Tag.TEXT, str() as plain) | (Tag.BOOL, bool() as plain):
            return pl.lit(plain)
        case Tag.DATE, Decimal() as days:
            return pl.lit(EPOCH + timedelta(days=int(days)))
        case Tag.INSTANT | Tag.LOCAL, Decimal() as micros:
            return pl.lit(int(micros), pl.Int64)
        case _:
            raise NotNativeError("a literal has no form in the kernel")
