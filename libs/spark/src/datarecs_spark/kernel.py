"""The scan kernel: reads Parquet natively, hashes rows, adds hashes up, keeps rows that may differ.

One task does all of it, with Polars (`kernel_frames`) or DuckDB as reader and hasher and numpy as
adder. It decides no equality of a value: a bucket whose weighted sums vanish holds the same rows in
every source, any other is open and its rows are written out, to be compared exactly by Spark.
Numbers come back, never rows.
"""

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from decimal import Decimal
from errno import ENOSPC
from os import strerror
from pathlib import Path
from typing import Protocol

import duckdb
import numpy as np
import pyarrow as pa

from datarecs_core.jobs.definition import DEFAULT_EXECUTION, DEFAULT_LIMITS
from datarecs_spark.forms import Form
from datarecs_spark.hash_sums import HASH_BITS, Flags, Hashes, Sums, repeated
from datarecs_spark.row_counts import RowCount

KERNEL_VERSION = "3"
"""Of hashes and numbers; travels with every task and answer."""
MAX_BUCKET_BITS = 24
"""256 MiB of sums."""
Connection = duckdb.DuckDBPyConnection
Hashed = tuple[Hashes, Hashes, Hashes]
"""Of some rows: of the key, and both of the row."""
Numbers = tuple[int, int, tuple[str | None, ...]]
"""Rows, rows with a NULL in the key, and exact totals."""
BATCH_ROWS = 200_000
READINGS = 2
"""Of every row: to be hashed, and to be kept."""
_FULL_DISK = ("No space left on device", "max_temp_directory_size")
"""What DuckDB says of a disk that is full, and of one that its spill would fill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelColumn:
    """A column of one source."""

    name: str
    """Logical; under it kept rows are written."""
    physical: str
    """In the files."""
    meeting: str
    """SQL of the form that all sources share: equal exactly when values are canonically equal."""
    salted: str
    """SQL of the same value for the second hash, so that no value hash ties the two."""
    size: str | None = None
    """SQL of the bytes of a value that may be large; None for all others."""
    form: Form | None = None
    """In which sources meet; None where SQL alone says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSource:
    """One source of the task."""

    files: tuple[str, ...]
    rows: int
    """As pinned; the source with the fewest tells the groups."""
    keys: tuple[KernelColumn, ...]
    values: tuple[KernelColumn, ...]
    """What is compared, `None`-free and in the same order in every source."""
    filter: str | None = None
    """SQL over physical columns: the source's own condition."""
    where: str | None = None
    """The same of the stage."""
    group_bytes: int = 0
    """Of the largest row group once its columns are decoded, about."""
    max_value_bytes: int = DEFAULT_LIMITS.max_value_bytes
    max_key_bytes: int = DEFAULT_LIMITS.max_key_bytes

    @property
    def columns(self) -> tuple[KernelColumn, ...]:
        return (*self.keys, *self.values)

    @property
    def too_large(self) -> str | None:
        """SQL: the row holds a value, or has a key, above its limit; None where none can be."""
        values = {each.size for each in self.columns if each.size is not None}
        keys = [f"coalesce({each.size}, 0)" for each in self.keys if each.size is not None]
        tests = [f"{size} > {self.max_value_bytes}" for size in sorted(values)]
        if keys:
            tests.append(f"{' + '.join(keys)} > {self.max_key_bytes}")
        return " OR ".join(tests) or None

    @property
    def everything(self) -> str:
        """All rows of the files."""
        files = ", ".join(sql_text(file) for file in self.files)
        return f"read_parquet([{files}], hive_partitioning = false, union_by_name = false)"

    @property
    def relation(self) -> str:
        """The rows that the stage looks at."""
        conditions = [each for each in (self.filter, self.where) if each is not None]
        if not conditions:
            return self.everything
        return f"(SELECT * FROM {self.everything} WHERE {' AND '.join(conditions)})"  # noqa: S608 - made of quoted names and literals


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTask:
    """The whole work item, as it travels in a closure."""

    sources: tuple[KernelSource, ...]
    totals: tuple[int, ...]
    """Positions in `values` of what is added up."""
    salts: tuple[int, int, int]
    """Of the two row hashes and of the key's; 63 bits, drawn per run."""
    weights: tuple[int, ...]
    """One per source, drawn per run (`weights_for`)."""
    bucket_bits: int
    """The upper ones of the key's hash; 1 to `MAX_BUCKET_BITS`."""
    directory: str
    """Where kept rows go, one file per source, and what DuckDB spills; exists."""
    threads: int
    memory_bytes: int
    spill_bytes: int = DEFAULT_EXECUTION.spill
    """Of disk, for what memory does not hold."""
    alike: bool = False
    """Sources have the same files, byte for byte, and the same conditions: one is read for all."""
    most_open: float | None = None
    """Give up when a larger share of rows is in open buckets; None never gives up."""
    version: str = KERNEL_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelAnswer:
    """Numbers of all rows per source, and of the groups in closed buckets."""

    given_up: str | None = None
    """Why the stage must be read whole; every other field is then empty."""
    rows: tuple[int, ...] = ()
    """That the stage looks at."""
    read: tuple[int, ...] = ()
    """In the files."""
    filtered: tuple[int, ...] = ()
    """Of those, behind the source's own filter."""
    null_keys: tuple[int, ...] = ()
    """Rows with a NULL in any part of the key."""
    totals: tuple[tuple[str | None, ...], ...] = ()
    """Per source, in the order of the task's `totals`; None for no value."""
    kept: tuple[int, ...] = ()
    """Rows written."""
    closed_groups: int = 0
    closed_repeated: int = 0
    """Of those, keys with several rows."""
    open_buckets: int = 0
    version: str = KERNEL_VERSION

    def written(self) -> str:
        return json.dumps(asdict(self))


