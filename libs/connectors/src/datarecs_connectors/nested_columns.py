"""Nested values in extracts: the payloads of their canonical encodings, as bytes.

The one place where lists, structs and maps become bytes that every engine can group, compare and
sort: the type of a column defines the tag, and the order of payloads is the canonical order.
"""

from collections.abc import Sequence
from typing import cast

import pyarrow as pa
import pyarrow.types as pat

from datarecs_connectors.arrow_types import plain_column
from datarecs_connectors.nested_encoding import NotByColumnError, payloads_of
from datarecs_connectors.typed_text import INVALID, TypedColumn
from datarecs_core.comparison.planning.scan import ScanColumn
from datarecs_core.comparison.values.canonical import Tag, Value, payload_of
from datarecs_core.comparison.values.encoded import decode_payload
from datarecs_core.comparison.values.translating import translation
from datarecs_core.jobs.types import CanonicalType, TypeKind

Batch = tuple[pa.RecordBatch, tuple[str, ...]]
_TAGS = {TypeKind.ARRAY: Tag.ARRAY, TypeKind.STRUCT: Tag.STRUCT, TypeKind.MAP: Tag.MAP}


def encoded_column(column: pa.Array, kind: CanonicalType) -> TypedColumn:
    """A column of a nested type as payloads; a value with an INVALID part is INVALID."""
    if pat.is_null(column.type):
        return TypedColumn(pa.nulls(len(column), pa.binary()), None)
    try:
        return TypedColumn(payloads_of(column, kind), None)
    except NotByColumnError:
        return encoded_one_by_one(column, kind)


def encoded_one_by_one(column: pa.Array, kind: CanonicalType) -> TypedColumn:
    """The same for columns that may hold values without a canonical form."""
    translate = translation(kind, "")
    values = [translate(value) for value in plain_column(column)]
    raw = [_raw(value) for value in values]
    payloads = [
        None if value.is_null or value.is_invalid else payload_of(value) for value in values
    ]
    is_valid = all(one is None for one in raw)
    return TypedColumn(
        pa.array(payloads, pa.binary()), None if is_valid else pa.array(raw, pa.binary())
    )


def _raw(value: Value) -> bytes | None:
    return cast("tuple[str, bytes]", value.content)[1] if value.is_invalid else None


def decoded_column(column: pa.Array, kind: CanonicalType) -> list[Value | None]:
    """The values of payloads."""
    tag = _TAGS[kind.kind]
    return [None if raw is None else decode_payload(tag, raw) for raw in column.to_pylist()]


def with_nested_encoded(batch: Batch, columns: Sequence[ScanColumn]) -> Batch:
    """A batch of logical columns with nested ones encoded, and the companions with bytes."""
    rows, filled = batch
    arrays = dict(zip(rows.schema.names, rows.columns, strict=True))
    broken = list(filled)
    for column in columns:
        array = arrays.get(column.name)
        if array is None or not column.type.members or pat.is_binary(array.type):
            continue
        made = encoded_column(array, column.type)
        arrays[column.name] = made.values
        if made.invalid is not None:
            arrays[f"{INVALID}{column.name}"] = made.invalid
            broken.append(column.name)
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays)), tuple(broken)
