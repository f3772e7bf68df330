"""Which types an entry of the allow-list takes, and which type it returns.

Numbers are exact: sums and products have the digits that hold them, up to 38, and more digits
are refused or fail on their row. Floats can only be compared and cast, since no sum of
them is exact. Types combine only where every database returns the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from datarecs_core.comparison.expressions.tree import Literal, Node
from datarecs_core.comparison.values.canonical import Tag
from datarecs_core.documents import decimal_text
from datarecs_core.jobs import types
from datarecs_core.jobs.types import FLOATS, MAX_DIGITS, NESTED, CanonicalType, TypeKind

_INT_DIGITS = 19
_EXACT = frozenset({TypeKind.INT, TypeKind.DECIMAL})
_COMPARED = (
    _EXACT
    | FLOATS
    | {TypeKind.TEXT, TypeKind.BOOL, TypeKind.DATE, TypeKind.INSTANT, TypeKind.LOCAL_TIMESTAMP}
)
_WITHOUT_LITERAL = NESTED | {TypeKind.INTERVAL, TypeKind.JSON, TypeKind.TIME, TypeKind.BINARY}
_DATED = frozenset({TypeKind.DATE, TypeKind.INSTANT, TypeKind.LOCAL_TIMESTAMP})
_TO_TEXT = frozenset({TypeKind.INT, TypeKind.DECIMAL, TypeKind.BOOL, TypeKind.UUID})
_FROM_TEXT = frozenset({TypeKind.INT, TypeKind.DECIMAL, TypeKind.BOOL, TypeKind.DATE})


class MismatchError(Exception):
    """Types that do not fit; the message names them."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A node with its type; None for NULL, which takes the type of the other operand."""

    node: Node
    type: CanonicalType | None
    arguments: tuple["Typed", ...] = ()


class Digits(NamedTuple):
    """Of an exact number, before and after the point."""

    whole: int
    scale: int


Signature = Callable[[Sequence[Typed], CanonicalType | None], CanonicalType | None]
"""From the arguments and the target of a cast to the type of the result."""


def digits_of(argument: Typed) -> Digits | None:
    """None for a number without declared digits."""
    if isinstance(argument.node, Literal) and isinstance(argument.node.value.content, Decimal):
        whole, _, fraction = decimal_text(argument.node.value.content).lstrip("-").partition(".")
        return Digits(len(whole.lstrip("0")), len(fraction))
    kind = argument.type
    if kind is None or kind.kind is TypeKind.INT:
        return Digits(_INT_DIGITS, 0)
    if kind.precision is None or kind.scale is None:
        return None
    return Digits(kind.precision - kind.scale, kind.scale)


def met_type(arguments: Sequence[Typed]) -> CanonicalType | None:
    """The one type that holds all arguments; None where all are NULL.

    Raises MismatchError where there is none.
    """
    typed_nodes = [each for each in arguments if each.type is not None]
    kinds = {each.type.kind for each in typed_nodes if each.type is not None}
    if not kinds:
        return None
    if kinds & _WITHOUT_LITERAL or any(each.type and each.type.is_finer for each in typed_nodes):
        raise MismatchError(f"{_listed(typed_nodes)} can only be used as a whole column")
    if kinds <= _EXACT:
        return types.INT if kinds == {TypeKind.INT} else _decimal(typed_nodes, further=0)
    if kinds <= FLOATS or _is_float_beside_literals(typed_nodes):
        return types.FLOAT64
    if len(kinds) > 1:
        raise MismatchError(f"{_listed(typed_nodes)} cannot be combined; {_remedy(typed_nodes)}")
    return typed_nodes[0].type


def _remedy(typed_nodes: Sequence[Typed]) -> str:
    """A text that was meant as a date is the usual case."""
    times = [each.type.kind for each in typed_nodes if each.type is not None and each.type.is_time]
    if not times or not any(_is_text_literal(each) for each in typed_nodes):
        return "cast one of them"
    return "write DATE '2026-01-31'" if TypeKind.DATE in times else "write TIMESTAMP '...'"


def _is_text_literal(argument: Typed) -> bool:
    return isinstance(argument.node, Literal) and argument.node.value.tag is Tag.TEXT


def _is_float_beside_literals(typed_nodes: Sequence[Typed]) -> bool:
    return all(
        each.type is not None
        and (each.type.is_float or (each.type.is_number and isinstance(each.node, Literal)))
        for each in typed_nodes
    )


