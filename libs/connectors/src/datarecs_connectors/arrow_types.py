"""Arrow's types as canonical ones, and Arrow's values as the plain ones the oracle takes."""

from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pyarrow.types as pat

from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType, TypeKind

_SECOND_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_SIMPLE = (
    (pat.is_boolean, types.BOOL),
    (pat.is_integer, types.INT),
    (pat.is_float64, types.FLOAT64),
    (pat.is_float32, types.FLOAT32),
    (pat.is_string, types.TEXT),
    (pat.is_large_string, types.TEXT),
    (pat.is_binary, types.BINARY),
    (pat.is_large_binary, types.BINARY),
    (pat.is_fixed_size_binary, types.BINARY),
    (pat.is_date, types.DATE),
)


def canonical_type(declared: pa.DataType) -> CanonicalType | None:
    """None for a type that has no canonical one here; nested ones are for schemas alone."""
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
    elif pat.is_list(declared) or pat.is_large_list(declared) or pat.is_fixed_size_list(declared):
        kind, parts = TypeKind.ARRAY, [("element", declared.value_type)]
    else:
        return None
    members = [(name, made) for name, part in parts if (made := canonical_type(part)) is not None]
    return CanonicalType(kind=kind, members=tuple(members)) if len(members) == len(parts) else None


def _clock(kind: TypeKind, unit: str) -> CanonicalType:
    digits = _SECOND_DIGITS[unit]
    return CanonicalType(kind=kind, precision=None if digits == 6 else digits)  # noqa: PLR2004  the default


def plain_rows(batch: pa.RecordBatch) -> Iterator[tuple[object, ...]]:
    """Rows of a batch, each value as `values.translating.canonical` takes it."""
    columns = [plain_column(column) for column in batch.columns]
    if not columns:
        return iter([()] * batch.num_rows)
    return iter(zip(*columns, strict=True))


def plain_column(column: pa.Array) -> list[object]:
    """Clock times finer than Python's become exact microseconds since 1970 or midnight."""
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
    if pat.is_dictionary(kind):
        column = column.cast(kind.value_type)
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        return [_text(raw) for raw in column.cast(pa.binary()).to_pylist()]


def _text(raw: bytes | None) -> object:
    """Bytes that are no UTF-8 are INVALID, never replaced."""
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return Invalid(raw or b"")
