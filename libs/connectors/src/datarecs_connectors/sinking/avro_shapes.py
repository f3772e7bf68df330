"""The columns that a schema of Avro asks for, as those of values are asked for.

A record counts with its schema before its values, so that a column has its type also where every
value is null, and two producers of one schema make one table.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IcebergType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from datarecs_application.ports.sinking import SinkRecord
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
from datarecs_connectors.sinking.shapes import MapShape, Shape

_TYPES: Mapping[Kind, IcebergType] = {
    Kind.BOOLEAN: BooleanType(),
    Kind.INT: LongType(),
    Kind.LONG: LongType(),
    Kind.FLOAT: DoubleType(),
    Kind.DOUBLE: DoubleType(),
    Kind.BYTES: BinaryType(),
    Kind.STRING: StringType(),
    Kind.ENUM: StringType(),
    Kind.UUID: UUIDType(),
    Kind.DATE: DateType(),
    Kind.TIME_MILLIS: TimeType(),
    Kind.TIME_MICROS: TimeType(),
    Kind.TIMESTAMP_MILLIS: TimestamptzType(),
    Kind.TIMESTAMP_MICROS: TimestamptzType(),
    Kind.TIMESTAMP_NANOS: TimestamptzType(),
    Kind.LOCAL_TIMESTAMP_MILLIS: TimestampType(),
    Kind.LOCAL_TIMESTAMP_MICROS: TimestampType(),
    Kind.LOCAL_TIMESTAMP_NANOS: TimestampType(),
}


def typed_rows(records: Sequence[SinkRecord]) -> tuple[list[Mapping[str, Any]], list[int]]:
    """Values of records, and before the first value of a schema the shapes that it declares.

    Returns:
        The rows, and for each the index of its record.
    """
    rows: list[Mapping[str, Any]] = []
    places: list[int] = []
    seen: set[int] = set()
    for at, record in enumerate(records):
        if isinstance(record.schema, RecordNode) and id(record.schema) not in seen:
            seen.add(id(record.schema))
            rows.append(_members(record.schema) or {})
            places.append(at)
        rows.append(record.value)
        places.append(at)
    return rows, places


def _members(record: RecordNode) -> dict[str, Shape] | None:
    """None for a record without columns, which no file can hold."""
    shapes = {name: _shape(node) for name, node in record.fields}
    return {name: shape for name, shape in shapes.items() if shape is not None} or None


def _shape(node: Node) -> Shape | None:
    match node:
        case RecordNode():
            return _members(node)
        case ListNode(items=inner):
            items = _shape(inner)
            return None if items is None else [items]
        case MapNode(values=inner):
            values = _shape(inner)
            return None if values is None else MapShape(values)
        case UnionNode():
            return _union(node)
        case Leaf():
            return _leaf(node)


def _union(node: UnionNode) -> Shape | None:
    if node.only is not None:
        return _shape(node.only)
    has_value = any(branch != Leaf(kind=Kind.NULL) for branch in node.branches)
    return StringType() if has_value else None


def _leaf(leaf: Leaf) -> Shape | None:
    match leaf:
        case Leaf(kind=Kind.DECIMAL, precision=precision, scale=scale):
            fits = precision <= MOST_DIGITS
            return DecimalType(precision, scale) if fits else StringType()
        case Leaf(kind=Kind.FIXED, size=int() as size):
            return FixedType(size) if size else BinaryType()
    return _TYPES.get(leaf.kind)
