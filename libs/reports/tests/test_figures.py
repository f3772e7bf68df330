"""Digits, separators and foreign text, as every surface shows them."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_reports.figures import (
    amount,
    common_places,
    counted,
    instant,
    lasting,
    percent,
    permille,
    share,
    size,
    visible,
)


@pytest.mark.case("U49")
@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [
        (999_996, 1_000_000, "99.999 %"),
        (999_999_999, 1_000_000_000, "99.999 %"),
        (1, 1, "100 %"),
        (0, 0, "100 %"),
        (1, 3, "33.333 %"),
        (1, 2, "50 %"),
    ],
)
def test_percentages_are_rounded_down(part: int, whole: int, shown: str) -> None:
    assert percent(part, whole) == shown


@pytest.mark.case("U49")
@given(st.integers(0, 10**12), st.integers(1, 10**12))
def test_100_percent_is_said_of_all_alone(part: int, more: int) -> None:
    assert percent(part, part + more) != "100 %"


@given(st.integers(-(10**30), 10**30), st.integers(0, 18), st.integers(0, 6))
def test_an_amount_preserves_every_digit(digits: int, scale: int, places: int) -> None:
    value = Decimal(digits).scaleb(-scale)
    shown = amount(f"{value:f}", places=places)
    assert Decimal(shown.replace(",", "")) == value


@pytest.mark.parametrize(
    ("text", "places", "shown"),
    [
        ("-1234.56", 0, "-1,234.56"),
        ("1500", 2, "1,500.00"),
        ("0", 0, "0"),
        (
            "99999999999999999999999999999999999.999",
            0,
            "99,999,999,999,999,999,999,999,999,999,999,999.999",
        ),
        ("007", 0, "007"),
        ("NaN", 2, "NaN"),
        ("1e5", 0, "1e5"),
        ("\uff12", 0, "\uff12"),
    ],
)
def test_separators_stand_in_plain_decimals_alone(text: str, places: int, shown: str) -> None:
    assert amount(text, places=places) == shown


def test_amounts_line_up_unless_one_has_very_many_places() -> None:
    assert common_places(["1", "2.50", None, "text"]) == 2
    assert common_places(["1", "0.123456789"]) == 0
    assert common_places([]) == 0


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("-66.666666", "-66.666 %"),
        ("0", "0 %"),
        ("0.000001", "< 0.001 %"),
        ("-0.000001", "> -0.001 %"),
        ("213903743.5", "213,903,743.5 %"),
    ],
)
def test_a_share_is_cut_towards_zero(text: str, shown: str) -> None:
    assert share(text) == shown


@pytest.mark.parametrize(
    ("microseconds", "shown"),
    [
        ("0", "0 s"),
        ("1500000", "1.5 s"),
        ("-5400000000", "-1 h 30 min"),
        ("90061000001", "1 d 1 h 1 min 1.000001 s"),
        ("0.5", "0.0000005 s"),
    ],
)
def test_lengths_of_time_are_exact(microseconds: str, shown: str) -> None:
    assert lasting(microseconds) == shown


@pytest.mark.case("X81")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]8;;http://evil\x07link", "\\x1b]8;;http://evil\\x07link"),
        ("over\rwrite", "over\\rwrite"),
        ("two\nlines", "two\\nlines"),
        ("\u202eright to left", "\\u202eright to left"),
        ("no\u00a0break", "no\\xa0break"),
        (" padded", '" padded"'),
        ("", '""'),
        ("x" * 200, "x" * 160 + "… (200 characters)"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_visible_text_is_one_printable_line(text: str) -> None:
    assert visible(text).isprintable()


def test_sizes_counts_and_bars_never_round_up() -> None:
    assert size(1) == "1 byte"
    assert size(2047) == "1.9 KiB"
    assert size(3 * 2**30) == "3.0 GiB"
    assert counted(1, "group") == "1 group"
    assert counted(1005, "group") == "1,005 groups"
    assert permille(1, 1_000_000) == 1
    assert permille(0, 0) == 0


def test_times_are_shown_in_utc() -> None:
    assert instant("2026-11-20T06:14:03.120455Z") == "2026-11-20 06:14:03 UTC"
