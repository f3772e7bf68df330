"""Groups in DuckDB: counts, measures, differences and proofs are the oracle's, digit for digit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from datarecs_core.comparison.oracle.grouping import Outside
from datarecs_core.comparison.oracle.reference import OracleStage, compare_stage
from datarecs_core.comparison.planning.faults import PlanRefusedError, SumOverflowError
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.results.results import Difference, StageResults
from datarecs_core.jobs.vocabulary import StageType
from datarecs_kernel.fingerprints import seal
from datarecs_kernel.groups import compare_groups
from datarecs_kernel.layout import check_covered
from datarecs_kernel.refusals import NotCoveredError
from datarecs_kernel.results import stage_results
from datarecs_kernel.stored import read_differences
from datarecs_kernel.storing import SinkPlan
from datarecs_kernel.tallies import tally
from datarecs_testing.relations import relations_of, rows_layout
from datarecs_testing.strategies import ComparisonCase, tagged_cases
from datarecs_testing.tables import Table, plan_of

KEY = b"k" * 32
OUTSIDE = Outside(key=KEY)
questions = settings(
    max_examples=40,
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate),  # shrinking a case of many row sets takes minutes
    suppress_health_check=list(HealthCheck),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    results: StageResults
    differences: tuple[Difference, ...]


def kernel_answer(stage: StagePlan, tables: Sequence[Table], folder: Path) -> Answer:
    """What the kernel says of a stage that has groups."""
    rows = [each.delivered(scan) for each, scan in zip(tables, stage.scans, strict=True)]
    layout = rows_layout(stage, rows)
    plan = SinkPlan(layout=layout, key=KEY, directory=str(folder), scope_directory=None)
    with duckdb.connect() as connection:
        relations = relations_of(connection, layout, rows, OUTSIDE)
        tallies = [tally(connection, layout, at, each) for at, each in enumerate(relations)]
        counted = compare_groups(connection, plan, relations, "0")
        if stage.seal_rows:
            counted.sealed = seal(connection, plan, layout.of_rows, relations)
    for each, own in zip(tallies, rows, strict=True):
        each.extracted = len(own)
    results = stage_results(layout, counted, tallies, str(folder))
    found = sorted(read_differences(folder), key=lambda each: each.break_id)
    return Answer(results=results, differences=tuple(found))


def numbers(results: StageResults) -> StageResults:
    """Without where differences lie and how the work went; sums in one order."""
    plain = replace(results.differences, location=None)
    sums = sorted(results.digests, key=lambda each: (each.source, each.bucket))
    return replace(results, differences=plain, metrics=(), strategy=None, digests=tuple(sums))


def agree(case: ComparisonCase, folder: Path) -> None:
    try:
        stage = plan_of(case.job, case.tables).stages[0]
        check_covered(stage)
    except (PlanRefusedError, NotCoveredError):
        return
    stage = replace(stage, seal_rows=True)
    expected = oracle_answer(stage, case.tables)
    if expected is None:
        with pytest.raises(SumOverflowError):
            kernel_answer(stage, case.tables, folder)
        return
    found = kernel_answer(stage, case.tables, folder)
    assert numbers(found.results) == numbers(expected.results)
    assert found.differences == expected.differences


def oracle_answer(stage: StagePlan, tables: Sequence[Table]) -> OracleStage | None:
    """None where a sum overflows."""
    rows = [each.delivered(scan) for each, scan in zip(tables, stage.scans, strict=True)]
    try:
        return compare_stage(stage, rows, OUTSIDE)
    except SumOverflowError:
        return None


@questions
@given(case=tagged_cases(strict=True, sets=10, kinds=[StageType.AGGREGATE]))
def test_strict_aggregates_are_the_oracles(
    case: ComparisonCase, tmp_path_factory: pytest.TempPathFactory
) -> None:
    agree(case, tmp_path_factory.mktemp("stage"))


@questions
@given(case=tagged_cases(sets=10, kinds=[StageType.AGGREGATE]))
def test_relaxed_aggregates_are_the_oracles(
    case: ComparisonCase, tmp_path_factory: pytest.TempPathFactory
) -> None:
    agree(case, tmp_path_factory.mktemp("stage"))


@questions
@given(case=tagged_cases(sets=10, kinds=[StageType.DIGEST]))
def test_digests_have_the_oracles_bytes(
    case: ComparisonCase, tmp_path_factory: pytest.TempPathFactory
) -> None:
    agree(case, tmp_path_factory.mktemp("stage"))
