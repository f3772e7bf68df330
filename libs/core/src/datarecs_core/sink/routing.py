"""Which tables a record lands in, by the routing field of its decoded value."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from datarecs_core.sink.definition import SinkTarget

Targets = tuple[int, ...]
"""Indexes of tables, in declaration order; empty: the record is passed over."""

Route = Callable[[Mapping[str, object]], Targets]

_MOST_CACHED = 10_000
"""Texts whose tables are remembered; then the memory begins anew."""


def router(field: str | None, targets: Sequence[SinkTarget]) -> Route:
    """Route by a dotted path, or every record to every table without one.

    Text is compared as it is, numbers and truth values as JSON writes them. Anything else, and a
    path that leads nowhere, matches no rule. A target without a rule takes every record.
    """
    everything = tuple(range(len(targets)))
    if field is None or all(target.route is None for target in targets):
        return lambda _: everything
    path = tuple(field.split("."))
    known: dict[str | None, Targets] = {}

    def route(value: Mapping[str, object]) -> Targets:
        text = text_at(value, path)
        places = known.get(text)
        if places is None:
            if len(known) >= _MOST_CACHED:
                known.clear()
            places = known[text] = _matching(text, targets)
        return places

    return route


def _matching(text: str | None, targets: Sequence[SinkTarget]) -> Targets:
    return tuple(
        index
        for index, target in enumerate(targets)
        if target.route is None or (text is not None and target.route.matches(text))
    )


def text_at(value: Mapping[str, object], path: tuple[str, ...]) -> str | None:
    """The text at a path; None where there is none."""
    node: object = value
    for name in path:
        if not isinstance(node, Mapping):
            return None
        node = node.get(name)
    match node:
        case str():
            return node
        case bool():
            return "true" if node else "false"
        case int() | Decimal():
            return str(node)
        case _:
            return None
