"""Conditions of sources and stages in DuckDB's SQL, over base columns.

Numbers are compared as decimals that hold both, times as numbers, texts by their bytes; an INVALID
operand makes its comparison unknown. A row passes if the condition is TRUE, or if it is unknown and
one of its columns is INVALID (`core.comparison.expressions.condition`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import assert_never

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
from datarecs_core.comparison.expressions.exact_conditions import (
    Digits,
    ExactCondition,
    exact_condition,
)
from datarecs_core.comparison.values.canonical import Tag, Value
from datarecs_core.documents import decimal_text
from datarecs_core.jobs.types import CanonicalType
from datarecs_kernel.base_columns import BaseColumn
from datarecs_kernel.database import sql_text


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedBase:
    """A column that a condition may name."""

    type: CanonicalType
    base: BaseColumn


def condition_sql(condition: str, columns: Mapping[str, TypedBase]) -> str:
    """SQL that is TRUE for the rows that pass, and FALSE or NULL for the others.

    Args:
        condition: of a source or stage, in the language of jobs.
        columns: those of the source, by the names that the condition uses.

    Raises:
        NotExactError: SQL cannot evaluate it with the meaning of core.
    """
    exact = exact_condition(condition, {name: each.type for name, each in columns.items()})
    bases = {name: columns[name].base for name in exact.types}
    text = _Writing(exact, bases).holds(exact.holds)
    unknown = [base.is_invalid for base in bases.values() if base.raw is not None]
    return f"coalesce({text}, {' OR '.join(unknown)})" if unknown else text


@dataclass(frozen=True, slots=True)
class _Writing:
    exact: ExactCondition
    bases: Mapping[str, BaseColumn]

    def holds(self, condition: Condition) -> str:
        match condition:
            case AnyOf(parts):
                return f"({' OR '.join(map(self.holds, parts))})"
            case Negated(AnyOf(parts)) if all(isinstance(part, Negated) for part in parts):
                inner = [part.condition for part in parts if isinstance(part, Negated)]
                return f"({' AND '.join(map(self.holds, inner))})"
            case Negated(inner):
                return f"(NOT {self.holds(inner)})"
            case IsNull(operand):
                return self._unless_invalid(f"{self._operand(operand, None)} IS NULL", operand)
            case Bare(operand):
                return self._operand(operand, None)
            case Compared(sign, one, other):
                digits = self.exact.digits(one, other)
                return f"({self._operand(one, digits)} {sign} {self._operand(other, digits)})"
            case _:
                assert_never(condition)

    def _unless_invalid(self, text: str, operand: Operand) -> str:
        """INVALID values are NULL, which is unknown to comparisons, but not to IS NULL."""
        base = self.bases[operand.name] if isinstance(operand, Column) else None
        if base is None or base.raw is None:
            return f"({text})"
        return f"(CASE WHEN {base.is_invalid} THEN NULL ELSE {text} END)"

    def _operand(self, operand: Operand, digits: Digits | None) -> str:
        match operand:
            case Constant(literal):
                return _constant(literal, digits)
            case Column(name):
                value = self.bases[name].value
                return value if digits is None else _as_decimal(value, digits)
            case _:
                assert_never(operand)


def _as_decimal(sql: str, digits: Digits) -> str:
    return f"CAST({sql} AS DECIMAL({max(digits.whole + digits.scale, 1)},{digits.scale}))"


def _constant(value: Value, digits: Digits | None) -> str:
    match value.tag, value.content:
        case Tag.NUMBER, Decimal() as number if digits is not None:
            return _as_decimal(sql_text(decimal_text(number)), digits)
        case Tag.TEXT, str() as text:
            return " || chr(0) || ".join(map(sql_text, text.split("\0")))
        case Tag.BOOL, bool() as truth:
            return "TRUE" if truth else "FALSE"
        case _, Decimal() as count:
            return f"CAST({int(count)} AS BIGINT)"
        case _:
            raise TypeError(f"{value.tag} has no literal")
