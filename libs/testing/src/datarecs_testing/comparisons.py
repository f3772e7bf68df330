"""A whole comparison on some engine, from tables and a job to verdicts and differences.

The loop is the same as in a worker: skip or compare each stage in order, judge it, judge the run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, Protocol, cast

from datarecs_application.confirming import Again, confirmed
from datarecs_application.ports.comparing import Engine, Progress
from datarecs_core.comparison.planning.plan import ComparisonPlan, StagePlan
from datarecs_core.comparison.planning.scan import Scan
from datarecs_core.comparison.results.results import (
    Difference,
    MeasureResult,
    StageCounts,
    StageResults,
    Verdict,
)
from datarecs_core.comparison.results.verdict import (
    RunOutcome,
    StageOutcome,
    judge_run,
    judge_stage,
    skip_of,
)
from datarecs_core.jobs.definition import (
    EXACTLY,
    Dimension,
    Measure,
    ReconciliationJob,
    Stage,
    Tolerance,
)
from datarecs_core.jobs.vocabulary import StageType, ToleranceBase, ToleranceType
from datarecs_testing.tables import Table, plan_of


class EngineBench(Protocol):
    """The part that an engine's test provides: load tables, and read stored differences."""

    def prepare(
        self, plan: ComparisonPlan, tables: Sequence[Table]
    ) -> tuple[Engine, ComparisonPlan]:
        """An engine for one run, and the plan over scans it can read."""

    def differences(self, engine: Engine, results: StageResults) -> Sequence[Difference]:
        """The stored differences of a stage, in any order."""


class RecheckBench(EngineBench, Protocol):
    """The additional part for tests of rechecks."""

    def again(self, plan: ComparisonPlan, tables: Sequence[Table]) -> tuple[Scan, ...]:
        """The current tables, at newer pins, in scans that the same engine can read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A finished run."""

    plan: ComparisonPlan
    outcome: RunOutcome
    stored: dict[str, tuple[Difference, ...]]
    """By stage, in the order of break ids."""
    progress: tuple[Progress, ...]

    @property
    def verdict(self) -> Verdict:
        return self.outcome.verdict

    @property
    def warnings(self) -> list[str]:
        return [warning.code for warning in self.outcome.warnings]

    def stage(self, name: str | None = None) -> StageOutcome:
        """By name, or the only one."""
        if name is None:
            (only,) = self.outcome.stages
            return only
        return next(stage for stage in self.outcome.stages if stage.plan.name == name)

    def results(self, stage: str | None = None) -> StageResults:
        results = self.stage(stage).results
        assert results is not None
        return results

    def counts(self, stage: str | None = None) -> StageCounts:
        return self.results(stage).counts

    def measure(self, name: str, stage: str | None = None) -> MeasureResult:
        return next(each for each in self.results(stage).all_measures if each.name == name)

    def differences(self, measure: str | None = None) -> list[Difference]:
        """Of all stages, of one measure or of all."""
        rows = [row for stored in self.stored.values() for row in stored]
        return [row for row in rows if measure in (None, row.measure)]

    def classes(self) -> list[str]:
        """Of all stored differences, sorted."""
        return sorted(row.difference_class.value for row in self.differences())


@dataclass(frozen=True, slots=True)
class _Later(Again):
    """Later states of the tables, in order."""

    bench: RecheckBench
    plan: ComparisonPlan
    rechecks: Iterator[Sequence[Table]]

    def wait(self, stage: StagePlan, groups: int, length: timedelta) -> bool:  # noqa: ARG002  the port's form
        return False

    def recheck(self, stage: StagePlan) -> tuple[Scan, ...]:  # noqa: ARG002  the port's form
        return self.bench.again(self.plan, next(self.rechecks))


def compare(
    bench: EngineBench,
    job: ReconciliationJob,
    tables: Sequence[Table],
    *,
    later: Sequence[Sequence[Table]] = (),
) -> Compared:
    """Plan and run a job over tables; raises what planner, engine and judge raise.

    Args:
        bench: of an engine; a RecheckBench if there are later tables.
        job: to run.
        tables: in the order of the job's sources.
        later: the tables at each recheck of stages with `confirm`.
    """
    engine, plan = bench.prepare(plan_of(job, tables), tables)
    outcomes: list[StageOutcome] = []
    seen: list[Progress] = []
    stored: dict[str, tuple[Difference, ...]] = {}
    for stage in plan.stages:
        skipped = skip_of(stage, outcomes)
        if skipped is not None:
            outcomes.append(skipped)
            continue
        results = engine.compare(stage, seen.append)
        if later:
            again = _Later(cast("RecheckBench", bench), plan, iter(later))
            results = confirmed(
                stage, results, compare=lambda one: engine.compare(one, seen.append), again=again
            )
        rows = bench.differences(engine, results)
        stored[stage.name] = tuple(sorted(rows, key=lambda row: row.break_id))
        outcomes.append(judge_stage(stage, results))
    return Compared(
        plan=plan,
        outcome=judge_run(outcomes, plan.warnings),
        stored=stored,
        progress=tuple(seen),
    )


def absolute(limit: str) -> Tolerance:
    return Tolerance(type=ToleranceType.ABSOLUTE, value=Decimal(limit))


def percentage(limit: str, base: ToleranceBase = ToleranceBase.REFERENCE) -> Tolerance:
    return Tolerance(type=ToleranceType.PERCENTAGE, value=Decimal(limit), base=base)


def lasting(length: timedelta) -> Tolerance:
    return Tolerance(type=ToleranceType.DURATION, value=length)


def a_measure(name: str, *tolerances: Tolerance, **fields: Any) -> Measure:  # noqa: ANN401 - any field of Measure
    """EXACT unless tolerances are given."""
    return Measure(name=name, tolerances=tolerances or EXACTLY, **fields)


def _keys(keys: str) -> tuple[Dimension, ...]:
    return tuple(Dimension(name=name) for name in keys.split())


def rows_by(keys: str, *measures: Measure, **fields: Any) -> Stage:  # noqa: ANN401 - any field of Stage
    """A row stage named `rows` by blank-separated dimensions."""
    fields = {"name": "rows", **fields}
    return Stage(type=StageType.ROW, dimensions=_keys(keys), measures=measures, **fields)


def aggregate_by(keys: str, *measures: Measure, **fields: Any) -> Stage:  # noqa: ANN401 - any field of Stage
    """An aggregate stage named `groups` by blank-separated dimensions."""
    fields = {"name": "groups", **fields}
    return Stage(type=StageType.AGGREGATE, dimensions=_keys(keys), measures=measures, **fields)


def counting(**fields: Any) -> Stage:  # noqa: ANN401 - any field of Stage
    """A counts stage named `counts`."""
    return Stage(type=StageType.COUNTS, **{"name": "counts", **fields})


def comparing_columns(**fields: Any) -> Stage:  # noqa: ANN401 - any field of Stage
    """A schema stage named `shape`."""
    return Stage(type=StageType.SCHEMA, **{"name": "shape", **fields})


def digest_by(keys: str, *measures: Measure, **fields: Any) -> Stage:  # noqa: ANN401 - any field of Stage
    """A digest stage named `digests` by blank-separated dimensions; of every column by default."""
    fields = {"name": "digests", "measures": measures or "*", **fields}
    return Stage(type=StageType.DIGEST, dimensions=_keys(keys), **fields)
