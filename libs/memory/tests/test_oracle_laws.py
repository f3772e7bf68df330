"""Laws that every comparison obeys, shown on the oracle over generated jobs and rows."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from datarecs_application.ports.comparing import Engine
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.proof.run_json import Sealing, proof_document, proof_hash
from datarecs_core.comparison.results.results import Difference, MeasureResult, StageResults
from datarecs_core.jobs.definition import Tolerance
from datarecs_core.jobs.vocabulary import CompareTo, ToleranceType
from datarecs_memory.engine import MemoryEngine
from datarecs_testing.comparisons import Compared, compare
from datarecs_testing.strategies import ComparisonCase, comparison_cases
from datarecs_testing.tables import Table

SEALING = Sealing(versions={"tzdata": "any", "unicode": "any"}, key_id="k1")


class OracleBench:
    def prepare(
        self, plan: ComparisonPlan, tables: Sequence[Table]
    ) -> tuple[Engine, ComparisonPlan]:
        return MemoryEngine(lambda scan: tables[scan.index].delivered(scan)), plan

    def differences(self, engine: Engine, results: StageResults) -> Sequence[Difference]:
        assert isinstance(engine, MemoryEngine)
        return engine.differences(results.stage)


def compare_case(case: ComparisonCase) -> Compared:
    return compare(OracleBench(), case.job, case.tables)


def compare_with(case: ComparisonCase, **stage: object) -> Compared:
    changed = replace(case.shape.stage, **stage)  # type: ignore[arg-type]  # any field of a stage
    return compare_case(replace(case, shape=replace(case.shape, stage=changed)))


def outside(comparison: Compared) -> dict[str, int]:
    return {measure.name: measure.outside for measure in comparison.results().measures}


@pytest.mark.case("F01")
@pytest.mark.case("F02")
@pytest.mark.case("F03")
@pytest.mark.case("F04")
@pytest.mark.case("F05")
@pytest.mark.case("F06")
@pytest.mark.case("F07")
@pytest.mark.case("F14")
@given(comparison_cases())
def test_counts_never_contradict_each_other(case: ComparisonCase) -> None:
    """`judge_stage` refuses counts that break F01 to F07 or rows that do not add up."""
    comparison = compare_case(case)
    counts, measures = comparison.counts(), comparison.results().all_measures
    passed = all(measure.passed for measure in measures)
    matched = sum(counts.unmatched_by_source) == 0 and passed
    assert (comparison.verdict == "MATCHED") is matched


@pytest.mark.case("F08")
@given(comparison_cases(), st.data())
def test_permuting_sources_permutes_maps_and_masks_only(
    case: ComparisonCase, data: DataObject
) -> None:
    order = data.draw(st.permutations(range(case.shape.sources)))
    columns = tuple(
        replace(each, types=tuple(each.types[at] for at in order)) for each in case.shape.columns
    )
    shape = replace(case.shape, columns=columns)
    moved = replace(case, shape=shape, tables=tuple(case.tables[at] for at in order))
    first, second = compare_case(case), compare_case(moved)
    one, two = first.counts(), second.counts()
    assert (one.rows_compared, one.rows_matched) == (two.rows_compared, two.rows_matched)
    assert [one.groups_by_source[at] for at in order] == list(two.groups_by_source)
    assert outside(first) == outside(second)
    assert {row.break_id for row in first.differences()} == {
        row.break_id for row in second.differences()
    }


@pytest.mark.case("F09")
@given(comparison_cases(max_sources=4))
def test_a_copy_of_the_reference_changes_nothing(case: ComparisonCase) -> None:
    reference = int(str(case.shape.stage.reference)[1:])
    columns = tuple(
        replace(each, types=(*each.types, each.types[reference])) for each in case.shape.columns
    )
    copy = replace(case.tables[reference], name="copy")
    shape = replace(case.shape, sources=case.shape.sources + 1, columns=columns)
    wider = replace(case, shape=shape, tables=(*case.tables, copy))
    first, second = compare_case(case), compare_case(wider)
    assert first.verdict is second.verdict
    assert first.counts().unmatched_by_source == second.counts().unmatched_by_source[:-1]
    assert first.counts().rows_matched == second.counts().rows_matched
    assert outside(first) == outside(second)


@pytest.mark.case("F10")
@given(comparison_cases())
def test_a_looser_tolerance_never_raises_outside(case: ComparisonCase) -> None:
    looser = tuple(
        replace(measure, tolerances=tuple(_loosened(each) for each in measure.tolerances))
        for measure in case.shape.stage.measures
        if not isinstance(measure, str)
    )
    before, after = outside(compare_case(case)), outside(compare_with(case, measures=looser))
    assert all(after[name] <= before[name] for name in before)


def _loosened(tolerance: Tolerance) -> Tolerance:
    match tolerance.type, tolerance.value:
        case ToleranceType.ABSOLUTE, Decimal() as value:
            return replace(tolerance, value=value * 2 + 1)
        case ToleranceType.PERCENTAGE, Decimal() as value:
            return replace(tolerance, value=min(value * 2 + 1, Decimal(100)))
        case _:
            return tolerance


@pytest.mark.case("F11")
@given(comparison_cases(), st.data())
def test_all_pairs_is_the_strictest_way(case: ComparisonCase, data: DataObject) -> None:
    pairs = compare_with(case, compare_to=CompareTo.ALL_PAIRS)
    reference = compare_with(case, compare_to=CompareTo.REFERENCE)
    assert all(outside(reference)[name] <= n for name, n in outside(pairs).items())
    plain = [each for each in pairs.results().measures if _is_distance(each)]
    other = f"s{data.draw(st.integers(0, case.shape.sources - 1))}"
    anywhere = compare_with(case, compare_to=CompareTo.REFERENCE, reference=other)
    spread = compare_with(case, compare_to=CompareTo.SPREAD)
    for measure in plain:
        assert outside(anywhere)[measure.name] <= measure.outside
        assert outside(spread)[measure.name] == measure.outside


def _is_distance(measure: MeasureResult) -> bool:
    """One ABSOLUTE or DURATION tolerance."""
    names = [type(each.tolerance).__name__ for each in measure.tolerances]
    return names in (["AbsoluteTolerance"], ["DurationTolerance"])


@pytest.mark.case("F12")
@given(comparison_cases(), st.data())
def test_shuffled_rows_change_not_a_byte_of_the_proof(
    case: ComparisonCase, data: DataObject
) -> None:
    tables = tuple(
        replace(table, rows=tuple(data.draw(st.permutations(table.rows)))) for table in case.tables
    )
    first, second = compare_case(case), compare_case(replace(case, tables=tables))
    proofs = [proof_document(each.plan, each.outcome, SEALING) for each in (first, second)]
    assert proof_hash(proofs[0]) == proof_hash(proofs[1])
    assert first.stored == second.stored
