"""The Engine port on Spark: tasks read and compare with the kernel, Spark schedules them.

Each step is a module; this one connects them and converts the counts of tasks to StageResults. It
contains no rules of comparison.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from datarecs_application.ports.comparing import Explanation, Progress
from datarecs_core.comparison.expressions.condition import named_columns
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.results.results import StageResults
from datarecs_core.errors.run import RunDetail
from datarecs_core.jobs.types import TypeKind
from datarecs_kernel.database import Resources, connected
from datarecs_kernel.layout import Field, Layout, check_covered, layout_of
from datarecs_kernel.pinned_rows import all_rows, check_pinned
from datarecs_kernel.readings import Reading, Rechecks, columns_of, read_sources
from datarecs_kernel.results import stage_results
from datarecs_kernel.scopes import group_files, list_keys
from datarecs_kernel.settling import SinkPlan, settle
from datarecs_kernel.sharing import shares_of
from datarecs_kernel.spellings import spelled_sources, write_raw_keys
from datarecs_kernel.stages import StageAnswer
from datarecs_spark.accepting import accepted, attempts_of, fresh
from datarecs_spark.cancelling import Cancellation
from datarecs_spark.errors import ComparisonFailedError, SparkFailure, translated
from datarecs_spark.explaining import explained
from datarecs_spark.partitions import compare_partitions
from datarecs_spark.progressing import RowProgress
from datarecs_spark.reading_tasks import (
    Work,
    compare_at_once,
    count_shares,
    seal_shares,
    spell_shares,
)
from datarecs_spark.resources import cores_of_one, kernel_memory, on_one_executor
from datarecs_spark.row_counts import rows_counted
from datarecs_spark.spilling import SpillGuard
from datarecs_spark.task_failures import InvalidTextsError
from datarecs_spark.watching import Watch

SMALL_ROWS = 1_000_000
"""Rows below which a stage has two partitions."""
_TASKS_PER_CORE = 2
"""Tasks that read, per core."""
_SCOPES, _SPILLED = "scopes", "spilled"


class SparkEngine:
    """The engine of one run; it stores the keys of groups that differ for later stages.

    Args:
        session: used only by this run.
        key: the tenant's key for break ids, hashes and masks.
        directory: differences go to `<directory>/<stage>/part-*.parquet`.
        cancellation: checked before and after every action.
    """

    def __init__(
        self,
        session: SparkSession,
        *,
        key: bytes,
        directory: Path,
        cancellation: Cancellation,
    ) -> None:
        self._session, self._key, self._directory = session, key, directory
        self._cancellation = cancellation
        self._row_progress = RowProgress(expected=0, report=_unheard)
        """Progress of the current stage."""
        self._passes: dict[str, int] = {}
        """The number of rechecks in the latest pass of each stage."""
        self._key_fields: dict[str, tuple[Field, ...]] = {}
        """The layout of the keys of groups that differ, per stage."""

    def compare(self, plan: StagePlan, progress: Callable[[Progress], None]) -> StageResults:
        """Run one stage.

        Raises:
            NotCoveredError: the engine does not support a field of the stage; nothing was read.
            SourceFailedError: a source cannot be read at its pin.
            ValueTooLargeError: a value of a dimension or measure is above its limit.
            KeyTooLargeError: a key is above its limit.
            SumOverflowError: a sum needs more than 38 digits.
            DuplicateKeysError: repeated keys with `duplicates: error`.
            CancelledError: the run was cancelled.
            ComparisonFailedError: another failure of Spark, or more disk than the job allows.
        """
        check_covered(plan)
        self._cancellation.name_jobs()
        self._row_progress = row_progress = _progress_of(plan, progress)
        try:
            with Watch([self._spill(plan), row_progress]):
                results = self._compare(plan)
        except SparkFailure as cause:
            self._cancellation.check()
            raise translated(cause, plan.name) from cause
        self._cancellation.check()
        counts = results.counts
        progress(
            Progress(
                stage=plan.name,
                row_count=max(row_progress.rows, sum(counts.source_row_counts)),
                mismatch_count=counts.rows_unmatched,
            )
        )
        return results

    def explain(self, plan: StagePlan) -> Explanation:
        """Describe how the stage would be compared; reads footers of files, no row."""
        check_covered(plan)
        reading = self._reading(plan, check_texts=False)
        layout = layout_of(plan, columns_of(_read_footers(reading, self._resources(plan))))
        return explained(layout, None if self._reads_at_once(plan) else self._partitions(plan))

    def differing(self, stage: str, most: int) -> Sequence[Sequence[str | None]] | None:
        """Keys of the groups that differed in a stage, as canonical text, up to a limit.

        None above the limit, and if a key has no canonical form.
        """
        return list_keys(self._differing(stage), self._key_fields[stage], most)

    def _partitions(self, stage: StagePlan) -> int:
        """The number of partitions: as declared in the job, or by the rows of the stage."""
        rows = _expected_rows(stage)
        expected = 2 if rows < SMALL_ROWS else max(2 * self._cores, rows // SMALL_ROWS)
        return stage.effort.partitions or expected

    @property
    def _cores(self) -> int:
        return self._session.sparkContext.defaultParallelism

    def _spill(self, plan: StagePlan) -> SpillGuard:
        """End the run if intermediate data use more disk than the job allows.

        Local data of executors on other machines is not measured.
        """
        limit = plan.effort.spill
        message = f"intermediate data use more than {limit} bytes of disk (execution.spill)"
        failure = ComparisonFailedError(RunDetail.SPILL_EXHAUSTED, plan.name, message)
        folders = [self._directory / _SPILLED]
        if on_one_executor(self._session):
            scratch = self._session.conf.get("spark.local.dir", None)
            folders += [Path(scratch)] if scratch else []
        return SpillGuard(folders, limit=limit, exceeded=lambda: self._cancellation.cancel(failure))

    def _compare(self, plan: StagePlan) -> StageResults:
        try:
            return self._pass(plan, check_texts=_must_check_texts(plan))
        except InvalidTextsError:
            self._cancellation.check()
            return self._pass(plan, check_texts=True)

    def _reads_at_once(self, plan: StagePlan) -> bool:
        """Whether one task does everything: it has all cores, or nothing is read."""
        return on_one_executor(self._session) or plan.catalogue is not None

    def _pass(self, plan: StagePlan, *, check_texts: bool) -> StageResults:
        """One pass over the rows of the plan.

        Raises:
            InvalidTextsError: the pass must be repeated with `check_texts`.
        """
        resources, reading = self._resources(plan), self._reading(plan, check_texts=check_texts)
        self._row_progress.reads(partial(rows_counted, Path(resources.directory)))
        rechecks = _read_footers(reading, resources)
        columns, at_once = columns_of(rechecks), self._reads_at_once(plan)
        work = Work(
            sink=self._sink(layout_of(plan, columns)),
            reading=reading,
            columns=columns,
            resources=resources,
            shares=(None,) if at_once else shares_of(rechecks, _TASKS_PER_CORE * self._cores),
        )
        answer, counts = self._answer(work)
        _check_rows(answer, counts, rechecks)
        return self._store(work, answer)

    def _answer(self, work: Work) -> tuple[StageAnswer, list[int] | None]:
        """The counts of the tasks, and rows before conditions if there are conditions."""
        plan = work.layout.stage
        if self._reads_at_once(plan):
            return compare_at_once(self._session, work)
        answer = compare_partitions(self._session, work, self._partitions(plan))
        if plan.seal_rows and plan.pairs_rows:
            answer.counted.sealed = seal_shares(self._session, work)
        return answer, count_shares(self._session, work) if work.reading.is_limited else None

    def _reading(self, plan: StagePlan, *, check_texts: bool) -> Reading:
        scope = None if plan.scope is None else self._differing(plan.scope.from_stage)
        before = (self._scopes(plan.name, number) for number in range(len(plan.rechecks)))
        return Reading(
            plan=plan,
            key=self._key,
            check_texts=check_texts,
            scope_files=() if scope is None else group_files(scope),
            recheck_files=tuple(map(group_files, before)),
        )

    def _resources(self, plan: StagePlan) -> Resources:
        """Resources of the single task, or of one of the concurrent tasks of an executor."""
        alone = self._reads_at_once(plan) and on_one_executor(self._session)
        at_a_time = 1 if alone else cores_of_one(self._session)
        return Resources(
            directory=str(fresh(self._directory / _SPILLED)),
            threads=self._cores if alone else 1,
            memory_bytes=kernel_memory(self._session) // at_a_time,
            spill_bytes=max(plan.effort.spill // at_a_time, 1),
        )

    def _sink(self, layout: Layout) -> SinkPlan:
        """Empty folders for the files of the tasks of a pass."""
        plan = layout.stage
        self._passes[plan.name] = number = len(plan.rechecks)
        self._key_fields[plan.name] = layout.keys
        scope = self._scopes(plan.name, number) if plan.stores_scope else None
        return SinkPlan(
            layout=layout,
            key=self._key,
            directory=str(fresh(attempts_of(self._directory / plan.name))),
            scope_directory=None if scope is None else str(fresh(attempts_of(scope))),
        )

    def _store(self, work: Work, answer: StageAnswer) -> StageResults:
        """The counts of a pass as results; its files are accepted."""
        sink, plan, counted = work.sink, work.layout.stage, answer.counted
        if plan.stores_scope:
            scope = self._scopes(plan.name, len(plan.rechecks))
            accepted(plan.name, counted.scope_parts, scope)
        counted = settle(sink, counted)
        if counted.parts and spelled_sources(plan):
            files = spell_shares(self._session, work, counted.parts)
            with connected(work.resources) as connection:
                counted = write_raw_keys(connection, sink, counted, files, "spelled")
        location = accepted(plan.name, counted.parts, self._directory / plan.name)
        results = stage_results(work.layout, counted, answer.tallies, str(location))
        return replace(results, strategy=plan.strategy)

    def _scopes(self, stage: str, number: int) -> Path:
        """The folder with the keys that differed after a number of rechecks of a stage."""
        return self._directory / _SCOPES / stage / str(number)

    def _differing(self, stage: str) -> Path:
        """The same folder for the stage's latest pass."""
        return self._scopes(stage, self._passes.get(stage, 0))


