"""Strategy `narrow`: look only where sources may differ, then compare those rows as `full` does.

The kernel runs in one Spark task, or on a cluster in many (`spreading`), and leaves the rows of
open buckets as Parquet. Where one task has them all and they are few it judges them (`kept_rows`),
else the exact part reads them like any extract; numbers of closed buckets are added to what either
counts. Sources must agree on what is closed, by counts and totals that no hash took part in, else
nothing is believed.
"""

import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.scan import Extract, FileList, PinnedFile, Scan
from datarecs_core.jobs.vocabulary import Strategy
from datarecs_core.values import EXACT
from datarecs_kernel.counted import Counted
from datarecs_kernel.hash_sums import weights_for
from datarecs_kernel.storing import SinkPlan
from datarecs_kernel.tallies import SourceTally
from datarecs_spark import kept_rows
from datarecs_spark.kept_rows import Judged, KeyShare, judged, read_judged
from datarecs_spark.kernel import narrow
from datarecs_spark.kernel_work import (
    MAX_BUCKET_BITS,
    KernelAnswer,
    KernelSource,
    KernelTask,
    kept_file,
    read_answer,
)
from datarecs_spark.native import native_sources
from datarecs_spark.native_errors import NotNativeError
from datarecs_spark.read import files_of, pinned_rows
from datarecs_spark.sinking import attempt_name
from datarecs_spark.spreading import KeptFile, spread

MOST_OPEN = 0.5
"""Share of rows in open buckets above which a second reading costs more than it saves."""
MAX_ROWS = 2**27
"""Of the smallest source, whose key hashes are kept: 1 GiB."""
_BUCKET_BITS = 10
"""At least; from there on a row to a bucket, as far as the kernel has so many."""
_SALT_BITS = 63
_KERNEL_OF_HEAP = 25 / 35
"""Share of a run's memory for the kernel, by the heap's."""
_DEFAULT_HEAP = 2**30
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """What the kernel found: scans of the rows that are left, and numbers of all the others."""

    plan: StagePlan
    """The stage over kept rows."""
    answer: KernelAnswer
    all_rows: tuple[int, ...]
    """Per source, before the stage's `where`."""
    measures: tuple[int, ...]
    """Indices of the measures behind the answer's totals."""
    judged: Judged | None = None
    """What the kept rows are, where the kernel's task has judged them."""

    @property
    def metrics(self) -> tuple[tuple[str, int], ...]:
        return (("buckets_open", self.answer.open_buckets), ("rows_kept", sum(self.answer.kept)))

    def add_closed(self, counted: Counted, tallies: Sequence[SourceTally]) -> None:
        """Turn the numbers of kept rows into those of all rows.

        Raises:
            NotNativeError: sources disagree on what is closed; nothing was changed.
        """
        answer = self.answer
        if answer.kept != tuple(tally.passed for tally in tallies):
            raise NotNativeError("the kept rows are not those that were read again")
        totals = [self._totals(index) for index in range(len(tallies))]
        closed = {
            (
                answer.rows[index] - tally.passed,
                answer.null_keys[index] - tally.null_keys,
                *(
                    EXACT.subtract(total, tally.totals.get(measure, Decimal(0)))
                    for measure, total in totals[index].items()
                ),
            )
            for index, tally in enumerate(tallies)
        }
        if len(closed) != 1:
            raise NotNativeError("sources disagree on the numbers of closed buckets")
        everywhere = self.plan.everywhere
        groups = answer.closed_groups - answer.closed_repeated
        for many, times in ((0, groups), (everywhere, answer.closed_repeated)):
            if times:
                counted.groups[everywhere, many, False, None] += times
        for index, tally in enumerate(tallies):
            counted.grouped[index] += answer.rows[index] - tally.passed
            tally.passed = answer.rows[index]
            tally.extracted = self.all_rows[index]
            tally.null_keys = answer.null_keys[index]
            tally.totals |= totals[index]

    def _totals(self, index: int) -> dict[int, Decimal]:
        told = self.answer.totals[index]
        return {
            measure: Decimal(0 if total is None else total)
            for measure, total in zip(self.measures, told, strict=True)
        }


