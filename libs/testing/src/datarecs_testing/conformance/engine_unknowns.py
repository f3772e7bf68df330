"""Unknown totals: with values that are not numbers, NaN or infinities there is no sum.

Separate from `engine_rules` because it tests what must not be reported, for every cause.
"""

from decimal import Decimal
from typing import Any

import pytest

from datarecs_core.comparison.results.verdict import broken_rule
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs.definition import Breaks, Normalize, NullRules, Results, Stage
from datarecs_core.jobs.types import parse_type
from datarecs_core.jobs.vocabulary import Function, MaskRule, NullKeys
from datarecs_testing.comparisons import (
    Compared,
    EngineBench,
    a_measure,
    aggregate_by,
    compare,
    rows_by,
)
from datarecs_testing.tables import Table, a_job, pair

D = Decimal
NAN, INF = float("nan"), float("inf")
AMOUNT = {"cast": {"v": parse_type("decimal(20,4)")}}
STAGES = [
    pytest.param(rows_by("k", a_measure("v")), id="row"),
    pytest.param(aggregate_by("k", a_measure("v")), id="sum"),
    pytest.param(aggregate_by("", a_measure("v")), id="grand total"),
    pytest.param(aggregate_by("k", a_measure("v", function=Function.AVG)), id="avg"),
    pytest.param(aggregate_by("k", a_measure("v", function=Function.MAX)), id="max"),
]


def compare_consistently(
    bench: EngineBench,
    stage: Stage,
    tables: list[Table],
    **fields: Any,  # noqa: ANN401  of the job
) -> Compared:
    """A comparison with consistent counts."""
    comparison = compare(bench, a_job(tables, stage, **fields), tables)
    (outcome,) = comparison.outcome.stages
    assert broken_rule(outcome.plan, comparison.results()) is None
    return comparison


