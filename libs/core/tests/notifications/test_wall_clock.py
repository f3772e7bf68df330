from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.notifications.wall_clock import (
    EVERY_DAY,
    Period,
    Weekday,
    next_time,
    quiet_until,
)

BERLIN = "Europe/Berlin"
NIGHT = (Period(start="22:00", end="07:00"),)
ANY_MOMENT = st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001  Hypothesis adds the zone


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]  # year, month, day, hour, minute


@pytest.mark.case("M13")
@pytest.mark.parametrize(
    ("now", "end"),
    [
        (utc(2026, 3, 28, 21, 30), utc(2026, 3, 29, 5)),  # clocks go forward in this night
        (utc(2026, 10, 24, 21, 30), utc(2026, 10, 25, 6)),  # and back in this one
        (utc(2026, 11, 20, 5, 59), utc(2026, 11, 20, 6)),
        (utc(2026, 11, 20, 6), None),
        (utc(2026, 11, 20, 20, 59), None),
        (utc(2026, 11, 20, 21), utc(2026, 11, 21, 6)),
    ],
)
def test_a_night_ends_at_seven_on_the_clock_of_the_zone(
    now: datetime, end: datetime | None
) -> None:
    assert quiet_until(NIGHT, BERLIN, now) == end


@pytest.mark.case("M13")
def test_a_skipped_time_is_the_next_valid_instant() -> None:
    period = (Period(start="01:00", end="02:30"),)
    assert quiet_until(period, BERLIN, utc(2026, 3, 29, 0, 30)) == utc(2026, 3, 29, 1)


@pytest.mark.case("M13")
def test_an_hour_that_occurs_twice_is_quiet_twice() -> None:
    period = (Period(start="02:00", end="02:59"),)
    first, second = utc(2026, 10, 25, 0, 30), utc(2026, 10, 25, 1, 30)
    assert quiet_until(period, BERLIN, first) == quiet_until(period, BERLIN, second)
    assert quiet_until(period, BERLIN, second) == utc(2026, 10, 25, 1, 59)


def test_a_period_belongs_to_the_day_on_which_it_starts() -> None:
    friday = (Period(days=(Weekday.FRI,), start="20:00", end="08:00"),)
    assert quiet_until(friday, "UTC", utc(2026, 11, 21, 7)) == utc(2026, 11, 21, 8)
    assert quiet_until(friday, "UTC", utc(2026, 11, 20, 7)) is None


def test_periods_that_follow_one_another_are_one_quiet() -> None:
    weekend = (
        Period(days=(Weekday.FRI,), start="18:00", end="00:00"),
        Period(days=(Weekday.SAT, Weekday.SUN), start="00:00", end="12:00"),
        Period(days=(Weekday.SAT, Weekday.SUN), start="12:00", end="00:00"),
    )
    assert quiet_until(weekend, "UTC", utc(2026, 11, 20, 19)) == utc(2026, 11, 23)


def test_quiet_without_an_end_stops_being_followed() -> None:
    always = (Period(start="00:00", end="12:00"), Period(start="12:00", end="00:00"))
    end = quiet_until(always, "UTC", utc(2026, 11, 20))
    assert end is not None
    assert end > utc(2026, 11, 20)


def test_the_next_time_of_a_digest_is_strictly_later_and_on_its_days() -> None:
    at, days = ("07:00", "19:00"), (Weekday.MON,)
    assert next_time(at, days, BERLIN, utc(2026, 11, 20)) == utc(2026, 11, 23, 6)
    assert next_time(at, days, BERLIN, utc(2026, 11, 23, 6)) == utc(2026, 11, 23, 18)
    assert next_time(at, days, BERLIN, utc(2026, 11, 23, 18)) == utc(2026, 11, 30, 6)


@given(ANY_MOMENT)
def test_a_daily_time_comes_within_25_hours_whatever_the_clocks_do(now: datetime) -> None:
    due = next_time(("02:30",), EVERY_DAY, BERLIN, now)
    assert now < due <= now + timedelta(hours=25)


@given(ANY_MOMENT)
def test_quiet_hours_end_at_their_end(now: datetime) -> None:
    end = quiet_until(NIGHT, BERLIN, now)
    if end is not None:
        assert now < end
        assert quiet_until(NIGHT, BERLIN, end) is None