def _listed(arguments: Sequence[Typed]) -> str:
    return " and ".join(dict.fromkeys(str(each.type) for each in arguments))


def _decimal(arguments: Sequence[Typed], *, further: int) -> CanonicalType:
    digits = [digits_of(each) for each in arguments]
    known = [each for each in digits if each is not None]
    if len(known) < len(digits):
        return types.NUMERIC
    whole, scale = max(each.whole for each in known), max(each.scale for each in known)
    if whole + scale > MAX_DIGITS:
        raise MismatchError(
            f"{_listed(arguments)} together need {whole + scale} digits, more than {MAX_DIGITS}; "
            "cast one of them to fewer"
        )
    return types.decimal(max(min(whole + scale + further, MAX_DIGITS), 1), scale)


def truths(arguments: Sequence[Typed], _target: CanonicalType | None) -> CanonicalType:
    """Of AND, OR and NOT."""
    _expect(arguments, {TypeKind.BOOL}, "conditions")
    return types.BOOL


def anything(_arguments: Sequence[Typed], _target: CanonicalType | None) -> CanonicalType:
    """Of IS NULL."""
    return types.BOOL


def compared(arguments: Sequence[Typed], _target: CanonicalType | None) -> CanonicalType:
    _expect(arguments, _COMPARED, "comparable values")
    met_type(arguments)
    return types.BOOL


def met(arguments: Sequence[Typed], _target: CanonicalType | None) -> CanonicalType | None:
    """Of COALESCE: one of the arguments."""
    return met_type(arguments)


def chosen(arguments: Sequence[Typed], _target: CanonicalType | None) -> CanonicalType | None:
    """Of NULLIF, GREATEST and LEAST: one of the arguments, which are compared."""
    _expect(arguments, _COMPARED, "comparable values")
    return met_type(arguments)


def cases(arguments: Sequence[Typed], _target: CanonicalType | None) -> CanonicalType | None:
    """Of CASE: condition, value, condition, value, ..., otherwise."""
    _expect(arguments[:-1:2], {TypeKind.BOOL}, "conditions after WHEN")
    return met_type((*arguments[1::2], arguments[-1]))


def sums(arguments: Sequence[Typed], _target: CanonicalType | None) -> CanonicalType:
    """Of +: numbers, or a date and whole days."""
    kinds = [each.type.kind if each.type else None for each in arguments]
    if kinds == [TypeKind.DATE, TypeKind.INT]:
        return types.DATE
    return _numbers(arguments, further=1)


def differences(arguments: Sequence[Typed], _target: CanonicalType | None) -> CanonicalType:
    """Of -: as sums, and the days between two dates."""
    if all(each.type is not None and each.type.kind is TypeKind.DATE for each in arguments):
        return types.INT
    return sums(arguments, None)


def _numbers(arguments: Sequence[Typed], *, further: int) -> CanonicalType:
    _expect_numbers(arguments)
    if all(each.type == types.INT for each in arguments):
        return types.INT
    return _decimal(arguments, further=further)


def products(arguments: Sequence[Typed], _target: CanonicalType | None) -> CanonicalType:
    _expect_numbers(arguments)
    if all(each.type == types.INT for each in arguments):
        return types.INT
    one, other = map(digits_of, arguments)
    if one is None or other is None:
        return types.NUMERIC
    scale = one.scale + other.scale
    if scale > MAX_DIGITS:
        raise MismatchError(
            f"the product has {scale} digits after the point, more than {MAX_DIGITS}; cast a "
            "factor to fewer"
        )
    return types.decimal(max(min(one.whole + other.whole + scale, MAX_DIGITS), 1), scale)


def same_number(arguments: Sequence[Typed], _target: CanonicalType | None) -> CanonicalType:
    """Of - and ABS."""
    _expect_numbers(arguments)
    return arguments[0].type or types.INT


def sign(arguments: Sequence[Typed], _target: CanonicalType | None) -> CanonicalType:
    _expect_numbers(arguments)
    return types.INT


def rounded(arguments: Sequence[Typed], _target: CanonicalType | None) -> CanonicalType:
    """Of ROUND: the places in its literal."""
    _expect_numbers(arguments[:1])
    node = arguments[1].node if len(arguments) > 1 else None
    places = int(str(node.value.content)) if isinstance(node, Literal) else 0
    return _with_scale(arguments[0], places)


