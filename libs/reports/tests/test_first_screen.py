"""The first facts of a run: how much is wrong, where, which rows, why."""

from decimal import Decimal
from typing import Any

import pytest

from datarecs_core.jobs.definition import Breaks, Results
from datarecs_core.jobs.types import parse_type
from datarecs_core.jobs.vocabulary import Function, MaskRule
from datarecs_reports.decoding import run_facts
from datarecs_reports.first_screen import FirstScreen, first_screen
from datarecs_testing.comparisons import a_measure, absolute, aggregate_by, rows_by
from datarecs_testing.finished_runs import balance_check, books, document
from datarecs_testing.tables import Table, a_job, a_table

D = Decimal
Json = dict[str, Any]
TRADES = "id int, currency text, amount decimal(18,2), price decimal(18,4)"


def trades(*changes: tuple[object, ...]) -> list[Table]:
    """Two books of trades in dollars and yen; `changes` are the rows of the second."""
    first = [
        (1, "USD", D("100.00"), D("1.5")),
        (2, "USD", D("50.00"), D("1.5")),
        (3, "JPY", D("90000.00"), D("2")),
    ]
    return [a_table("ledger", TRADES, *first), a_table("bank", TRADES, *changes)]


CHANGED = (
    (1, "USD", D("99.00"), D("1.25")),
    (3, "JPY", D("90500.00"), D("2")),
    (4, "JPY", D("7.00"), D("2")),
)


def screen_of(content: Json, *, samples: bool = True) -> FirstScreen:
    return first_screen(run_facts(content, values=samples), samples=samples)


def compared(tables: list[Table], *measures: Any, keys: str = "id", **job: Any) -> FirstScreen:  # noqa: ANN401  measures of a job
    return screen_of(document(a_job(tables, rows_by(keys, *measures), **job), tables))


def test_the_sample_says_how_much_where_and_which() -> None:
    screen = screen_of(document(balance_check(books()), books()))
    assert (screen.compared, screen.agreed, screen.outside, screen.unmatched) == (1005, 975, 5, 25)
    (line,) = screen.amounts
    assert line.difference_text == "-1,234.56"
    assert line.totals == (D("1590427.50"), D("1589192.94"))
    assert line.groups == (5, 20)
    assert line.steps is not None
    assert (line.steps.missing_here, line.steps.missing_in_reference) == (D(500), D(500))
    assert screen.headline == "total_amount -1,234.56"
    assert [row.delta for row in screen.largest] == [
        "-1,000.00",
        "-75.25",
        "-75.25",
        "-75.25",
        "-8.81",
    ]
    assert screen.largest[0].key == (("account", "4711"),)
    assert screen.largest[0].values == (("ledger", "1,677.75"), ("exports", "677.75"))


def test_amounts_of_two_currencies_are_never_added() -> None:
    screen = compared(trades(*CHANGED), a_measure("amount"), keys="id currency")
    assert [(line.unit, line.difference_text) for line in screen.amounts] == [
        ("JPY", "+507.00 JPY"),
        ("USD", "-51.00 USD"),
    ]
    yen, dollars = screen.amounts
    assert (yen.groups, dollars.groups) == ((0, 1), (1, 0))
    assert yen.totals is None
    assert dollars.steps is not None
    assert (dollars.steps.missing_here, dollars.steps.changed) == (D(50), D(-1))
    assert screen.headline == "amount +507.00 JPY, -51.00 USD"


def test_a_currency_that_is_compared_and_no_key_leaves_amounts_without_a_total() -> None:
    screen = compared(trades(*CHANGED), a_measure("amount"), a_measure("currency"))
    assert screen.amounts == ()
    (line,) = screen.others
    assert "add currency to the dimensions" in line.why
    declared = compared(trades(*CHANGED), a_measure("amount", adds_up=True), a_measure("currency"))
    assert [line.difference_text for line in declared.amounts] == ["+456.00"]


def test_a_price_has_no_total_unless_the_job_says_so() -> None:
    screen = compared(trades(*CHANGED), a_measure("price"), keys="id")
    assert screen.amounts == ()
    (line,) = screen.others
    assert (line.measure, line.outside, line.largest) == ("price", 1, "0.25")
    assert line.why == "not added up; adds_up: true in a job file shows its total"
    declared = compared(trades(*CHANGED), a_measure("price", adds_up=True))
    assert [line.difference_text for line in declared.amounts] == ["+0.25"]