_NUMBERS = ("rows", "read", "filtered", "null_keys", "kept")


def read_answer(written: str) -> KernelAnswer:
    """What `written` wrote."""
    found = json.loads(written)
    listed = {label: tuple(found[label]) for label in _NUMBERS}
    return KernelAnswer(**{**found, **listed, "totals": tuple(map(tuple, found["totals"]))})


def kept_file(index: int) -> str:
    """Name of the kept rows of a source, in the task's directory."""
    return f"source-{index}.parquet"


def weights_for(sources: int, draws: Sequence[int]) -> tuple[int, ...]:
    """Weights that add up to 0 modulo 2^64, from one draw per source but the last.

    All but the last are odd: a row that one source alone has cannot vanish unless its hash is 0.
    """
    first = [draw % 2**HASH_BITS | 1 for draw in draws[: sources - 1]]
    return (*first, -sum(first) % 2**HASH_BITS)


class Scanner(Protocol):
    """Reads the sources of one task; every method raises what is told by `reason_of`."""

    def hashed(self, source: KernelSource) -> Iterator[Hashed]:
        """All rows of a source, some of them at a time."""

    def keys(self, source: KernelSource) -> Iterator[Hashes]:
        """The same of keys alone; texts are decoded, since bytes that are none are never equal."""

    def numbers(self, source: KernelSource) -> Numbers:
        """Of a source whose rows or keys were hashed."""

    def read(self, source: KernelSource) -> tuple[int, int]:
        """Rows in the files, and behind the source's filter."""

    def keep(self, source: KernelSource, buckets: Flags, path: Path) -> int:
        """Write the rows whose keys are in open buckets; how many there are."""

    def again(self, source: KernelSource, hashes: Hashes) -> tuple[int, int]:
        """Keys with one of these hashes, at least one, and how many of them have several rows."""


def narrow(task: KernelTask) -> KernelAnswer:
    """Run the task; what goes wrong in it is an answer, for Spark then reads everything itself.

    Raises:
        OSError: the disk is full, which it would be for Spark as well.
    """
    # Polars looks for it once, when it is imported, which it is in a task alone.
    os.environ.setdefault("POLARS_MAX_THREADS", str(task.threads))  # noqa: TID251 - written, not read
    from datarecs_spark import kernel_frames  # noqa: PLC0415 - as above

    if task.version != KERNEL_VERSION:
        return KernelAnswer(given_up=f"the kernel has version {KERNEL_VERSION}")
    try:
        if kernel_frames.frames_fit(task):
            return _Narrowing(task, kernel_frames.FrameScanner(task)).answer()
        with connected(task) as connection:
            return _Narrowing(task, SqlScanner(task, connection)).answer()
    except (*UNREADABLE, *kernel_frames.UNREADABLE) as failure:
        return KernelAnswer(given_up=reason_of(failure))


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
        "max_temp_directory_size": f"{max(task.spill_bytes // 2**20, 1)}MiB",
        "preserve_insertion_order": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
    }
    with duckdb.connect(config=settings) as connection:
        yield connection


