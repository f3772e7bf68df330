"""What values are together: the shape of each name, and the column type of a shape.

A shape is also what a schema declares; where both are there, that of the schema comes first.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any

from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)


@dataclass(frozen=True, slots=True)
class MapShape:
    """A map with keys of text."""

    values: "Shape"


Shape = type[Any] | dict[str, Any] | list[Any] | MapShape | IcebergType
"""A primitive type of values, or of a column; the members of an object; the shape of an array's
elements."""


MOST_FIELDS = 5_000
"""Of a table, at every depth; objects with ever new names would add columns without end."""


class FieldsError(ValueError):
    """Fields that cannot be columns of one table; the message is the reason."""


def check_count(fields: int, *, most: int = MOST_FIELDS) -> None:
    """Raises FieldsError for too many."""
    if fields > most:
        raise FieldsError(f"the table would have more than {most} fields")


def check_fields(schema: Schema, *, most: int = MOST_FIELDS) -> None:
    """Raises FieldsError where a table of the sink could not have the columns."""
    check_count(len(schema.field_ids), most=most)
    if not all(schema.find_field(number).name for number in schema.field_ids):
        raise FieldsError("a field has an empty name")
    try:
        files = sanitize_column_names(schema)
        if len(files.field_ids) == len(schema.field_ids):
            return
    except ValueError:
        pass
    raise FieldsError("two fields would have one name in the files of the table")


def merged_members(rows: Sequence[Mapping[str, Any]]) -> dict[str, Shape]:
    """The shape of each name that has a value anywhere."""
    members: dict[str, Shape] = {}
    for row in rows:
        for name, value in row.items():
            shape = _shape(value)
            if shape is not None:
                members[name] = _merged(members[name], shape) if name in members else shape
    return members


def _shape(value: object) -> Shape | None:
    """None where nothing is known: null, objects and arrays without a value, foreign values."""
    match value:
        case None:
            return None
        case dict():
            return merged_members([value]) or None
        case list():
            shapes = [shape for shape in map(_shape, value) if shape is not None]
            return [reduce(_merged, shapes)] if shapes else None
        case float():
            return Decimal
        case MapShape() | IcebergType():
            return value
    return type(value) if type(value) in _TYPES else None


def _merged(first: Shape, second: Shape) -> Shape:
    """Objects have the members of both, numbers the wider type; otherwise the first stays."""
    match first, second:
        case dict(), dict():
            shared = {name: _merged(first[name], second[name]) for name in first if name in second}
            return {**first, **second, **shared}
        case list(), list():
            return [_merged(first[0], second[0])]
    return Decimal if (first, second) == (int, Decimal) else first


_TYPES: Mapping[type[Any], IcebergType] = {
    bool: BooleanType(),
    int: LongType(),
    Decimal: DoubleType(),
    str: StringType(),
    bytes: BinaryType(),
}


def typed(shape: Shape, ids: Iterator[int]) -> IcebergType:
    match shape:
        case IcebergType():
            return shape
        case dict():
            members = [(next(ids), name, member) for name, member in shape.items()]
            return StructType(
                *(
                    NestedField(
                        field_id=number, name=name, field_type=typed(member, ids), required=False
                    )
                    for number, name, member in members
                )
            )
        case list():
            number = next(ids)
            return ListType(
                element_id=number, element_type=typed(shape[0], ids), element_required=False
            )
        case MapShape(values=values):
            key, value = next(ids), next(ids)
            return MapType(
                key_id=key,
                key_type=StringType(),
                value_id=value,
                value_type=typed(values, ids),
                value_required=False,
            )
    return _TYPES[shape]
