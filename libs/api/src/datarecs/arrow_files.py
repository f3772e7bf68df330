"""Stores tables in memory as Parquet files, which are compared as any other file.

Tables are read through Arrow's stream interface alone, so neither pandas nor Polars must be
installed. Only the index of pandas needs code of its own.
"""

import re
from pathlib import Path
from typing import Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.parquet as pq

from datarecs.errors import ArgumentError
from datarecs_cli.local.faults import ScratchNotWritableError

_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
"""An unnamed index of pandas in its stream; it is no column of the data."""


@runtime_checkable
class ArrowStream(Protocol):
    """A table: pandas, Polars, Arrow, or a relation of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


def store_table(table: ArrowStream, target: Path, name: str) -> None:
    """Write a table to a Parquet file, batch by batch, with its exact types.

    Args:
        table: read once; a reader of batches is empty afterwards.
        target: a new file.
        name: the source in messages.

    Raises:
        ArgumentError: Arrow or Parquet has no type for a column, as for mixed types in pandas.
        ScratchNotWritableError: the disk of temporary files is full.
    """
    try:
        reader = pa.RecordBatchReader.from_stream(_with_index(table))
        columns = [each for each in reader.schema.names if not _UNNAMED_INDEX.fullmatch(each)]
        _check_columns(columns, name)
        schema = pa.schema([_stored_field(reader.schema.field(column)) for column in columns])
        with pq.ParquetWriter(target, schema) as writer:
            for batch in reader:
                arrays = [_stored_array(batch.column(column)) for column in columns]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    except (pa.ArrowException, TypeError, ValueError) as cause:
        if isinstance(cause, ArgumentError):
            raise
        raise ArgumentError(
            f"{name}: the table cannot be read as Arrow: {cause}; convert the column to one type"
        ) from cause
    except OSError as cause:
        raise ScratchNotWritableError(cause.strerror or str(cause)) from cause


def _with_index(table: ArrowStream) -> ArrowStream:
    """A table of pandas with the named parts of its index as columns; others unchanged."""
    parts = getattr(getattr(table, "index", None), "names", ())
    named = [part for part in parts if part is not None]
    if not named:
        return table
    frame: ArrowStream = table.reset_index(level=named)  # type: ignore[attr-defined]  # of pandas
    return frame


def _is_view(kind: pa.DataType) -> bool:
    """A category of Polars, which Parquet cannot store."""
    return bool(pa.types.is_dictionary(kind) and pa.types.is_string_view(kind.value_type))


def _stored_field(field: pa.Field) -> pa.Field:
    return field.with_type(pa.large_string()) if _is_view(field.type) else field


def _stored_array(array: pa.Array) -> pa.Array:
    if not _is_view(array.type):
        return array
    return array.dictionary.cast(pa.large_string()).take(array.indices)


def _check_columns(columns: list[str], name: str) -> None:
    if not columns:
        raise ArgumentError(f"{name}: the table has no columns")
    repeated = sorted({column for column in columns if columns.count(column) > 1})
    if repeated:
        raise ArgumentError(
            f"{name}: {', '.join(repeated)} occurs twice as a column; rename one of them"
        )
