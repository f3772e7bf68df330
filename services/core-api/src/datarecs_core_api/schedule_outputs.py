"""Responses about schedules, as published models."""

from uuid import UUID

from datarecs_core.scheduling.schedule import TickOutcome
from datarecs_core_api.outputs import Instant, Out
from datarecs_core_api.published_types import Count, CursorOut, Line


class PreviewedTimeOut(Out):
    """One of the next times of a schedule."""

    fire_time: Instant
    local: Line
    """The same instant in the schedule's zone, with its offset."""
    note: Line | None
    """What a change of the clocks does to it."""


class SchedulePreviewOut(Out):
    """When a schedule starts runs."""

    times: list[PreviewedTimeOut]
    held: list[Line]
    """Why no run would start."""


class TickOut(Out):
    """What became of a time of a schedule."""

    fire_time: Instant
    """The time, or the last one of several."""
    outcome: TickOutcome
    run_id: UUID | None
    """Of the run that it started."""
    first_fire_time: Instant | None
    """The first one of several times."""
    missed: Count
    """How many times started no run."""
    reason: Line | None
    """Why no run started."""
    at: Instant
    """When it was decided."""


class ScheduleHistoryOut(Out):
    """When a schedule starts its next run, and what became of its times."""

    next_start_at: Instant | None
    """Null for a schedule that is suspended or has ended."""
    last_fire_time: Instant | None
    """The newest time that was decided; null before the first decision."""
    active_runs: list[UUID]
    """Runs of the schedule that have not ended."""
    items: list[TickOut]
    """Newest first."""
    next: CursorOut | None
    """Cursor of the following page; null on the last page."""
