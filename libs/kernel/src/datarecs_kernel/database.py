"""The kernel's DuckDB: in memory, bounded, with one spill folder, without network or extensions."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import ENOSPC
from os import strerror

import duckdb
import pyarrow as pa

Connection = duckdb.DuckDBPyConnection
BATCH_VALUES = 1_200_000
"""Approximate number of values in a batch: many rows, or few rows with many columns."""
BATCH_BYTES = 2**26
"""Of a batch, about."""
_VECTOR_ROWS = 2048
"""Rows that DuckDB processes at a time; it returns no fewer."""
FULL_MEMORY = "Out of Memory Error"
"""Part of DuckDB's message if the memory limit is too small."""
_FULL_DISK = "No space left on device"
_SPILL_LIMIT = "max_temp_directory_size"
"""Part of DuckDB's message if its spill would exceed the limit; it also reports it as memory."""
_AHEAD = "16MiB"
"""Size of the result that DuckDB prepares while Python processes earlier batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Resources that one kernel may use."""

    directory: str
    """Folder for data that exceeds memory; it exists."""
    threads: int
    memory_bytes: int
    spill_bytes: int
    """Of disk."""


class SpillLimitError(Exception):
    """Spilled data needs more disk than the job allows."""

    def __init__(self) -> None:
        super().__init__("intermediate data need more disk than execution.spill allows")


@contextmanager
def connected(resources: Resources) -> Iterator[Connection]:
    """A database in memory that spills to the directory and loads no extension.

    Raises:
        SpillLimitError: the allowed part of the disk is full.
        MemoryError: the data that is needed at the same time exceeds the memory limit.
        OSError: the disk is full.
    """
    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": resources.threads,
        "memory_limit": f"{resources.memory_bytes // 2**20}MiB",
        "temp_directory": resources.directory,
        "preserve_insertion_order": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
    }
    with duckdb.connect(config=settings) as connection:
        # As a setting of a connection it would be displayed but have no effect.
        room = max(resources.spill_bytes // 2**20, 1)
        connection.execute(f"SET max_temp_directory_size = '{room}MiB'")
        connection.execute(f"SET streaming_buffer_size = '{_AHEAD}'")  # has no global value
        try:
            yield connection
        except duckdb.Error as failure:
            _check_room(failure)
            raise


def read_batches(connection: Connection, query: str) -> Iterator[pa.RecordBatch]:
    """The rows of a query, some at a time.

    A batch ends at a number of values or of bytes, whichever comes first, because the first rows do
    not show how long the values of later rows are.

    Raises:
        duckdb.Error: the query fails, perhaps after some batches.
    """
    waiting: list[pa.RecordBatch] = []
    values, size = 0, 0
    with connection.sql(query).to_arrow_reader(_VECTOR_ROWS) as reader:
        for batch in _raising_as_duckdb(reader):
            waiting.append(batch)
            values, size = values + batch.num_rows * batch.num_columns, size + batch.nbytes
            if values >= BATCH_VALUES or size >= BATCH_BYTES:
                yield pa.concat_batches(waiting)
                waiting, values, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)


def _raising_as_duckdb(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Its batches. Arrow raises DuckDB's errors as Arrow errors with DuckDB's message.

    Raises:
        duckdb.Error: the query fails.
    """
    try:
        yield from reader
    except (OSError, pa.ArrowException) as failure:
        raise duckdb.Error(str(failure)) from failure


def _check_room(failure: BaseException) -> None:
    """Raise the error for full disk or memory, if it is one.

    Raises:
        SpillLimitError, MemoryError, OSError: as `connected` does.
    """
    message = str(failure)
    if _SPILL_LIMIT in message:
        raise SpillLimitError from None
    if _FULL_DISK in message:
        raise OSError(ENOSPC, strerror(ENOSPC)) from None
    if FULL_MEMORY in message:
        raise MemoryError(FULL_MEMORY) from None


def quoted(name: str) -> str:
    """An identifier in DuckDB's SQL."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def sql_text(value: str) -> str:
    """A text in DuckDB's SQL."""
    escaped = value.replace("'", "''")
    return f"'{escaped}'"
