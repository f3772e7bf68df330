"""Strategy `narrow`, forced wherever it is allowed, gives the oracle's numbers digit by digit.

Shapes are drawn until the planner narrows them, from a fixed stream, so every run asks the same
questions. The engine may fall back only where totals need more than 38 digits.
"""

from itertools import product

import pytest

from datarecs_core.comparison.translating import Invalid
from datarecs_core.jobs.vocabulary import Strategy
from datarecs_runtime.environment import process_environment
from datarecs_spark import kept_rows, narrowing
from datarecs_spark.session import SparkRuntime
from datarecs_testing.comparisons import a_measure, compare, rows_by
from datarecs_testing.finished_runs import MemoryBench
from datarecs_testing.narrowing import a_narrowed_case, narrowed, numbers
from datarecs_testing.spark import SparkBench
from datarecs_testing.tables import a_job, pair

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SHAPES = int(process_environment().get("DATARECS_TEST_SHAPES", "2"))
SETS = 50
NONE = -1


@pytest.fixture(scope="module")
def bench(spark_runtime: SparkRuntime, tmp_path_factory: pytest.TempPathFactory) -> SparkBench:
    return SparkBench(spark_runtime, tmp_path_factory.mktemp("narrow"))


@pytest.mark.case("P60")
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("way", "seed"),
    [
        *product(["in the task", "in a few tasks"], range(SHAPES)),
        *product(["by Spark", "in many tasks"], range(SHAPES // 2)),
    ],
)
def test_narrow_and_the_oracle_agree_on_every_number(
    bench: SparkBench, way: str, seed: int, *, strict: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way in {"in a few tasks", "by Spark"}:
        monkeypatch.setattr(kept_rows, "MOST_KEPT", NONE)
    if way == "by Spark":
        monkeypatch.setattr(kept_rows, "MOST_APART", NONE)
    if way == "in many tasks":
        monkeypatch.setattr(narrowing, "on_one_executor", lambda _: False)
    case = a_narrowed_case(seed, strict=strict, sets=SETS)
    job = narrowed(case.job)
    expected = compare(MemoryBench(), case.job, case.tables)
    found = compare(bench, job, case.tables)
    used = found.results("stage").strategy
    assert used is not None
    assert used.chosen is Strategy.NARROW or "OutOfRange" in used.rejected[0][1]
    assert found.stored == expected.stored
    assert numbers(found.results("stage")) == numbers(expected.results("stage"))
    assert found.warnings == expected.warnings


def test_bytes_that_only_spark_can_name_make_a_forced_narrow_full(bench: SparkBench) -> None:
    """The same broken bytes in both sources are INVALID twice and never equal."""
    tables = pair("k int, v text", [(1, Invalid(b"\xff")), (2, "a")], [(1, "b"), (2, "a")])
    job = narrowed(a_job(tables, rows_by("k", a_measure("v"))))
    found = compare(bench, job, tables).results("rows")
    assert found.strategy is not None
    assert found.strategy.chosen is Strategy.FULL
    assert found.strategy.rejected[0] == (
        Strategy.NARROW,
        "the kernel cannot read it (ComputeError)",
    )
    assert found.counts.invalid_values_by_source == (1, 0)
