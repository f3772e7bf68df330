"""The tree of an expression: names, literals, parameters and calls of entries of the allow-list."""

from collections.abc import Iterator
from dataclasses import dataclass

from datarecs_core.comparison.values.canonical import Value
from datarecs_core.jobs.types import CanonicalType


class ExpressionError(ValueError):
    """An expression that the language does not have; the message ends with its position.

    Args:
        message: what is wrong; it repeats names and no literal.
        at: offset in the text, from 0.
        forbidden: a construct that SQL has and this language refuses, and no broken syntax.
        hint: what to write instead.
    """

    def __init__(
        self, message: str, at: int, *, forbidden: bool = False, hint: str | None = None
    ) -> None:
        super().__init__(f"{message} (character {at + 1})")
        self.at, self.forbidden, self.hint = at, forbidden, hint


@dataclass(frozen=True, slots=True)
class Name:
    """A column."""

    name: str
    at: int
    end: int
    """Offset after it."""


@dataclass(frozen=True, slots=True)
class Literal:
    value: Value
    at: int


@dataclass(frozen=True, slots=True)
class Parameter:
    """`:name`, before the run writes its value."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function of the allow-list."""

    entry: str
    arguments: tuple["Node", ...]
    at: int
    target: CanonicalType | None = None
    """Of a cast."""
    height: int = 1
    """Calls above one another, this one counted."""


Node = Name | Literal | Parameter | Call


def nodes_of(node: Node) -> Iterator[Node]:
    """The node and everything below it, in the order of the text."""
    yield node
    if isinstance(node, Call):
        for argument in node.arguments:
            yield from nodes_of(argument)


def columns_of(node: Node) -> frozenset[str]:
    return frozenset(each.name for each in nodes_of(node) if isinstance(each, Name))
