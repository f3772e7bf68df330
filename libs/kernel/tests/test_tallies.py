"""What is counted of each source's rows is what the oracle counts of them."""

from dataclasses import replace
from decimal import Decimal
from functools import reduce

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from datarecs_core.comparison.oracle.grouping import Outside, group_rows
from datarecs_core.comparison.planning.faults import PlanRefusedError
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs.definition import Stage
from datarecs_core.jobs.types import parse_type
from datarecs_core.jobs.vocabulary import Function, NullKeys
from datarecs_core.values import EXACT
from datarecs_kernel.layout import check_covered
from datarecs_kernel.refusals import NotCoveredError
from datarecs_kernel.tallies import SourceTally, tally
from datarecs_testing.comparisons import a_measure, aggregate_by, rows_by
from datarecs_testing.relations import relations_of, rows_layout
from datarecs_testing.strategies import ComparisonCase, comparison_cases
from datarecs_testing.tables import Row, Table, a_job, pair, plan_of

OUTSIDE = Outside(key=b"k" * 32)


def tallies_of(stage: Stage, tables: list[Table], policy: NullKeys) -> list[SourceTally]:
    plan = replace(plan_of(a_job(tables, stage), tables).stages[0], null_keys=policy)
    rows = [each.delivered(scan) for each, scan in zip(tables, plan.scans, strict=True)]
    layout = rows_layout(plan, rows)
    with duckdb.connect() as connection:
        names = relations_of(connection, layout, rows, OUTSIDE)
        return [tally(connection, layout, at, each) for at, each in enumerate(names)]


@settings(
    max_examples=25,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(case=comparison_cases(max_sources=3))
def test_rows_null_keys_faults_and_totals_are_the_oracles(case: ComparisonCase) -> None:
    try:
        stage = plan_of(case.job, case.tables).stages[0]
        check_covered(stage)
    except (PlanRefusedError, NotCoveredError):
        return
    rows = [each.delivered(scan) for each, scan in zip(case.tables, stage.scans, strict=True)]
    layout = rows_layout(stage, rows)
    expected = group_rows(stage, rows, OUTSIDE)
    with duckdb.connect() as connection:
        for index, name in enumerate(relations_of(connection, layout, rows, OUTSIDE)):
            actual, expected_tally = tally(connection, layout, index, name), expected.tallies[index]
            assert (actual.extracted, actual.passed) == (expected_tally.seen, expected_tally.seen)
            assert actual.null_keys == expected_tally.null_keys
            assert (actual.invalid, actual.faults) == (
                expected_tally.invalid_values,
                expected_tally.faults,
            )
            for measure, total in actual.totals.items():
                amounts = [
                    row[measure].value.amount
                    for group in expected.groups.values()
                    for row in group.rows[index]
                ]
                finite = [each for each in amounts if each is not None]
                assert total == reduce(EXACT.add, finite, Decimal(0))


@pytest.mark.case("P16")
@given(rows=st.lists(st.integers(0, 10**38 - 1), min_size=1, max_size=5))
@settings(max_examples=15, deadline=None)
@pytest.mark.parametrize("kind", ["decimal(38,0)", "decimal(38,28)", "decimal(38,38)", "decimal"])
def test_totals_of_rows_are_exact_whatever_their_size(kind: str, rows: list[int]) -> None:
    scale = parse_type(kind).scale or 0
    values = [Decimal(each).scaleb(-scale, EXACT) for each in rows]
    many: list[Row] = [(at, each) for at, each in enumerate(values * 3)]
    tables = pair(f"k int, v {kind}", many, [])
    one, two = tallies_of(rows_by("k", a_measure("v")), tables, NullKeys.GROUP)
    assert one.totals == {0: reduce(EXACT.add, values * 3)}
    assert (two.passed, two.totals) == (0, {0: Decimal(0)})


@pytest.mark.case("P32")
@pytest.mark.parametrize(("policy", "unreadable"), [(NullKeys.GROUP, 3), (NullKeys.EXCLUDE, 2)])
def test_unreadable_values_are_counted_with_the_smallest_of_grouped_rows(
    policy: NullKeys, unreadable: int
) -> None:
    low, high = Invalid(b"\x80"), Invalid(b"\xff")
    rows: list[Row] = [(None, low), ("a", high), (high, high), ("b", "x")]
    one, _ = tallies_of(rows_by("k", a_measure("v")), pair("k text, v text", rows, []), policy)
    assert (one.passed, one.null_keys, one.invalid) == (4, 1, unreadable + 1)
    assert one.faults[0].unreadable == unreadable
    assert one.faults[0].smallest == (b"\x80" if policy is NullKeys.GROUP else b"\xff")


@pytest.mark.case("P11")
@pytest.mark.parametrize(
    ("kind", "stage"),
    [
        ("decimal", rows_by("k", a_measure("v"))),
        ("decimal", aggregate_by("k", a_measure("v", function=Function.SUM))),
        ("float64", aggregate_by("k", a_measure("v", function=Function.SUM))),
    ],
)
def test_values_that_are_no_finite_numbers_are_counted(kind: str, stage: Stage) -> None:
    as_kind = float if kind == "float64" else Decimal
    words = ["NaN", "Infinity", "-Infinity", "1.5", "0", None]
    rows: list[Row] = [
        (at, None if each is None else as_kind(each)) for at, each in enumerate(words)
    ]
    one, two = tallies_of(stage, pair(f"k int, v {kind}", rows, rows[3:]), NullKeys.GROUP)
    assert (one.faults[0].not_finite, two.faults) == (3, {})


def test_times_that_occur_twice_are_added_up() -> None:
    plan = plan_of(
        a_job(tables := pair("k int, v int", [(1, 1)], []), rows_by("k", a_measure("v"))), tables
    ).stages[0]
    layout = rows_layout(
        plan, [each.delivered(scan) for each, scan in zip(tables, plan.scans, strict=True)]
    )
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT 1::BIGINT AS k0, 1::BIGINT AS m0, 2 AS dst FROM range(3)"
        )
        assert tally(connection, layout, 0, "t").ambiguous == 6
