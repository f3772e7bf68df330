"""The times of whole schedules: bounds, intervals, versions of the zone tables, previews."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest

from datarecs_core.scheduling.schedule import Schedule
from datarecs_specs.cron_times import CronTimes
from datarecs_specs.zones import ZoneTables, pinned_tables

CREATED = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]  # year, month, day, hour, minute


def next_times(after: datetime, count: int = 3, **spec: Any) -> list[datetime]:  # noqa: ANN401  fields of Schedule
    schedule = Schedule(job="j", **spec)
    return list(islice(CronTimes().after(schedule, created_at=CREATED, after=after), count))


def notes(after: datetime, **spec: Any) -> list[str]:  # noqa: ANN401  fields of Schedule
    schedule = Schedule(job="j", **spec)
    previewed = CronTimes().preview(schedule, created_at=CREATED, after=after)
    assert [one.fire_time for one in previewed] == next_times(after, 10, **spec)
    assert [one.local.astimezone(UTC) for one in previewed] == [one.fire_time for one in previewed]
    return [one.note for one in previewed if one.note]


def test_start_and_end_are_times_too() -> None:
    spec: dict[str, Any] = {
        "cron": "@hourly",
        "start_at": utc(2026, 2, 1, 5),
        "end_at": utc(2026, 2, 1, 6),
    }
    assert next_times(CREATED, **spec) == [utc(2026, 2, 1, 5), utc(2026, 2, 1, 6)]
    assert next_times(utc(2026, 2, 1, 5), **spec) == [utc(2026, 2, 1, 6)]


def test_an_interval_counts_from_its_start() -> None:
    spec: dict[str, Any] = {
        "interval": 36 * HOUR,
        "start_at": utc(2026, 2, 1),
        "timezone": "Europe/Berlin",
    }
    steps = [utc(2026, 2, 1), utc(2026, 2, 2, 12), utc(2026, 2, 4)]
    assert next_times(CREATED, **spec) == steps
    assert next_times(utc(2026, 2, 1), **spec)[:2] == steps[1:]


def test_an_interval_without_a_start_counts_from_the_minute_of_creation() -> None:
    assert next_times(CREATED, 2, interval=HOUR) == [utc(2026, 1, 1, 13), utc(2026, 1, 1, 14)]


def test_a_schedule_without_times_is_refused() -> None:
    with pytest.raises(ValueError, match="cron expression or an interval"):
        next_times(CREATED)


@pytest.mark.case("R49")
def test_new_zone_tables_move_the_next_time_and_have_a_version() -> None:
    """A country ends summer time: the same schedule, an hour later in UTC."""
    pinned = pinned_tables()
    newer = ZoneTables(version="2099.1", zone=lambda _: pinned.zone("Africa/Lagos"))
    schedule = Schedule(job="j", cron="30 2 * * *", timezone="Europe/Berlin")
    before, after = (
        next(CronTimes(tables).after(schedule, created_at=CREATED, after=utc(2026, 7, 1)))
        for tables in (pinned, newer)
    )
    assert after - before == HOUR
    assert CronTimes(newer).version == "2099.1"
    assert CronTimes().version == pinned.version
    assert pinned.version.startswith("20")


@pytest.mark.parametrize(
    ("zone", "cron", "after", "expected"),
    [
        (
            "Europe/Berlin",
            "30 2 * * *",
            utc(2026, 3, 25),
            ["02:30 does not exist on 2026-03-29 in Europe/Berlin; fires at 03:00"],
        ),
        (
            "Europe/Berlin",
            "0,30 2 * * *",
            utc(2026, 3, 28, 12),
            ["02:00 to 02:30 do not exist on 2026-03-29 in Europe/Berlin; fires at 03:00"],
        ),
        (
            "Europe/Berlin",
            "0 */2 * * *",
            utc(2026, 3, 28, 20),
            ["02:00 does not exist on 2026-03-29 in Europe/Berlin; left out"],
        ),
        (
            "America/New_York",
            "30 1 * * *",
            utc(2026, 10, 30),
            ["01:30 occurs twice on 2026-11-01 in America/New_York; fires the first time"],
        ),
        (
            "America/New_York",
            "@hourly",
            utc(2026, 11, 1, 3),
            [
                "01:00 occurs twice on 2026-11-01 in America/New_York; this is the first",
                "01:00 occurs twice on 2026-11-01 in America/New_York; this is the second",
            ],
        ),
        (
            "Pacific/Apia",
            "0 12 * * *",
            utc(2011, 12, 28),
            [
                "12:00 does not exist on 2011-12-30 in Pacific/Apia; fires at 2011-12-31 00:00",
            ],
        ),
        ("Europe/Berlin", "0 4 * * *", utc(2026, 3, 25), []),
        ("UTC", "*/10 * * * *", utc(2026, 3, 29), []),
    ],
)
def test_a_preview_notes_changes_of_the_clocks(
    zone: str, cron: str, after: datetime, expected: list[str]
) -> None:
    assert notes(after, cron=cron, timezone=zone) == expected


def test_times_left_out_before_the_first_one_are_noted() -> None:
    expected = ["02:00 to 02:30 do not exist on 2027-03-14 in America/New_York; left out"]
    schedule = {"cron": "*/30 2 * * *", "timezone": "America/New_York"}
    assert notes(utc(2027, 3, 13, 12), **schedule) == expected
    assert notes(CREATED, **schedule, start_at=utc(2027, 3, 13, 12)) == expected


def test_a_preview_of_an_interval_is_in_utc() -> None:
    assert notes(utc(2026, 3, 28), interval=HOUR, timezone="Europe/Berlin") == []


def test_a_preview_ends_with_the_schedule() -> None:
    assert notes(CREATED, cron="@hourly", end_at=utc(2026, 1, 1, 15)) == []
