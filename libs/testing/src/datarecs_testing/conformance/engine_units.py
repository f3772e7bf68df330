"""How every engine reports amounts by the currency or unit that a key names.

Separate from `engine_groups` because amounts of two units must never be added, in any shape.
"""

from decimal import Decimal

import pytest

from datarecs_core.comparison.results.results import UnitResult, Waterfall
from datarecs_core.jobs.definition import Breaks, Results
from datarecs_core.jobs.types import parse_type
from datarecs_core.jobs.vocabulary import Function, MaskRule
from datarecs_testing.comparisons import (
    Compared,
    EngineBench,
    a_measure,
    absolute,
    aggregate_by,
    compare,
    rows_by,
)
from datarecs_testing.tables import Table, a_job, a_table, pair

D = Decimal
COLUMNS = "k int, ccy text, amount decimal(18,2)"
ONE: list[tuple[object, ...]] = [
    (1, "USD", D("100.00")),
    (2, "USD", D("50.00")),
    (3, "JPY", D("90000.00")),
    (4, "CHF", D("8.00")),
]
TWO: list[tuple[object, ...]] = [
    (1, "USD", D("99.00")),
    (3, "JPY", D("90500.00")),
    (5, "JPY", D("7.00")),
    (4, "CHF", D("8.00")),
]


def steps(missing_here: str, missing_in_reference: str, changed: str) -> Waterfall:
    return Waterfall(
        missing_here=D(missing_here),
        missing_in_reference=D(missing_in_reference),
        changed=D(changed),
    )


def by_unit(comparison: Compared) -> dict[str, Waterfall | None]:
    """Of the only measure and the second source."""
    units: dict[str, Waterfall | None] = {}
    for each in comparison.results().units:
        (measure,) = each.measures
        units[each.unit] = measure.waterfall_by_source[1]
    return units


