from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.comparison.canonical import NULL, Tag, Value, canonical_text, number, text
from datarecs_core.comparison.normalizing import cut_time, on_input, on_result, round_half_even
from datarecs_core.comparison.rules import STRICT, Rules
from datarecs_core.jobs.vocabulary import (
    Case,
    EmptyText,
    Float32Rule,
    NullAs,
    Rounding,
    Trim,
    UnicodeForm,
)

D = Decimal


@given(st.one_of(st.text(), st.decimals(allow_nan=False, places=4)))
def test_without_rules_nothing_changes(plain: str | Decimal) -> None:
    value = text(plain) if isinstance(plain, str) else number(plain)
    assert on_result(on_input(value, STRICT), STRICT) == value
    assert STRICT.declared() == ()


def test_rules_of_text_come_in_their_order() -> None:
    rules = Rules(trim=Trim.BOTH, unicode=UnicodeForm.NFKC, case=Case.FOLD, empty=EmptyText.NULL)
    assert on_input(text(" ﬁﬁ\u00a0"), rules) == text("fifi")
    assert on_input(text(" \t"), rules) == NULL


def test_null_becomes_what_is_declared() -> None:
    assert on_result(NULL, Rules(null=NullAs.ZERO)) == number(0)
    assert on_result(NULL, Rules(null=NullAs.EMPTY)) == text("")
    assert on_result(NULL, Rules(round=2)) == NULL


@pytest.mark.parametrize(
    ("value", "places", "rounded"),
    [("1.005", 2, "1"), ("1.015", 2, "1.02"), ("-0.5", 0, "0"), ("2.5", 0, "2"), ("NaN", 2, "NaN")],
)
def test_numbers_are_rounded_half_even(value: str, places: int, rounded: str) -> None:
    made = on_result(number(D(value)), Rules(round=places))
    assert canonical_text(made) == rounded


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30))
def test_rounding_moves_a_number_by_half_a_unit_at_most(value: Decimal) -> None:
    if abs(value.adjusted()) < 200:
        assert abs(round_half_even(value, 2) - value) <= D("0.005")


def test_single_precision_acts_on_numbers_alone() -> None:
    rules = Rules(float32=Float32Rule.SHORTEST)
    assert on_input(number(D("16777217")), rules) == number(16777216)
    assert on_input(text("16777217"), rules) == text("16777217")


@pytest.mark.parametrize(
    ("micros", "digits", "rounding", "cut"),
    [
        ("-1", 0, Rounding.TRUNCATE, "-1000000"),
        ("1999999", 0, Rounding.TRUNCATE, "1000000"),
        ("1500000", 0, Rounding.HALF_EVEN, "2000000"),
        ("2500000", 0, Rounding.HALF_EVEN, "2000000"),
        ("1234.5678", 6, Rounding.TRUNCATE, "1234"),
        ("1234.5678", 8, Rounding.TRUNCATE, "1234.56"),
        ("Infinity", 3, Rounding.TRUNCATE, "Infinity"),
    ],
)
def test_times_are_cut_to_the_earlier_moment(
    micros: str, digits: int, rounding: Rounding, cut: str
) -> None:
    assert cut_time(D(micros), digits, rounding) == D(cut)
    value = on_input(Value(Tag.LOCAL, D(micros)), Rules(precision=digits, rounding=rounding))
    assert value.content == D(cut)
