"""What one task of a cluster does with its share, and what those do that add up after it.

Every step is a function of its work item alone, so it may run as often as Spark likes: adding finds
the open buckets, keeping writes their rows, and keys whose hashes occur again are counted.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from datarecs_kernel.hash_sums import HASH_BITS, Hashes, Sums, repeated
from datarecs_spark.kernel_sql import (
    Connection,
    hashed_rows,
    key_hash,
    numbers_of,
    write_rows,
)
from datarecs_spark.kernel_work import BATCH_ROWS, READINGS, KernelSource, KernelTask
from datarecs_spark.row_counts import RowCount
from datarecs_spark.share_work import Kind, Told, Work, failures_told, opened
from datarecs_spark.shares import Part, Share

MOST_AGAIN = 2**16
"""Key hashes that occur again, in all ranges; above it every closed key is counted instead."""


# Adding


def added(work: Work, at: int, attempt: str) -> Iterator[Told]:
    """Sums by bucket, key hashes and numbers of all rows of a share."""
    with failures_told() as failures, opened(work, attempt) as connection:
        count = RowCount(work.task.directory, attempt, readings=READINGS)
        yield from _added(work, work.shares[at], connection, count)
    yield from failures


def _added(work: Work, share: Share, connection: Connection, count: RowCount) -> Iterator[Told]:
    sums = Sums(work.task.bucket_bits)
    for part in share:
        rows = 0
        for keys, first, second in hashed_rows(work.task, part.source, connection):
            sums.add(keys, first, second, work.task.weights[part.index])
            rows += len(keys)
            count.add(len(keys))
            if part.index == work.fewest:
                yield from _cut(np.sort(keys), work.range_bits)
        yield _numbers(work.task, part, connection, rows)
    for at, first, second in zip(
        range(1 << work.range_bits),
        *(np.split(each, 1 << work.range_bits) for each in (sums.first, sums.second)),
        strict=True,
    ):
        if first.any() or second.any():
            yield Told(Kind.SUMS, at, first.tobytes() + second.tobytes())


def _cut(keys: Hashes, range_bits: int) -> Iterator[Told]:
    """Sorted hashes by their ranges."""
    ranges = keys >> np.uint64(HASH_BITS - range_bits)
    starts = np.flatnonzero(np.diff(ranges, prepend=ranges[:1] + np.uint64(1)))
    for start, end in pairwise([*starts, len(keys)]):
        yield Told(Kind.KEYS, int(ranges[start]), keys[start:end].tobytes())


def _numbers(task: KernelTask, part: Part, connection: Connection, hashed: int) -> Told:
    """`read`, `filtered`, `rows`, `null_keys`, `totals`, and rows that were hashed."""
    body = {**asdict(numbers_of(task, part.source, connection)), "hashed": hashed}
    return Told(Kind.NUMBERS, part.index, json.dumps(body).encode())


def buckets_met(work: Work, rows: Iterable[Told], attempt: str) -> Iterator[Told]:  # noqa: ARG001 - a meeting's form
    """Open buckets of ranges, and closed groups; what is no sum and no key is passed on."""
    found: dict[int, _Range] = {}
    for told in rows:
        if told.kind in {Kind.SUMS, Kind.KEYS}:
            if told.at not in found:
                found[told.at] = _Range(work.task.bucket_bits, work.range_bits)
            found[told.at].add(told)
        else:
            yield told
    for at, each in found.items():
        yield from each.told(at)


@dataclass(slots=True)
class _Range:
    """Buckets whose upper bits are the same, of all shares."""

    bits: int
    range_bits: int
    sums: Sums = field(init=False)
    keys: list[Hashes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sums = Sums(self.bits - self.range_bits)

    def add(self, told: Told) -> None:
        if told.kind is Kind.KEYS:
            self.keys.append(np.frombuffer(told.body, np.uint64))
            return
        size = 1 << self.sums.bits
        self.sums.first += np.frombuffer(told.body, np.uint64, size)
        self.sums.second += np.frombuffer(told.body, np.uint64, size, 8 * size)

    def told(self, at: int) -> Iterator[Told]:
        found = self.sums.open()
        if found.any():
            yield Told(Kind.OPEN, at, np.packbits(found).tobytes())
        keys = np.concatenate(self.keys) if self.keys else np.zeros(0, np.uint64)
        # Without the bits that all of them begin with.
        inside = keys << np.uint64(self.range_bits)
        closed = inside[~found[_upper(inside, self.sums.bits)]]
        once, again = repeated(np.sort(closed))
        numbers = {
            "rows": len(keys),
            "open": len(keys) - len(closed),
            "once": once,
            "again": len(again),
        }
        yield Told(Kind.GROUPS, at, json.dumps(numbers).encode())
        if 0 < len(again) <= MOST_AGAIN >> self.range_bits:
            whole = _upper(again, HASH_BITS - self.range_bits)
            whole |= np.uint64(at << (HASH_BITS - self.range_bits))
            yield Told(Kind.AGAIN, at, whole.tobytes())


def _upper(hashes: Hashes, bits: int) -> Hashes:
    """So many bits; a shift by all 64 would leave the hash as it is on some processors."""
    return hashes >> np.uint64(HASH_BITS - bits) if bits else np.zeros_like(hashes)


def buckets_of(told: Sequence[Told], work: Work) -> Hashes:
    """Numbers of the open buckets that ranges have told."""
    size = work.task.bucket_bits - work.range_bits
    found = [
        np.flatnonzero(np.unpackbits(np.frombuffer(each.body, np.uint8), count=1 << size))
        + (each.at << size)
        for each in told
        if each.kind is Kind.OPEN
    ]
    return np.sort(np.concatenate(found)).astype(np.uint64) if found else np.zeros(0, np.uint64)


# Keeping


def kept(work: Work, buckets: Hashes, directory: Path, at: int, attempt: str) -> Iterator[Told]:
    """Write the rows of open buckets of a share, each part to a file of its own."""
    with failures_told() as failures, opened(work, attempt) as connection:
        connection.register("unlike", pa.table({"h": buckets}))
        for number, part in enumerate(work.shares[at]):
            name = f"part-{attempt}-{number}.parquet"
            # Without open buckets nothing need be read again to find that out.
            wanted = f"{_bucket(work.task, part.source)} IN (SELECT h FROM unlike)"  # noqa: S608 - SQL of this package
            wanted = wanted if len(buckets) else "FALSE"
            rows = write_rows(part.source, wanted, directory / name, connection)
            yield Told(Kind.KEPT, part.index, json.dumps([name, rows]).encode())
        # A part does not know its rows; shares are about alike.
        rows = sum(source.rows for source in work.task.sources) // len(work.shares)
        RowCount(work.task.directory, attempt, readings=READINGS).add(rows)
    yield from failures


def _bucket(task: KernelTask, source: KernelSource) -> str:
    return f"({key_hash(source, task.salts[2])} >> {HASH_BITS - task.bucket_bits})"


# Keys that occur again


def keys_again(
    work: Work, buckets: Hashes, again: Hashes | None, at: int, attempt: str
) -> Iterator[Told]:
    """Keys of a share with their rows: of these hashes, or of every closed bucket."""
    with failures_told() as failures, opened(work, attempt) as connection:
        connection.register("listed", pa.table({"h": buckets if again is None else again}))
        for part in work.shares[at]:
            if part.index == work.fewest:
                sql = _keys(work, part.source, every=again is None)
                for batch in connection.sql(sql).to_arrow_reader(BATCH_ROWS):
                    yield from _cut_rows(batch)
    yield from failures


def _keys(work: Work, source: KernelSource, *, every: bool) -> str:
    hashed = key_hash(source, work.task.salts[2])
    among = f"{_bucket(work.task, source)} NOT IN" if every else f"{hashed} IN"
    keys = ", ".join(f"{key.meeting} AS k{at}" for at, key in enumerate(source.keys))
    return (
        f"SELECT {hashed} >> {HASH_BITS - work.range_bits} AS place, {keys}, count(*) AS n"  # noqa: S608 - made of quoted names and SQL of this package
        f" FROM {source.relation} WHERE {among} (SELECT h FROM listed) GROUP BY ALL ORDER BY place"
    )


def _cut_rows(rows: pa.RecordBatch) -> Iterator[Told]:
    """Rows in the order of their ranges, by range."""
    ranges, starts = np.unique(rows.column("place").to_numpy(), return_index=True)
    for at, (start, end) in zip(ranges, pairwise([*starts, rows.num_rows]), strict=True):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_batch(rows.slice(start, end - start))
        yield Told(Kind.KEYS, int(at), sink.getvalue().to_pybytes())


def keys_met(work: Work, rows: Iterable[Told], attempt: str) -> Iterator[Told]:
    """How many keys there are, and how many of them have several rows."""
    tables = []
    for told in rows:
        if told.kind is Kind.KEYS:
            tables.append(pa.ipc.open_stream(told.body).read_all())
        else:
            yield told
    if not tables:
        return
    with failures_told() as failures, opened(work, attempt) as connection:
        connection.register("met", pa.concat_tables(tables))
        keys = ", ".join(name for name in tables[0].column_names if name.startswith("k"))
        (found,) = connection.execute(
            "SELECT count(*), count(*) FILTER (WHERE n > 1)"  # noqa: S608 - made of this module's names
            f" FROM (SELECT sum(n) AS n FROM met GROUP BY {keys})"
        ).fetchall()
        yield Told(Kind.GROUPS, 0, json.dumps(found).encode())
    yield from failures
