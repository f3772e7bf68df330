"""Write an extract: batches into Parquet files in the storage of the run, counted on arrival.

Each reader writes one file; several readers work at the same time. The source's limits apply to
their total, and the first failure ends the other readers. A reader continues to read while its
previous batches are written.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pat

from datarecs_application.ports.comparing import Read
from datarecs_connectors.errors import SourceLimitError
from datarecs_connectors.nested_columns import with_nested_encoded
from datarecs_connectors.typed_text import INVALID
from datarecs_core.comparison.planning.faults import ValueTooLargeError
from datarecs_core.comparison.planning.scan import Extract, PinnedFile, Scan

Batches = Iterable[tuple[pa.RecordBatch, tuple[str, ...]]]
"""Batches, each with the columns that have a companion with INVALID values."""
Part = Callable[[], Generator[tuple[pa.RecordBatch, tuple[str, ...]], None, None]]
"""Opens the batches of one part of a source; closing them releases their resources."""
_GROUP_BYTES = 16 * 2**20
"""Minimum size of a row group: small row groups slow down readers."""
_CODEC = "lz4"
"""An extract is read twice or more and deleted with its run: time matters more than space."""
_DICTIONARY_BYTES = 32 * 2**10
"""Limit of a column's dictionary; above it values rarely repeat, and the search for repeated
values would take most of the time to write."""
_INTERRUPT_EVERY_S = 0.2
"""Time between two interrupts of readers that must end."""


def write_extract(
    scan: Scan, batches: Batches, directory: str, progress: Callable[[Read], None]
) -> Scan:
    """The scan with `extract` set; one file, written by one reader.

    Raises SourceLimitError above the source's limits of rows, decoded bytes or value size.
    """
    tally = _Tally(scan=scan, progress=progress)
    (path,) = _paths(directory, 1)
    return _with_extract(scan, path.parent, [_written(batches, path, tally)])


def write_together(
    scan: Scan,
    parts: Sequence[Part],
    directory: str,
    progress: Callable[[Read], None],
    *,
    readers: "Readers",
) -> Scan:
    """The scan with `extract` set: one file per part that has rows, in the order of the parts.

    Args:
        scan: its limits apply to the total of all parts.
        parts: disjoint; each is opened by the thread that reads it.
        directory: of the files; the files of a failed read are removed.
        progress: called by one thread at a time, with the totals of all parts.
        readers: the number of concurrent readers, and how to end them.

    Raises:
        DatarecsError: the first error of a reader; the other readers have ended.
    """
    tally = _Tally(scan=scan, progress=progress)
    paths = _paths(directory, len(parts))
    with ThreadPoolExecutor(readers.at_once, thread_name_prefix="reader") as pool:
        works = [
            pool.submit(_read_part, part, path, tally)
            for part, path in zip(parts, paths, strict=True)
        ]
        try:
            wait(works, return_when=FIRST_EXCEPTION)
        except BaseException as fault:  # for instance Ctrl+C
            tally.fail(fault)
            raise
        finally:
            _end(works, readers.interrupt)
    if tally.fault is not None:
        for path in paths:
            path.unlink(missing_ok=True)
        raise tally.fault
    written = [work.result() for work in works]
    nonempty = [each for each in written if each.file.rows] or written[:1]
    for each in written:
        if each not in nonempty:
            (paths[0].parent / each.file.path).unlink()
    return _with_extract(scan, paths[0].parent, nonempty)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """Threads that read parts of one source."""

    at_once: int
    interrupt: Callable[[], None]
    """Interrupts readers that wait for their source; called repeatedly until they end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    file: PinnedFile
    decoded_bytes: int
    invalid: frozenset[str]


class _AnotherFailedError(Exception):
    """Ends a reader after another reader has failed."""


@dataclass(slots=True, kw_only=True)
class _Tally:
    """Totals of all parts of an extract, checked against the limits of their source."""

    scan: Scan
    progress: Callable[[Read], None]
    rows: int = 0
    decoded_bytes: int = 0
    fault: BaseException | None = None
    """The first error of a reader."""
    _lock: Lock = field(default_factory=Lock)

    def check(self) -> None:
        if self.fault is not None:
            raise _AnotherFailedError

    def add(self, batch: pa.RecordBatch) -> None:
        """Raises SourceLimitError above the limits, or if another reader has failed."""
        _limit_values(self.scan, batch)
        with self._lock:
            self.check()
            self.rows += batch.num_rows
            self.decoded_bytes += batch.nbytes
            _limit(self.scan, self.rows, self.decoded_bytes)
            self.progress(Read(rows=self.rows, decoded_bytes=self.decoded_bytes))

    def fail(self, fault: BaseException) -> None:
        with self._lock:
            self.fault = self.fault or fault


