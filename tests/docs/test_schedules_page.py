"""The page about schedules: its table of clock changes is what the code does."""

import re
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from datarecs_core.scheduling.schedule import Schedule
from datarecs_specs.cron_times import CronTimes

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "schedules.md"
ROW = re.compile(
    r"^\| (?P<zone>\w+/\w+) \| (?P<date>\d{4}-\d\d-\d\d), .*? \| "
    r"`(?P<cron>[^`]+)` \| (?P<starts>.*) \|$",
    re.MULTILINE,
)
ROWS = [row.groups() for row in ROW.finditer(PAGE.read_text(encoding="utf-8"))]


def starts_on(date: str, cron: str, zone: str) -> list[str]:
    """Times of a date of the zone, in UTC."""
    midnight = datetime.fromisoformat(date).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    times = CronTimes().after(
        Schedule(job="orders", cron=cron, timezone=zone),
        created_at=midnight,
        after=midnight - timedelta(seconds=1),
    )
    until = midnight + timedelta(days=2)
    return [
        f"{one:%H:%M}"
        for one in takewhile(lambda one: one < until, times)
        if one.astimezone(ZoneInfo(zone)).date().isoformat() == date
    ]


@pytest.mark.case("R38")
@pytest.mark.parametrize(("zone", "date", "cron", "starts"), ROWS)
def test_a_row_of_clock_changes_is_what_happens(
    zone: str, date: str, cron: str, starts: str
) -> None:
    assert (", ".join(starts_on(date, cron, zone)) or "none") == starts


def test_the_table_has_skipped_and_repeated_hours() -> None:
    assert len(ROWS) == 4
