"""The two ways to compare a stage: over files, and over Spark's partitions; both are checked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from datarecs_application.ports.comparing import Engine, Explanation, Progress
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.results import Difference, StageResults
from datarecs_core.documents import to_document
from datarecs_kernel.stored import read_differences
from datarecs_spark.cancelling import Cancellation
from datarecs_spark.engine import SparkEngine, SparkTasks
from datarecs_spark.session import SparkRuntime


class PartitionsTasks(SparkTasks):
    """Many tasks also for what one of them could answer."""

    def reads_at_once(self, plan: StagePlan) -> bool:
        return plan.catalogue is not None


class PartitionsEngine(SparkEngine):
    """Compares over Spark's partitions also what files alone could answer."""

    tasks_class = PartitionsTasks


def partitions_engine(runtime: SparkRuntime, directory: Path) -> PartitionsEngine:
    """For one run, which is not cancelled."""
    session = runtime.session()
    return PartitionsEngine(
        session,
        key=COMPARE_KEY,
        directory=directory,
        cancellation=Cancellation(session.sparkContext),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoWayEngine:
    """Port Engine: every stage is compared in both ways with equal results."""

    planned: Engine
    other: Engine

    def compare(self, plan: StagePlan, progress: Callable[[Progress], None]) -> StageResults:
        results = self.planned.compare(plan, progress)
        again = self.other.compare(plan, lambda _: None)
        assert to_document(numbers(again)) == to_document(numbers(results))
        assert _stored(again) == _stored(results)
        return results

    def differing(self, stage: str, most: int) -> Sequence[Sequence[str | None]] | None:
        return self.planned.differing(stage, most)

    def explain(self, plan: StagePlan) -> Explanation:
        return self.planned.explain(plan)


def numbers(results: StageResults) -> StageResults:
    """Results without locations of differences and statistics."""
    plain = replace(results.differences, location=None)
    return replace(results, differences=plain, metrics=(), strategy=None)


def _stored(results: StageResults) -> Sequence[Difference]:
    rows = read_differences(Path(results.differences.location or ""))
    return sorted(rows, key=lambda row: row.break_id)
