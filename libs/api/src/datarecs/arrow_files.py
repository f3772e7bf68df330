"""Stores tables in memory as Parquet files, which are compared as any other file.

Tables are read through Arrow's stream interface alone, so neither pandas nor Polars must be
installed. Only the index of pandas needs code of its own.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.parquet as pq

from datarecs.errors import ArgumentError
from datarecs_cli.local.faults import ScratchNotWritableError, reason_of
from datarecs_core.errors.base import DatarecsError

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
    with _readable(name):
        reader = pa.RecordBatchReader.from_stream(_with_index(table, name))
        store_batches(reader.schema, reader, target, name)


def store_batches(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], target: Path, name: str
) -> None:
    """Write batches with one schema; as `store_table`."""
    with _readable(name):
        columns = [at for at, each in enumerate(schema.names) if not _is_unnamed_index(each)]
        _check_columns([schema.names[at] for at in columns], name)
        _check_types(schema, columns, name)
        stored = pa.schema([_stored_field(schema.field(at)) for at in columns])
        with pq.ParquetWriter(target, stored) as writer:
            for batch in batches:
                arrays = [_stored_array(batch.column(at), schema.names[at], name) for at in columns]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=stored))


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Translate errors of Arrow and of the disk."""
    try:
        yield
    except DatarecsError:
        raise
    except (pa.ArrowException, TypeError, ValueError) as cause:
        raise ArgumentError(
            f"{name}: the table cannot be read as Arrow: {cause}; convert the column to one type"
        ) from cause
    except OSError as cause:
        raise ScratchNotWritableError(Path(gettempdir()), reason_of(cause)) from cause
    except MemoryError:
        raise
    except Exception as cause:  # any library may deliver the rows, such as DuckDB
        reason = str(cause).partition("\n")[0]
        raise ArgumentError(f"{name}: the table cannot be read: {reason}") from cause


def _is_unnamed_index(column: str) -> bool:
    return _UNNAMED_INDEX.fullmatch(column) is not None


def _with_index(table: ArrowStream, name: str) -> ArrowStream:
    """A table of pandas with the named parts of its index as columns; others unchanged."""
    parts = getattr(getattr(table, "index", None), "names", ())
    if parts:
        _check_repeated([str(each) for each in getattr(table, "columns", ())], name)
    named = [part for part in parts if part is not None]
    if not named:
        return table
    repeated = [str(part) for part in named if part in getattr(table, "columns", ())]
    if repeated:
        raise ArgumentError(
            f"{name}: {', '.join(repeated)} is both a column and a part of the index; rename one, "
            "or leave the index out with reset_index(drop=True)"
        )
    frame: ArrowStream = table.reset_index(level=named)  # type: ignore[attr-defined]  # of pandas
    return frame


def _is_view(kind: pa.DataType) -> bool:
    """A category of Polars, which Parquet cannot store."""
    return bool(pa.types.is_dictionary(kind) and pa.types.is_string_view(kind.value_type))


def _stored_field(field: pa.Field) -> pa.Field:
    if pa.types.is_float16(field.type):
        return field.with_type(pa.float32())  # the same numbers
    return field.with_type(pa.large_string()) if _is_view(field.type) else field


def _stored_array(array: pa.Array, column: str, name: str) -> pa.Array:
    if pa.types.is_float16(array.type):
        return array.cast(pa.float32())
    if pa.types.is_decimal(array.type):
        _check_digits(array, column, name)
    if not _is_view(array.type):
        return array
    return array.dictionary.cast(pa.large_string()).take(array.indices)


def _check_digits(array: pa.Array, column: str, name: str) -> None:
    """Refuse numbers with more digits than their type, as DuckDB delivers a HUGEINT."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raise ArgumentError(
            f"{name}: column {column} has a number with more than {array.type.precision} digits, "
            "which cannot be compared; convert the column to text, such as CAST(… AS VARCHAR) in "
            "SQL, or leave it out of the table"
        ) from None  # Arrow's message has the value


def _check_types(schema: pa.Schema, columns: Iterable[int], name: str) -> None:
    """Refuse periods and intervals: of pandas without a unit, of SQL without a fixed length."""
    for at in columns:
        kind = schema.field(at).type
        if pa.types.is_interval(kind):
            raise ArgumentError(
                f"{name}: column {schema.names[at]} has intervals of months, days and time, which "
                "cannot be compared; convert it to a number, such as epoch(…) in DuckDB, or to text"
            )
        if getattr(kind, "extension_name", "").startswith("pandas."):
            raise ArgumentError(
                f"{name}: column {schema.names[at]} has a {kind.extension_name.partition('.')[2]} "
                "of pandas, which cannot be compared; convert it with astype(str)"
            )


def _check_columns(columns: list[str], name: str) -> None:
    if not columns:
        raise ArgumentError(f"{name}: the table has no columns")
    _check_repeated(columns, name)


def _check_repeated(columns: list[str], name: str) -> None:
    repeated = sorted({column for column in columns if columns.count(column) > 1})
    if repeated:
        raise ArgumentError(
            f"{name}: {', '.join(repeated)} occurs twice as a column; rename one of them"
        )
