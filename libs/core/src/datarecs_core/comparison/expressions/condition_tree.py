"""A condition as a tree: what `condition` reads, the oracle evaluates and lake tables prune by.

Separate from the grammar because a connector reads a condition to skip files without matching
rows, and must not parse SQL for that. Logic is three-valued; every node is called with a row.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from datarecs_core.comparison.values.canonical import Tag, Value, canonical_order

Truth = bool | None
Row = Mapping[str, Value]
_Order = tuple[int, int, Decimal, bytes]
SIGNS: Mapping[str, Callable[[_Order, _Order], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class ConditionNotCoveredError(ValueError):
    """The condition needs more than this part of SQL; its reader decides what follows."""


@dataclass(frozen=True, slots=True)
class Constant:
    value: Value

    def __call__(self, _row: Row) -> Value:
        return self.value


@dataclass(frozen=True, slots=True)
class Column:
    name: str

    def __call__(self, row: Row) -> Value:
        return row[self.name]


Operand = Constant | Column


@dataclass(frozen=True, slots=True)
class Compared:
    """One of `SIGNS` between two operands; unknown where one is NULL or INVALID."""

    sign: str
    one: Operand
    other: Operand

    def __call__(self, row: Row) -> Truth:
        first, second = self.one(row), self.other(row)
        if {first.tag, second.tag} & {Tag.NULL, Tag.INVALID}:
            return None
        if first.tag is not second.tag:
            raise ConditionNotCoveredError("values of two types are compared; cast one of them")
        return SIGNS[self.sign](canonical_order(first), canonical_order(second))


@dataclass(frozen=True, slots=True)
class IsNull:
    """Unknown where the operand is INVALID."""

    operand: Operand

    def __call__(self, row: Row) -> Truth:
        value = self.operand(row)
        return None if value.is_invalid else value.is_null


@dataclass(frozen=True, slots=True)
class Bare:
    """An operand that is a condition by itself: a boolean; unknown where it is INVALID."""

    operand: Operand

    def __call__(self, row: Row) -> Truth:
        value = self.operand(row)
        if value.tag in {Tag.NULL, Tag.INVALID}:
            return None
        if value.tag is not Tag.BOOL:
            raise ConditionNotCoveredError("a condition is a boolean")
        return bool(value.content)


@dataclass(frozen=True, slots=True)
class Negated:
    condition: "Condition"

    def __call__(self, row: Row) -> Truth:
        truth = self.condition(row)
        return None if truth is None else not truth


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The parts joined by OR; AND is written with it and `Negated`."""

    parts: tuple["Condition", ...]

    def __call__(self, row: Row) -> Truth:
        truths = [part(row) for part in self.parts]
        return True if True in truths else None if None in truths else False


Condition = Compared | IsNull | Bare | Negated | AnyOf


def all_of(*parts: Condition) -> Condition:
    """The parts joined by AND."""
    return Negated(AnyOf(tuple(Negated(part) for part in parts)))
