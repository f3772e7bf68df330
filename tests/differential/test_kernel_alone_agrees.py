"""The kernel without Spark and the oracle agree for the same jobs and rows."""

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings

from datarecs_core.comparison.results.results import StageResults
from datarecs_core.errors.base import DatarecsError
from datarecs_core.jobs.vocabulary import StageType
from datarecs_kernel.refusals import NotCoveredError
from datarecs_runtime.environment import process_environment
from datarecs_testing.comparisons import Compared, EngineBench, compare
from datarecs_testing.finished_runs import MemoryBench
from datarecs_testing.kernel_bench import KernelBench
from datarecs_testing.strategies import ComparisonCase, SchemaCase, schema_cases, tagged_cases

pytestmark = pytest.mark.slow

SHAPES = int(process_environment().get("DATARECS_TEST_SHAPES", "20"))
"""Examples of each kind; `make differential` runs more."""
SETS = 50
same_jobs = settings(
    max_examples=SHAPES,
    deadline=None,
    derandomize=True,  # the same jobs every time; other seeds are run by hand
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
_numbers = count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernel")


@same_jobs
@given(case=tagged_cases(strict=True, sets=SETS))
def test_every_strict_question_has_one_answer(folder: Path, case: ComparisonCase) -> None:
    """Types, NULLs, duplicates, functions, tolerances and N sources under the default rules."""
    agree(folder, case)


@same_jobs
@given(case=tagged_cases(sets=SETS))
def test_every_relaxed_question_has_one_answer(folder: Path, case: ComparisonCase) -> None:
    """The same with every rule, bound, base, policy and way of comparing."""
    agree(folder, case)


@settings(same_jobs, max_examples=SHAPES // 4)
@given(case=tagged_cases(sets=SETS, kinds=[StageType.DIGEST]))
def test_every_digest_has_the_same_bytes(folder: Path, case: ComparisonCase) -> None:
    """Fingerprints over every type, rule, NULL and number of sources."""
    agree(folder, case)


@settings(same_jobs, max_examples=SHAPES // 4)
@given(case=schema_cases())
def test_every_schema_has_one_answer(folder: Path, case: SchemaCase) -> None:
    """Every mode, order, nullability, ignored columns and equivalences."""
    agree(folder, case)


def agree(folder: Path, case: ComparisonCase | SchemaCase) -> None:
    """Run both; fail with the first part of the answers that differs."""
    expected = _answer(MemoryBench(), case)
    result = _answer(KernelBench(folder / str(next(_numbers))), case)
    assume(not isinstance(result, NotCoveredError))
    if isinstance(expected, DatarecsError) or isinstance(result, DatarecsError):
        assert _code(result) == _code(expected)
        return
    for stage in expected.stored:
        assert result.stored[stage] == expected.stored[stage]
        assert _numbers_of(result.results(stage)) == _numbers_of(expected.results(stage))
    assert result.outcome.verdict is expected.outcome.verdict
    assert result.warnings == expected.warnings


def _answer(bench: EngineBench, case: ComparisonCase | SchemaCase) -> Compared | DatarecsError:
    try:
        return compare(bench, case.job, case.tables)
    except DatarecsError as refusal:
        return refusal


def _code(answer: Compared | DatarecsError) -> str:
    return answer.code.docs_id if isinstance(answer, DatarecsError) else "numbers"


def _numbers_of(results: StageResults) -> StageResults:
    """Without where differences lie and how the work went."""
    plain = replace(results.differences, location=None)
    return replace(results, differences=plain, metrics=(), strategy=None)
