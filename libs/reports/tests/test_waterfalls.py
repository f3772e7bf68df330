from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.comparison.oracle.aggregating import add
from datarecs_reports.decoding import run_facts
from datarecs_reports.html import run_report
from datarecs_reports.waterfalls import drawing, waterfall_pages
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
        ("groups that exports lacks", "-500.00", "down"),
        ("groups that ledger lacks", "+500.00", "up"),
        ("values that differ", "-1,234.56", "down"),
        ("total of exports", "1,589,192.94", "total"),
    ]


@pytest.mark.case("U45")
@given(first=amounts, changes=st.lists(amounts, min_size=3, max_size=3))
def test_steps_lead_to_the_end_inside_the_drawing(first: Decimal, changes: list[Decimal]) -> None:
    last = add([first, *changes])
    named = [(f"change {at}", change) for at, change in enumerate(changes)]
    steps = drawing(("from", first), named, ("to", last), places=2)
    assert [step.kind for step in steps[1:-1]] == [
        "none" if change == 0 else "up" if change > 0 else "down" for change in changes
    ]
    assert all(step.start >= 0 and step.start + step.width <= 1000 for step in steps)


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


def test_each_of_several_sources_has_its_own_way() -> None:
    tables = [
        a_table("a", "k int, v int", (1, 10), (2, 20)),
        a_table("b", "k int, v int", (1, 11)),
        a_table("c", "k int, v int", (1, 10), (2, 20), (3, 7)),
    ]
    job = a_job(tables, aggregate_by("k", a_measure("v")))
    page = run_report(document(job, tables), RUN, samples=True).decode()
    assert "<caption>v of b</caption>" in page
    assert "<caption>v of c</caption>" in page
    assert "groups that b lacks" in page
