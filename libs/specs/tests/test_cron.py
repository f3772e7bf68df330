"""Which expressions are accepted, and when they fire on days on which the clocks change."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache
from itertools import islice, takewhile
from random import Random

import pytest

from datarecs_specs.cron import ALIASES, cron_fault, cron_times
from datarecs_specs.zones import pinned_tables, zone_fault

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
ZONES = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/El_Aaiun",
    "America/Adak",
    "America/Anchorage",
    "America/Asuncion",
    "America/Caracas",
    "America/Chicago",
    "America/Halifax",
    "America/Havana",
    "America/Los_Angeles",
    "America/Miquelon",
    "America/New_York",
    "America/Nuuk",
    "America/Port-au-Prince",
    "America/Santiago",
    "America/Scoresbysund",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Almaty",
    "Asia/Amman",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Jerusalem",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Asia/Tehran",
    "Atlantic/Azores",
    "Australia/Adelaide",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Europe/Chisinau",
    "Europe/Dublin",
    "Europe/London",
    "Pacific/Apia",
    "Pacific/Auckland",
    "Pacific/Chatham",
    "Pacific/Easter",
    "Pacific/Norfolk",
]
EVERY_HOUR = range(24)
BY_ELAPSED_TIME = [
    ("*/30 * * * *", range(0, 60, 30), EVERY_HOUR),
    ("0 */2 * * *", [0], range(0, 24, 2)),
    ("20 * * * *", [20], EVERY_HOUR),
    ("*/10 1-3 * * *", range(0, 60, 10), [1, 2, 3]),
    ("* 0 * * *", range(60), [0]),
    ("15,45 */3 * * *", [15, 45], range(0, 24, 3)),
    ("45 */3 * * *", [45], range(0, 24, 3)),
]
"""Minute or hour begin with `*`; and the minutes and hours that they name."""
LORD_HOWE = "Australia/Lord_Howe"


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]  # year, month, day, hour, minute


def zone_of(name: str) -> tzinfo:
    return pinned_tables().zone(name)


def fires(cron: str, zone: str, after: datetime, end: datetime) -> list[datetime]:
    """The times in (after, end)."""
    return list(takewhile(lambda at: at < end, cron_times(cron, zone_of(zone), after)))


def hours(day: datetime, *every: int) -> list[datetime]:
    return [day + timedelta(hours=hour) for hour in every]


DAYS = [
    ("America/New_York", date(2026, 3, 8), "30 2 * * *", [utc(2026, 3, 8, 7)]),
    ("America/New_York", date(2026, 3, 8), "*/30 2 * * *", []),
    ("America/New_York", date(2026, 11, 1), "30 1 * * *", [utc(2026, 11, 1, 5, 30)]),
    ("America/New_York", date(2026, 11, 1), "0 * * * *", hours(utc(2026, 11, 1), *range(4, 29))),
    (
        "America/New_York",
        date(2026, 11, 1),
        "*/30 1 * * *",
        [utc(2026, 11, 1, hour, minute) for hour in (5, 6) for minute in (0, 30)],
    ),
    ("Europe/Berlin", date(2026, 3, 29), "30 2 * * *", [utc(2026, 3, 29, 1)]),
    ("Europe/Berlin", date(2026, 3, 29), "0,30 2 * * *", [utc(2026, 3, 29, 1)]),
    (
        "Europe/Berlin",
        date(2026, 3, 29),
        "0 */2 * * *",
        hours(utc(2026, 3, 29), -1, *range(2, 21, 2)),
    ),
    ("Europe/Berlin", date(2026, 10, 25), "30 2 * * *", [utc(2026, 10, 25, 0, 30)]),
    (
        "Europe/Berlin",
        date(2026, 10, 25),
        "0 */2 * * *",
        hours(utc(2026, 10, 25), -2, 0, *range(1, 22, 2)),
    ),
    ("Europe/London", date(2026, 3, 29), "30 1 * * *", [utc(2026, 3, 29, 1)]),
    ("America/Havana", date(2026, 3, 8), "0 0 * * *", [utc(2026, 3, 8, 5)]),
    (LORD_HOWE, date(2026, 4, 5), "45 1 * * *", [utc(2026, 4, 4, 14, 45)]),
    (LORD_HOWE, date(2026, 10, 4), "15 2 * * *", [utc(2026, 10, 3, 15, 30)]),
]


@pytest.mark.case("R38")
@pytest.mark.parametrize(("zone", "day", "cron", "expected"), DAYS)
def test_a_day_on_which_the_clocks_change(
    zone: str, day: date, cron: str, expected: list[datetime]
) -> None:
    start, end = (
        datetime.combine(one, time(), tzinfo=zone_of(zone)).astimezone(UTC)
        for one in (day, day + DAY)
    )
    for minutes in range(0, int((end - start) / MINUTE) + 1, 10):
        resumed = start + minutes * MINUTE
        later = [at for at in expected if at > resumed]
        assert fires(cron, zone, resumed, end) == later, resumed
    assert fires(cron, zone, start - MINUTE, end) == expected


@pytest.mark.case("R38")
def test_a_date_that_a_zone_drops() -> None:
    """On Samoa the 30th of December 2011 never came."""
    expected = [utc(2011, 12, 30, 10), utc(2011, 12, 30, 22)]
    for minutes in range(0, 24 * 60, 10):
        resumed = utc(2011, 12, 29, 23) + minutes * MINUTE
        later = [at for at in expected if at > resumed]
        assert fires("0 12 * * *", "Pacific/Apia", resumed, utc(2011, 12, 31)) == later, resumed


@pytest.mark.case("R39")
@pytest.mark.parametrize("zone", ZONES)
def test_a_time_of_day_fires_once_on_each_date(zone: str) -> None:
    """In four of the years at one time of day, and at each change of the clocks at its time."""
    random = Random(zone)  # noqa: S311  a sample, not a secret
    first = date(random.randrange(2020, 2035), 1, 1)
    days = [first + number * DAY for number in range(4 * 365)]
    assert_fires_on_each(days, time(random.randrange(24), random.randrange(60)), zone)
    for change in changes(zone):
        before, after = (one.astimezone(zone_of(zone)) for one in (change - MINUTE, change))
        near = [after.date() + number * DAY for number in range(-2, 3)]
        assert_fires_on_each(near, before.time().replace(fold=0), zone)
        assert_fires_on_each(near, after.time().replace(fold=0), zone)


def assert_fires_on_each(days: list[date], at: time, zone: str) -> None:
    expected = [instant(datetime.combine(day, at), zone_of(zone)) for day in days]
    times = cron_times(f"{at.minute} {at.hour} * * *", zone_of(zone), expected[0] - MINUTE)
    assert list(islice(times, len(expected))) == expected, (at, zone)


def instant(wall: datetime, zone: tzinfo) -> datetime:
    """Of a time of day: the first occurrence, and the end of the hour for one that is skipped."""
    while wall.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None) != wall:
        wall += MINUTE
    return wall.replace(tzinfo=zone).astimezone(UTC)


@cache
def changes(zone: str) -> tuple[datetime, ...]:
    """The instants from 2020 to 2037 before which the clocks show another offset, in UTC."""
    instants = []
    day, end, rules = utc(2020, 1, 1), utc(2038, 1, 1), zone_of(zone)
    while day < end:
        offset = day.astimezone(rules).utcoffset()
        if (day + DAY).astimezone(rules).utcoffset() != offset:
            minutes = (day + number * MINUTE for number in range(1, 24 * 60 + 1))
            instants.append(
                next(at for at in minutes if at.astimezone(rules).utcoffset() != offset)
            )
        day += DAY
    return tuple(instants)


def scanned(
    zone: tzinfo, minutes: frozenset[int], some_hours: frozenset[int], start: datetime
) -> Iterator[datetime]:
    """Every minute of two days whose time on the clock is named."""
    for number in range(1, 2 * 24 * 60):
        local = (start + number * MINUTE).astimezone(zone)
        if local.minute in minutes and local.hour in some_hours:
            yield start + number * MINUTE


@pytest.mark.case("R39")
@pytest.mark.parametrize("zone", ZONES)
def test_an_expression_by_elapsed_time_fires_when_the_clock_shows_it(zone: str) -> None:
    random = Random(zone)  # noqa: S311  a sample, not a secret
    moments = [utc(2026, 5, 5), *changes(zone)]
    for change in random.sample(moments, min(3, len(moments))):
        cron, minutes, some_hours = random.choice(BY_ELAPSED_TIME)
        start = change - DAY
        expected = list(scanned(zone_of(zone), frozenset(minutes), frozenset(some_hours), start))
        assert fires(cron, zone, start, start + 2 * DAY) == expected, (cron, change)


@pytest.mark.case("R40")
@pytest.mark.parametrize(
    ("cron", "fault"),
    [
        ("* * * * * *", "6 fields; exactly five"),
        ("* * * *", "4 fields; exactly five"),
        ("", "0 fields; exactly five"),
        ("daily", "one field; exactly five"),
        ("0 0 * * ?", "'?' is not allowed; write '*'"),
        ("0 0 30 2 *", "never fires"),
        ("0 0 */30 2 SUN#5", "never fires"),
        ("60 * * * *", "minute: write 0 to 59"),
        ("0 24 * * *", "hour: write 0 to 23"),
        ("0 0 0 * *", "day of month: write 1 to 31"),
        ("0 0 * 13 *", "month: write 1 to 12"),
        ("0 0 * * FRI-MON", "day of week: write 0 to 7"),
        ("²0 * * * *", "minute: write 0 to 59"),
        ("*/90 * * * *", "minute: a step is at most 60"),
        ("@midnight", "no such alias; the aliases are @hourly, @daily"),
        ("0 " * 101, "202 characters; at most 200"),
    ],
)
def test_a_refused_expression(cron: str, fault: str) -> None:
    assert str(cron_fault(cron)).startswith(fault)
    with pytest.raises(ValueError, match="cron: "):
        cron_times(cron, UTC, utc(2026, 1, 1))


@pytest.mark.case("R40")
@pytest.mark.parametrize(
    ("cron", "first"),
    [
        ("0 0 29 2 *", utc(2028, 2, 29)),
        ("0 0 L * *", utc(2026, 1, 31)),
        ("0 0 LW * *", utc(2026, 1, 30)),
        ("0 9 * * MON#2", utc(2026, 1, 12, 9)),
        ("0 9 * * 5L", utc(2026, 1, 30, 9)),
        ("0 0 13 * fri", utc(2026, 1, 2)),  # either of the two days
        ("0 0 * 2 MON#5", utc(2044, 2, 29)),
        ("@hourly", utc(2026, 1, 1, 1)),
        ("@daily", utc(2026, 1, 2)),
        ("@weekly", utc(2026, 1, 4)),
        ("@monthly", utc(2026, 2, 1)),
        ("@yearly", utc(2027, 1, 1)),
    ],
)
def test_an_accepted_expression(cron: str, first: datetime) -> None:
    assert cron_fault(cron) is None
    assert next(cron_times(cron, UTC, utc(2026, 1, 1))) == first


def test_every_alias_is_an_expression() -> None:
    assert [cron_fault(fields) for fields in ALIASES.values()] == [None] * len(ALIASES)


@pytest.mark.case("R40")
@pytest.mark.parametrize("name", ["Mars/X", "", "europe/berlin", "localtime", "Factory", "../UTC"])
def test_an_unknown_zone(name: str) -> None:
    assert zone_fault(name) == "no such time zone"
    with pytest.raises(ValueError, match="no such time zone"):
        zone_of(name)


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "US/Eastern", "America/Indiana/Knox"])
def test_a_known_zone(name: str) -> None:
    assert zone_fault(name) is None
    assert utc(2026, 1, 1).astimezone(zone_of(name)).tzinfo is zone_of(name)


def test_a_skipped_midnight_fires_only_what_the_clock_shows() -> None:
    start, end = utc(2026, 3, 8), utc(2026, 3, 9)
    assert fires("*/30 0 8 3 *", "America/Havana", start, end) == []
    assert fires("*/30 * 8 3 *", "America/Havana", start, end)[0] == utc(2026, 3, 8, 5)
