"""The engine of a comparison on one machine: whichever is expected to answer sooner."""

from collections.abc import Sequence

import pytest

from datarecs_core.comparison.planning.engine_cost import (
    SPARK_START_S,
    EngineDecision,
    EngineName,
    OracleLimits,
    choose_engine,
    memory_of,
)
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.jobs.definition import Execution, Stage
from datarecs_core.jobs.vocabulary import Strategy
from datarecs_testing.comparisons import a_measure, counting, rows_by
from datarecs_testing.tables import a_job, pair, plan_of

MEASURES = [f"m{number}" for number in range(9)]
LIMITS = OracleLimits(rows=100_000, memory_bytes=2**30)


def a_plan(*stages: Stage, strategy: Strategy = Strategy.AUTO) -> ComparisonPlan:
    """Two sources of ten columns."""
    columns = ", ".join(f"{name} int" for name in ["k", *MEASURES])
    tables = pair(columns, [], [])
    wanted = stages or (rows_by("k", *map(a_measure, MEASURES)),)
    return plan_of(a_job(tables, *wanted, execution=Execution(strategy=strategy)), tables)


def decided(
    plan: ComparisonPlan, rows: Sequence[int | None], limits: OracleLimits = LIMITS
) -> EngineDecision:
    return choose_engine(plan, lambda scan: rows[scan.index], limits)


@pytest.mark.parametrize(
    ("rows", "engine"),
    [(14_000, EngineName.REFERENCE), (40_000, EngineName.REFERENCE), (45_000, EngineName.SPARK)],
)
def test_ten_columns_go_to_the_oracle_until_spark_would_have_started(
    rows: int, engine: EngineName
) -> None:
    decision = decided(a_plan(), (rows, rows))
    assert decision.engine is engine
    assert decision.oracle_s is not None
    assert (decision.oracle_s <= SPARK_START_S) is (engine is EngineName.REFERENCE)


def test_the_reason_names_the_estimate_and_what_it_is_compared_with() -> None:
    reason = decided(a_plan(), (14_000, 14_000)).reason
    assert reason == "about 1.4 s in memory, Spark alone starts in 4 s"
    assert (
        decided(a_plan(), (90_000, 90_000)).reason == "about 8.8 s in memory, Spark starts in 4 s"
    )


def test_every_stage_costs_its_rows_and_columns() -> None:
    rows = rows_by("k", *map(a_measure, MEASURES))
    one, two = (
        decided(a_plan(*stages), (5_000, 5_000)) for stages in ((rows,), (counting(), rows))
    )
    assert one.oracle_s is not None
    assert two.oracle_s is not None
    assert one.oracle_s < two.oracle_s < 2 * one.oracle_s


@pytest.mark.parametrize(
    ("rows", "limits", "strategy", "reason"),
    [
        ((1, None), LIMITS, Strategy.AUTO, "the rows of a source are not known"),
        ((1, 200_000), LIMITS, Strategy.AUTO, "a source has more than 100,000 rows"),
        ((9, 9), LIMITS, Strategy.NARROW, "`execution.strategy` names a strategy of Spark"),
        (
            (20_000, 20_000),
            OracleLimits(rows=100_000, memory_bytes=10**8),
            Strategy.AUTO,
            "in memory it needs more than 0.1 GiB",
        ),
    ],
)
def test_what_the_oracle_cannot_do_goes_to_spark_with_its_reason(
    rows: Sequence[int | None], limits: OracleLimits, strategy: Strategy, reason: str
) -> None:
    decision = decided(a_plan(strategy=strategy), rows, limits)
    assert decision.engine is EngineName.SPARK
    assert decision.reason.startswith(reason)


def test_rows_that_many_stages_read_are_in_memory_once() -> None:
    plans = (a_plan(), a_plan(counting(), rows_by("k", *map(a_measure, MEASURES))))
    one, two = (memory_of(plan, lambda _: 1_000) for plan in plans)
    assert one == two > 0
