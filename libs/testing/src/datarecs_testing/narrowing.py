"""Strategy `narrow` beside the others: questions that it may answer, and an engine asked twice.

Questions are drawn from fixed streams, so every run asks the same ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import shake_256
from itertools import count
from pathlib import Path

from datarecs_application.ports.comparing import Engine, Explanation, Progress
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.strategies import strategy_of
from datarecs_core.comparison.results.results import Difference, StageResults
from datarecs_core.documents import to_document
from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_core.jobs.vocabulary import StageType, Strategy
from datarecs_kernel.stored import read_differences
from datarecs_testing.strategies import (
    Choices,
    ComparisonCase,
    shape_from,
    tables_from,
    tagged,
)
from datarecs_testing.tables import plan_of

_STREAM_BYTES = 20_000


def a_narrowed_case(
    seed: int, *, strict: bool, sets: int, kind: StageType = StageType.ROW
) -> ComparisonCase:
    """The first shape of a stream that the planner narrows when asked to, with so many row sets."""
    return next(
        case
        for case in (_case(f"{seed} {strict} {attempt}", strict, sets) for attempt in count())
        if case.shape.stage.type is kind
        and plan_of(narrowed(case.job), case.tables).stages[0].strategy.chosen is Strategy.NARROW
    )


def _case(stream: str, strict: bool, sets: int) -> ComparisonCase:  # noqa: FBT001 - passed on
    choices = Choices(shake_256(stream.encode()).digest(_STREAM_BYTES))
    shape = shape_from(choices, strict=strict)
    return tagged(shape, [tables_from(choices, shape) for _ in range(sets)])


def narrowed(job: ReconciliationJob) -> ReconciliationJob:
    """The same job with the strategy forced."""
    return replace(job, execution=replace(job.execution, strategy=Strategy.NARROW))


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTwice:
    """Port Engine: every stage that may be narrowed is, too, and must have the same results."""

    planned: Engine
    forced: Engine

    def compare(self, plan: StagePlan, progress: Callable[[Progress], None]) -> StageResults:
        results = self.planned.compare(plan, progress)
        choice = strategy_of(plan, Strategy.NARROW)
        if choice.chosen is Strategy.NARROW:
            again = self.forced.compare(replace(plan, strategy=choice), lambda _: None)
            assert to_document(numbers(again)) == to_document(numbers(results))
            assert _stored(again) == _stored(results)
        return results

    def differing(self, stage: str, most: int) -> Sequence[Sequence[str | None]] | None:
        return self.planned.differing(stage, most)

    def explain(self, plan: StagePlan) -> Explanation:
        return self.planned.explain(plan)


def numbers(results: StageResults) -> StageResults:
    """Without where differences lie and how the work went."""
    plain = replace(results.differences, location=None)
    return replace(results, differences=plain, metrics=(), strategy=None)


def _stored(results: StageResults) -> Sequence[Difference]:
    rows = read_differences(Path(results.differences.location or ""))
    return sorted(rows, key=lambda row: row.break_id)
