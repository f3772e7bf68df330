"""Groups in DuckDB: counts, measures, differences and proofs are the oracle's, digit for digit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from datarecs_core.comparison.oracle.grouping import Outside
from datarecs_core.comparison.oracle.reference import OracleStage, compare_stage
from datarecs_core.comparison.planning.faults import PlanRefusedError, SumOverflowError
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.results.results import Difference, StageResults
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs.definition import Normalize, NullRules, Stage
from datarecs_core.jobs.types import parse_type
from datarecs_core.jobs.vocabulary import DuplicatePolicy, Function, NullKeys, StageType
from datarecs_core.values import EXACT
from datarecs_kernel.fingerprints import seal
from datarecs_kernel.groups import compare_groups
from datarecs_kernel.layout import check_covered
from datarecs_kernel.refusals import NotCoveredError
from datarecs_kernel.results import stage_results
from datarecs_kernel.settling import SinkPlan, settle
from datarecs_kernel.stored import read_differences
from datarecs_kernel.tallies import tally
from datarecs_testing.comparisons import a_measure, aggregate_by, counting, rows_by
from datarecs_testing.relations import hashed_layout, relations_of, rows_layout
from datarecs_testing.strategies import ComparisonCase, comparison_cases, tagged_cases
from datarecs_testing.tables import Row, Table, a_job, a_table, pair, plan_of

KEY = b"k" * 32
OUTSIDE = Outside(key=KEY)
questions = settings(
    max_examples=15,
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
        counted = settle(plan, compare_groups(connection, plan, relations, "0"), connection)
        if stage.seal_rows:
            counted.sealed = seal(connection, plan, layout.of_rows, relations)
    for each, source_rows in zip(tallies, rows, strict=True):
        each.extracted = len(source_rows)
    results = stage_results(layout, counted, tallies, str(folder))
    stored = sorted(read_differences(folder), key=lambda each: each.break_id)
    return Answer(results=results, differences=tuple(stored))


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
    kernel_result = kernel_answer(stage, case.tables, folder)
    assert numbers(kernel_result.results) == numbers(expected.results)
    assert kernel_result.differences == expected.differences


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


@pytest.mark.case("F17")
@questions
@given(case=comparison_cases(max_sources=3))
def test_sealed_rows_have_the_oracles_sums(case: ComparisonCase) -> None:
    try:
        stage = plan_of(case.job, case.tables).stages[0]
        check_covered(stage)
    except (PlanRefusedError, NotCoveredError):
        return
    stage = replace(stage, seal_rows=True)
    rows = [each.delivered(scan) for each, scan in zip(case.tables, stage.scans, strict=True)]
    expected = oracle_answer(stage, case.tables)
    if expected is None or not stage.pairs_rows:
        return
    layout = hashed_layout(stage, rows)
    plan = SinkPlan(layout=layout, key=KEY, directory="", scope_directory=None)
    with duckdb.connect() as connection:
        relations = relations_of(connection, layout, rows, OUTSIDE)
        assert seal(connection, plan, layout, relations) == expected.results.digests


SUM, COUNT = Function.SUM, Function.COUNT
NINES = Decimal("9" * 38)


def stage_over(tables: Sequence[Table], stage: Stage, **fields: Any) -> StagePlan:  # noqa: ANN401 - any field of the job
    return replace(plan_of(a_job(tables, stage, **fields), tables).stages[0], seal_rows=True)


def check_equal(stage: StagePlan, tables: Sequence[Table], folder: Path) -> StageResults:
    """The kernel's results, which are the oracle's."""
    expected = oracle_answer(stage, tables)
    assert expected is not None
    kernel_result = kernel_answer(stage, tables, folder)
    assert numbers(kernel_result.results) == numbers(expected.results)
    assert kernel_result.differences == expected.differences
    return kernel_result.results


@pytest.mark.case("P16")
@pytest.mark.parametrize("kind", ["decimal(38,0)", "decimal(38,10)", "decimal(38,28)"])
def test_a_sum_that_leaves_38_digits_on_the_way_alone_is_exact(kind: str, tmp_path: Path) -> None:
    scale = parse_type(kind).scale or 0
    most = NINES.scaleb(-scale, EXACT)
    rows = [(1, each) for each in (most, most, most.copy_negate(), most.copy_negate(), most)]
    tables = pair(f"k int, v {kind}", rows, rows[::-1])
    stage = stage_over(tables, aggregate_by("k", a_measure("v", function=SUM)))
    results = check_equal(stage, tables, tmp_path)
    assert results.measures[0].total_by_source == (most, most)


@pytest.mark.case("P16")
@pytest.mark.parametrize("function", [Function.SUM, Function.AVG])
@pytest.mark.parametrize(
    ("kind", "value"),
    [("decimal(38,0)", NINES), ("decimal(38,10)", NINES.scaleb(-10, EXACT)), ("float64", 6e19)],
)
def test_a_sum_that_38_digits_do_not_hold_is_an_overflow(
    kind: str, value: object, function: Function, tmp_path: Path
) -> None:
    tables = pair(f"k int, v {kind}", [(1, value), (1, value)], [(1, value)])
    stage = stage_over(tables, aggregate_by("k", a_measure("v", function=function)))
    assert oracle_answer(stage, tables) is None
    with pytest.raises(SumOverflowError, match="one"):
        kernel_answer(stage, tables, tmp_path)


@pytest.mark.case("P54")
def test_floats_are_added_at_18_places_and_rounded_ones_are_counted(tmp_path: Path) -> None:
    rows = [(1, 0.1), (1, 1e-19), (1, 3e-19), (2, None), (2, float("nan")), (3, float("-inf"))]
    tables = pair("k int, v float64", rows, [*rows[1:], (1, 0.2)])
    measures = (a_measure("v", function=SUM), a_measure("a", column="v", function=Function.AVG))
    stage = stage_over(tables, aggregate_by("k", *measures))
    results = check_equal(stage, tables, tmp_path)
    assert [each.message[0] for each in results.warnings] == ["4", "4"]


@pytest.mark.case("P28")
@pytest.mark.parametrize("rows", [[], [(1, Decimal("1.50"))]])
def test_grand_totals_are_present_in_empty_sources(rows: list[Row], tmp_path: Path) -> None:
    tables = pair("k int, v decimal(10,2)", rows, [])
    measures = (a_measure("v", function=SUM), a_measure("n", function=COUNT))
    results = check_equal(stage_over(tables, aggregate_by("", *measures)), tables, tmp_path)
    assert results.counts.matched_groups == 1


def test_counts_of_rows_are_one_group(tmp_path: Path) -> None:
    tables = pair("k int", [(1,), (1,), (None,)], [(1,)])
    results = check_equal(stage_over(tables, counting()), tables, tmp_path)
    assert (results.measures[0].outside, results.counts.source_row_counts) == (1, (3, 1))


@pytest.mark.case("P20")
@pytest.mark.parametrize("policy", [NullKeys.GROUP, NullKeys.EXCLUDE])
def test_null_keys_are_a_group_or_left_out_and_counted(policy: NullKeys, tmp_path: Path) -> None:
    rows = [(None, "a", Decimal(1)), (1, None, Decimal(2)), (1, "a", Decimal(3))]
    tables = pair("k int, t text, v decimal(10,2)", rows, rows[1:])
    normalize = Normalize(nulls=NullRules(keys=policy))
    stage = aggregate_by("k t", a_measure("v", function=SUM))
    results = check_equal(stage_over(tables, stage, normalize=normalize), tables, tmp_path)
    assert results.counts.null_keys_by_source == (2, 1)


@pytest.mark.case("P32")
@pytest.mark.parametrize("function", [Function.COUNT_DISTINCT, Function.MIN, Function.MAX])
def test_invalid_keys_are_groups_and_invalid_values_decide_their_group(
    function: Function, tmp_path: Path
) -> None:
    broken, other = Invalid(b"\xff"), Invalid(b"\xfe\x00")
    rows = [(broken, "x"), ("a", other), ("a", broken), ("a", "y"), ("b", "z"), ("c", None)]
    tables = pair("k text, v text", rows, rows)
    stage = stage_over(tables, aggregate_by("k", a_measure("v", function=function)))
    results = check_equal(stage, tables, tmp_path)
    assert results.counts.invalid_values_by_source == (3, 3)
    assert [each.words for each in results.unreadable] == ["could not be read as UTF-8: 0xfe00"] * 2


def test_rows_of_repeated_keys_collapse_and_are_counted_as_repeated(tmp_path: Path) -> None:
    rows = [(1, Decimal(1)), (1, Decimal(2)), (2, Decimal(5)), (3, Decimal(0)), (3, Decimal(0))]
    tables = pair("k int, v decimal(10,2)", rows, [(1, Decimal(3)), (2, Decimal(4)), *rows[3:]])
    stage = rows_by("k", a_measure("v", function=SUM), duplicates=DuplicatePolicy.AGGREGATE)
    results = check_equal(stage_over(tables, stage), tables, tmp_path)
    assert results.counts.duplicate_keys_by_source == (2, 1)


@pytest.mark.case("P46")
def test_groups_of_many_sources_meet_whoever_lacks_them(tmp_path: Path) -> None:
    columns = "k int, t text, v decimal(10,2)"
    rows = [(None if key == 3 else key, str(key % 2), Decimal(key)) for key in range(12)]
    tables = [
        a_table(f"s{at}", columns, *(row for key, row in enumerate(rows) if key % 5 != at))
        for at in range(5)
    ]
    stage = stage_over(tables, aggregate_by("k t", a_measure("v", function=SUM)))
    results = check_equal(stage, tables, tmp_path)
    assert results.counts.rows_compared == len(rows)


def test_wholly_equal_groups_are_counted_without_being_judged(tmp_path: Path) -> None:
    rows = [(key % 100, Decimal(key)) for key in range(1000)]
    tables = pair("k int, v decimal(10,2)", rows, [*rows[::-1], (7, Decimal(1))])
    stage = stage_over(tables, aggregate_by("k", a_measure("v", function=SUM)))
    results = check_equal(stage, tables, tmp_path)
    assert dict(results.metrics)["open_groups"] == 1


def test_a_relation_that_cannot_be_read_leaves_the_database_usable(tmp_path: Path) -> None:
    tables = pair("k int, v decimal(10,2)", [(1, Decimal(1))], [(1, Decimal(1))])
    stage = stage_over(tables, aggregate_by("k", a_measure("v", function=SUM)))
    rows = [each.delivered(scan) for each, scan in zip(tables, stage.scans, strict=True)]
    layout = rows_layout(stage, rows)
    plan = SinkPlan(layout=layout, key=KEY, directory=str(tmp_path), scope_directory=None)
    with duckdb.connect() as connection:
        relations = relations_of(connection, layout, rows, OUTSIDE)
        broken = f"(SELECT * REPLACE (error('broken') AS k0) FROM {relations[1]})"
        with pytest.raises(duckdb.Error, match="broken"):
            compare_groups(connection, plan, [relations[0], broken], "0")
        assert compare_groups(connection, plan, relations, "1").groups.total() == 1
