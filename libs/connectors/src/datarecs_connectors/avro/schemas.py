"""The types of an Avro schema: names resolved, logical types recognised, sizes bounded.

Schemas are written by whoever may register one, so a schema that contains itself, that is nested
deeper than a table can be, or that lets few bytes stand for many values is refused here, before a
value of it is read. A logical type that is unknown or misplaced is ignored, as Avro demands.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

MOST_LEVELS = 16
"""Of records, arrays and maps inside each other; the value itself is level 1."""
MOST_FIELDS = 5_000
"""Of a schema, each named type counted wherever it is used."""
MOST_DIGITS = 38
_MOST_READABLE_DIGITS = 800
_UUID_BYTES = 16
_SHOWN = 200
"""Characters of a name in a message."""


class AvroSchemaError(ValueError):
    """The schema is none, or none that is read here; the text is the reason."""


class Kind(Enum):
    """Of a type without inner types; logical types are kinds of their own."""

    NULL = auto()
    BOOLEAN = auto()
    INT = auto()
    LONG = auto()
    FLOAT = auto()
    DOUBLE = auto()
    BYTES = auto()
    STRING = auto()
    FIXED = auto()
    ENUM = auto()
    DECIMAL = auto()
    """Of bytes, or of `size` bytes."""
    UUID = auto()
    """Of a text, or of 16 bytes."""
    DATE = auto()
    TIME_MILLIS = auto()
    TIME_MICROS = auto()
    TIMESTAMP_MILLIS = auto()
    TIMESTAMP_MICROS = auto()
    TIMESTAMP_NANOS = auto()
    LOCAL_TIMESTAMP_MILLIS = auto()
    LOCAL_TIMESTAMP_MICROS = auto()
    LOCAL_TIMESTAMP_NANOS = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    kind: Kind
    size: int | None = None
    """Bytes of a fixed type; None for any other."""
    precision: int = 0
    scale: int = 0
    """Of a decimal."""
    symbols: tuple[str, ...] = ()
    """Of an enum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListNode:
    items: "Node"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapNode:
    values: "Node"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordNode:
    fields: tuple[tuple[str, "Node"], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionNode:
    branches: tuple["Node", ...]

    @property
    def only(self) -> "Node | None":
        """The branch beside null; None where there are several, or none."""
        others = [each for each in self.branches if each != NULL]
        return others[0] if len(others) == 1 else None


Node = Leaf | ListNode | MapNode | RecordNode | UnionNode
NULL = Leaf(kind=Kind.NULL)
_PRIMITIVES: Mapping[str, Leaf] = {
    kind.name.lower(): Leaf(kind=kind)
    for kind in (
        Kind.NULL,
        Kind.BOOLEAN,
        Kind.INT,
        Kind.LONG,
        Kind.FLOAT,
        Kind.DOUBLE,
        Kind.BYTES,
        Kind.STRING,
    )
}
_LOGICAL: Mapping[tuple[Kind, str], Kind] = {
    (Kind.STRING, "uuid"): Kind.UUID,
    (Kind.INT, "date"): Kind.DATE,
    (Kind.INT, "time-millis"): Kind.TIME_MILLIS,
    (Kind.LONG, "time-micros"): Kind.TIME_MICROS,
    **{
        (Kind.LONG, kind.name.lower().replace("_", "-")): kind
        for kind in (
            Kind.TIMESTAMP_MILLIS,
            Kind.TIMESTAMP_MICROS,
            Kind.TIMESTAMP_NANOS,
            Kind.LOCAL_TIMESTAMP_MILLIS,
            Kind.LOCAL_TIMESTAMP_MICROS,
            Kind.LOCAL_TIMESTAMP_NANOS,
        )
    },
}


def parsed_schema(text: str, referenced: Sequence[str] = ()) -> Node:
    """The types of a schema.

    Args:
        text: JSON.
        referenced: schemas whose named types the text uses, each after those that it uses.

    Raises AvroSchemaError.
    """
    parser = _Parser()
    for one in referenced:
        parser.parsed(one)
    return parser.parsed(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    levels: int
    fields: int
    """At every depth."""
    takes_bytes: bool
    """Whether each value has at least one byte."""


class _Parser:
    """Definitions of earlier texts stay known."""

    def __init__(self) -> None:
        self._named: dict[str, Node] = {}
        """By full name."""
        self._extents = _Extents()
        self._open: set[str] = set()
        """Records whose fields are being read."""

    def parsed(self, text: str) -> Node:
        try:
            node = self._node(json.loads(text), "", 1)
            self._extents.of(node)
        except RecursionError:
            raise AvroSchemaError(f"it has more than {MOST_LEVELS} levels") from None
        except (ValueError, KeyError, TypeError, AttributeError) as cause:
            if isinstance(cause, AvroSchemaError):
                raise
            raise AvroSchemaError("it is no schema of Avro") from cause
        return node

    def _node(self, schema: Any, space: str, level: int) -> Node:  # noqa: ANN401  any JSON
        if isinstance(schema, str):
            return self._reference(schema, space, level)
        if isinstance(schema, list):
            return UnionNode(branches=tuple(self._node(each, space, level) for each in schema))
        kind = schema["type"]
        match kind:
            case "array" | "map":
                return self._collection(schema, space, level)
            case "record" | "error" | "enum" | "fixed":
                return self._definition(schema, space, level)
            case str() if kind in _PRIMITIVES:
                return _logical(_PRIMITIVES[kind], schema)
        return self._node(kind, space, level)

    def _collection(self, schema: Mapping[str, Any], space: str, level: int) -> Node:
        _check_level(level)
        if schema["type"] == "map":
            return MapNode(values=self._node(schema["values"], space, level + 1))
        items = self._node(schema["items"], space, level + 1)
        if not self._extents.of(items).takes_bytes:
            raise AvroSchemaError("items of an array take no bytes")
        return ListNode(items=items)

    def _reference(self, name: str, space: str, level: int) -> Node:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        for full in (f"{space}.{name}", name) if space and "." not in name else (name,):
            if full in self._open:
                raise AvroSchemaError(f"the type {full[:_SHOWN]} contains itself")
            if full in self._named:
                node = self._named[full]
                _check_level(level + self._extents.of(node).levels - 1)
                return node
        raise AvroSchemaError(f"it does not define the type {name[:_SHOWN]!r}")

    def _definition(self, schema: Mapping[str, Any], space: str, level: int) -> Node:
        name = str(schema["name"])
        before, dot, _ = name.rpartition(".")
        inner = before if dot else str(schema.get("namespace") or space)
        full = name if dot or not inner else f"{inner}.{name}"
        if full in self._named or full in self._open:
            raise AvroSchemaError(f"it defines the type {full[:_SHOWN]} twice")
        self._open.add(full)
        node = self._defined(schema, inner, level)
        self._open.discard(full)
        self._extents.of(node)
        self._named[full] = node
        return node

    def _defined(self, schema: Mapping[str, Any], space: str, level: int) -> Node:
        match schema["type"]:
            case "enum":
                symbols = tuple(str(each) for each in schema["symbols"])
                return Leaf(kind=Kind.ENUM, symbols=symbols)
            case "fixed":
                return _logical(Leaf(kind=Kind.FIXED, size=_whole(schema["size"])), schema)
        _check_level(level)
        fields = tuple(
            (str(each["name"]), self._node(each["type"], space, level + 1))
            for each in schema["fields"]
        )
        if len({name for name, _ in fields}) < len(fields):
            raise AvroSchemaError("a record has two fields of one name")
        return RecordNode(fields=fields)


def _check_level(level: int) -> None:
    if level > MOST_LEVELS:
        raise AvroSchemaError(f"it has more than {MOST_LEVELS} levels")


def _whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise AvroSchemaError("a size is no whole number")
    return value


def _logical(leaf: Leaf, schema: Mapping[str, Any]) -> Leaf:
    """The logical type where it fits its type."""
    name = schema.get("logicalType")
    if not isinstance(name, str):
        return leaf
    if name == "decimal" and leaf.kind in (Kind.BYTES, Kind.FIXED):
        return _decimal(leaf, schema)
    if name == "uuid" and leaf.size == _UUID_BYTES:
        return Leaf(kind=Kind.UUID, size=leaf.size)
    kind = _LOGICAL.get((leaf.kind, name))
    return leaf if kind is None else Leaf(kind=kind)


def _decimal(leaf: Leaf, schema: Mapping[str, Any]) -> Leaf:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int:
        return leaf
    if not (0 < precision <= _MOST_READABLE_DIGITS and 0 <= scale <= precision):
        return leaf
    return Leaf(kind=Kind.DECIMAL, size=leaf.size, precision=precision, scale=scale)


class _Extents:
    """How far types reach. Each is measured once: named types may use each other many times."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Node, Extent]] = {}

    def of(self, node: Node) -> Extent:
        """Raises AvroSchemaError for too many fields."""
        if isinstance(node, Leaf):
            takes_bytes = node.kind is not Kind.NULL and node.size != 0
            return Extent(levels=0, fields=0, takes_bytes=takes_bytes)
        if id(node) not in self._known:
            extent = self._measured(node)
            if extent.fields > MOST_FIELDS:
                raise AvroSchemaError(f"it has more than {MOST_FIELDS} fields")
            self._known[id(node)] = node, extent
        return self._known[id(node)][1]

    def _measured(self, node: ListNode | MapNode | RecordNode | UnionNode) -> Extent:
        match node:
            case ListNode(items=inner) | MapNode(values=inner):
                below = self.of(inner)
                return Extent(levels=below.levels + 1, fields=below.fields + 1, takes_bytes=True)
            case RecordNode(fields=fields):
                extents = [self.of(inner) for _, inner in fields]
                return Extent(
                    levels=1 + max((one.levels for one in extents), default=0),
                    fields=len(extents) + sum(one.fields for one in extents),
                    takes_bytes=any(one.takes_bytes for one in extents),
                )
            case UnionNode(branches=branches):
                extents = [self.of(inner) for inner in branches]
                return Extent(
                    levels=max((one.levels for one in extents), default=0),
                    fields=sum(one.fields for one in extents),
                    takes_bytes=True,
                )
