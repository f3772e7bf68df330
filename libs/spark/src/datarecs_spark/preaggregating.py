"""Strategy `narrow` of aggregate stages: add up natively by raw dimensions, then compare groups.

One Spark task, or on a cluster many (`group_spreading`), run DuckDB over the files
(`group_kernel`). Spark goes on with the groups as with those that a database gave (`pushed`),
unless one task has them all and could judge them. Numbers that do not
close, and every failure of the kernel, leave the stage to Spark's own readers.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.pushdown import groups_of
from datarecs_core.comparison.planning.scan import Extract, Groups, Partial, PinnedFile, Scan
from datarecs_core.jobs.definition import DEFAULT_EXECUTION
from datarecs_core.jobs.vocabulary import Function, Strategy
from datarecs_kernel.counted import Counted
from datarecs_kernel.layout import Layout, PlainColumns, Role, layout_of, total_form
from datarecs_kernel.storing import SinkPlan
from datarecs_kernel.tallies import SourceTally
from datarecs_spark import kept_rows
from datarecs_spark.group_kernel import (
    GroupAnswer,
    GroupTask,
    Total,
    grouped,
    groups_file,
    read_groups,
)
from datarecs_spark.group_spreading import GroupsFile, spread_groups
from datarecs_spark.kept_rows import Judged
from datarecs_spark.kernel_work import KernelSource, KernelTask, quoted
from datarecs_spark.narrowing import all_rows, check_pinned, kernel_memory, on_one_executor
from datarecs_spark.native import grouped_sources
from datarecs_spark.native_errors import NotNativeError
from datarecs_spark.sinking import attempt_name

MOST_GROUPS = 0.5
"""Share of all rows above which groups save too little."""
_RESERVED = "$"
_NEARLY = 0.9
"""Of the largest total that its form holds: sums of magnitudes are told as floats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preaggregated:
    """The stage over groups, and what is known of the rows behind them."""

    plan: StagePlan
    answer: GroupAnswer
    all_rows: tuple[int, ...]
    """Per source, before the stage's `where`."""
    judged: Judged | None

    @property
    def metrics(self) -> tuple[tuple[str, int], ...]:
        return (("groups_added_up", sum(self.answer.groups)),)

    def add_closed(self, counted: Counted, tallies: Sequence[SourceTally]) -> None:
        """Check that the groups that were compared hold the rows that were read.

        Raises:
            NotNativeError: they do not; nothing was changed.
        """
        del counted
        if self.answer.rows != tuple(tally.passed for tally in tallies):
            raise NotNativeError("the groups are not those of the rows that were read")
        for tally, rows in zip(tallies, self.all_rows, strict=True):
            tally.extracted = rows


