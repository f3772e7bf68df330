"""The Engine port on Spark: tasks read and compare with the kernel, Spark schedules them.

The kernel runs the stages (`StageRun`); this module decides where tasks run and translates the
failures of Spark. It contains no rules of comparison.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from pyspark.sql import SparkSession

from datarecs_application.ports.comparing import Explanation, Progress
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.results.results import StageResults
from datarecs_core.errors.run import RunDetail
from datarecs_kernel.database import Resources
from datarecs_kernel.explaining import explained
from datarecs_kernel.layout import check_covered
from datarecs_kernel.progressing import RowProgress
from datarecs_kernel.readings import Rechecks, Shares
from datarecs_kernel.refusals import ComparisonFailedError
from datarecs_kernel.sharing import shares_of
from datarecs_kernel.stage_run import StageRun, expected_rows
from datarecs_kernel.stage_tasks import Act, Work, comparing, read_comparison
from datarecs_kernel.stages import StageAnswer
from datarecs_kernel.watching import Watch
from datarecs_spark.cancelling import Cancellation
from datarecs_spark.errors import SparkFailure, translated
from datarecs_spark.partitions import compare_partitions
from datarecs_spark.reading_tasks import answers, count_shares, seal_shares
from datarecs_spark.resources import cores_of_one, kernel_memory, on_one_executor
from datarecs_spark.spilling import SpillGuard

SMALL_ROWS = 1_000_000
"""Rows below which a stage has two partitions."""
_TASKS_PER_CORE = 2
"""Tasks that read, per core."""


class SparkTasks:
    """Tasks of one run on Spark: one with all cores, or many on a cluster.

    Args:
        session: used only by this run.
        cancellation: checked between two passes.
    """

    def __init__(self, session: SparkSession, cancellation: Cancellation) -> None:
        self._session, self._cancellation = session, cancellation

    def reads_at_once(self, plan: StagePlan) -> bool:
        """Whether one task does everything: it has all cores, or nothing is read."""
        return on_one_executor(self._session) or plan.catalogue is not None

    def partitions(self, stage: StagePlan) -> int:
        """The number of partitions: as declared in the job, or by the rows of the stage."""
        rows = expected_rows(stage)
        expected = 2 if rows < SMALL_ROWS else max(2 * self._cores, rows // SMALL_ROWS)
        return stage.effort.partitions or expected

    def resources(self, plan: StagePlan, directory: str) -> Resources:
        """Resources of the single task, or of one of the concurrent tasks of an executor."""
        alone = self.reads_at_once(plan) and on_one_executor(self._session)
        at_a_time = 1 if alone else cores_of_one(self._session)
        return Resources(
            directory=directory,
            threads=self._cores if alone else 1,
            memory_bytes=kernel_memory(self._session) // at_a_time,
            spill_bytes=max(plan.effort.spill // at_a_time, 1),
        )

    def shares(self, plan: StagePlan, rechecks: Rechecks) -> tuple[Shares | None, ...]:
        if self.reads_at_once(plan):
            return (None,)
        return shares_of(rechecks, _TASKS_PER_CORE * self._cores)

    def compare(self, work: Work) -> tuple[StageAnswer, list[int] | None]:
        plan = work.layout.stage
        if self.reads_at_once(plan):
            (body,) = self.run(work, comparing(work))
            return read_comparison(body)
        answer = compare_partitions(self._session, work, self.partitions(plan))
        if plan.seal_rows and plan.pairs_rows:
            answer.counted.sealed = seal_shares(self._session, work)
        return answer, count_shares(self._session, work) if work.reading.is_limited else None

    def run(self, work: Work, act: Act) -> list[str]:
        return answers(self._session, work, act)

    def check_stop(self) -> None:
        self._cancellation.check()

    @property
    def _cores(self) -> int:
        return self._session.sparkContext.defaultParallelism


class SparkEngine:
    """The engine of one run.

    Args:
        session: used only by this run.
        key: the tenant's key for break ids, hashes and masks.
        directory: differences go to `<directory>/<stage>/part-*.parquet`.
        cancellation: checked before and after every action.
    """

    tasks_class: ClassVar[type[SparkTasks]] = SparkTasks

    def __init__(
        self,
        session: SparkSession,
        *,
        key: bytes,
        directory: Path,
        cancellation: Cancellation,
    ) -> None:
        self._session, self._cancellation = session, cancellation
        self._tasks = self.tasks_class(session, cancellation)
        self._run = StageRun(key=key, directory=directory, tasks=self._tasks)

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
        row_progress = RowProgress(
            expected=expected_rows(plan),
            report=lambda rows: progress(Progress(stage=plan.name, row_count=rows)),
        )
        try:
            with Watch([self._spill(plan), row_progress]):
                results = self._run.compare(plan, row_progress)
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
        layout = self._run.layout(plan)
        if self._tasks.reads_at_once(plan):
            return Explanation(stage=plan.name, text=explained(layout))
        way = f"many tasks read, {self._tasks.partitions(plan)} tasks compare"
        return Explanation(stage=plan.name, text=explained(layout, way))

    def differing(self, stage: str, most: int) -> Sequence[Sequence[str | None]] | None:
        """Keys of the groups that differed in a stage, as canonical text, up to a limit.

        None above the limit, and if a key has no canonical form.
        """
        return self._run.differing(stage, most)

    def _spill(self, plan: StagePlan) -> SpillGuard:
        """End the run if intermediate data use more disk than the job allows.

        Local data of executors on other machines is not measured.
        """
        limit = plan.effort.spill
        message = (
            f"intermediate data use more than {limit} bytes of disk (execution.spill; on a worker "
            "at most DATARECS_WORKER__MAX_SPILL_MB)"
        )
        failure = ComparisonFailedError(RunDetail.SPILL_EXHAUSTED, plan.name, message)
        folders = [self._run.spilled]
        if on_one_executor(self._session):
            scratch = self._session.conf.get("spark.local.dir", None)
            folders += [Path(scratch)] if scratch else []
        return SpillGuard(folders, limit=limit, exceeded=lambda: self._cancellation.cancel(failure))
