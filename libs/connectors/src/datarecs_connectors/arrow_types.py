"""Arrow types as canonical types, and Arrow values as the plain values of the oracle."""

from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pyarrow.types as pat

from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType, TypeKind


def is_uuid(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.UuidType)


def is_json(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.JsonType)


_SECOND_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_SIMPLE = (
    (pat.is_boolean, types.BOOL),
    (pat.is_integer, types.INT),
    (pat.is_float64, types.FLOAT64),
    (pat.is_float32, types.FLOAT32),
    (pat.is_string, types.TEXT),
    (pat.is_large_string, types.TEXT),
    (pat.is_string_view, types.TEXT),
    (pat.is_binary, types.BINARY),
    (pat.is_large_binary, types.BINARY),
    (pat.is_binary_view, types.BINARY),
    (pat.is_fixed_size_binary, types.BINARY),
    (pat.is_date, types.DATE),
    (pat.is_null, types.NULL),
    (is_uuid, types.UUID),
    (is_json, types.JSON),
)
_LISTS = (pat.is_list, pat.is_large_list, pat.is_fixed_size_list)


def canonical_type(declared: pa.DataType) -> CanonicalType | None:
    """None for a type without a canonical type."""
    for fits, simple in _SIMPLE:
        if fits(declared):
            return simple
    if pat.is_dictionary(declared):
        return canonical_type(declared.value_type)
    if pat.is_decimal(declared) and declared.precision <= types.MAX_DIGITS:
        return types.decimal(declared.precision, declared.scale)
    if pat.is_time(declared):
        return _clock(TypeKind.TIME, declared.unit)
    if pat.is_timestamp(declared):
        kind = TypeKind.INSTANT if declared.tz else TypeKind.LOCAL_TIMESTAMP
        return _clock(kind, declared.unit)
    return _nested(declared)


def _nested(declared: pa.DataType) -> CanonicalType | None:
    if pat.is_map(declared):
        kind = TypeKind.MAP
        parts = [("key", declared.key_type), ("value", declared.item_type)]
    elif pat.is_struct(declared):
        kind, parts = TypeKind.STRUCT, [(each.name, each.type) for each in declared]
        if len({name for name, _ in parts}) < len(parts):
            return None
    elif is_list(declared):
        kind, parts = TypeKind.ARRAY, [("element", declared.value_type)]
    else:
        return None
    members = [(name, made) for name, part in parts if (made := canonical_type(part)) is not None]
    return CanonicalType(kind=kind, members=tuple(members)) if len(members) == len(parts) else None


def _clock(kind: TypeKind, unit: str) -> CanonicalType:
    digits = _SECOND_DIGITS[unit]
    return CanonicalType(kind=kind, precision=None if digits == 6 else digits)  # noqa: PLR2004  the default


def is_list(kind: pa.DataType) -> bool:
    return any(fits(kind) for fits in _LISTS)


def plain_rows(batch: pa.RecordBatch) -> Iterator[tuple[object, ...]]:
    """Rows of a batch, each value in the form that `values.translating.canonical` accepts."""
    columns = [plain_column(column) for column in batch.columns]
    if not columns:
        return iter([()] * batch.num_rows)
    return iter(zip(*columns, strict=True))


def plain_column(column: pa.Array) -> list[object]:
    """Clock times finer than Python's become exact microseconds since 1970 or midnight.

    Lists become lists, structs mappings by name, maps lists of pairs.
    """
    kind = column.type
    if pat.is_nested(kind):
        return _nested_column(column)
    if pat.is_temporal(kind):
        return _moments(column)
    if is_json(kind):
        column = column.storage
    if pat.is_dictionary(kind):
        column = column.cast(kind.value_type)
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        return [_text(raw) for raw in column.cast(pa.binary()).to_pylist()]


def _moments(column: pa.Array) -> list[object]:
    kind = column.type
    if (pat.is_timestamp(kind) or pat.is_time64(kind)) and kind.unit == "ns":
        ticks = column.cast(pa.int64()).to_pylist()
        return [None if tick is None else Decimal(tick).scaleb(-3) for tick in ticks]
    if pat.is_timestamp(kind):
        ticks = column.cast(pa.timestamp("us", tz=kind.tz)).cast(pa.int64()).to_pylist()
        return [None if tick is None else Decimal(tick) for tick in ticks]
    if pat.is_date64(kind):
        column = column.cast(pa.date32())
    if pat.is_date(kind):
        days = column.cast(pa.int32()).to_pylist()
        return [None if day is None else Decimal(day) for day in days]
    return list(column.to_pylist())


def _nested_column(column: pa.Array) -> list[object]:
    kind = column.type
    if pat.is_struct(kind):
        names = [each.name for each in kind]
        members = [plain_column(column.field(at)) for at in range(len(names))]
        rows = zip(*members, strict=True) if members else iter([()] * len(column))
        values: list[object] = [dict(zip(names, row, strict=True)) for row in rows]
    else:
        items: list[object]
        if pat.is_map(kind):
            items = list(zip(plain_column(column.keys), plain_column(column.items), strict=True))
        else:
            items = plain_column(column.values)
        values = [items[begin:end] for begin, end in _edges(column)]
    known = column.is_valid().to_pylist()
    return [value if valid else None for value, valid in zip(values, known, strict=True)]


def _edges(column: pa.Array) -> list[tuple[int, int]]:
    """Start and end of each row's values in the flat values of the array."""
    if pat.is_fixed_size_list(column.type):
        size, first = column.type.list_size, column.offset
        return [((first + at) * size, (first + at + 1) * size) for at in range(len(column))]
    return list(pairwise(column.offsets.to_pylist()))


def _text(raw: bytes | None) -> object:
    """Bytes that are not UTF-8 are INVALID, never replaced."""
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return Invalid(raw or b"")