def test_a_measure_that_is_declared_not_to_add_up_has_no_amount() -> None:
    screen = compared(trades(*CHANGED), a_measure("amount", adds_up=False))
    assert screen.amounts == ()
    assert screen.headline == ""


def test_what_is_missing_is_counted_in_groups_and_in_rows() -> None:
    tables = [
        a_table("a", "k text, amount int", ("x", 1), ("x", 2), ("y", 5)),
        a_table("b", "k text, amount int", ("y", 5), ("z", 7)),
    ]
    screen = compared(tables, a_measure("amount"), keys="k")
    (line,) = screen.missing
    assert (line.groups, line.rows) == ((1, 1), (2, 1))
    assert {row.why for row in screen.largest} == {"only in a", "only in b"}
    assert screen.cause == "every difference is a group that is missing in a source"


def test_an_unreadable_value_makes_the_amount_unknown_with_its_reason() -> None:
    tables = [
        a_table("a", "k text, amount text", ("x", "1")),
        a_table("b", "k text, amount text", ("x", "1,200")),
    ]
    cast = {"cast": {"amount": parse_type("decimal(10,2)")}}
    sources = {"a": cast, "b": cast}
    screen = compared(tables, a_measure("amount"), keys="k", sources=sources)
    (line,) = screen.amounts
    assert line.difference is None
    assert line.difference_text == "unknown (1 unreadable value in b)"


def test_a_group_is_listed_once_and_amounts_come_before_texts() -> None:
    columns = "k int, amount int, note text"
    tables = [
        a_table("a", columns, *((n, n, "x") for n in range(9))),
        a_table("b", columns, *((n, n + n, "y") for n in range(9))),
    ]
    screen = compared(tables, a_measure("note"), a_measure("amount"), keys="k")
    assert [row.key[0][1] for row in screen.largest] == ["8", "7", "6", "5", "4"]
    assert {row.measure for row in screen.largest} == {"amount"}


def test_without_the_right_to_values_amounts_stay_and_rows_and_causes_go() -> None:
    tables = trades(*CHANGED)
    content = document(a_job(tables, rows_by("id currency", a_measure("amount"))), tables)
    screen = screen_of(content, samples=False)
    assert screen.largest == ()
    assert screen.cause == ""
    assert [line.difference_text for line in screen.amounts] == ["+507.00 JPY", "-51.00 USD"]


def test_a_masked_or_long_unit_is_shown_nowhere() -> None:
    mask = Results(breaks=Breaks(mask={"currency": MaskRule.HASH}))
    screen = compared(trades(*CHANGED), a_measure("amount"), keys="id currency", results=mask)
    assert screen.amounts == ()
    assert screen.others[0].why == "not added up: the key names a currency or unit"
    tables = [
        a_table("a", "k int, unit text, amount int", (1, "a text of a client", 1)),
        a_table("b", "k int, unit text, amount int", (1, "a text of a client", 2)),
    ]
    assert compared(tables, a_measure("amount"), keys="k unit").amounts == ()


def test_the_same_measure_of_two_stages_is_listed_once() -> None:
    tables = books()
    one = aggregate_by("account", a_measure("amount", absolute("0.01")), name="by-account")
    two = aggregate_by("", a_measure("amount"), name="total")
    screen = screen_of(document(a_job(tables, two, one), tables))
    assert [(line.stage, line.difference_text) for line in screen.amounts] == [
        ("by-account", "-1,234.56")
    ]


def test_a_chosen_value_is_no_amount() -> None:
    tables = books()
    stage = aggregate_by("account", a_measure("amount", function=Function.MAX))
    screen = screen_of(document(a_job(tables, stage), tables))
    assert screen.amounts == ()
    assert screen.others[0].outside == 25


@pytest.mark.case("U49")
def test_a_matched_run_has_no_amounts_and_no_cause() -> None:
    ledger, _ = books()
    tables = [ledger, Table(name="exports", columns=ledger.columns, rows=ledger.rows)]
    screen = screen_of(document(balance_check(tables), tables))
    assert (screen.result, screen.amounts, screen.largest, screen.cause) == ("MATCHED", (), (), "")
