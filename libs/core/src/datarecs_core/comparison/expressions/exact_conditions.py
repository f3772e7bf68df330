"""Conditions that mean the same in every dialect of SQL, and their text in one of them.

The SQL of databases, of the scan kernel and of Spark differ in LIKE, escapes, division, the order
of NULL and what a text is equal to. What is left are comparisons of columns and literals of one
type: those alone are translated. Separate from `condition_tree`, which evaluates any of them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import assert_never

from datarecs_core.comparison.expressions.condition import ConditionNotCoveredError, parse_condition
from datarecs_core.comparison.expressions.condition_tree import (
    AnyOf,
    Bare,
    Column,
    Compared,
    Condition,
    Constant,
    IsNull,
    Negated,
    Operand,
)
from datarecs_core.comparison.values.canonical import Tag, Value
from datarecs_core.documents import decimal_text
from datarecs_core.jobs.types import MAX_DIGITS, CanonicalType, TypeKind
from datarecs_core.values import EXACT

_TAGS: Mapping[TypeKind, Tag] = {
    TypeKind.INT: Tag.NUMBER,
    TypeKind.DECIMAL: Tag.NUMBER,
    TypeKind.TEXT: Tag.TEXT,
    TypeKind.BOOL: Tag.BOOL,
    TypeKind.DATE: Tag.DATE,
    TypeKind.INSTANT: Tag.INSTANT,
    TypeKind.LOCAL_TIMESTAMP: Tag.LOCAL,
}
_INT_DIGITS = 20


class NotExactError(Exception):
    """A condition may have another meaning in another dialect; the message names the part."""


@dataclass(frozen=True, slots=True)
class Digits:
    """The digits that hold two exact numbers in one decimal."""

    whole: int
    scale: int

    def meeting(self, other: "Digits") -> "Digits":
        return Digits(max(self.whole, other.whole), max(self.scale, other.scale))


OperandSql = Callable[[Operand, Digits | None], str]
"""An operand in a dialect; numbers are compared in a decimal of these digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactCondition:
    """A condition over typed columns, every part of which is exact."""

    holds: Condition
    types: Mapping[str, CanonicalType]
    """Of the columns it names."""

    def sql(self, operand: OperandSql) -> str:
        """Its text, in brackets; three-valued as it was written."""
        return _written(self.holds, self.types, operand)

    def digits(self, one: Operand, other: Operand) -> Digits | None:
        """The digits for two operands; None where they are not numbers."""
        return _digits(one, other, self.types)


def exact_condition(sql: str, types: Mapping[str, CanonicalType]) -> ExactCondition:
    """Read a condition over columns of these types.

    Raises:
        NotExactError: dialects may differ about it; columns without a type are among the reasons.
    """
    try:
        parsed = parse_condition(sql)
    except ConditionNotCoveredError as cause:
        raise NotExactError(str(cause)) from cause
    missing = sorted(parsed.columns - types.keys())
    if missing:
        raise NotExactError(f"it names {missing[0]}, which is not read as a column")
    reason = next(_doubts(parsed.holds, types), None)
    if reason is not None:
        raise NotExactError(reason)
    return ExactCondition(
        holds=parsed.holds, types={name: types[name] for name in sorted(parsed.columns)}
    )


def _doubts(condition: Condition, types: Mapping[str, CanonicalType]) -> Iterator[str]:
    match condition:
        case AnyOf(parts):
            for part in parts:
                yield from _doubts(part, types)
        case Negated(inner):
            yield from _doubts(inner, types)
        case IsNull(operand):
            yield from _operand_doubts(operand, types)
        case Bare(operand):
            yield from _operand_doubts(operand, types)
            if _tag(operand, types) is not Tag.BOOL:
                yield "a condition is a boolean"
        case Compared(_, one, other):
            yield from _operand_doubts(one, types)
            yield from _operand_doubts(other, types)
            yield from _pair_doubts(one, other, types)
        case _:
            assert_never(condition)


def _operand_doubts(operand: Operand, types: Mapping[str, CanonicalType]) -> Iterator[str]:
    if isinstance(operand, Column):
        kind = types[operand.name]
        if kind.kind not in _TAGS:
            yield f"{operand.name} is {kind}"
        elif kind.kind is TypeKind.DECIMAL and kind.scale is None:
            yield f"{operand.name} is a number without declared digits"
        return
    content = operand.value.content
    if operand.value.is_null:
        yield "it compares with NULL"
    elif (
        isinstance(content, Decimal)
        and operand.value.tag is not Tag.NUMBER
        and EXACT.remainder(content, Decimal(1))
    ):
        yield "a literal is finer than a microsecond"


def _pair_doubts(one: Operand, other: Operand, types: Mapping[str, CanonicalType]) -> Iterator[str]:
    tags = {_tag(one, types), _tag(other, types)}
    if len(tags) > 1:
        yield "values of two types are compared"
    digits = _digits(one, other, types)
    if digits is not None and digits.whole + digits.scale > MAX_DIGITS:
        yield f"numbers of more than {MAX_DIGITS} digits are compared"


def _tag(operand: Operand, types: Mapping[str, CanonicalType]) -> Tag | None:
    if isinstance(operand, Constant):
        return operand.value.tag
    return _TAGS.get(types[operand.name].kind)


def _digits(one: Operand, other: Operand, types: Mapping[str, CanonicalType]) -> Digits | None:
    first, second = _digits_of(one, types), _digits_of(other, types)
    return None if first is None or second is None else first.meeting(second)


def _digits_of(operand: Operand, types: Mapping[str, CanonicalType]) -> Digits | None:
    if isinstance(operand, Constant):
        return _written_digits(operand.value)
    kind = types[operand.name]
    if kind.kind is TypeKind.INT:
        return Digits(_INT_DIGITS, 0)
    if kind.kind is TypeKind.DECIMAL and kind.precision is not None and kind.scale is not None:
        return Digits(max(kind.precision - kind.scale, 0), kind.scale)
    return None


def _written_digits(value: Value) -> Digits | None:
    if value.tag is not Tag.NUMBER or not isinstance(value.content, Decimal):
        return None
    whole, _, fraction = decimal_text(value.content).lstrip("-").partition(".")
    return Digits(len(whole), len(fraction))


def _written(condition: Condition, types: Mapping[str, CanonicalType], operand: OperandSql) -> str:
    match condition:
        case AnyOf(parts):
            return f"({' OR '.join(_written(part, types, operand) for part in parts)})"
        case Negated(inner):
            return f"(NOT {_written(inner, types, operand)})"
        case IsNull(one):
            return f"({operand(one, None)} IS NULL)"
        case Bare(one):
            return operand(one, None)
        case Compared(sign, one, other):
            digits = _digits(one, other, types)
            return f"({operand(one, digits)} {sign} {operand(other, digits)})"
        case _:
            assert_never(condition)
