"""Filters over the attributes of an event, in the dialects of CloudEvents Subscriptions 1.0.

There are six dialects. They compare attributes and extensions as text, never the data. `sql` is
not supported: it needs a parser and limits of its evaluation.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

MAX_DEPTH = 5
"""Levels of nested expressions, including the outermost."""
MAX_NODES = 50
"""Expressions of one endpoint in total."""
ATTRIBUTES = (
    *("id", "source", "specversion", "type", "subject", "time", "datacontenttype", "dataschema"),
    *("tenantid", "partitionkey", "runsequence", "causationid", "traceparent", "tracestate"),
    "dataref",
)
"""Names for expressions: every attribute and extension of our events."""


class Dialect(StrEnum):
    EXACT = "exact"
    """Every named attribute has this value."""
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
    """For exact, prefix and suffix: at least one; all must hold."""
    parts: tuple["Expression", ...] = ()
    """For all and any: at least one. For not: exactly one."""

    @property
    def depth(self) -> int:
        return 1 + max((part.depth for part in self.parts), default=0)

    @property
    def nodes(self) -> int:
        return 1 + sum(part.nodes for part in self.parts)


def holds(expression: Expression, attributes: Mapping[str, str]) -> bool:
    """Whether the event passes; a comparison with a missing attribute fails."""
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