class UnknownTotalsConformance:
    """No number is computed from the rest."""

    @pytest.mark.parametrize("stage", STAGES)
    def test_an_unreadable_value_leaves_no_total_and_no_gap(
        self, bench: EngineBench, stage: Stage
    ) -> None:
        amounts = [(1, "10.5"), (2, "2,308,296.79"), (3, "1,000"), (4, "7")]
        tables = pair("k int, v text", [(1, "10.5"), (2, "20"), (4, "7")], amounts)
        comparison = compare_consistently(
            bench, stage, tables, sources={"one": AMOUNT, "two": AMOUNT}
        )
        measure, (total, unknown) = comparison.measure("v"), comparison.measure("v").total_by_source
        assert measure.unreadable_by_source == (0, 2)
        assert (total is None, unknown) == (False, None)
        assert measure.gap_by_source == (D(0), None)
        assert measure.waterfall_by_source[1] is None
        (example,) = comparison.results().unreadable
        assert (example.measure, example.source) == ("v", "two")
        assert example.words == "could not be read as decimal(20,4): '1,000'"

    @pytest.mark.parametrize("stage", STAGES)
    def test_an_unreadable_value_of_the_reference_leaves_no_gap_at_all(
        self, bench: EngineBench, stage: Stage
    ) -> None:
        tables = pair("k int, v text", [(1, "x"), (2, "20")], [(1, "1"), (2, "20")])
        comparison = compare_consistently(
            bench, stage, tables, sources={"one": AMOUNT, "two": AMOUNT}
        )
        measure = comparison.measure("v")
        assert measure.unreadable_by_source == (1, 0)
        assert measure.total_by_source[0] is None
        assert measure.total_by_source[1] is not None
        assert measure.gap_by_source == (None, None)

    def test_a_value_that_one_source_has_alone_counts_as_well(self, bench: EngineBench) -> None:
        tables = pair("k int, v text", [(1, "1")], [(1, "1"), (9, "nine")])
        declared = {"one": AMOUNT, "two": AMOUNT}
        comparison = compare_consistently(
            bench, rows_by("k", a_measure("v")), tables, sources=declared
        )
        assert comparison.measure("v").gap_by_source == (D(0), None)
        assert [each.words for each in comparison.results().unreadable] == [
            "could not be read as decimal(20,4): 'nine'"
        ]

    def test_rows_that_are_left_out_hide_nothing(self, bench: EngineBench) -> None:
        tables = pair("k int, v text", [(1, "1")], [(1, "2"), (None, "nine")])
        declared = {"one": AMOUNT, "two": AMOUNT}
        policy = Normalize(nulls=NullRules(keys=NullKeys.EXCLUDE))
        stage = rows_by("k", a_measure("v"))
        comparison = compare_consistently(bench, stage, tables, sources=declared, normalize=policy)
        assert comparison.measure("v").gap_by_source == (D(0), D(1))
        assert comparison.results().unreadable == ()

    def test_bytes_that_are_no_text_stay_hexadecimal(self, bench: EngineBench) -> None:
        tables = pair("k int, v text", [(1, "a")], [(1, Invalid(b"\xff\x00"))])
        comparison = compare_consistently(bench, rows_by("k", a_measure("v")), tables)
        assert [each.words for each in comparison.results().unreadable] == [
            "could not be read as UTF-8: 0xff00"
        ]

    @pytest.mark.parametrize("where", ["v = 'a'", "NOT (v = 'a')", "v IS NULL", "v IS NOT NULL"])
    def test_a_row_is_compared_where_an_unreadable_value_hides_whether_it_belongs(
        self, bench: EngineBench, where: str
    ) -> None:
        values = [(1, Invalid(b"\xff"), 7), (3, "b", 1), (4, None, 1)]
        tables = pair("k int, v text, q int", values, [(1, Invalid(b"\xfe"), 8), *values[1:]])
        comparison = compare_consistently(bench, rows_by("k", a_measure("q"), where=where), tables)
        assert comparison.classes() == ["OUTSIDE"]

    def test_a_row_is_left_out_whatever_its_unreadable_value_is(self, bench: EngineBench) -> None:
        values = [(1, Invalid(b"\xff"), 7), (3, "a", 1)]
        tables = pair("k int, v text, q int", values, [(1, Invalid(b"\xfe"), 8), values[1]])
        stage = rows_by("k", a_measure("q"), where="v = 'a' AND k = 3")
        assert compare_consistently(bench, stage, tables).classes() == []

    def test_a_masked_column_shows_none_of_its_values(self, bench: EngineBench) -> None:
        tables = pair("k int, v text", [(1, "1")], [(1, "secret")])
        masked = Results(breaks=Breaks(mask={"v": MaskRule.REDACT}))
        stage, declared = rows_by("k", a_measure("v")), {"one": AMOUNT, "two": AMOUNT}
        comparison = compare_consistently(bench, stage, tables, sources=declared, results=masked)
        assert comparison.measure("v").unreadable_by_source == (0, 1)
        assert comparison.results().unreadable == ()

    @pytest.mark.parametrize("special", [NAN, INF, -INF])
    @pytest.mark.parametrize("function", [Function.SUM, Function.AVG])
    def test_nan_and_infinities_leave_no_total(
        self, bench: EngineBench, special: float, function: Function
    ) -> None:
        tables = pair("k int, v float64", [(1, 1.5), (2, 2.5)], [(1, 1.5), (2, special)])
        stage = aggregate_by("k", a_measure("v", function=function))
        measure = compare_consistently(bench, stage, tables).measure("v")
        assert measure.not_finite_by_source == (0, 1)
        assert measure.total_by_source == (D(4), None)
        assert measure.gap_by_source == (D(0), None)

    def test_a_bare_numeric_that_is_nan_leaves_no_total(self, bench: EngineBench) -> None:
        tables = pair("k int, v decimal", [(1, D(1)), (2, D(2))], [(1, D(1)), (2, D("NaN"))])
        for stage in (rows_by("k", a_measure("v")), aggregate_by("k", a_measure("v"))):
            measure = compare_consistently(bench, stage, tables).measure("v")
            assert measure.not_finite_by_source == (0, 1)
            assert measure.gap_by_source == (D(0), None)

    def test_null_is_no_fault_and_adds_nothing(self, bench: EngineBench) -> None:
        tables = pair("k int, v decimal(9,2)", [(1, D(1)), (2, D(2))], [(1, D(1)), (2, None)])
        measure = compare_consistently(bench, rows_by("k", a_measure("v")), tables).measure("v")
        assert (measure.unreadable_by_source, measure.not_finite_by_source) == ((0, 0), (0, 0))
        assert measure.gap_by_source == (D(0), D(-2))

    @pytest.mark.parametrize("other", ["x", None])
    def test_without_a_finite_pair_there_is_no_largest_difference(
        self, bench: EngineBench, other: str | None
    ) -> None:
        tables = pair("k int, v text", [(1, "1"), (2, "2")], [(1, other), (2, other)])
        declared = {"one": AMOUNT, "two": AMOUNT}
        comparison = compare_consistently(
            bench, rows_by("k", a_measure("v")), tables, sources=declared
        )
        assert comparison.measure("v").max_abs_delta is None
        assert all(row.deltas == () for row in comparison.differences())
