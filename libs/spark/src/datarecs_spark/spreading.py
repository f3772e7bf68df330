"""Strategy `narrow` on several executors: every task reads its share, and tasks add up by range.

A range is what begins with the same bits of a key's hash, so its buckets and its keys meet in one
task: that one tells which buckets are open and how many groups the closed ones hold, and only that
reaches the driver. The answer is the kernel's, number by number.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from datarecs_kernel.hash_sums import Hashes
from datarecs_spark.accepting import accepted, attempts_of, fresh
from datarecs_spark.kernel_sql import connected
from datarecs_spark.kernel_work import KernelAnswer, KernelTask, Numbers
from datarecs_spark.native_errors import NotNativeError
from datarecs_spark.share_tasks import (
    added,
    buckets_met,
    buckets_of,
    kept,
    keys_again,
    keys_met,
)
from datarecs_spark.share_work import Kind, Told, Work, hashes_of
from datarecs_spark.shares import shares
from datarecs_spark.sinking import attempt_name

BUCKET_BITS = 19
"""At most: every task sends the sums of all its buckets."""
MOST_ROWS = 2**25
"""Of the smallest source, for each task: 256 MiB of key hashes."""
SHARES_PER_CORE = 2
LEAST_MEMORY = 2**27
"""Of a task."""
_RANGES_PER_SHARE = 4
_ROWS = "rows"
_SCHEMA = "kind STRING, at INT, body BINARY"

Step = Callable[[int, str], Iterator[Told]]
"""By number of the share and name of the attempt."""
Meeting = Callable[[Iterable[Told], str], Iterator[Told]]
"""Takes all rows of a range, of as many ranges as come."""
Exchange = Callable[[int, Step, Meeting | None], Sequence[Told]]
"""Runs a step for so many shares; what it tells meets by `at`, or comes as it is."""
KeptFile = tuple[str, int]
"""A file of kept rows, by its path below the task's directory, and how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What all tasks found."""

    answer: KernelAnswer
    files: tuple[tuple[KeptFile, ...], ...]
    """Per source, at least one."""


