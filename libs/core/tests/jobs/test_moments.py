"""The `{{ }}` expressions."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest

from datarecs_core.jobs.moments import evaluate, is_expression, parse_moment

PARIS = ZoneInfo("Europe/Paris")
NEW_YORK = ZoneInfo("America/New_York")
LATE = datetime(2026, 1, 31, 23, 30, tzinfo=UTC)
"""In Paris already the first of February."""


def value(text: str, moment: datetime = LATE, zone: ZoneInfo = PARIS) -> date | datetime:
    expression = parse_moment(text)
    assert expression is not None
    return evaluate(expression, moment, zone)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("{{ run.date }}", date(2026, 2, 1)),
        ("{{run.date-1d}}", date(2026, 1, 31)),
        ("{{ run.date - 2w }}", date(2026, 1, 18)),
        ("{{ run.date month_end }}", date(2026, 2, 28)),
        ("{{ run.date month_start - 1d month_start }}", date(2026, 1, 1)),
        ("{{ run.date + 28d month_end }}", date(2026, 3, 31)),
    ],
)
def test_a_date_is_reckoned_in_the_jobs_zone(text: str, day: date) -> None:
    assert value(text) == day


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("{{ run.timestamp }}", LATE),
        ("{{ run.scheduled_at - 90m }}", datetime(2026, 1, 31, 22, tzinfo=UTC)),
        ("{{ run.timestamp month_start }}", datetime(2026, 1, 31, 23, tzinfo=UTC)),
        ("{{ run.timestamp month_end }}", datetime(2026, 2, 28, 22, 59, 59, 999_999, tzinfo=UTC)),
    ],
)
def test_a_time_is_an_instant(text: str, instant: datetime) -> None:
    assert value(text) == instant


def test_days_preserve_the_wall_clock_and_hours_do_not() -> None:
    """New York, 2026-03-08 is 23 hours long."""
    before = datetime(2026, 3, 7, 17, tzinfo=UTC)
    assert [
        value("{{ run.timestamp + 1d }}", before, NEW_YORK),
        value("{{ run.timestamp + 24h }}", before, NEW_YORK),
    ] == [datetime(2026, 3, 8, 16, tzinfo=UTC), datetime(2026, 3, 8, 17, tzinfo=UTC)]


def test_a_wall_clock_in_the_gap_shifts_forward_by_its_length() -> None:
    before = datetime(2026, 3, 7, 7, 30, tzinfo=UTC)  # 02:30 in New York
    assert value("{{ run.timestamp + 1d }}", before, NEW_YORK) == datetime(
        2026, 3, 8, 7, 30, tzinfo=UTC
    )


def test_a_repeated_wall_clock_takes_the_offset_before_the_change() -> None:
    before = datetime(2026, 10, 31, 5, 30, tzinfo=UTC)  # 01:30 in New York
    assert value("{{ run.timestamp + 1d }}", before, NEW_YORK) == datetime(
        2026, 11, 1, 5, 30, tzinfo=UTC
    )


@pytest.mark.parametrize(
    "text",
    [
        "run.date",
        "{{ }}",
        "{{ run.day }}",
        "{{ run.date - 1h }}",
        "{{ run.date - 1 }}",
        "{{ run.date - 1y }}",
        "{{ run.date }} x",
        "{{ run.date }}{{ run.date }}",
        "{{ __import__('os') }}",
        "{{ run.date - 9999999d }}",
        "{{ run.date" + " - 1d" * 100 + " }}",
    ],
)
def test_there_is_no_other_language(text: str) -> None:
    assert parse_moment(text) is None


def test_a_day_outside_all_years_is_an_overflow() -> None:
    with pytest.raises(OverflowError):
        value("{{ run.date - 999999d }}")


def test_an_expression_is_known_by_its_braces() -> None:
    assert (is_expression("{{ nonsense"), is_expression("{plain}")) == (True, False)
