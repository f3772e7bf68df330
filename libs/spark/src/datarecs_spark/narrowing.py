"""Strategy `narrow`: look only where sources may differ, then compare those rows as `full` does.

The kernel runs in one Spark task and leaves the rows of open buckets as Parquet. Where they are few
the same task judges them (`kept_rows`), else the exact part reads them like any extract; numbers of
closed buckets are added to what either counts. Sources must agree on what is closed, by counts and
totals that no hash took part in, else nothing is believed.
"""

import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from datarecs_core.comparison.plan import StagePlan
from datarecs_core.comparison.scan import Extract, PinnedFile, Scan
from datarecs_core.jobs.vocabulary import Strategy
from datarecs_core.values import EXACT
from datarecs_spark import kept_rows
from datarecs_spark.counted import Counted
from datarecs_spark.kept_rows import Judged, judged, read_judged
from datarecs_spark.kernel import (
    MAX_BUCKET_BITS,
    KernelAnswer,
    KernelTask,
    kept_file,
    narrow,
    read_answer,
    weights_for,
)
from datarecs_spark.native import native_sources
from datarecs_spark.native_errors import NotNativeError
from datarecs_spark.read import files_of, pinned_rows
from datarecs_spark.storing import SinkPlan, attempt_name
from datarecs_spark.tally import SourceTally

MOST_OPEN = 0.5
"""Share of rows in open buckets above which a second reading costs more than it saves."""
MAX_ROWS = 2**27
"""Of the smallest source, whose key hashes are kept: 1 GiB."""
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
    if not str(session.sparkContext.master).startswith("local"):
        raise NotNativeError("the kernel runs on one executor alone")
    directory.mkdir(parents=True)
    try:
        task, measures = kernel_task(session, plan, directory)
        answer, found = _run(session, task, sink)
        if answer.given_up is not None:
            raise NotNativeError(answer.given_up)
        _check_pinned(plan, answer)
        scans = tuple(_kept_scan(plan, scan, task, answer) for scan in plan.scans)
        yield Narrowed(
            plan=replace(plan, scans=scans, where=None),
            answer=answer,
            all_rows=_all_rows(plan, answer),
            measures=measures,
            judged=found,
        )
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _check_pinned(plan: StagePlan, answer: KernelAnswer) -> None:
    """The files still stand as they were pinned, and every row was read."""
    for scan, rows in zip(plan.scans, answer.read, strict=True):
        files_of(scan)
        if rows != pinned_rows(scan, rows):
            raise NotNativeError(f"{rows} rows of {scan.source} were read, others were pinned")


def _all_rows(plan: StagePlan, answer: KernelAnswer) -> tuple[int, ...]:
    """Rows of each source behind its filter, also those that it kept to itself."""
    return tuple(
        rows
        if scan.extract is None or scan.extract.source_rows is None
        else scan.extract.source_rows
        for scan, rows in zip(plan.scans, answer.filtered, strict=True)
    )


def kernel_task(
    session: SparkSession, plan: StagePlan, directory: Path
) -> tuple[KernelTask, tuple[int, ...]]:
    """The work item, with new salts and weights, and the measures it adds up."""
    sources = native_sources(plan, salt=secrets.token_hex(8))
    fewest, most = (choose(source.rows for source in sources) for choose in (min, max))
    if fewest > MAX_ROWS:
        raise NotNativeError(f"more than {MAX_ROWS:,} rows in every source")
    added = [at for at, measure in enumerate(plan.measures) if measure.has_total]
    forced = plan.strategy.requested is Strategy.NARROW
    first, second, third = (secrets.randbits(_SALT_BITS) for _ in range(3))
    task = KernelTask(
        sources=sources,
        totals=tuple(added),
        salts=(first, second, third),
        weights=weights_for(len(sources), [secrets.randbits(64) for _ in sources]),
        bucket_bits=min(MAX_BUCKET_BITS, max(1, (most - 1).bit_length())),
        directory=str(directory),
        threads=session.sparkContext.defaultParallelism,
        memory_bytes=int(_heap(session) * _KERNEL_OF_HEAP),
        most_open=None if forced else MOST_OPEN,
    )
    return task, tuple(plan.measures[at].index for at in added)


def _heap(session: SparkSession) -> int:
    written = session.sparkContext.getConf().get("spark.driver.memory") or ""
    size, unit = written[:-1], written[-1:].lower()
    return int(size) * _UNITS[unit] if size.isdigit() and unit in _UNITS else _DEFAULT_HEAP


def _run(
    session: SparkSession, task: KernelTask, sink: SinkPlan | None
) -> tuple[KernelAnswer, Judged | None]:
    """One task, so that the kernel has every core of the executor."""
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


def _kept_scan(plan: StagePlan, scan: Scan, task: KernelTask, answer: KernelAnswer) -> Scan:
    """The kept rows as an extract of the columns that the stage compares."""
    wanted = {column.name for column in task.sources[scan.index].columns}
    path = Path(task.directory) / kept_file(scan.index)
    size, rows = path.stat().st_size, answer.kept[scan.index]
    file = PinnedFile(path=path.name, size_bytes=size, rows=rows)
    extract = Extract(root=task.directory, files=(file,), rows=rows, decoded_bytes=size)
    columns = tuple(column for column in scan.columns if column.name in wanted)
    return replace(plan.scans[scan.index], columns=columns, extract=extract)
