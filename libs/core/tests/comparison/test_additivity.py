"""Amounts and quantities add up, prices, rates and ids do not; the job has the last word."""

import pytest

from datarecs_core.comparison.planning.additivity import adds_up, is_unit, unit_label
from datarecs_core.jobs.vocabulary import Function


@pytest.mark.parametrize(
    "name",
    ["amount", "total_amount", "NetAmount", "QTY", "tradeQuantity", "vat-amount", "cash balance"],
)
def test_a_column_named_as_an_amount_adds_up(name: str) -> None:
    assert adds_up([name], Function.VALUE, declared=None)


@pytest.mark.parametrize(
    "name",
    ["price", "net_price", "fx_rate", "vat_percent", "account_id", "unit_cost", "yield", "avgCost"],
)
def test_a_column_named_as_a_price_a_rate_or_an_id_never_adds_up(name: str) -> None:
    assert not adds_up([name], Function.VALUE, declared=None)
    assert not adds_up([name], Function.SUM, declared=None)


def test_of_other_names_the_function_or_the_field_of_the_job_decides() -> None:
    assert not adds_up(["v"], Function.VALUE, declared=None)
    assert adds_up(["v"], Function.SUM, declared=None)
    assert adds_up(["v"], Function.VALUE, declared=True)
    assert not adds_up(["amount"], Function.SUM, declared=False)
    assert adds_up(["price"], Function.VALUE, declared=True)


def test_the_column_behind_a_measure_counts_as_its_name_does() -> None:
    assert not adds_up(["total", "price"], Function.SUM, declared=None)
    assert adds_up(["v", "amount"], Function.VALUE, declared=None)


@pytest.mark.parametrize("function", [Function.MIN, Function.MAX, Function.AVG])
def test_chosen_and_averaged_values_do_not_add_up(function: Function) -> None:
    assert not adds_up(["amount"], function, declared=None)


def test_numbers_of_rows_add_up_and_numbers_of_distinct_values_do_not() -> None:
    assert adds_up(["v"], Function.COUNT, declared=None)
    assert not adds_up(["v"], Function.COUNT_DISTINCT, declared=None)


@pytest.mark.parametrize("name", ["currency", "trade_ccy", "settlementCurrency", "unit", "UOM"])
def test_a_dimension_of_this_name_holds_a_unit(name: str) -> None:
    assert is_unit(["k", name])


@pytest.mark.parametrize("name", ["business_unit", "account", "curve", "accuracy", "union"])
def test_a_dimension_of_another_name_holds_none(name: str) -> None:
    assert not is_unit([name])


def test_a_unit_is_a_short_word() -> None:
    assert unit_label(["USD"]) == "USD"
    assert unit_label(["EUR", None]) == "EUR/NULL"
    assert unit_label(["a long text of a client"]) is None
    assert unit_label(["<b>"]) is None
    assert unit_label([""]) is None