class UnitConformance:
    """Amounts of two units are never added."""

    @pytest.fixture
    def bench(self) -> EngineBench:
        raise LookupError("a subclass gives the fixture `bench`")

    def test_rows_have_the_steps_of_each_currency_with_a_difference(
        self, bench: EngineBench
    ) -> None:
        tables = pair(COLUMNS, ONE, TWO)
        comparison = compare(bench, a_job(tables, rows_by("k ccy", a_measure("amount"))), tables)
        assert by_unit(comparison) == {"JPY": steps("0", "7", "500"), "USD": steps("50", "0", "-1")}
        yen, dollars = comparison.results().units
        assert (yen.differing, yen.missing_here, yen.missing_in_reference) == (2, (0, 0), (0, 1))
        assert (dollars.differing, dollars.missing_here) == (2, (0, 1))

    def test_totals_by_group_have_them_too(self, bench: EngineBench) -> None:
        tables = pair(COLUMNS, ONE, TWO)
        comparison = compare(bench, a_job(tables, aggregate_by("ccy", a_measure("amount"))), tables)
        assert by_unit(comparison) == {"JPY": steps("0", "0", "507"), "USD": steps("0", "0", "-51")}

    def test_repeated_keys_count_with_every_row(self, bench: EngineBench) -> None:
        one = [(1, "USD", D(5)), (1, "USD", D(5)), (2, "EUR", D(3)), (2, "EUR", D(4))]
        two = [(1, "USD", D(5)), (2, "EUR", D(4)), (2, "EUR", D(9))]
        tables = pair(COLUMNS, one, two)
        comparison = compare(bench, a_job(tables, rows_by("k ccy", a_measure("amount"))), tables)
        assert by_unit(comparison) == {"EUR": steps("0", "0", "6"), "USD": steps("0", "0", "-5")}

    def test_a_key_without_a_currency_has_a_separate_unit(self, bench: EngineBench) -> None:
        tables = pair(COLUMNS, [(1, None, D(1)), (2, "USD", D(1))], [(1, None, D(4))])
        comparison = compare(bench, a_job(tables, rows_by("k ccy", a_measure("amount"))), tables)
        assert by_unit(comparison) == {"NULL": steps("0", "0", "3"), "USD": steps("1", "0", "0")}

    def test_values_within_tolerance_are_part_of_the_difference(self, bench: EngineBench) -> None:
        tables = pair(COLUMNS, [(1, "USD", D("1.00"))], [(1, "USD", D("1.01"))])
        job = a_job(tables, rows_by("k ccy", a_measure("amount", absolute("0.05"))))
        comparison = compare(bench, job, tables)
        assert by_unit(comparison) == {"USD": steps("0", "0", "0.01")}
        assert comparison.results().units[0].differing == 0

    def test_an_unreadable_amount_leaves_the_steps_unknown(self, bench: EngineBench) -> None:
        columns = "k int, ccy text, amount text"
        tables = pair(columns, [(1, "USD", "1"), (2, "EUR", "2")], [(1, "USD", "1,0")])
        cast = {"cast": {"amount": parse_type("decimal(18,2)")}}
        sources = {table.name: cast for table in tables}
        job = a_job(tables, rows_by("k ccy", a_measure("amount")), sources=sources)
        comparison = compare(bench, job, tables)
        assert by_unit(comparison) == {"EUR": None, "USD": None}

    def test_three_sources_are_each_measured_from_the_reference(self, bench: EngineBench) -> None:
        tables = [
            a_table("s0", COLUMNS, (1, "USD", D(10)), (2, "USD", D(20))),
            a_table("s1", COLUMNS, (1, "USD", D(11)), (3, "EUR", D(5))),
            a_table("s2", COLUMNS, (2, "USD", D(20)), (3, "EUR", D(6))),
        ]
        comparison = compare(bench, a_job(tables, rows_by("k ccy", a_measure("amount"))), tables)
        euros, dollars = comparison.results().units
        assert euros.measures[0].waterfall_by_source[1:] == (
            steps("0", "5", "0"),
            steps("0", "6", "0"),
        )
        assert dollars.measures[0].waterfall_by_source[1:] == (
            steps("20", "0", "1"),
            steps("10", "0", "0"),
        )
        assert dollars.missing_here == (0, 1, 1)

    def test_many_measures_and_only_those_with_totals(self, bench: EngineBench) -> None:
        columns = "k int, ccy text, amount decimal(18,2), qty int, note text"
        tables = pair(
            columns, [(1, "USD", D(1), 7, "x")], [(1, "USD", D(2), 9, "y"), (2, "USD", D(3), 1, "")]
        )
        stage = rows_by("k ccy", a_measure("amount"), a_measure("qty"), a_measure("note"))
        (unit,) = compare(bench, a_job(tables, stage), tables).results().units
        assert [(each.measure, each.waterfall_by_source[1]) for each in unit.measures] == [
            ("amount", steps("0", "3", "1")),
            ("qty", steps("0", "1", "2")),
        ]

    def test_chosen_values_are_reported_as_other_totals_are(self, bench: EngineBench) -> None:
        tables = pair(COLUMNS, ONE, TWO)
        stage = aggregate_by("ccy", a_measure("amount", function=Function.MAX))
        comparison = compare(bench, a_job(tables, stage), tables)
        assert by_unit(comparison) == {"JPY": steps("0", "0", "500"), "USD": steps("0", "0", "-1")}

    @pytest.mark.parametrize("why", ["masked", "long", "no unit"])
    def test_what_is_no_short_plain_unit_is_reported_nowhere(
        self, bench: EngineBench, why: str
    ) -> None:
        assert self._without_units(bench, why) == ()

    def _without_units(self, bench: EngineBench, why: str) -> tuple[UnitResult, ...]:
        unit = "the name of a client" if why == "long" else "USD"
        columns = COLUMNS.replace("ccy", "place") if why == "no unit" else COLUMNS
        tables: list[Table] = pair(columns, [(1, unit, D(1))], [(1, unit, D(2))])
        dimension = "place" if why == "no unit" else "ccy"
        mask = {"ccy": MaskRule.HASH} if why == "masked" else {}
        results = Results(breaks=Breaks(mask=mask))
        stage = rows_by(f"k {dimension}", a_measure("amount"))
        return compare(bench, a_job(tables, stage, results=results), tables).results().units
