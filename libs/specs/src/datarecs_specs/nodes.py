"""A declaration before its kind is known: scalars, lists and mappings, with marks.

One small tree for YAML and JSON, so that decoding has one input. A scalar keeps its source text,
because a decimal must never pass through a float.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from datarecs_core.errors.spec import SpecCode


class Mark(NamedTuple):
    """A place in the text; both numbers start at 1."""

    line: int
    column: int


START = Mark(1, 1)


class Form(StrEnum):
    """What a scalar is by how it is written, after the core schema of YAML 1.2."""

    TEXT = "text"
    INT = "number"
    FLOAT = "number with a fraction"
    BOOL = "true or false"
    NULL = "empty value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    text: str
    form: Form
    mark: Mark | None
    bare: bool
    """Written without quotes in YAML: where a text is needed, its source text is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    key: str
    key_mark: Mark | None
    value: "Node"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapNode:
    entries: tuple[Entry, ...]
    mark: Mark | None

    def get(self, key: str) -> "Node | None":
        """The value under the key, None when there is none."""
        return next((entry.value for entry in self.entries if entry.key == key), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListNode:
    items: tuple["Node", ...]
    mark: Mark | None


Node = Scalar | ListNode | MapNode


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFault:
    """A fault of syntax, found before there is a tree with paths."""

    code: SpecCode
    mark: Mark
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document of a file. `node` is None when it is empty or could not be read."""

    number: int
    """From 0."""
    node: Node | None
    faults: tuple[TextFault, ...]


def form_name(node: Node) -> str:
    """What the node is, for a message."""
    match node:
        case Scalar():
            return f"a {node.form}" if node.form is not Form.NULL else "an empty value"
        case ListNode():
            return "a list"
        case MapNode():
            return "a mapping"


_FORMS = (
    (Form.NULL, re.compile(r"~|null|Null|NULL|")),
    (Form.BOOL, re.compile(r"true|True|TRUE|false|False|FALSE")),
    (Form.INT, re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")),
    (
        Form.FLOAT,
        re.compile(
            r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
        ),
    ),
)


def form_of(plain: str) -> Form:
    """The form of an unquoted scalar: `no`, `012:30` and dates are text, `1e3` is a number."""
    return next((form for form, pattern in _FORMS if pattern.fullmatch(plain)), Form.TEXT)
