"""Columns of text as typed Arrow columns, by the strict forms of casts; other text is INVALID.

Shared by the sources with rows as text (CSV, COPY), so that a text has the same value in every
extract. A value without a canonical form becomes NULL with its raw bytes in a companion.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from datarecs_core.comparison.values.forms import read_text
from datarecs_core.jobs.types import CanonicalType, TypeKind

INVALID = "$invalid."
"""Prefix of the name of a companion column."""
_TYPES: Mapping[TypeKind, pa.DataType] = {
    TypeKind.BOOL: pa.bool_(),
    TypeKind.INT: pa.int64(),
    TypeKind.FLOAT64: pa.float64(),
    TypeKind.FLOAT32: pa.float32(),
    TypeKind.TEXT: pa.string(),
    TypeKind.UUID: pa.string(),
    TypeKind.JSON: pa.string(),
    TypeKind.BINARY: pa.binary(),
    TypeKind.DATE: pa.date32(),
    TypeKind.TIME: pa.time64("us"),
    TypeKind.INSTANT: pa.timestamp("us", tz="UTC"),
    TypeKind.LOCAL_TIMESTAMP: pa.timestamp("us"),
}
_FINER: Mapping[TypeKind, pa.DataType] = {
    TypeKind.TIME: pa.time64("ns"),
    TypeKind.INSTANT: pa.timestamp("ns", tz="UTC"),
    TypeKind.LOCAL_TIMESTAMP: pa.timestamp("ns"),
}
"""Forms of clock times with more than six digits of a second."""


def arrow_type(kind: CanonicalType) -> pa.DataType | None:
    """The Arrow type of a column in an extract; bare numerics and UUIDs are text. None: no type.

    Nested values are encoded when they are written (`nested_columns`).
    """
    if kind.kind is TypeKind.DECIMAL:
        if kind.precision is None or kind.scale is None:
            return pa.string()
        return pa.decimal128(kind.precision, kind.scale)
    return (_FINER if kind.is_finer else _TYPES).get(kind.kind)


@dataclass(frozen=True, slots=True)
class TypedColumn:
    values: pa.Array
    invalid: pa.Array | None
    """Raw bytes of values without a canonical form, else NULL; None if all values have one."""


Reader = Callable[[str], object]
"""Converts a text to the Python value of the column's Arrow type; ValueError if it fails."""


def typed(texts: pa.Array, kind: CanonicalType, read: Reader | None = None) -> TypedColumn:
    """Cast the whole column at once; value by value only if that fails."""
    wanted = arrow_type(kind)
    if wanted is None:
        raise TypeError(f"{kind} has no column type")
    if wanted == pa.string():
        return TypedColumn(texts, None)
    if read is None:
        try:
            return TypedColumn(pc.cast(texts, wanted), None)
        except pa.ArrowException:
            read = _strict(kind)
    return _one_by_one(texts, wanted, read)


def _one_by_one(texts: pa.Array, wanted: pa.DataType, read: Reader) -> TypedColumn:
    values: list[object] = []
    raw: list[bytes | None] = []
    for text in texts.to_pylist():
        value, wrong = _read(text, read)
        values.append(value)
        raw.append(wrong)
    invalid = None if not any(one is not None for one in raw) else pa.array(raw, pa.binary())
    return TypedColumn(pa.array(values, wanted), invalid)


def _read(text: str | None, read: Reader) -> tuple[object, bytes | None]:
    if text is None:
        return None, None
    try:
        return read(text), None
    except ValueError:
        return None, text.encode("utf-8", "surrogateescape")


def _strict(kind: CanonicalType) -> Reader:
    """Read a text by the forms that casts and inference share."""
    wanted = arrow_type(kind)

    def read(text: str) -> object:
        value = read_text(text, kind)
        if value is None:
            raise ValueError(text)
        try:
            return pc.cast(pa.array([text]), wanted)[0].as_py()
        except pa.ArrowException as cause:
            raise ValueError(text) from cause

    return read


def table_of(
    names: Sequence[str], columns: Sequence[TypedColumn]
) -> tuple[pa.RecordBatch, tuple[str, ...]]:
    """A batch with a companion `$invalid.<name>` for every column, and companions with bytes."""
    arrays: list[pa.Array] = []
    labels: list[str] = []
    filled = []
    for name, column in zip(names, columns, strict=True):
        arrays.append(column.values)
        labels.append(name)
        arrays.append(
            pa.nulls(len(column.values), pa.binary()) if column.invalid is None else column.invalid
        )
        labels.append(f"{INVALID}{name}")
        if column.invalid is not None:
            filled.append(name)
    return pa.RecordBatch.from_arrays(arrays, names=labels), tuple(filled)