@contextmanager
def preaggregated(
    session: SparkSession, plan: StagePlan, directory: Path, sink: SinkPlan | None
) -> Iterator[Preaggregated]:
    """Run the kernel; groups are gone afterwards.

    Args:
        session: of the run.
        plan: an aggregate or counts stage for which core chose `narrow`.
        directory: for groups and what spills; made here, must not exist.
        sink: of a stage that `judges_here`; else None.

    Raises:
        NotNativeError: the stage must be read whole, and why.
    """
    directory.mkdir(parents=True)
    try:
        room = Room(
            directory=str(directory),
            threads=session.sparkContext.defaultParallelism,
            memory_bytes=kernel_memory(session),
            spill_bytes=plan.effort.spill,
        )
        task = group_task(plan, room)
        if on_one_executor(session):
            answer = _run(session, task, sink)
            files = [[(groups_file(index), groups)] for index, groups in enumerate(answer.groups)]
        else:
            parts = spread_groups(session, task, plan.name)
            answer, files = parts.answer, [list(own) for own in parts.files]
        if answer.given_up is not None:
            raise NotNativeError(answer.given_up)
        check_pinned(plan, answer.read)
        judged = answer.of_groups
        found = all_rows(plan, answer.filtered)
        yield Preaggregated(
            plan=plan if judged else _over_groups(plan, directory, files, found),
            answer=answer,
            all_rows=found,
            judged=judged,
        )
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What the kernel may use."""

    directory: str
    threads: int
    memory_bytes: int
    spill_bytes: int = DEFAULT_EXECUTION.spill


def group_task(plan: StagePlan, room: Room) -> GroupTask:
    """The work item of a stage for which core chose `narrow`.

    Raises:
        NotNativeError: something in the files is not known to be safe.
    """
    sources = grouped_sources(plan)
    layout = layout_of(plan, [PlainColumns() for _ in plan.scans])
    forced = plan.strategy.requested is Strategy.NARROW
    return GroupTask(
        kernel=KernelTask(
            sources=sources,
            totals=(),
            salts=(0, 0, 0),
            weights=(),
            bucket_bits=1,
            directory=room.directory,
            threads=room.threads,
            memory_bytes=room.memory_bytes,
            spill_bytes=room.spill_bytes,
        ),
        numbers=tuple(
            tuple(_numbers(plan, scan, source))
            for scan, source in zip(plan.scans, sources, strict=True)
        ),
        totals=tuple(tuple(_totals(layout, scan)) for scan in plan.scans),
        most_judged=kept_rows.MOST_KEPT,
        most_groups=None if forced else MOST_GROUPS,
    )


def _check_named(groups: Groups) -> None:
    named = [*groups.dimensions, *(each.column for each in groups.partials)]
    if any(each.startswith(_RESERVED) for each in named):
        raise NotNativeError(f"a column whose name begins with {_RESERVED!r}")


def _numbers(plan: StagePlan, scan: Scan, source: KernelSource) -> Iterator[tuple[str, str]]:
    physical = {each.name: quoted(each.physical) for each in source.values}
    groups = groups_of(plan, scan.index)
    _check_named(groups)
    for partial in groups.partials:
        sql = f"{partial.function.value}({physical[partial.column]})"
        if partial.function is Function.SUM:
            scale = scan.column(partial.column).type.scale or 0
            sql = f"CAST({sql} AS DECIMAL(38,{scale}))"
        yield partial.name, sql


def _totals(layout: Layout, scan: Scan) -> Iterator[Total]:
    """No merging of groups passes what the form of a total holds, in whatever order."""
    for measure in layout.compared:
        plan, field = measure.plan.inputs[scan.index], measure.field
        if plan is None or field is None or field.role is not Role.AMOUNT:
            continue
        form = total_form(field.form)
        yield Total(
            name=Partial(function=Function.SUM, column=plan.column).name,
            most=_NEARLY * float(10 ** (form.precision - form.scale)),
        )


def _run(session: SparkSession, task: GroupTask, sink: SinkPlan | None) -> GroupAnswer:
    """One task, so that the kernel has every core of the executor."""
    once = session.range(0, 1, 1, numPartitions=1)
    (row,) = once.mapInArrow(_step(task, sink), "answer STRING").collect()
    return read_groups(row["answer"])


def _step(
    task: GroupTask, sink: SinkPlan | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            told = grouped(task, sink, attempt_name()).written()
            yield pa.RecordBatch.from_arrays([pa.array([told], pa.string())], ["answer"])

    return step


def _over_groups(
    plan: StagePlan,
    directory: Path,
    files: Sequence[Sequence[GroupsFile]],
    source_rows: Sequence[int],
) -> StagePlan:
    """The stage as if every source had given its groups; a group may come in several parts."""
    scans = []
    for scan, own, rows in zip(plan.scans, files, source_rows, strict=True):
        pinned = tuple(
            PinnedFile(path=name, size_bytes=(directory / name).stat().st_size, rows=groups)
            for name, groups in own
        )
        extract = Extract(
            root=str(directory),
            files=pinned,
            rows=sum(groups for _, groups in own),
            decoded_bytes=sum(file.size_bytes for file in pinned),
            source_rows=rows,
        )
        scans.append(replace(scan, groups=groups_of(plan, scan.index), extract=extract))
    return replace(plan, scans=tuple(scans), where=None)
