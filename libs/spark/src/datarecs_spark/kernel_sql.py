"""The kernel's readings by DuckDB: within its memory, and with every condition that it knows."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from errno import ENOSPC
from os import strerror
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from datarecs_kernel.hash_sums import HASH_BITS, Flags, Hashes
from datarecs_spark.kernel_work import (
    BATCH_ROWS,
    Hashed,
    KernelSource,
    KernelTask,
    Numbers,
    Paired,
    quoted,
    sql_text,
)

Connection = duckdb.DuckDBPyConnection
_FULL_DISK = ("No space left on device", "max_temp_directory_size")
"""What DuckDB says of a disk that is full, and of one that its spill would fill."""
UNREADABLE = (duckdb.Error, MemoryError, pa.ArrowException)
"""What files and values do to the kernel."""


def reason_of(failure: BaseException) -> str:
    """Why Spark must read everything itself; the message may quote a value of a row.

    Raises:
        OSError: the disk is full, which it would be for Spark as well.
    """
    if any(sign in str(failure) for sign in _FULL_DISK):
        raise OSError(ENOSPC, strerror(ENOSPC)) from None
    return f"the kernel cannot read it ({type(failure).__name__})"


@contextmanager
def connected(task: KernelTask, spill: str = "spill") -> Iterator[Connection]:
    """A database in memory that spills to the task's directory and loads nothing."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": task.threads,
        "memory_limit": f"{task.memory_bytes // 2**20}MiB",
        "temp_directory": f"{task.directory}/{spill}",
        "preserve_insertion_order": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
    }
    with duckdb.connect(config=settings) as connection:
        # Among the settings of a connection it would be shown, and not hold.
        room = max(task.spill_bytes // 2**20, 1)
        connection.execute(f"SET max_temp_directory_size = '{room}MiB'")
        yield connection


class SqlScanner:
    """Port Scanner by DuckDB, within its memory and with every condition that it knows."""

    def __init__(self, task: KernelTask, connection: Connection) -> None:
        self.task, self.connection = task, connection

    def paired(self, count: Callable[[int], None]) -> Paired | None:  # noqa: ARG002 - of the port
        return None

    def hashed(self, source: KernelSource) -> Iterator[Hashed]:
        return hashed_rows(self.task, source, self.connection)

    def keys(self, source: KernelSource) -> Iterator[Hashes]:
        return (key for key, _, _ in self.hashed(source))

    def ascending(
        self,
        source: KernelSource,  # noqa: ARG002 - of the port
        count: Callable[[int], None],  # noqa: ARG002 - of the port
    ) -> int | None:
        return None

    def numbers(self, source: KernelSource) -> Numbers:
        return numbers_of(self.task, source, self.connection)

    def whole(self, source: KernelSource, numbers: Numbers) -> Numbers:  # noqa: ARG002 - of the port
        return numbers

    def keep(self, source: KernelSource, buckets: Flags, path: Path) -> int:
        kept = f"({self._key_hash(source)} >> {HASH_BITS + 1 - len(buckets).bit_length()})"
        kept = f"{kept} IN (SELECT h FROM listed)"  # noqa: S608 - SQL of this package
        if not buckets.any():  # then the files need not be read again to find that out
            kept = "FALSE"
        with self._listed(np.flatnonzero(buckets).astype(np.uint64)):
            return write_rows(source, kept, path, self.connection)

    def again(self, source: KernelSource, hashes: Hashes) -> tuple[int, int]:
        keys = ", ".join(column.meeting for column in source.keys)
        with self._listed(hashes):
            ((found, several),) = self.connection.execute(
                "SELECT count(*), count(*) FILTER (WHERE n > 1) FROM (SELECT count(*) AS n"  # noqa: S608 - made of quoted names and SQL of this package
                f" FROM {source.relation} WHERE {self._key_hash(source)} IN (SELECT h FROM listed)"
                f" GROUP BY {keys})"
            ).fetchall()
        return found, several

    def _key_hash(self, source: KernelSource) -> str:
        return key_hash(source, self.task.salts[2])

    @contextmanager
    def _listed(self, hashes: Hashes) -> Iterator[None]:
        self.connection.register("listed", pa.table({"h": hashes}))
        yield
        self.connection.unregister("listed")


def hashed_rows(task: KernelTask, source: KernelSource, connection: Connection) -> Iterator[Hashed]:
    """All rows of a source, some of them at a time."""
    key = key_hash(source, task.salts[2])
    if source.too_large is not None:
        # Spark, which reads all rows instead, then says which row's column it was.
        key = f"CASE WHEN {source.too_large} THEN error('too large') ELSE {key} END"
    columns = (key, first_hash(source, task.salts[0]), second_hash(source, task.salts[1]))
    rows = connection.sql(f"SELECT {', '.join(columns)} FROM {source.relation}")  # noqa: S608 - made of quoted names and SQL of this package
    for batch in rows.to_arrow_reader(BATCH_ROWS):
        keys, first, second = (column.to_numpy() for column in batch.columns)
        yield keys, first, second


def numbers_of(task: KernelTask, source: KernelSource, connection: Connection) -> Numbers:
    null = " OR ".join(f"{quoted(key.physical)} IS NULL" for key in source.keys)
    sums = [f"sum({source.values[at].meeting})" for at in task.totals]
    told = ", ".join(["count(*)", f"count(*) FILTER (WHERE {null})", *sums])
    (found,) = connection.execute(f"SELECT {told} FROM {source.relation}").fetchall()  # noqa: S608 - made of quoted names and SQL of this package
    rows, nulls, *totals = found
    exact = [None if each is None else format(Decimal(each), "f") for each in totals]
    read, filtered = read_of(source, connection)
    return Numbers(read=read, filtered=filtered, rows=rows, null_keys=nulls, totals=tuple(exact))


def read_of(source: KernelSource, connection: Connection) -> tuple[int, int]:
    """Rows in the files, and behind the source's filter."""
    behind = "" if source.filter is None else f" FILTER (WHERE {source.filter.sql})"
    counted = f"SELECT count(*), count(*){behind} FROM {source.everything}"  # noqa: S608 - made of quoted names and SQL of this package
    ((read, filtered),) = connection.execute(counted).fetchall()
    return read, filtered


def write_rows(source: KernelSource, wanted: str, path: Path, connection: Connection) -> int:
    """Write the columns of rows for which the SQL holds, under logical names; how many."""
    # A column may be key and value at once.
    physical = {each.name: each.physical for each in source.columns}
    columns = ", ".join(f"{quoted(own)} AS {quoted(name)}" for name, own in physical.items())
    ((rows,),) = connection.execute(
        f"COPY (SELECT {columns} FROM {source.relation} WHERE {wanted})"  # noqa: S608 - made of quoted names and SQL of this package
        f" TO {sql_text(str(path))} (FORMAT parquet, COMPRESSION zstd)"
    ).fetchall()
    return int(rows)


def key_hash(source: KernelSource, salt: int) -> str:
    """SQL: 64 bits of the key."""
    return _hashed(salt, [key.meeting for key in source.keys])


def first_hash(source: KernelSource, salt: int) -> str:
    """SQL: 64 bits of key and values."""
    return _hashed(salt, [column.meeting for column in source.columns])


def second_hash(source: KernelSource, salt: int) -> str:
    """SQL: another 64 bits of the same, from the last column to the first."""
    return _hashed(salt, [column.salted for column in reversed(source.columns)])


def _hashed(salt: int, columns: Sequence[str]) -> str:
    """Without the outer hash the last column is only XORed in, and swapped values cancel."""
    return f"hash(hash({salt}::UBIGINT, {', '.join(columns)}))"