def whole(arguments: Sequence[Typed], _target: CanonicalType | None) -> CanonicalType:
    """Of FLOOR and CEIL."""
    _expect_numbers(arguments)
    return _with_scale(arguments[0], 0)


def _with_scale(argument: Typed, places: int) -> CanonicalType:
    digits, kind = digits_of(argument), argument.type or types.INT
    if kind.kind is TypeKind.INT or digits is None or digits.scale <= places:
        return kind
    return types.decimal(min(digits.whole + places + 1, MAX_DIGITS), places)


def texts(arguments: Sequence[Typed], _target: CanonicalType | None) -> CanonicalType:
    """Of functions that make a text of texts; whole numbers among them are literals."""
    _expect_texts(arguments)
    return types.TEXT


def replaced(arguments: Sequence[Typed], _target: CanonicalType | None) -> CanonicalType:
    """Of REPLACE: a longer text would grow without bound where calls are nested."""
    old, new = (
        str(each.node.value.content) if isinstance(each.node, Literal) else ""
        for each in arguments[1:]
    )
    if len(new) > len(old):
        raise MismatchError("the new text is longer than the old one")
    return texts(arguments, None)


def length(arguments: Sequence[Typed], _target: CanonicalType | None) -> CanonicalType:
    _expect_texts(arguments)
    return types.INT


def pattern(arguments: Sequence[Typed], _target: CanonicalType | None) -> CanonicalType:
    _expect_texts(arguments)
    return types.BOOL


def date_part(arguments: Sequence[Typed], _target: CanonicalType | None) -> CanonicalType:
    _expect(arguments, _DATED, "dates and timestamps")
    _expect_typed(arguments)
    return types.INT


def cast(arguments: Sequence[Typed], target: CanonicalType | None) -> CanonicalType | None:
    """Of CAST, from each type to those that every database reads and writes alike."""
    source = arguments[0].type
    if target is None or source is None or source == target:
        return target
    is_declared = target.kind is not TypeKind.DECIMAL or target.scale is not None
    fits = is_declared and not target.is_finer and _is_castable(source.kind, target.kind)
    if not fits:
        raise MismatchError(f"{source} is not cast to {target} here; {_CASTS}")
    return target


_CASTS = (
    "there are casts between int and decimal(p,s), of floats to decimal(p,s), of text to int, "
    "decimal(p,s), bool and date, of int, decimal, bool and uuid to text, and between dates and "
    "timestamps"
)


def _is_castable(source: TypeKind, target: TypeKind) -> bool:
    if source in _EXACT and target in _EXACT:
        return True
    if source in FLOATS:
        return target is TypeKind.DECIMAL
    if source is TypeKind.TEXT:
        return target in _FROM_TEXT
    if target is TypeKind.TEXT:
        return source in _TO_TEXT
    moments = {TypeKind.INSTANT, TypeKind.LOCAL_TIMESTAMP}
    if target is TypeKind.DATE:
        return source in moments
    return source is TypeKind.DATE and target is TypeKind.LOCAL_TIMESTAMP


def _expect_numbers(arguments: Sequence[Typed]) -> None:
    _expect_typed(arguments)
    if any(each.type is not None and each.type.is_float for each in arguments):
        raise MismatchError("a float has no exact arithmetic; write CAST(column AS decimal(p,s))")
    _expect(arguments, _EXACT, "numbers")


def _expect_texts(arguments: Sequence[Typed]) -> None:
    """Whole numbers that count letters are literals, which the table has checked."""
    counted = [each for each in arguments if not _is_number_literal(each)]
    _expect_typed(counted)
    _expect(counted, {TypeKind.TEXT}, "texts")


def _is_number_literal(argument: Typed) -> bool:
    return isinstance(argument.node, Literal) and argument.node.value.tag is Tag.NUMBER


def _expect_typed(arguments: Sequence[Typed]) -> None:
    if any(each.type is None for each in arguments):
        raise MismatchError("NULL has no type here; write CAST(NULL AS type)")


def _expect(
    arguments: Sequence[Typed], kinds: frozenset[TypeKind] | set[TypeKind], what: str
) -> None:
    for each in arguments:
        if each.type is not None and (each.type.kind not in kinds or each.type.is_finer):
            raise MismatchError(f"it takes {what}, not {each.type}")
