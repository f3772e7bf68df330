"""The part of the language that needs no database: comparisons, IN, BETWEEN, IS NULL, AND, OR, NOT.

The planner reads the columns of a condition, the oracle and the readers of files evaluate it;
a source computes any other expression as a column. Values are those the source delivers,
before casts and rules; logic is three-valued. A row passes where the condition is TRUE, and where
it is unknown because a column in it is INVALID: such a row may belong to the result.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from datarecs_core.comparison.expressions.condition_tree import (
    SIGNS,
    AnyOf,
    Bare,
    Column,
    Compared,
    Condition,
    ConditionNotCoveredError,
    Constant,
    IsNull,
    Negated,
    Operand,
    Row,
    all_of,
)
from datarecs_core.comparison.expressions.syntax import parse_expression
from datarecs_core.comparison.expressions.tree import (
    Call,
    ExpressionError,
    Literal,
    Name,
    Node,
    Parameter,
    columns_of,
)

__all__ = [
    "ConditionNotCoveredError",
    "ParsedCondition",
    "is_plain",
    "named_columns",
    "parse_condition",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedCondition:
    """A condition with the columns it names."""

    columns: frozenset[str]
    holds: Condition

    def admits(self, row: Row) -> bool:
        """Whether a row passes; raises ConditionNotCoveredError for values of two types."""
        truth = self.holds(row)
        if truth is None:
            return any(row[name].is_invalid for name in self.columns)
        return truth


def parse_condition(sql: str) -> ParsedCondition:
    """Read a condition.

    Raises:
        ConditionNotCoveredError: functions, arithmetic, LIKE, CASE and the like, and anything
            outside the language.
    """
    try:
        node = parse_expression(sql)
    except ExpressionError as cause:
        raise ConditionNotCoveredError(str(cause)) from cause
    return ParsedCondition(columns=columns_of(node), holds=_condition(node))


def is_plain(sql: str) -> bool:
    """Whether `parse_condition` reads it."""
    try:
        parse_condition(sql)
    except ConditionNotCoveredError:
        return False
    return True


def named_columns(sql: str | None) -> frozenset[str]:
    """Columns that an expression names; none where it is not valid, which its check reports."""
    if sql is None:
        return frozenset()
    try:
        return columns_of(parse_expression(sql))
    except ExpressionError:
        return frozenset()


def _condition(node: Node) -> Condition:
    if not isinstance(node, Call):
        return Bare(_operand(node))
    if node.entry in {"and", "or", "not"}:
        parts = tuple(map(_condition, node.arguments))
        if node.entry == "not":
            return Negated(parts[0])
        return AnyOf(parts) if node.entry == "or" else all_of(*parts)
    return _comparison(node.entry, tuple(map(_operand, node.arguments)))


def _comparison(entry: str, operands: Sequence[Operand]) -> Condition:
    operand, *others = operands
    if entry == "is_null":
        return IsNull(operand)
    if entry == "in":
        return AnyOf(tuple(Compared("=", operand, other) for other in others))
    if entry == "between":
        low, high = others
        return all_of(Compared(">=", operand, low), Compared("<=", operand, high))
    if entry in SIGNS:
        return Compared(entry, operand, others[0])
    raise ConditionNotCoveredError(f"{entry.upper()} is more than a comparison")


def _operand(node: Node) -> Operand:
    match node:
        case Name():
            return Column(node.name)
        case Literal():
            return Constant(node.value)
        case Parameter():
            raise ConditionNotCoveredError(f"the parameter {node.name} has no value")
    raise ConditionNotCoveredError(f"{node.entry.upper()} is more than a comparison")
