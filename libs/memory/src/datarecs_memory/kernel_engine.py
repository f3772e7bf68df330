"""The Engine port with the kernel in this process, for `datarecs compare` without Spark.

One task on a thread has the work of the single task of Spark on one machine, with the same code.
It has its own thread, so that a signal reaches the main thread, which interrupts the database.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Event, Thread

from datarecs_application.ports.comparing import Explanation, Progress
from datarecs_application.stopping import StoppedError
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.results.results import StageResults
from datarecs_core.errors.run import RunDetail
from datarecs_kernel.database import Connection, Resources, SpillLimitError
from datarecs_kernel.explaining import explained
from datarecs_kernel.layout import check_covered
from datarecs_kernel.progressing import RowProgress
from datarecs_kernel.reading_failures import DatabaseError
from datarecs_kernel.readings import Rechecks, Shares
from datarecs_kernel.refusals import ComparisonFailedError
from datarecs_kernel.stage_run import StageRun, expected_rows
from datarecs_kernel.stage_tasks import Act, Work, answer_of, body_of, comparing, read_comparison
from datarecs_kernel.stages import StageAnswer
from datarecs_kernel.watching import Watch

_INTERRUPT_AGAIN_S = 0.05
"""Pause between interrupts: an interrupt between two statements has no effect."""


class KernelTasks:
    """Tasks of one run in this process, one at a time.

    Args:
        threads: of the database.
        memory_bytes: of the database.
    """

    def __init__(self, *, threads: int, memory_bytes: int) -> None:
        self._threads, self._memory_bytes = threads, memory_bytes
        self._numbers = count()
        self._stopped = Event()
        self._connections: list[Connection] = []
        """The connection of the current task, if there is one."""

    def resources(self, plan: StagePlan, directory: str) -> Resources:
        return Resources(
            directory=directory,
            threads=self._threads,
            memory_bytes=self._memory_bytes,
            spill_bytes=max(plan.effort.spill, 1),
        )

    def shares(self, plan: StagePlan, rechecks: Rechecks) -> tuple[Shares | None, ...]:  # noqa: ARG002  the port's form
        return (None,)

    def compare(self, work: Work) -> tuple[StageAnswer, list[int] | None]:
        (body,) = self.run(work, comparing(work))
        return read_comparison(body)

    def run(self, work: Work, act: Act) -> list[str]:
        def stoppable(connection: Connection, rechecks: Rechecks, attempt: str) -> str:
            self._connections.append(connection)
            try:
                self.check_stop()
                return act(connection, rechecks, attempt)
            finally:
                self._connections.clear()

        answer = answer_of(work, 0, stoppable, f"{next(self._numbers):05d}")
        return [body_of(answer, work.layout)]

    def check_stop(self) -> None:
        """Raises StoppedError after `stop`."""
        if self._stopped.is_set():
            raise StoppedError

    def stop(self) -> None:
        """End the current task; safe from any thread, safe to repeat."""
        if not self._stopped.is_set():
            self._stopped.set()
            Thread(target=self._interrupt, name="interrupt", daemon=True).start()

    def _interrupt(self) -> None:
        pause = Event()
        while self._connections:
            with suppress(DatabaseError, IndexError):  # the task has ended
                self._connections[0].interrupt()
            pause.wait(_INTERRUPT_AGAIN_S)


class KernelEngine:
    """The engine of one run.

    Args:
        key: the tenant's key for break ids, hashes and masks.
        directory: differences go to `<directory>/<stage>/part-*.parquet`.
        threads: of the kernel.
        memory_bytes: of the kernel; more data spills to disk.
    """

    def __init__(self, *, key: bytes, directory: Path, threads: int, memory_bytes: int) -> None:
        self._tasks = KernelTasks(threads=threads, memory_bytes=memory_bytes)
        self._run = StageRun(key=key, directory=directory, tasks=self._tasks)

    def compare(self, plan: StagePlan, progress: Callable[[Progress], None]) -> StageResults:
        """Run one stage.

        Raises:
            DatarecsError: the same errors as the engine on Spark.
            OSError: intermediate data cannot be written.
        """
        check_covered(plan)
        row_progress = RowProgress(
            expected=expected_rows(plan),
            report=lambda rows: progress(Progress(stage=plan.name, row_count=rows)),
        )
        try:
            with Watch([row_progress]):
                results = self._on_a_thread(plan, row_progress)
        except (MemoryError, SpillLimitError, DatabaseError) as cause:
            raise _failed(cause, plan.name) from cause
        progress(
            Progress(
                stage=plan.name,
                row_count=max(row_progress.rows, sum(results.counts.source_row_counts)),
                mismatch_count=results.counts.rows_unmatched,
            )
        )
        return results

    def explain(self, plan: StagePlan) -> Explanation:
        """Describe how the stage would be compared; reads footers of files, no row."""
        check_covered(plan)
        return Explanation(stage=plan.name, text=explained(self._run.layout(plan)))

    def differing(self, stage: str, most: int) -> Sequence[Sequence[str | None]] | None:
        return self._run.differing(stage, most)

    def stop(self) -> None:
        """Stop the current stage; safe in a signal handler."""
        self._tasks.stop()

    def _on_a_thread(self, plan: StagePlan, row_progress: RowProgress) -> StageResults:
        with ThreadPoolExecutor(1, thread_name_prefix="kernel") as threads:
            comparing = threads.submit(self._run.compare, plan, row_progress)
            try:
                return comparing.result()
            except BaseException:
                # A signal while the thread works, or the error of the thread after it ended.
                if not comparing.done():
                    self.stop()
                raise


def _failed(cause: Exception, stage: str) -> ComparisonFailedError:
    """The same errors as on Spark; DuckDB's messages quote values."""
    match cause:
        case MemoryError():
            message = "the rows need more memory at once than the kernel has"
            return ComparisonFailedError(RunDetail.OUT_OF_MEMORY, stage, message)
        case SpillLimitError():
            return ComparisonFailedError(RunDetail.SPILL_EXHAUSTED, stage, str(cause))
        case _:
            message = f"the kernel could not compare it ({type(cause).__name__})"
            return ComparisonFailedError(RunDetail.COMPARISON_FAILED, stage, message)