def _end(works: Sequence[Future[_Written]], interrupt: Callable[[], None]) -> None:
    """Interrupt readers until none runs; without a failure all have already ended."""
    for work in works:
        work.cancel()
    while running := [work for work in works if not work.done()]:
        interrupt()
        wait(running, timeout=_INTERRUPT_EVERY_S)


def _read_part(part: Part, path: Path, tally: _Tally) -> _Written:
    tally.check()
    try:
        with closing(part()) as batches:
            return _written(batches, path, tally)
    except BaseException as fault:
        tally.fail(fault)
        raise


def _paths(directory: str, parts: int) -> list[Path]:
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    return [folder / f"part-{number:05}.parquet" for number in range(parts)]


def _written(batches: Batches, path: Path, tally: _Tally) -> _Written:
    rows = size = 0
    invalid: set[str] = set()
    nested = [column for column in tally.scan.columns if column.type.members]
    with closing(_RowGroups(path)) as groups:
        for pair in batches:
            batch, filled = with_nested_encoded(pair, nested) if nested else pair
            tally.add(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            invalid.update(filled)
            groups.add(batch)
        groups.end()
    file = PinnedFile(path=path.name, size_bytes=path.stat().st_size, rows=rows)
    return _Written(file=file, decoded_bytes=size, invalid=frozenset(invalid))


class _RowGroups:
    """Row groups of one file; a separate thread writes one while the next is collected."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pending: list[pa.RecordBatch] = []
        self._bytes = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="writer")
        self._writing: Future[None] | None = None
        self._writer: pq.ParquetWriter | None = None

    def close(self) -> None:
        """Remove the file if it was not completed."""
        self._thread.shutdown()
        if self._writer is not None:
            self._writer.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """At most two groups are in memory: the one being written and the one being collected."""
        self._pending.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= _GROUP_BYTES:
            self._write()

    def end(self) -> None:
        """Write the remaining rows and wait until all groups are written."""
        if self._pending:
            self._write()
        self._wait()

    def _write(self) -> None:
        self._wait()
        self._writing = self._thread.submit(self._write_group, self._pending)
        self._pending, self._bytes = [], 0

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()

    def _write_group(self, batches: Sequence[pa.RecordBatch]) -> None:
        group = pa.Table.from_batches(batches)
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._path,
                group.schema,
                compression=_CODEC,
                dictionary_pagesize_limit=_DICTIONARY_BYTES,
            )
        self._writer.write_table(group)


def _with_extract(scan: Scan, folder: Path, parts: Sequence[_Written]) -> Scan:
    extract = Extract(
        root=str(folder),
        files=tuple(each.file for each in parts),
        rows=sum(each.file.rows or 0 for each in parts),
        decoded_bytes=sum(each.decoded_bytes for each in parts),
        invalid_columns=tuple(sorted(set().union(*(each.invalid for each in parts)))),
    )
    return replace(scan, extract=extract)


def _limit(scan: Scan, rows: int, size: int) -> None:
    if rows > scan.limits.max_rows:
        raise SourceLimitError(scan.source, f"more than {scan.limits.max_rows} rows (max_rows)")
    if size > scan.limits.max_bytes:
        raise SourceLimitError(
            scan.source, f"more than {scan.limits.max_bytes} decoded bytes (max_bytes)"
        )


def _limit_values(scan: Scan, batch: pa.RecordBatch) -> None:
    """Check the size of single values; a batch below the limit has no value above it."""
    limit = scan.limits.max_value_bytes
    if batch.nbytes <= limit:
        return
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pat.is_string(column.type) or pat.is_binary(column.type):
            largest = pc.max(pc.binary_length(column)).as_py() or 0
            if largest > limit:
                of = name.removeprefix(INVALID)
                raise ValueTooLargeError(source=scan.source, column=of, limit=limit)
