"""The FireTimes of core: cron expressions in zones, and intervals."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice

from datarecs_core.scheduling.schedule import Schedule
from datarecs_core.scheduling.times import PreviewedTime, interval_times, until_end
from datarecs_specs.clock_changes import clock_note
from datarecs_specs.cron import cron_times
from datarecs_specs.zones import ZoneTables, pinned_tables

PREVIEWED = 10
_LEAST = timedelta(microseconds=1)


class CronTimes:
    """Reads cron with cronsim and zones from one version of the zone tables."""

    def __init__(self, tables: ZoneTables | None = None) -> None:
        self._tables = tables or pinned_tables()
        self.version = self._tables.version

    def after(
        self, schedule: Schedule, *, created_at: datetime, after: datetime
    ) -> Iterator[datetime]:
        """As the port says.

        Raises:
            ValueError: neither cron nor interval is set, or cron or zone cannot be read.
        """
        if schedule.start_at is not None:
            after = max(after, schedule.start_at - _LEAST)
        if schedule.cron is not None:
            zone = self._tables.zone(schedule.timezone)
            return until_end(schedule, cron_times(schedule.cron, zone, after))
        if schedule.interval is not None:
            steps = interval_times(schedule, schedule.interval, created_at=created_at, after=after)
            return until_end(schedule, steps)
        raise ValueError("a schedule has a cron expression or an interval")

    def preview(
        self, schedule: Schedule, *, created_at: datetime, after: datetime
    ) -> tuple[PreviewedTime, ...]:
        """The next ten times, with what a change of the clocks does to them."""
        upcoming = self.after(schedule, created_at=created_at, after=after)
        previewed = []
        before = after if schedule.start_at is None else max(after, schedule.start_at)
        for fire_time in islice(upcoming, PREVIEWED):
            previewed.append(self._previewed(schedule, fire_time, before=before))
            before = fire_time
        return tuple(previewed)

    def _previewed(
        self, schedule: Schedule, fire_time: datetime, *, before: datetime
    ) -> PreviewedTime:
        if schedule.cron is None:
            return PreviewedTime(fire_time=fire_time, local=fire_time.astimezone(UTC))
        local = fire_time.astimezone(self._tables.zone(schedule.timezone))
        note = clock_note(schedule.cron, schedule.timezone, local, before=before)
        return PreviewedTime(fire_time=fire_time, local=local, note=note)
