from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.comparison.oracle.aggregating import add
from datarecs_reports.decoding import run_facts
from datarecs_reports.html import run_report
from datarecs_reports.waterfalls import axis_of, drawing, waterfall_pages
from datarecs_testing.comparisons import a_measure, aggregate_by, counting, rows_by
from datarecs_testing.finished_runs import RUN, balance_check, books, document
from datarecs_testing.tables import a_job, a_table

D = Decimal
amounts = st.decimals(-(10**30), 10**30, places=2, allow_nan=False)


def test_the_gap_of_the_sample_is_drawn_step_by_step() -> None:
    facts = run_facts(document(balance_check(books()), books()))
    (stage,) = facts.stages
    assert stage.executed is not None
    (page,) = waterfall_pages(stage.executed, facts.source_names)
    assert page.title == "total_amount"
    assert [(step.label, step.amount, step.kind) for step in page.steps] == [
        ("total of ledger", "1,590,427.50", "total"),
        ("missing in exports", "-500.00", "down"),
        ("missing in ledger", "+500.00", "up"),
        ("values that differ", "-1,234.56", "down"),
        ("total of exports", "1,589,192.94", "total"),
    ]


@pytest.mark.case("U45")
@given(first=amounts, changes=st.lists(amounts, min_size=3, max_size=3))
def test_steps_lead_to_the_end_inside_the_drawing(first: Decimal, changes: list[Decimal]) -> None:
    last = add([first, *changes])
    named = [(f"change {at}", change) for at, change in enumerate(changes)]
    drawn = drawing(("from", first), named, ("to", last), places=2)
    steps = drawn.steps
    assert [step.kind for step in steps[1:-1]] == [
        "none" if change == 0 else "up" if change > 0 else "down" for change in changes
    ]
    bars = [bar for step in steps for bar in step.bars]
    assert all(bar.start >= 0 and bar.width >= 0 and bar.start + bar.width <= 1000 for bar in bars)


@pytest.mark.case("U45")
@given(first=amounts, changes=st.lists(amounts, min_size=3, max_size=3))
def test_an_axis_without_a_break_begins_at_0_and_preserves_proportions(
    first: Decimal, changes: list[Decimal]
) -> None:
    """A bar is never longer than its amount, against any other on the same axis."""
    at = [first]
    for change in changes:
        at.append(add([at[-1], change]))
    axis = axis_of(at)
    if axis.is_broken:
        spread = max(at) - min(at)
        assert 0 < spread * 20 < max(map(abs, at))
        return
    assert axis.low <= 0 <= axis.high
    span = axis.high - axis.low
    for amount in at:
        exact = (amount - axis.low) * 1000 / span if span else D(0)
        assert abs(axis.place(amount) - exact) < D("1.000001")


def test_small_steps_between_large_totals_are_enlarged_behind_a_visible_break() -> None:
    drawn = drawing(("a", D(1_000_000)), [("change", D(-500))], ("b", D(999_500)))
    assert drawn.is_broken
    assert (drawn.low, drawn.high) == ("999,500", "1,000,000")
    first, change, last = drawn.steps
    near, far = first.bars
    assert near.start + near.width < far.start
    assert change.bars[0].width > 500
    assert far.width > last.bars[1].width


def test_totals_below_0_grow_to_the_left() -> None:
    drawn = drawing(("a", D(-1_000_000)), [("change", D(-500))], ("b", D(-1_000_500)))
    assert drawn.is_negative
    first, _, last = drawn.steps
    assert last.bars[0].start < first.bars[0].start
    assert first.bars[1].start + first.bars[1].width == 1000


@pytest.mark.parametrize("name", ["price", "rate", "percent"])
def test_prices_and_rates_have_no_bridge(name: str) -> None:
    tables = [
        a_table("a", f"k int, {name} decimal(9,2)", (1, D(1)), (2, D(2))),
        a_table("b", f"k int, {name} decimal(9,2)", (1, D(3))),
    ]
    (stage,) = run_facts(document(a_job(tables, rows_by("k", a_measure(name))), tables)).stages
    assert stage.executed is not None
    assert waterfall_pages(stage.executed, ("a", "b")) == ()
    job = a_job(tables, rows_by("k", a_measure(name, adds_up=True)))
    (stage,) = run_facts(document(job, tables)).stages
    assert stage.executed is not None
    assert len(waterfall_pages(stage.executed, ("a", "b"))) == 1


def test_each_currency_has_a_separate_bridge() -> None:
    columns = "k int, ccy text, amount decimal(9,2)"
    tables = [
        a_table("a", columns, (1, "USD", D(10)), (2, "JPY", D(900))),
        a_table("b", columns, (1, "USD", D(12)), (3, "JPY", D(500))),
    ]
    (stage,) = run_facts(
        document(a_job(tables, rows_by("k ccy", a_measure("amount"))), tables)
    ).stages
    assert stage.executed is not None
    yen, dollars = waterfall_pages(stage.executed, ("a", "b"))
    assert (yen.title, dollars.title) == ("amount in JPY", "amount in USD")
    assert [(step.label, step.amount) for step in yen.steps] == [
        ("as in a", "0.00"),
        ("missing in b", "-900.00"),
        ("missing in a", "+500.00"),
        ("values that differ", "0.00"),
        ("difference", "-400.00"),
    ]


@pytest.mark.case("U45")
def test_steps_that_miss_the_end_are_refused() -> None:
    with pytest.raises(ValueError, match="the steps lead to 3, not to 4"):
        drawing(("from", D(1)), [("change", D(2))], ("to", D(4)))


def test_nothing_is_drawn_where_nothing_moves_or_nobody_can_lack_a_group() -> None:
    tables = [a_table(name, "k int, v int", (1, 1), (2, 2)) for name in ("a", "b")]
    job = a_job(tables, counting(), rows_by("k", a_measure("v")))
    for stage in run_facts(document(job, tables)).stages:
        assert stage.executed is not None
        assert waterfall_pages(stage.executed, ("a", "b")) == ()
    other = [tables[0], a_table("b", "k int, v int", (1, 1))]
    counted = run_facts(document(a_job(other, counting()), other)).stages[0].executed
    assert counted is not None
    assert waterfall_pages(counted, ("a", "b")) == ()


def test_each_of_many_sources_has_a_separate_way() -> None:
    tables = [
        a_table("a", "k int, v int", (1, 10), (2, 20)),
        a_table("b", "k int, v int", (1, 11)),
        a_table("c", "k int, v int", (1, 10), (2, 20), (3, 7)),
    ]
    job = a_job(tables, aggregate_by("k", a_measure("v")))
    page = run_report(document(job, tables), RUN, samples=True).decode()
    assert "<caption>v of b</caption>" in page
    assert "<caption>v of c</caption>" in page
    assert "missing in b" in page
