"""Typed columns as plain values, and the rows that match a filter.

A filter is evaluated once per combination of values in a batch, not once per row: typical filter
columns are days, currencies and states.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from datarecs_connectors.arrow_types import is_json, is_uuid, plain_column
from datarecs_connectors.errors import SourceUnsupportedError
from datarecs_connectors.filtering import RowFilter
from datarecs_connectors.nested_columns import decoded_column, encoded_column
from datarecs_connectors.plain_types import plain_type
from datarecs_connectors.typed_text import TypedColumn, arrow_type
from datarecs_core.comparison.expressions.condition import ConditionNotCoveredError
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs.types import CanonicalType, TypeKind

Rows = npt.NDArray[np.int64]


def plain_values(column: TypedColumn, kind: CanonicalType) -> list[object]:
    """Values that `datarecs_core.comparison.values.translating.canonical` accepts."""
    if kind.members and pat.is_binary(column.values.type):
        values: list[object] = list(decoded_column(column.values, kind))
    else:
        values = plain_column(column.values)
    if kind.kind is TypeKind.UUID:
        values = [None if value is None else UUID(str(value)) for value in values]
    if column.invalid is None:
        return values
    raw = column.invalid.to_pylist()
    return [
        value if broken is None else Invalid(broken)
        for value, broken in zip(values, raw, strict=True)
    ]


def stored_column(column: pa.Array, kind: CanonicalType) -> TypedColumn:
    """A column of a Parquet file in the Arrow type that all files use for its kind.

    Bytes that are not UTF-8 are INVALID. Nested values are not changed.
    """
    if kind.members:
        return TypedColumn(column, None)
    if pat.is_null(column.type):
        return TypedColumn(pa.nulls(len(column), arrow_type(kind)), None)
    if is_uuid(column.type):
        texts = [None if value is None else str(value) for value in column.to_pylist()]
        return TypedColumn(pa.array(texts, pa.string()), None)
    if is_json(column.type):
        column = column.storage
    if kind.kind is TypeKind.INSTANT and column.type.tz is None:
        column = column.cast(pa.timestamp(column.type.unit, tz="UTC"))
    text_column = valid_texts(column)
    return replace(text_column, values=text_column.values.cast(plain_type(text_column.values.type)))


def valid_texts(column: pa.Array) -> TypedColumn:
    """A column as stored in files; bytes that are not UTF-8 are INVALID."""
    if pat.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pat.is_string(column.type) or pat.is_large_string(column.type)):
        return TypedColumn(column, None)
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        values = plain_column(column)
        broken = [value.raw if isinstance(value, Invalid) else None for value in values]
        texts = [None if isinstance(value, Invalid) else value for value in values]
        return TypedColumn(pa.array(texts, column.type), pa.array(broken, pa.binary()))
    return TypedColumn(column, None)


def taken(column: TypedColumn, rows: Rows) -> TypedColumn:
    """The column with only these rows."""
    invalid = None if column.invalid is None else column.invalid.take(pa.array(rows))
    return TypedColumn(column.values.take(pa.array(rows)), invalid)


def matching_rows(wanted: RowFilter, columns: Mapping[str, TypedColumn], rows: int) -> Rows:
    """Numbers of the rows that match the filter, ascending.

    Raises SourceUnsupportedError when it compares values of two types.
    """
    codes: Rows = np.zeros(rows, np.int64)
    columns = {name: _encoded(columns[name], wanted.types[name]) for name in wanted.columns}
    for name in wanted.columns:
        for array in (columns[name].values, columns[name].invalid):
            if array is not None:
                codes = _combined(codes, array)
    _, firsts, numbers = np.unique(codes, return_index=True, return_inverse=True)
    samples = {
        name: plain_values(taken(columns[name], firsts), wanted.types[name])
        for name in wanted.columns
    }
    truths = np.array(_judged(wanted, samples, len(firsts)), np.bool_)
    return np.flatnonzero(truths[numbers]) if len(truths) else codes


def _encoded(column: TypedColumn, kind: CanonicalType) -> TypedColumn:
    return encoded_column(column.values, kind) if kind.members else column


def _combined(codes: Rows, array: pa.Array) -> Rows:
    """Combination numbers extended by one column; renumbered, so they never overflow."""
    indices = array.dictionary_encode("encode").indices.to_numpy(zero_copy_only=False)
    _, dense = np.unique(codes, return_inverse=True)
    return np.asarray(dense * (int(indices.max(initial=0)) + 1) + indices, np.int64)


def _judged(wanted: RowFilter, samples: Mapping[str, Sequence[object]], count: int) -> list[bool]:
    try:
        return [
            wanted.matches({name: values[position] for name, values in samples.items()})
            for position in range(count)
        ]
    except ConditionNotCoveredError as cause:
        raise SourceUnsupportedError(
            wanted.source, f"the filter cannot be used: {cause}"
        ) from cause
