"""Avro's binary form, driven by a schema: as much of it as messages of a control topic use.

The schema travels with each message, so that values are read by the names in it. Named types are
resolved as Iceberg's Java library writes them: in the enclosing namespace, then in none.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_DEEPEST = 32
_LONGEST_NUMBER = 10
"""Bytes of a 64-bit number in variable length."""

_PACKED = {
    "boolean": struct.Struct("?"),
    "float": struct.Struct("<f"),
    "double": struct.Struct("<d"),
}


class AvroError(ValueError):
    """A schema or a value that is not what it should be."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A primitive or fixed type."""

    kind: str
    size: int = 0
    """Of a fixed type, in bytes."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Everything that the schema states of it, such as `logicalType`."""


@dataclass(frozen=True, slots=True)
class Array:
    items: "Node"


@dataclass(frozen=True, slots=True)
class Union:
    branches: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    node: "Node"
    facts: Mapping[str, Any]
    """As of a leaf, such as `field-id`."""


@dataclass(frozen=True, slots=True)
class Record:
    fields: tuple[Field, ...]


Node = Leaf | Array | Union | Record
_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


def compiled(schema: object) -> Node:
    """The types of a schema that was read from JSON. Raises AvroError."""
    try:
        return _Compiler().node(schema, namespace="", depth=0)
    except (KeyError, TypeError) as cause:
        raise AvroError(f"not a schema: {cause!r}") from cause


class _Compiler:
    def __init__(self) -> None:
        self._named: dict[str, Node] = {}

    def node(self, schema: Any, *, namespace: str, depth: int) -> Node:  # noqa: ANN401 - JSON
        if depth > _DEEPEST:
            raise AvroError(f"a schema deeper than {_DEEPEST}")
        if isinstance(schema, str):
            return self._reference(schema, namespace)
        if isinstance(schema, list):
            return Union(
                tuple(self.node(one, namespace=namespace, depth=depth + 1) for one in schema)
            )
        kind = schema["type"]
        if kind == "array":
            return Array(self.node(schema["items"], namespace=namespace, depth=depth + 1))
        if kind in {"record", "fixed"}:
            return self._definition(schema, namespace, depth)
        if kind in _PRIMITIVES:
            return Leaf(kind, facts=schema)
        return self.node(kind, namespace=namespace, depth=depth + 1)

    def _reference(self, name: str, namespace: str) -> Node:
        if name in _PRIMITIVES:
            return Leaf(name, facts={"type": name})
        node = self._named.get(f"{namespace}.{name}", self._named.get(name))
        if node is None:
            raise AvroError(f"the schema does not define {name!r}")
        return node

    def _definition(self, schema: Mapping[str, Any], namespace: str, depth: int) -> Node:
        inner = schema.get("namespace", namespace)
        name = f"{inner}.{schema['name']}" if inner else str(schema["name"])
        if schema["type"] == "fixed":
            node: Node = Leaf("fixed", size=int(schema["size"]), facts=schema)
        else:
            node = Record(
                tuple(
                    Field(
                        str(one["name"]),
                        self.node(one["type"], namespace=inner, depth=depth + 1),
                        one,
                    )
                    for one in schema["fields"]
                )
            )
        self._named[name] = node
        return node


class Reader:
    """Reads values from bytes; the position moves on. Raises AvroError."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data, self.position = data, position

    def read(self, node: Node) -> Any:  # noqa: ANN401 - the schema decides
        match node:
            case Leaf():
                return self._leaf(node)
            case Array(items=items):
                return list(self._items(items))
            case Union(branches=branches):
                index = self._number()
                if not 0 <= index < len(branches):
                    raise AvroError(f"branch {index} of a union with {len(branches)}")
                return self.read(branches[index])
            case Record(fields=fields):
                return {one.name: self.read(one.node) for one in fields}

    def _items(self, node: Node) -> Iterator[Any]:
        while (count := self._number()) != 0:
            if count < 0:
                count = -count
                self._number()  # the block's size in bytes
            if count > len(self._data) - self.position:
                raise AvroError(f"{count} items in {len(self._data) - self.position} bytes")
            for _ in range(count):
                yield self.read(node)

    def _leaf(self, leaf: Leaf) -> Any:  # noqa: ANN401 - the schema decides
        if leaf.kind in _PACKED:
            packing = _PACKED[leaf.kind]
            return packing.unpack(self._bytes(packing.size))[0]
        match leaf.kind:
            case "null":
                return None
            case "int" | "long":
                return self._number()
            case "string":
                return self._text()
        return self._bytes(leaf.size if leaf.kind == "fixed" else self._number())

    def _text(self) -> str:
        try:
            return self._bytes(self._number()).decode()
        except UnicodeDecodeError as cause:
            raise AvroError("a text that is not UTF-8") from cause

    def _bytes(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self.position:
            raise AvroError(f"{size} bytes of {len(self._data) - self.position}")
        self.position += size
        return self._data[self.position - size : self.position]

    def _number(self) -> int:
        value = 0
        for shift in range(0, 7 * _LONGEST_NUMBER, 7):
            (byte,) = self._bytes(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004 - the bit that says that more follow
                return (value >> 1) ^ -(value & 1)
        raise AvroError("a number longer than 64 bits")


def encoded(node: Node, value: Any) -> bytes:  # noqa: ANN401 - the schema decides
    """The bytes of a value; of a union the first branch that is not null, or null for None.

    Arrays are one block with the number of their items, as Java writes them.
    """
    match node:
        case Leaf():
            return _leaf(node, value)
        case Array(items=items):
            return _array(items, value)
        case Union(branches=branches):
            is_null = [isinstance(one, Leaf) and one.kind == "null" for one in branches]
            index = is_null.index(value is None)
            return _number(index) + encoded(branches[index], value)
        case Record(fields=fields):
            return b"".join(encoded(one.node, value[one.name]) for one in fields)


def _array(items: Node, values: Sequence[Any]) -> bytes:
    if not values:
        return _number(0)
    return _number(len(values)) + b"".join(encoded(items, one) for one in values) + _number(0)


def _leaf(leaf: Leaf, value: Any) -> bytes:  # noqa: ANN401 - the schema decides
    if leaf.kind in _PACKED:
        return _PACKED[leaf.kind].pack(value)
    match leaf.kind:
        case "null":
            return b""
        case "int" | "long":
            return _number(value)
    raw = value.encode() if leaf.kind == "string" else bytes(value)
    if leaf.kind == "fixed":
        if len(raw) != leaf.size:
            raise AvroError(f"{len(raw)} bytes for a type of {leaf.size}")
        return raw
    return _number(len(raw)) + raw


def _number(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    octets = bytearray()
    while rest > 0x7F:  # noqa: PLR2004 - seven bits a byte
        octets.append(rest & 0x7F | 0x80)
        rest >>= 7
    octets.append(rest)
    return bytes(octets)
