from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.comparison.planning.rules import STRICT, Rules
from datarecs_core.comparison.values.canonical import NULL, Tag, Value, canonical_text, number, text
from datarecs_core.comparison.values.normalizing import (
    cut_time,
    on_input,
    on_result,
    round_half_even,
)
from datarecs_core.jobs.vocabulary import (
    ArrayRule,
    Case,
    EmptyText,
    Float32Rule,
    NullAs,
    Rounding,
    Trim,
    UnicodeForm,
)
from datarecs_core.values import EXACT

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
        moved = EXACT.subtract(round_half_even(value, 2), value)
        assert moved.copy_abs() <= D("0.005")


@pytest.mark.case("P29")
def test_only_white_space_of_unicode_is_trimmed() -> None:
    """Python's strip would take the separators U+001C to U+001F, too."""
    padded = text("\x1c\u00a0a\u00a0\x1c")
    assert on_input(padded, Rules(trim=Trim.BOTH)) == padded
    inside = text("\u00a0\x1ca\x1c\u00a0")
    assert on_input(inside, Rules(trim=Trim.BOTH)) == text("\x1ca\x1c")


@pytest.mark.parametrize("tag", [Tag.INSTANT, Tag.LOCAL, Tag.TIME])
def test_precision_cuts_times_and_nothing_else(tag: Tag) -> None:
    rules = Rules(precision=3)
    assert on_input(Value(tag, D(1_234_567)), rules) == Value(tag, D(1_234_000))
    assert on_input(number(1_234_567), rules) == number(1_234_567)


@pytest.mark.case("P42")
def test_arrays_are_sets_only_where_that_is_declared() -> None:
    pair = Value(Tag.JSON, "[2,1]")
    assert on_input(pair, STRICT) == pair
    assert on_input(pair, Rules(arrays=ArrayRule.SET)) == Value(Tag.JSON, "[1,2]")
    assert on_input(text("[2,1]"), Rules(arrays=ArrayRule.SET)) == text("[2,1]")


@pytest.mark.case("P31")
@pytest.mark.parametrize(
    ("form", "accent", "ligature"),
    [
        (UnicodeForm.NONE, "e\u0301", "\ufb01"),
        (UnicodeForm.NFC, "\u00e9", "\ufb01"),
        (UnicodeForm.NFKC, "\u00e9", "fi"),
    ],
)
def test_unicode_is_brought_to_the_declared_form(
    form: UnicodeForm, accent: str, ligature: str
) -> None:
    rules = Rules(unicode=form)
    assert on_input(text("e\u0301"), rules) == text(accent)
    assert on_input(text("\ufb01"), rules) == text(ligature)


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
