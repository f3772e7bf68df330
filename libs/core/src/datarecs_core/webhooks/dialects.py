"""Filters over the attributes of an event, in the dialects of CloudEvents Subscriptions 1.0.

A language of its own: six words, judged on attributes and extensions as text, never on the data.
`sql` is not among them: a language to parse is no rule that a reader checks at a glance.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

MAX_DEPTH = 5
"""Expressions inside each other, the outermost included."""
MAX_NODES = 50
"""Expressions of one endpoint in all."""
ATTRIBUTES = (
    *("id", "source", "specversion", "type", "subject", "time", "datacontenttype", "dataschema"),
    *("tenantid", "partitionkey", "runsequence", "causationid", "traceparent", "tracestate"),
    "dataref",
)
"""What an expression may name: every attribute and extension that events here can have."""


class Dialect(StrEnum):
    EXACT = "exact"
    """Each named attribute has this value."""
    PREFIX = "prefix"
    SUFFIX = "suffix"
    ALL = "all"
    ANY = "any"
    NOT = "not"

    @property
    def names_attributes(self) -> bool:
        return self in {Dialect.EXACT, Dialect.PREFIX, Dialect.SUFFIX}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """One filter: a comparison of attributes, or a combination of other expressions."""

    dialect: Dialect
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Of exact, prefix and suffix: at least one; all of them must hold."""
    parts: tuple["Expression", ...] = ()
    """Of all and any: at least one. Of not: exactly one."""

    @property
    def depth(self) -> int:
        return 1 + max((part.depth for part in self.parts), default=0)

    @property
    def nodes(self) -> int:
        return 1 + sum(part.nodes for part in self.parts)


def holds(expression: Expression, attributes: Mapping[str, str]) -> bool:
    """Whether the event passes; an attribute that it lacks passes no comparison."""
    match expression.dialect:
        case Dialect.EXACT | Dialect.PREFIX | Dialect.SUFFIX:
            return all(
                name in attributes and _compares(expression.dialect, attributes[name], text)
                for name, text in expression.attributes.items()
            )
        case Dialect.ALL:
            return all_hold(expression.parts, attributes)
        case Dialect.ANY:
            return any(holds(part, attributes) for part in expression.parts)
        case Dialect.NOT:
            return not all_hold(expression.parts, attributes)
    assert_never(expression.dialect)


def all_hold(expressions: Iterable[Expression], attributes: Mapping[str, str]) -> bool:
    return all(holds(one, attributes) for one in expressions)


def _compares(dialect: Dialect, value: str, text: str) -> bool:
    if dialect is Dialect.PREFIX:
        return value.startswith(text)
    return value.endswith(text) if dialect is Dialect.SUFFIX else value == text
