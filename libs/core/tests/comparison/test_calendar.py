from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.comparison.values.calendar import date_of, date_text, days_of, moment_text

EPOCH = date(1970, 1, 1).toordinal()


@given(st.dates())
def test_days_agree_with_pythons_calendar(day: date) -> None:
    days = day.toordinal() - EPOCH
    assert days_of(day.year, day.month, day.day) == days
    assert date_of(days) == (day.year, day.month, day.day)


@given(st.integers(-3_000_000, 6_000_000))
def test_every_day_of_every_year_comes_back(days: int) -> None:
    assert days_of(*date_of(days)) == days


@pytest.mark.case("P38")
@pytest.mark.parametrize(
    ("days", "written"),
    [
        (days_of(1, 1, 1), "0001-01-01"),
        (days_of(1500, 2, 28) + 1, "1500-03-01"),
        (days_of(9999, 12, 31), "9999-12-31"),
        (days_of(0, 12, 31), "+0000-12-31"),
        (days_of(-44, 3, 15), "-0044-03-15"),
        (days_of(10_000, 1, 1), "+10000-01-01"),
    ],
)
def test_years_are_proleptic_and_signed_beyond_four_digits(days: int, written: str) -> None:
    assert date_text(Decimal(days)) == written


@pytest.mark.parametrize(
    ("micros", "written"),
    [
        ("-0.5", "1969-12-31T23:59:59.9999995"),
        ("86400000000", "1970-01-02T00:00:00"),
        ("-Infinity", "-Inf"),
        ("Infinity", "Inf"),
    ],
)
def test_moments_preserve_every_digit(micros: str, written: str) -> None:
    assert moment_text(Decimal(micros)) == written


def test_a_time_of_day_has_no_date() -> None:
    assert moment_text(Decimal(86_399_000_001), of_day=True) == "23:59:59.000001"
