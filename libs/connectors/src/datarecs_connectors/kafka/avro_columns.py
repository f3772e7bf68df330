"""Columns of records in Avro: their types are those of the schemas, not of the values.

A record inside has its fields as columns, as an object of JSON has. A value becomes a plain value
of its column directly where the types agree; else it is read in its text form, as from JSON.
"""

import math
import struct
from collections.abc import Mapping
from decimal import Decimal

from datarecs_connectors.avro.schemas import (
    MOST_DIGITS,
    Kind,
    Leaf,
    ListNode,
    MapNode,
    Node,
    RecordNode,
    UnionNode,
)
from datarecs_connectors.avro.values import NoTextError, float_form, text_form
from datarecs_connectors.json_values import Number, Read
from datarecs_core.comparison.planning.scan import SourceColumn
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType, TypeKind

_TYPES: Mapping[Kind, CanonicalType] = {
    Kind.NULL: types.NULL,
    Kind.BOOLEAN: types.BOOL,
    Kind.INT: types.INT,
    Kind.LONG: types.INT,
    Kind.FLOAT: types.FLOAT32,
    Kind.DOUBLE: types.FLOAT64,
    Kind.BYTES: types.BINARY,
    Kind.FIXED: types.BINARY,
    Kind.STRING: types.TEXT,
    Kind.ENUM: types.TEXT,
    Kind.UUID: types.UUID,
    Kind.DATE: types.DATE,
    Kind.TIME_MILLIS: types.TIME,
    Kind.TIME_MICROS: types.TIME,
    Kind.TIMESTAMP_MILLIS: types.INSTANT,
    Kind.TIMESTAMP_MICROS: types.INSTANT,
    Kind.TIMESTAMP_NANOS: types.INSTANT,
    Kind.LOCAL_TIMESTAMP_MILLIS: types.LOCAL_TIMESTAMP,
    Kind.LOCAL_TIMESTAMP_MICROS: types.LOCAL_TIMESTAMP,
    Kind.LOCAL_TIMESTAMP_NANOS: types.LOCAL_TIMESTAMP,
}
_WIDER: Mapping[frozenset[TypeKind], CanonicalType] = {
    frozenset({TypeKind.FLOAT32, TypeKind.FLOAT64}): types.FLOAT64,
    frozenset({TypeKind.INT, TypeKind.DECIMAL}): types.NUMERIC,
    frozenset({TypeKind.DECIMAL}): types.NUMERIC,
}
"""Types that hold the values of both."""


_NARROW = struct.Struct("<f")


class DifferentTypesError(ValueError):
    """Two schemas give one column types that have no common one; the text is the reason."""


class SchemaColumns:
    """The columns of all schemas so far, in the order of the first."""

    def __init__(self, declared: Mapping[str, CanonicalType]) -> None:
        self._declared = declared
        self._types: dict[str, CanonicalType] = {}
        self._seen: dict[int, RecordNode] = {}
        """By identity, which is of one object as long as it is here."""

    def see(self, record: RecordNode) -> None:
        """Raises DifferentTypesError."""
        if id(record) in self._seen:
            return
        self._seen[id(record)] = record
        for name, kind in self._columns(record, ""):
            wanted = self._declared.get(name, kind)
            before = self._types.get(name, wanted)
            self._types[name] = _common(name, before, wanted)

    def list_columns(self) -> list[SourceColumn]:
        names = dict.fromkeys((*self._types, *self._declared))
        return [
            SourceColumn(
                name=name,
                type=self._types.get(name) or self._declared[name],
                native_type="avro" if name in self._types else "null",
            )
            for name in names
        ]

    def _columns(self, record: RecordNode, prefix: str) -> list[tuple[str, CanonicalType]]:
        columns: list[tuple[str, CanonicalType]] = []
        for field, node in record.fields:
            name, inner = f"{prefix}{field}", _present(node)
            if isinstance(inner, RecordNode) and inner.fields and name not in self._declared:
                columns += self._columns(inner, f"{name}.")
            else:
                columns.append((name, _type_of(inner)))
        return columns


def _present(node: Node) -> Node:
    """Of a union with null the other branch."""
    if isinstance(node, UnionNode) and node.only is not None:
        return _present(node.only)
    return node


def _type_of(node: Node) -> CanonicalType:
    match node:
        case Leaf(kind=Kind.DECIMAL, precision=precision, scale=scale):
            return types.decimal(precision, scale) if precision <= MOST_DIGITS else types.TEXT
        case Leaf(kind=kind):
            return _TYPES[kind]
        case UnionNode(branches=branches):
            is_null = all(branch == Leaf(kind=Kind.NULL) for branch in branches)
            return types.NULL if is_null else types.TEXT
        case ListNode() | MapNode() | RecordNode():
            return types.JSON


def _common(name: str, first: CanonicalType, second: CanonicalType) -> CanonicalType:
    if first == second or second.kind is TypeKind.NULL:
        return first
    if first.kind is TypeKind.NULL:
        return second
    common = _WIDER.get(frozenset({first.kind, second.kind}))
    if common is None:
        raise DifferentTypesError(
            f"column {name!r} is {first} in one schema and {second} in another; declare it with "
            "options.schema"
        )
    return common


def reader_of_avro(kind: CanonicalType, read: Read) -> Read:
    """Converts values of a column.

    Args:
        kind: of the column.
        read: of the same column, for values as JSON has them.
    """

    def read_value(value: object) -> object:
        match value:
            case bytes():
                return value if kind.kind is TypeKind.BINARY else Invalid(value)
            case float() if _holds(kind, value):
                return value
        try:
            return read(json_form(value))
        except NoTextError:
            return Invalid(str(value).encode() if isinstance(value, float) else b"")

    return read_value


def _holds(kind: CanonicalType, value: float) -> bool:
    """Whether a column of fractions has exactly this one."""
    if kind.kind is not TypeKind.FLOAT32:
        return kind.kind is TypeKind.FLOAT64
    try:
        return math.isnan(value) or _NARROW.unpack(_NARROW.pack(value))[0] == value
    except OverflowError:
        return False


def json_form(value: object) -> object:
    """A value as the parser of JSON gives it. Raises NoTextError."""
    if type(value) in (int, float) or isinstance(value, Decimal):
        return _number_form(value)
    match value:
        case dict():
            return {name: json_form(member) for name, member in value.items()}
        case list():
            return [json_form(item) for item in value]
    return text_form(value)


def _number_form(value: object) -> Number:
    if isinstance(value, float):
        return Number(float_form(value))
    return Number(format(value, "f") if isinstance(value, Decimal) else value)