def _unheard(_rows: int) -> None:
    """Nothing is reported before the first stage."""


def _progress_of(plan: StagePlan, progress: Callable[[Progress], None]) -> RowProgress:
    """Report rows that were read; mismatches are 0 until they are final."""
    return RowProgress(
        expected=_expected_rows(plan),
        report=lambda rows: progress(Progress(stage=plan.name, row_count=rows)),
    )


def _expected_rows(stage: StagePlan) -> int:
    rows = 0
    for scan in stage.scans:
        place = scan.extract or scan.pin
        rows += sum(file.rows or 0 for file in getattr(place, "files", ()))
    return rows


def _read_footers(reading: Reading, resources: Resources) -> Rechecks:
    """The sources at each recheck; reads footers of files."""
    with connected(resources) as connection:
        return read_sources(connection, reading)


def _check_rows(answer: StageAnswer, counts: Sequence[int] | None, rechecks: Rechecks) -> None:
    """Check that every source returned the pinned number of rows, and store these numbers.

    Raises:
        SourceFailedError: a source has another number of rows.
    """
    is_first = len(rechecks) == 1
    for index, (tally, source) in enumerate(zip(answer.tallies, rechecks[0], strict=True)):
        rows = tally.passed if counts is None else counts[index]
        check_pinned(source.scan, source.pinned_rows if is_first else None, rows)
        tally.extracted = all_rows(source.scan, rows)


def _must_check_texts(plan: StagePlan) -> bool:
    """Whether a condition names a text column of a source's files.

    A text that is not UTF-8 makes the condition unknown and keeps its row; DuckDB would skip it
    if statistics of the file exclude that any text meets the condition.
    """
    stage_wide = [plan.where, plan.scope.where if plan.scope is not None else None]
    for scan in (scan for scans in (plan.scans, *plan.rechecks) for scan in scans):
        if scan.extract is not None:
            continue
        texts = {each.name for each in scan.columns if each.type.kind is TypeKind.TEXT}
        delivered_texts = {
            each.name for each in scan.schema.columns if each.type.kind is TypeKind.TEXT
        }
        named = [(each, texts) for each in stage_wide]
        named.append((scan.filter, delivered_texts))
        if any(where is not None and known & set(named_columns(where)) for where, known in named):
            return True
    return False
