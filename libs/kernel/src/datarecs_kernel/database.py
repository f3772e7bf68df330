"""The kernel's DuckDB: in memory, bounded, spilling to one folder, and without a way out."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import ENOSPC
from os import strerror

import duckdb
import pyarrow as pa

Connection = duckdb.DuckDBPyConnection
BATCH_VALUES = 1_200_000
"""Of a batch, about: of many rows, or of few with many columns."""
BATCH_BYTES = 2**26
"""Of a batch, about."""
_VECTOR_ROWS = 2048
"""On which DuckDB works at a time; it gives no fewer."""
FULL_MEMORY = "Out of Memory Error"
"""In what DuckDB says where the memory limit is too small."""
_FULL_DISK = "No space left on device"
_SPILL_LIMIT = "max_temp_directory_size"
"""In what DuckDB says where its spill would outgrow the limit; it calls that memory, too."""
_AHEAD = "16MiB"
"""Of a result that DuckDB prepares while Python works on the batches before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one kernel may use."""

    directory: str
    """For what memory does not hold; exists."""
    threads: int
    memory_bytes: int
    spill_bytes: int
    """Of disk."""


class SpillLimitError(Exception):
    """What memory does not hold needs more disk than the job allows."""

    def __init__(self) -> None:
        super().__init__("intermediate data need more disk than execution.spill allows")


@contextmanager
def connected(resources: Resources) -> Iterator[Connection]:
    """A database in memory that spills to the directory and loads no extension.

    Raises:
        SpillLimitError: the part of the disk that may be filled is full.
        MemoryError: the memory does not hold what has to be there at once.
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
        # Among the settings of a connection it would be shown, and not hold.
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

    A batch ends with so many values or so many bytes, whichever come first: the first rows tell
    nothing of how long the values of later ones are.

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
    """Its batches: Arrow raises DuckDB's failures as its own, with DuckDB's message.

    Raises:
        duckdb.Error: the query fails.
    """
    try:
        yield from reader
    except (OSError, pa.ArrowException) as failure:
        raise duckdb.Error(str(failure)) from failure


def _check_room(failure: BaseException) -> None:
    """Raise what is missing: disk or memory.

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
