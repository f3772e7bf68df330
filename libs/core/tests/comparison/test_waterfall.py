from decimal import Decimal, localcontext

import pytest

from datarecs_core.comparison.results.results import MeasureResult, Waterfall
from datarecs_core.values import EXACT
from datarecs_testing.comparisons import a_measure, absolute, aggregate_by, compare, rows_by
from datarecs_testing.finished_runs import MemoryBench, balance_check, books
from datarecs_testing.tables import Table, a_job, a_table

D = Decimal


def the_measure(tables: list[Table], *, rows: bool = False) -> MeasureResult:
    stage = rows_by("k", a_measure("v")) if rows else aggregate_by("k", a_measure("v"))
    comparison = compare(MemoryBench(), a_job(tables, stage), tables)
    return comparison.results(stage.name).measures[0]


@pytest.mark.case("F15")
def test_the_gap_of_the_sample_is_made_of_its_steps() -> None:
    with localcontext(EXACT):
        tables = books()
    comparison = compare(MemoryBench(), balance_check(tables), tables)
    results = comparison.results("balance-check").measures[0]
    steps = results.waterfall_by_source[1]
    assert steps == Waterfall(
        missing_here=D(500), missing_in_reference=D(500), changed=D("-1234.56")
    )
    assert steps.gap == results.gap_by_source[1] == D("-1234.56")
    assert results.waterfall_by_source[0] == Waterfall(
        missing_here=D(0), missing_in_reference=D(0), changed=D(0)
    )


@pytest.mark.case("F15")
@pytest.mark.parametrize("rows", [True, False])
def test_each_source_has_separate_steps(*, rows: bool) -> None:
    tables = [
        a_table("a", "k int, v int", (1, 10), (2, 20), (3, 30)),
        a_table("b", "k int, v int", (1, 11), (4, 40), (4, 5)),
        a_table("c", "k int, v int", (2, None), (4, 7), (None, 9)),
    ]
    measure = the_measure(tables, rows=rows)
    assert measure.waterfall_by_source[1:] == (
        Waterfall(missing_here=D(50), missing_in_reference=D(45), changed=D(1)),
        Waterfall(missing_here=D(40), missing_in_reference=D(16), changed=D(-20)),
    )
    pairs = zip(measure.waterfall_by_source, measure.gap_by_source, strict=True)
    assert all(steps is not None and steps.gap == gap for steps, gap in pairs)


def test_what_has_no_total_has_no_steps() -> None:
    tables = [a_table(name, "k int, v text", (1, "x")) for name in ("a", "b")]
    assert the_measure(tables, rows=True).waterfall_by_source == (None, None)


def test_a_step_of_more_digits_than_a_total_may_have_is_unknown() -> None:
    most = D(10**38 - 1)
    tables = [
        a_table("a", "k int, v decimal(38,0)", (1, most), (2, most.copy_negate())),
        a_table("b", "k int, v decimal(38,0)", (1, most.copy_negate()), (2, most)),
        a_table("c", "k int, v decimal(38,0)", (3, most), (4, most.copy_negate())),
    ]
    measure = the_measure(tables, rows=True)
    assert measure.gap_by_source == (D(0), D(0), D(0))
    assert [steps is None for steps in measure.waterfall_by_source] == [False, False, False]


def test_copies_of_a_key_are_steps_of_the_number_of_rows() -> None:
    tables = [
        a_table("a", "k int, v int", (1, 1), (1, 1), (2, 1)),
        a_table("b", "k int, v int", (1, 1), (3, 1), (3, 1)),
    ]
    stage = rows_by("k", a_measure("v", absolute("9")))
    rows = compare(MemoryBench(), a_job(tables, stage), tables).results("rows").rows
    assert rows is not None
    assert rows.waterfall_by_source[1] == Waterfall(
        missing_here=D(1), missing_in_reference=D(2), changed=D(-1)
    )