class _Narrowing:
    """One task; numpy adds on a thread of its own while rows are read on."""

    def __init__(self, task: KernelTask, scanner: Scanner) -> None:
        self.task, self.scanner = task, scanner
        self.fewest = min(range(len(task.sources)), key=lambda at: task.sources[at].rows)
        self.read = task.sources[:1] if task.alike else task.sources
        self.count = RowCount(task.directory, "kernel", readings=READINGS)

    def answer(self) -> KernelAnswer:
        # Nothing is added where one source stands for all.
        sums = Sums(1 if self.task.alike else self.task.bucket_bits)
        sources = self.task.sources
        with ThreadPoolExecutor(1) as adder:
            keys = self._keys() if self.task.alike else self._added(sums, adder)
            open_buckets = sums.open()
            is_open = open_buckets[sums.bucket(keys)]
            kept_share = _share(is_open)
            if self.task.most_open is not None and kept_share > self.task.most_open:
                return KernelAnswer(given_up=f"{kept_share:.0%} of the rows are in open buckets")
            keys = keys[~is_open]
            counting = adder.submit(repeated, keys)
            numbers = [self.scanner.numbers(source) for source in self.read]
            read = [self.scanner.read(source) for source in self.read]
            if self.task.alike:
                numbers, read = numbers * len(sources), read * len(sources)
            kept = [self._kept(index, open_buckets) for index in range(len(sources))]
            groups, groups_again = self._groups(*counting.result())
        return KernelAnswer(
            rows=tuple(rows for rows, _, _ in numbers),
            read=tuple(rows for rows, _ in read),
            filtered=tuple(rows for _, rows in read),
            null_keys=tuple(nulls for _, nulls, _ in numbers),
            totals=tuple(totals for _, _, totals in numbers),
            kept=tuple(kept),
            closed_groups=groups,
            closed_repeated=groups_again,
            open_buckets=int(np.count_nonzero(open_buckets)),
        )

    def _keys(self) -> Hashes:
        """Key hashes of the source that stands for all: no bucket is open."""
        keys = []
        for key in self.scanner.keys(*self.read):
            keys.append(key.copy())
            self.count.add(len(key) * len(self.task.sources))
        return np.concatenate(keys) if keys else np.zeros(0, np.uint64)

    def _added(self, sums: Sums, adder: Executor) -> Hashes:
        """Add all rows of all sources; key hashes of the source with the fewest rows."""
        keys: list[Hashes] = []
        adding: Future[None] | None = None
        for index, (source, weight) in enumerate(
            zip(self.task.sources, self.task.weights, strict=True)
        ):
            left = source.rows
            for key, first, second in self.scanner.hashed(source):
                if adding is not None:
                    adding.result()
                adding = adder.submit(sums.add, key, first, second, weight)
                if index == self.fewest:
                    keys.append(key.copy())
                self.count.add(len(key))
                left -= len(key)
            self.count.add(left)  # behind conditions
        if adding is not None:
            adding.result()
        return np.concatenate(keys) if keys else np.zeros(0, np.uint64)

    def _groups(self, once: int, again: Hashes) -> tuple[int, int]:
        """Groups of closed buckets and how many of them repeat; in all sources alike.

        A hash that occurs once is one key; those that occur again are counted by their keys.
        """
        if not len(again):
            return once, 0
        found, several = self.scanner.again(self.task.sources[self.fewest], again)
        return once + found, several

    def _kept(self, index: int, buckets: Flags) -> int:
        source = self.task.sources[index]
        rows = self.scanner.keep(source, buckets, Path(self.task.directory) / kept_file(index))
        self.count.add(source.rows)
        return rows


class SqlScanner:
    """Port Scanner by DuckDB, within its memory and with every condition that it knows."""

    def __init__(self, task: KernelTask, connection: Connection) -> None:
        self.task, self.connection = task, connection

    def hashed(self, source: KernelSource) -> Iterator[Hashed]:
        return hashed_rows(self.task, source, self.connection)

    def keys(self, source: KernelSource) -> Iterator[Hashes]:
        return (key for key, _, _ in self.hashed(source))

    def numbers(self, source: KernelSource) -> Numbers:
        return numbers_of(self.task, source, self.connection)

    def read(self, source: KernelSource) -> tuple[int, int]:
        return read_of(source, self.connection)

    def keep(self, source: KernelSource, buckets: Flags, path: Path) -> int:
        kept = f"({self._key_hash(source)} >> {HASH_BITS - self.task.bucket_bits})"
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
    """Of the rows that the stage looks at."""
    null = " OR ".join(f"{quoted(key.physical)} IS NULL" for key in source.keys)
    sums = [f"sum({source.values[at].meeting})" for at in task.totals]
    told = ", ".join(["count(*)", f"count(*) FILTER (WHERE {null})", *sums])
    (found,) = connection.execute(f"SELECT {told} FROM {source.relation}").fetchall()  # noqa: S608 - made of quoted names and SQL of this package
    rows, nulls, *totals = found
    exact = [None if each is None else format(Decimal(each), "f") for each in totals]
    return rows, nulls, tuple(exact)


def read_of(source: KernelSource, connection: Connection) -> tuple[int, int]:
    """Rows in the files, and behind the source's filter."""
    behind = "" if source.filter is None else f" FILTER (WHERE {source.filter})"
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


def quoted(name: str) -> str:
    """An identifier in DuckDB's SQL."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def sql_text(value: str) -> str:
    """A text in DuckDB's SQL."""
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def _share(flags: Flags) -> float:
    return float(np.count_nonzero(flags)) / len(flags) if len(flags) else 0.0
