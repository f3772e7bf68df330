"""Wall-clock times of a zone as instants: when quiet hours end, when a digest is due.

Separate from the rules that use them, because daylight saving makes every second line of this a
case: a time that a change of clocks skips is the next valid instant, and a time that occurs twice
begins at the first occurrence and ends at the second.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

_DAY, _MINUTE = timedelta(days=1), timedelta(minutes=1)
_MOST_PERIODS = 15
"""Periods that follow one another without a gap; more than two weeks of them are no quiet hours."""


class Weekday(StrEnum):
    MON = "MON"
    TUE = "TUE"
    WED = "WED"
    THU = "THU"
    FRI = "FRI"
    SAT = "SAT"
    SUN = "SUN"


EVERY_DAY = tuple(Weekday)


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A part of the day, [start, end); one that ends before it starts ends on the next day."""

    days: tuple[Weekday, ...] = EVERY_DAY
    """Days on which it starts."""
    start: str
    """`HH:MM`."""
    end: str
    """`HH:MM`."""


def quiet_until(periods: Sequence[Period], zone: str, now: datetime) -> datetime | None:
    """When the quiet that covers `now` ends, in UTC; None outside every period.

    Periods that follow one another without a gap are one quiet.
    """
    end: datetime | None = None
    for _ in range(_MOST_PERIODS):
        later = _end_of_periods_around(periods, zone, end or now)
        if later is None:
            return end
        end = later
    return end


def _end_of_periods_around(
    periods: Sequence[Period], zone: str, moment: datetime
) -> datetime | None:
    today = moment.astimezone(ZoneInfo(zone)).date()
    ends = [
        end
        for period in periods
        for day in (today - _DAY, today)
        for start, end in _occurrences(period, day, zone)
        if start <= moment < end
    ]
    return max(ends, default=None)


def _occurrences(period: Period, day: date, zone: str) -> Iterator[tuple[datetime, datetime]]:
    """The period that starts on this day, if it starts on such a weekday."""
    if EVERY_DAY[day.weekday()] not in period.days:
        return
    start, end = clock_time(period.start), clock_time(period.end)
    last_day = day if end > start else day + _DAY
    yield _instant(day, start, zone, fold=0), _instant(last_day, end, zone, fold=1)


def next_time(
    times: Sequence[str], days: Sequence[Weekday], zone: str, after: datetime
) -> datetime:
    """The first of these times of day strictly after an instant, in UTC.

    Args:
        times: `HH:MM`, at least one.
        days: on which they count, at least one.
        zone: IANA name.
        after: aware.
    """
    today = after.astimezone(ZoneInfo(zone)).date()
    moments = (
        _instant(day, clock_time(at), zone, fold=0)
        for day in (today + number * _DAY for number in range(8))
        if EVERY_DAY[day.weekday()] in days
        for at in times
    )
    return min(moment for moment in moments if moment > after)


def clock_time(text: str) -> time:
    """`HH:MM` as a time of day."""
    hours, _, minutes = text.partition(":")
    return time(int(hours), int(minutes))


def _instant(day: date, at: time, zone: str, *, fold: int) -> datetime:
    """The instant of a wall-clock time; a skipped time is the next valid instant."""
    local = datetime.combine(day, at, tzinfo=ZoneInfo(zone))
    moment = local.replace(fold=fold).astimezone(UTC)
    if moment.astimezone(local.tzinfo).replace(tzinfo=None) == local.replace(tzinfo=None):
        return moment
    before, after = (local.replace(fold=one).astimezone(UTC) for one in (1, 0))
    offset = after.astimezone(local.tzinfo).utcoffset()
    while before.astimezone(local.tzinfo).utcoffset() != offset:
        before += _MINUTE
    return before
