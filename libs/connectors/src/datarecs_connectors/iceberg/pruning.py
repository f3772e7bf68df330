"""Skip data files without matching rows, by partition values and column bounds.

A file is skipped only if the condition is FALSE or unknown for each of its rows; the rows of other
files are filtered one by one afterwards. Bounds do not cover NaN, so a condition on floats skips no
file. A condition that is not translated skips no file either.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, assert_never

from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    IsNull,
    LessThan,
    LessThanOrEqual,
    LiteralPredicate,
    NotEqualTo,
    NotNull,
    Or,
    Reference,
)
from pyiceberg.expressions.literals import (
    BooleanLiteral,
    DateLiteral,
    DecimalLiteral,
    Literal,
    LongLiteral,
    StringLiteral,
    TimestampLiteral,
)
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from datarecs_core.comparison.expressions import condition_tree as tree
from datarecs_core.comparison.values.canonical import Tag, Value

_INT64 = 2**63
_Predicate = type[LiteralPredicate]
_SIGNS: Mapping[str, _Predicate] = {
    "=": EqualTo,
    "<>": NotEqualTo,
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
}
_OPPOSITE: Mapping[str, str] = {
    "=": "<>",
    "<>": "=",
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
}
_TURNED: Mapping[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def may_hold(condition: tree.Condition, schema: Schema, *, truth: bool = True) -> BooleanExpression:
    """What holds for every row where the condition is TRUE (or FALSE, with `truth` False)."""
    match condition:
        case tree.Negated(condition=inner):
            return may_hold(inner, schema, truth=not truth)
        case tree.AnyOf(parts=parts):
            expressions = [may_hold(part, schema, truth=truth) for part in parts]
            whole = expressions[0]
            for part in expressions[1:]:
                whole = Or(whole, part) if truth else And(whole, part)
            return whole
        case tree.IsNull(operand=tree.Column(name=name)) if name in schema.column_names:
            return IsNull(term=Reference(name)) if truth else NotNull(term=Reference(name))
        case tree.Compared():
            return _compared(condition, schema, truth=truth)
        case tree.IsNull() | tree.Bare():
            return AlwaysTrue()
        case never:
            assert_never(never)


def _compared(condition: tree.Compared, schema: Schema, *, truth: bool) -> BooleanExpression:
    match condition.one, condition.other:
        case tree.Column(name=name), tree.Constant(value=value):
            sign = condition.sign
        case tree.Constant(value=value), tree.Column(name=name):
            sign = _TURNED.get(condition.sign, condition.sign)
        case _:
            return AlwaysTrue()
    if name not in schema.column_names:
        return AlwaysTrue()
    literal = _literal(value, schema.find_type(name))
    if literal is None:
        return AlwaysTrue()
    return _SIGNS[sign if truth else _OPPOSITE[sign]](name, literal)


def _literal(value: Value, kind: IcebergType) -> Literal[Any] | None:
    """A constant in the column's type; None if it has no exact value in that type."""
    literal: Literal[Any] | None = None
    match value.tag, value.content, kind:
        case Tag.TEXT, str() as text, StringType():
            literal = StringLiteral(text)
        case Tag.BOOL, bool() as flag, BooleanType():
            literal = BooleanLiteral(flag)
        case Tag.NUMBER, Decimal() as amount, DecimalType():
            literal = _decimal(amount, kind)
        case tag, Decimal() as amount, _ if amount.is_finite() and amount == int(amount):
            literal = _whole(tag, int(amount), kind)
        case _:
            pass  # the file is read and every row is filtered
    return literal


def _whole(tag: Tag, amount: int, kind: IcebergType) -> Literal[Any] | None:
    """An integer, day or microsecond constant, each only for its type."""
    if abs(amount) >= _INT64:
        return None
    match tag, kind:
        case Tag.NUMBER, IntegerType() | LongType():
            return LongLiteral(amount)
        case Tag.DATE, DateType():
            return DateLiteral(amount)
        case (Tag.INSTANT, TimestamptzType()) | (Tag.LOCAL, TimestampType()):
            return TimestampLiteral(amount)
        case _:
            return None


def _decimal(amount: Decimal, kind: DecimalType) -> Literal[Any] | None:
    """With exactly the column's digits after the point, as the format compares decimals."""
    if not amount.is_finite():
        return None
    _, digits, exponent = amount.normalize().as_tuple()
    if not isinstance(exponent, int) or -exponent > kind.scale:
        return None
    if len(digits) + exponent > kind.precision - kind.scale:
        return None
    return DecimalLiteral(Decimal(amount).quantize(Decimal(1).scaleb(-kind.scale)))
