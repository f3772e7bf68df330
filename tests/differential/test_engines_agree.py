"""Spark and the oracle return the same digits for the same jobs and rows.

A shape is one job; an extra dimension distinguishes its many row sets, so one Spark action answers
all of them. A failure shrinks to a job and rows that the oracle can run alone.
"""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, assume, given, note, settings

from datarecs_core.comparison.results.results import Difference, StageResults
from datarecs_core.errors.base import DatarecsError
from datarecs_core.jobs.vocabulary import StageType
from datarecs_kernel.refusals import NotCoveredError
from datarecs_runtime.environment import process_environment
from datarecs_spark.session import SparkRuntime
from datarecs_testing.comparisons import Compared, EngineBench, compare
from datarecs_testing.finished_runs import MemoryBench
from datarecs_testing.spark import SparkBench
from datarecs_testing.strategies import ComparisonCase, SchemaCase, schema_cases, tagged_cases

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SHAPES = int(process_environment().get("DATARECS_TEST_SHAPES", "20"))
"""Examples of each kind; `make differential` runs more."""
SETS = 50
cheap = settings(
    max_examples=SHAPES,
    deadline=None,
    derandomize=True,  # the same jobs every time; other seeds are run by hand
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)

few = settings(cheap, max_examples=SHAPES // 4)
"""For slow jobs; more are run by hand."""


@pytest.fixture(scope="module")
def spark_bench(
    spark_runtime: SparkRuntime, tmp_path_factory: pytest.TempPathFactory
) -> EngineBench:
    return SparkBench(runtime=spark_runtime, folder=tmp_path_factory.mktemp("differential"))


@cheap
@given(case=tagged_cases(strict=True, sets=SETS))
def test_every_strict_question_has_one_answer(
    spark_bench: EngineBench, case: ComparisonCase
) -> None:
    """Types, NULLs, duplicates, functions, tolerances and N sources under the default rules."""
    agree(spark_bench, case)


@cheap
@given(case=tagged_cases(sets=SETS))
def test_every_relaxed_question_has_one_answer(
    spark_bench: EngineBench, case: ComparisonCase
) -> None:
    """The same with every rule, bound, base, policy and way of comparing."""
    agree(spark_bench, case)


@few
@given(case=tagged_cases(sets=SETS, kinds=[StageType.DIGEST]))
def test_every_digest_has_the_same_bytes(spark_bench: EngineBench, case: ComparisonCase) -> None:
    """Fingerprints over every type, rule, NULL and number of sources."""
    agree(spark_bench, case)


@few
@given(case=schema_cases())
def test_every_schema_has_one_answer(spark_bench: EngineBench, case: SchemaCase) -> None:
    """Every mode, order, nullability, ignored columns and equivalences."""
    agree(spark_bench, case)


def agree(spark_bench: EngineBench, case: ComparisonCase | SchemaCase) -> None:
    """Run both engines; fail with the first part of the answers that differs."""
    expected = _answer(MemoryBench(), case)
    result = _answer(spark_bench, case)
    assume(not isinstance(result, NotCoveredError))
    if isinstance(expected, DatarecsError) or isinstance(result, DatarecsError):
        assert _describe(result) == _describe(expected)
        return
    for stage in expected.stored:
        note(f"{case.job.stages}\n{case.job.normalize}")
        assert result.stored[stage] == expected.stored[stage]
        assert _written(result.stored[stage]) == _written(expected.stored[stage])
        assert _written(_samples(result, stage)) == _written(_samples(expected, stage))
        assert _numbers(result.results(stage)) == _numbers(expected.results(stage))
    assert result.outcome.verdict is expected.outcome.verdict
    assert result.warnings == expected.warnings


def _answer(bench: EngineBench, case: ComparisonCase | SchemaCase) -> Compared | DatarecsError:
    try:
        return compare(bench, case.job, case.tables)
    except DatarecsError as refusal:
        return refusal


def _samples(answer: Compared, stage: str) -> tuple[Difference, ...]:
    return answer.results(stage).differences.samples


def _written(rows: Iterable[Difference]) -> list[tuple[tuple[str, str], ...]]:
    """Keys as sources write them, which are no part of what is compared."""
    return [row.raw_keys for row in rows]


def _describe(answer: Compared | DatarecsError) -> str:
    return answer.code.docs_id if isinstance(answer, DatarecsError) else "numbers"


def _numbers(results: StageResults) -> StageResults:
    """Without where differences lie and how the work went."""
    plain = replace(results.differences, location=None)
    return replace(results, differences=plain, metrics=(), strategy=None)