@contextmanager
def narrowed(
    session: SparkSession, plan: StagePlan, directory: Path, sink: SinkPlan | None
) -> Iterator[Narrowed]:
    """Run the kernel; kept rows are gone afterwards.

    Args:
        session: of the run.
        plan: a stage for which core chose `narrow`.
        directory: for kept rows and what spills; made here, must not exist.
        sink: for few kept rows, of a stage whose columns `kept_rows` can judge; else None.

    Raises:
        NotNativeError: the stage must be read whole, and why.
    """
    directory.mkdir(parents=True)
    try:
        task, measures = kernel_task(session, plan, directory)
        if on_one_executor(session):
            answer, found = _run(session, task, sink)
            if found is None and sink is not None and answer.given_up is None:
                found = _judged_apart(session, task, sink, sum(answer.kept))
            files = [[(kept_file(index), rows)] for index, rows in enumerate(answer.kept)]
        else:
            parts, found = spread(session, task, plan.name), None
            answer, files = parts.answer, [list(own) for own in parts.files]
        if answer.given_up is not None:
            raise NotNativeError(answer.given_up)
        check_pinned(plan, answer.read)
        scans = tuple(map(partial(_kept_scan, task), plan.scans, files))
        yield Narrowed(
            plan=replace(plan, scans=scans, where=None),
            answer=answer,
            all_rows=all_rows(plan, answer.filtered),
            measures=measures,
            judged=found,
        )
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def on_one_executor(session: SparkSession) -> bool:
    """One task may then have every core that Spark has."""
    return str(session.sparkContext.master).startswith("local")


def check_pinned(plan: StagePlan, read: Sequence[int]) -> None:
    """The files still stand as they were pinned, and every row of each source was read.

    Raises:
        NotNativeError: they do not, or not every row was.
    """
    for scan, rows in zip(plan.scans, read, strict=True):
        files_of(scan)
        if rows != pinned_rows(scan, rows):
            raise NotNativeError(f"{rows} rows of {scan.source} were read, others were pinned")


def all_rows(plan: StagePlan, filtered: Sequence[int]) -> tuple[int, ...]:
    """Rows of each source behind its filter, also those that it kept to itself."""
    return tuple(
        rows
        if scan.extract is None or scan.extract.source_rows is None
        else scan.extract.source_rows
        for scan, rows in zip(plan.scans, filtered, strict=True)
    )


def kernel_task(
    session: SparkSession, plan: StagePlan, directory: Path
) -> tuple[KernelTask, tuple[int, ...]]:
    """The work item, with new salts and weights, and the measures it adds up."""
    # Any salt makes another hash; a short one leaves short texts in DuckDB's own twelve bytes.
    sources = native_sources(plan, salt=secrets.token_hex(1))
    most = max(source.rows for source in sources)
    added = [at for at, measure in enumerate(plan.measures) if measure.has_total]
    forced = plan.strategy.requested is Strategy.NARROW
    first, second, third = (secrets.randbits(_SALT_BITS) for _ in range(3))
    task = KernelTask(
        sources=sources,
        totals=tuple(added),
        salts=(first, second, third),
        weights=weights_for(len(sources), [secrets.randbits(64) for _ in sources]),
        bucket_bits=min(MAX_BUCKET_BITS, max(_BUCKET_BITS, most.bit_length())),
        directory=str(directory),
        threads=session.sparkContext.defaultParallelism,
        memory_bytes=kernel_memory(session),
        spill_bytes=plan.effort.spill,
        alike=are_alike(plan, sources),
        most_open=None if forced else MOST_OPEN,
    )
    return task, tuple(plan.measures[at].index for at in added)


