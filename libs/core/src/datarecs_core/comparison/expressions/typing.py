"""The type of every part of an expression over typed columns, or where types do not fit."""

from collections.abc import Mapping
from decimal import Decimal

from datarecs_core.comparison.expressions.functions import ENTRIES
from datarecs_core.comparison.expressions.signatures import Digits, MismatchError, Typed, digits_of
from datarecs_core.comparison.expressions.tree import (
    Call,
    ExpressionError,
    Literal,
    Name,
    Node,
    Parameter,
    nodes_of,
)
from datarecs_core.comparison.values.canonical import Tag
from datarecs_core.errors.faults import did_you_mean
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType

_INT64 = 2**63
_OF_TAG: Mapping[Tag, CanonicalType] = {
    Tag.BOOL: types.BOOL,
    Tag.TEXT: types.TEXT,
    Tag.DATE: types.DATE,
    Tag.INSTANT: types.INSTANT,
    Tag.LOCAL: types.LOCAL_TIMESTAMP,
}


class UnknownNameError(ExpressionError):
    """An expression names a column that its source does not have."""

    def __init__(self, name: Name, known: Mapping[str, CanonicalType]) -> None:
        hint = did_you_mean(name.name, sorted(known))
        super().__init__(f"there is no column {name.name!r}", name.at, hint=hint)
        self.name = name.name


def typed_expression(
    node: Node, columns: Mapping[str, CanonicalType], *, wanted: CanonicalType | None = None
) -> Typed:
    """The tree with the type of each part.

    Args:
        node: of `parse_expression`, with its parameters replaced.
        columns: type by the name that the expression uses.
        wanted: the required type, for conditions.

    Raises:
        UnknownNameError: a column that does not exist.
        ExpressionError: types that do not fit, a parameter without a value, NULL alone.
    """
    made = _typed(node, columns)
    if made.type is None:
        raise ExpressionError("NULL has no type here; write CAST(NULL AS type)", node.at)
    if wanted is not None and made.type != wanted:
        raise ExpressionError(f"it is {made.type} and not {wanted}", node.at)
    return made


def _typed(node: Node, columns: Mapping[str, CanonicalType]) -> Typed:
    match node:
        case Name():
            if node.name not in columns:
                raise UnknownNameError(node, columns)
            return Typed(node, columns[node.name])
        case Literal():
            return Typed(node, _of_literal(node))
        case Parameter():
            raise ExpressionError(f"the parameter {node.name} has no value", node.at)
        case Call():
            arguments = tuple(_typed(each, columns) for each in node.arguments)
            try:
                kind = ENTRIES[node.entry].result(arguments, node.target)
            except MismatchError as cause:
                raise ExpressionError(f"{node.entry.upper()}: {cause}", node.at) from cause
            return Typed(node, kind, arguments)


def check_comparisons(node: Node, columns: Mapping[str, CanonicalType]) -> None:
    """Refuse comparisons of two kinds of values in a condition that readers judge by themselves.

    They compare any two numbers, and values of one kind that databases here do not.

    Raises ExpressionError.
    """
    for call in (each for each in nodes_of(node) if isinstance(each, Call)):
        if not ENTRIES[call.entry].meets:
            continue
        kinds = {kind for each in call.arguments if (kind := _compared_as(each, columns))}
        if len(kinds) > 1:
            listed = " and ".join(sorted(kinds))
            raise ExpressionError(f"{listed} are compared; cast one of them", call.at)


def _compared_as(node: Node, columns: Mapping[str, CanonicalType]) -> str | None:
    """A short name; None for NULL and for anything but a column or literal."""
    kind = columns.get(node.name) if isinstance(node, Name) else None
    if isinstance(node, Literal):
        if node.value.tag is Tag.NUMBER:
            return "number"
        kind = _OF_TAG.get(node.value.tag)
    if kind is None:
        return None
    return "number" if kind.is_number else kind.kind.value


def _of_literal(node: Literal) -> CanonicalType | None:
    content, tag = node.value.content, node.value.tag
    if not isinstance(content, Decimal):
        return _OF_TAG.get(tag)
    is_whole = content == content.to_integral_value()
    if tag is not Tag.NUMBER:
        if not is_whole:
            raise ExpressionError("TIMESTAMP takes at most 6 digits of a second", node.at)
        return _OF_TAG.get(tag)
    if is_whole and -_INT64 <= content < _INT64:
        return types.INT
    digits = digits_of(Typed(node, None)) or Digits(0, 0)
    return types.decimal(max(digits.whole + digits.scale, 1), digits.scale)
