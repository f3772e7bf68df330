"""Parsed JSON as the nodes that shapes read.

Separate from `documents`, because shapes of requests use it and the kinds use these shapes.
"""

from collections.abc import Mapping
from decimal import Decimal

from datarecs_specs.nodes import Entry, Form, ListNode, MapNode, Node, Scalar


def json_node(value: object) -> Node:
    """A parsed JSON value as nodes; it has no lines and columns."""
    match value:
        case Mapping():
            entries = tuple(
                Entry(key=str(key), key_mark=None, value=json_node(item))
                for key, item in value.items()
            )
            return MapNode(entries=entries, mark=None)
        case list() | tuple():
            return ListNode(items=tuple(json_node(item) for item in value), mark=None)
        case _:
            text, form = _json_scalar(value)
            return Scalar(text=text, form=form, mark=None, bare=False)


def _json_scalar(value: object) -> tuple[str, Form]:
    match value:
        case None:
            return "null", Form.NULL
        case bool():
            return ("true" if value else "false"), Form.BOOL
        case int():
            return str(value), Form.INT
        case Decimal() | float():
            return str(value), Form.FLOAT
        case _:
            return str(value), Form.TEXT