def are_alike(plan: StagePlan, sources: Sequence[KernelSource]) -> bool:
    """Pins say that all sources have the same files, and the stage asks all of them the same."""
    if any(scan.extract is not None or not isinstance(scan.pin, FileList) for scan in plan.scans):
        return False
    listed = [scan.pin.files for scan in plan.scans if isinstance(scan.pin, FileList)]
    hashes = {tuple(sorted(file.sha256 or "" for file in files)) for files in listed}
    asked = {replace(source, files=()) for source in sources}
    return len(hashes) == 1 and "" not in hashes.pop() and len(asked) == 1


def kernel_memory(session: SparkSession) -> int:
    """Bytes for the kernel: its share of a run's memory, by the heap's."""
    # One setting at a time: the context's own conf is copied whole, key by key.
    conf = session.conf
    written = conf.get("spark.executor.memory", None) or conf.get("spark.driver.memory", None) or ""
    size, unit = written[:-1], written[-1:].lower()
    heap = int(size) * _UNITS[unit] if size.isdigit() and unit in _UNITS else _DEFAULT_HEAP
    return int(heap * _KERNEL_OF_HEAP)


def _run(
    session: SparkSession, task: KernelTask, sink: SinkPlan | None
) -> tuple[KernelAnswer, Judged | None]:
    """One task, so that the kernel has every core of the executor."""
    if min(source.rows for source in task.sources) > MAX_ROWS:
        raise NotNativeError(f"more than {MAX_ROWS:,} rows in every source")
    once = session.range(0, 1, 1, numPartitions=1)
    step = _step(task, sink, kept_rows.MOST_KEPT)
    (row,) = once.mapInArrow(step, "answer STRING, judged STRING").collect()
    found = row["judged"]
    return read_answer(row["answer"]), None if found is None else read_judged(found)


def _step(
    task: KernelTask, sink: SinkPlan | None, most: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            answer, found = narrow(task), None
            if sink is not None and answer.given_up is None and sum(answer.kept) <= most:
                found = judged(task, sink, attempt_name())
            told = (answer.written(), None if found is None else found.written())
            yield pa.RecordBatch.from_arrays(
                [pa.array([each], pa.string()) for each in told], ["answer", "judged"]
            )

    return step


def _judged_apart(
    session: SparkSession, task: KernelTask, sink: SinkPlan, kept: int
) -> Judged | None:
    """Kept rows judged in as many tasks as there are cores, each with its share of the keys."""
    parts = task.threads
    if kept > kept_rows.MOST_APART or not sink.layout.keys:
        return None
    each = replace(
        task,
        threads=1,
        memory_bytes=task.memory_bytes // parts,
        spill_bytes=task.spill_bytes // parts,
    )
    shares = session.range(0, parts, 1, numPartitions=parts)
    answers = shares.mapInArrow(_share_step(each, sink, parts), "judged STRING").collect()
    if any(row["judged"] is None for row in answers):
        return None
    whole, *others = (read_judged(row["judged"]) for row in answers)
    for other in others:
        whole.add(other)
    return whole


def _share_step(
    task: KernelTask, sink: SinkPlan, parts: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column("id").to_pylist():
                found = judged(task, sink, attempt_name(), KeyShare(at, parts))
                told = None if found is None else found.written()
                yield pa.RecordBatch.from_arrays([pa.array([told], pa.string())], ["judged"])

    return step


def _kept_scan(task: KernelTask, scan: Scan, files: Sequence[KeptFile]) -> Scan:
    """The kept rows as an extract of the columns that the stage compares."""
    wanted = {column.name for column in task.sources[scan.index].columns}
    root = Path(task.directory)
    pinned = tuple(
        PinnedFile(path=name, size_bytes=(root / name).stat().st_size, rows=rows)
        for name, rows in files
    )
    extract = Extract(
        root=task.directory,
        files=pinned,
        rows=sum(rows for _, rows in files),
        decoded_bytes=sum(file.size_bytes for file in pinned),
    )
    columns = tuple(column for column in scan.columns if column.name in wanted)
    return replace(scan, columns=columns, extract=extract)