def spread(session: SparkSession, task: KernelTask, stage: str) -> Spread:
    """Run the kernel's work item on all executors.

    Args:
        session: of the run.
        task: for one executor, with its memory; the directory is shared by all.
        stage: for messages.

    Raises:
        NotNativeError: the stage must be read whole, and why.
    """
    work = work_of(task, SHARES_PER_CORE * session.sparkContext.defaultParallelism)
    own = max(LEAST_MEMORY, task.memory_bytes // cores_of_one(session))
    alone = replace(work, task=replace(work.task, memory_bytes=own))
    return spread_by(partial(over_spark, session), alone, stage)


def work_of(task: KernelTask, most_shares: int) -> Work:
    """The work item, cut.

    Raises:
        NotNativeError: it cannot be.
    """
    most = MOST_ROWS * most_shares
    if min(source.rows for source in task.sources) > most:
        raise NotNativeError(f"more than {most:,} rows in every source")
    bits = min(BUCKET_BITS, max(1, max(source.rows for source in task.sources).bit_length()))
    with connected(task) as connection:
        hashes = hashes_of(connection)
    return Work(
        task=replace(task, bucket_bits=bits, threads=1),
        shares=shares(task.sources, most_shares),
        range_bits=min(bits, (_RANGES_PER_SHARE * most_shares).bit_length()),
        hashes=hashes,
    )


def spread_by(exchange: Exchange, work: Work, stage: str) -> Spread:
    """`spread` by any exchange.

    Raises:
        NotNativeError: as there.
    """
    told = all_told(exchange, work, partial(added, work), partial(buckets_met, work))
    numbers = _numbers(work, told)
    groups = [json.loads(each.body) for each in told if each.kind is Kind.GROUPS]
    rows, open_rows = (sum(each[name] for each in groups) for name in ("rows", "open"))
    if rows != numbers[work.fewest].rows:
        raise NotNativeError("not every key has arrived where it is counted")
    share, most = open_rows / rows if rows else 0.0, work.task.most_open
    if most is not None and share > most:
        raise NotNativeError(f"{share:.0%} of the rows are in open buckets")
    buckets = buckets_of(told, work)
    closed_groups, closed_repeated = _closed(exchange, work, buckets, told)
    files = _kept(exchange, work, buckets, stage)
    kept_rows = tuple(sum(rows for _, rows in own) for own in files)
    if kept_rows[work.fewest] != open_rows:
        raise NotNativeError("the rows of open buckets are not those that were counted")
    answer = KernelAnswer(
        rows=tuple(each.rows for each in numbers),
        read=tuple(each.read for each in numbers),
        filtered=tuple(each.filtered for each in numbers),
        null_keys=tuple(each.null_keys for each in numbers),
        totals=tuple(each.totals for each in numbers),
        kept=kept_rows,
        closed_groups=closed_groups,
        closed_repeated=closed_repeated,
        open_buckets=len(buckets),
    )
    return Spread(answer=answer, files=files)


def all_told(
    exchange: Exchange, work: Work, step: Step, meeting: Meeting | None = None
) -> Sequence[Told]:
    """What tasks have told, none of which failed.

    Raises:
        NotNativeError: one did.
    """
    told = exchange(len(work.shares), step, meeting)
    for each in told:
        if each.kind is Kind.FAILED:
            raise NotNativeError(each.body.decode())
    return told


def _numbers(work: Work, told: Sequence[Told]) -> list[Numbers]:
    """Per source, of all its parts."""
    found = []
    for index, source in enumerate(work.task.sources):
        place = (Kind.NUMBERS, index)
        parts = [json.loads(each.body) for each in told if (each.kind, each.at) == place]
        hashed = sum(part.pop("hashed") for part in parts)
        each = (Numbers(**{**part, "totals": tuple(part["totals"])}) for part in parts)
        numbers = reduce(Numbers.plus, each)
        if numbers.read != source.rows or hashed != numbers.rows:
            raise NotNativeError("tasks have not read every row once")
        found.append(numbers)
    return found


def _closed(
    exchange: Exchange, work: Work, buckets: Hashes, told: Sequence[Told]
) -> tuple[int, int]:
    """Groups of closed buckets and how many of them repeat; in all sources alike.

    A hash that occurs once is one key; those that occur again are counted by their keys, and all
    closed keys are where some range has too many of them for the driver to hold.
    """
    groups = [json.loads(each.body) for each in told if each.kind is Kind.GROUPS]
    once, again = (sum(each[name] for each in groups) for name in ("once", "again"))
    if not again:
        return once, 0
    bodies = b"".join(each.body for each in told if each.kind is Kind.AGAIN)
    hashes = np.frombuffer(bodies, np.uint64)
    listed = hashes if len(hashes) == again else None
    step = partial(keys_again, work, buckets, listed)
    counted = [
        json.loads(each.body)
        for each in all_told(exchange, work, step, partial(keys_met, work))
        if each.kind is Kind.GROUPS
    ]
    found, repeated = (sum(column) for column in zip(*counted, strict=True))
    return found + (0 if listed is None else once), repeated


def _kept(
    exchange: Exchange, work: Work, buckets: Hashes, stage: str
) -> tuple[tuple[KeptFile, ...], ...]:
    """Per source; one without kept rows has an empty file."""
    sources = range(len(work.task.sources))
    if not len(buckets):
        parts = [part for share in work.shares for part in share]
        few = tuple(next(part for part in parts if part.index == index) for index in sources)
        work = replace(work, shares=(few,))
    directory = Path(work.task.directory) / _ROWS
    attempts = fresh(attempts_of(directory))
    told = all_told(exchange, work, partial(kept, work, buckets, attempts))
    written = [[json.loads(each.body) for each in told if each.at == index] for index in sources]
    files = [[each for each in own if each[1]] or own[:1] for own in written]
    accepted(stage, [name for own in files for name, _ in own], directory)
    return tuple(tuple((f"{_ROWS}/{name}", rows) for name, rows in own) for own in files)


def over_spark(
    session: SparkSession, count: int, step: Step, meeting: Meeting | None
) -> Sequence[Told]:
    """Port Exchange; one task for each share, and as many for the ranges."""
    rows = session.range(0, count, 1, count).mapInArrow(_stepping(step), _SCHEMA)
    if meeting is not None:
        rows = rows.repartition(count, "at").mapInArrow(_meeting(meeting), _SCHEMA)
    return [Told(Kind(row["kind"]), row["at"], bytes(row["body"])) for row in rows.collect()]


def _stepping(step: Step) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                yield from map(_row, step(at, attempt_name()))

    return run


def _meeting(meeting: Meeting) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        told = (
            Told(Kind(kind.as_py()), at.as_py(), body.as_py())
            for batch in batches
            for kind, at, body in zip(*batch.columns, strict=True)
        )
        yield from map(_row, meeting(told, attempt_name()))

    return run


def _row(told: Told) -> pa.RecordBatch:
    types = (pa.string(), pa.int32(), pa.binary())
    columns = [pa.array([each], kind) for each, kind in zip(told, types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, ["kind", "at", "body"])


def cores_of_one(session: SparkSession) -> int:
    """Of the executors, which share them out evenly as far as anybody can tell."""
    context = session.sparkContext
    known = int(context._jsc.sc().getExecutorMemoryStatus().size())  # noqa: SLF001 - Python has no other way to it
    # The driver is one of them.
    return -(-context.defaultParallelism // max(1, known - 1))
