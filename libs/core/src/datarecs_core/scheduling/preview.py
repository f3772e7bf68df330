"""Why a schedule would start no run, in words for people."""

from collections.abc import Iterator

from datarecs_core.scheduling.schedule import Schedule


def reasons_without_runs(schedule: Schedule, *, has_times: bool) -> Iterator[str]:
    """What its declaration says; whether its job exists is the caller's question."""
    if schedule.suspend:
        yield "the schedule is suspended: no run starts until suspend is false"
    if not has_times:
        yield "the schedule has ended: it has no time before end_at"
