"""The times of a schedule, in order, as data of the core; how cron is read is an adapter's."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Protocol

from datarecs_core.scheduling.schedule import Schedule


class FireTimes(Protocol):
    """Reads cron expressions and zones."""

    version: str
    """Of the zone data, such as 2026.6."""

    def after(
        self, schedule: Schedule, *, created_at: datetime, after: datetime
    ) -> Iterator[datetime]:
        """The times strictly after an instant, ascending, in UTC, from `start_at` to `end_at`.

        Lazy, and endless unless the schedule ends. Ignores `suspend` and `jitter`.

        Raises:
            ValueError: cron or zone cannot be read.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedTime:
    """One of the next times, for people."""

    fire_time: datetime
    """UTC."""
    local: datetime
    """The same instant in the zone of the schedule."""
    note: str | None = None
    """What a change of the clocks does to it."""


def interval_times(
    schedule: Schedule, interval: timedelta, *, created_at: datetime, after: datetime
) -> Iterator[datetime]:
    """The times strictly after an instant: the anchor and every interval from it, endless."""
    anchor = schedule.start_at or created_at.replace(second=0, microsecond=0)
    step = max(0, (after - anchor) // interval + 1)
    while True:
        yield anchor + step * interval
        step += 1


def until_end(schedule: Schedule, times: Iterator[datetime]) -> Iterator[datetime]:
    """The times up to `end_at`, inclusive."""
    end = schedule.end_at
    return times if end is None else takewhile(lambda fire_time: fire_time <= end, times)
