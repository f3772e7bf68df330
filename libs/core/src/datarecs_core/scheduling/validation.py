"""Rules between the fields of a Schedule, and the bounds of its durations.

A value that would change nothing is refused, as in jobs.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from datarecs_core.errors.faults import Fault, Place
from datarecs_core.errors.spec import SpecCode
from datarecs_core.scheduling.schedule import Catchup, ConcurrencyPolicy, Schedule

LEAST_INTERVAL = timedelta(minutes=1)
MAX_JITTER = timedelta(hours=1)
MAX_CATCHUP = 100
MAX_WINDOW = timedelta(days=7)
LEAST_LATENESS = timedelta(minutes=1)
"""Of the starting deadline and the catch-up window: a time that starts within a minute is not
late."""

_DEFAULT = Schedule(job="")


def schedule_faults(schedule: Schedule) -> tuple[Fault, ...]:
    """All faults between fields at once; a default is never a fault."""
    return (*_order_faults(schedule), *_faults_without_effect(schedule))


def _order_faults(schedule: Schedule) -> Iterator[Fault]:
    start, end = schedule.start_at, schedule.end_at
    if start is not None and end is not None and end <= start:
        yield Fault(
            code=SpecCode.NOT_IN_ENUM,
            path=("spec", "end_at"),
            others=(("spec", "start_at"),),
            message="not after start_at",
            hint="write a later moment, or leave end_at out",
        )


def _faults_without_effect(schedule: Schedule) -> Iterator[Fault]:
    if (
        schedule.catchup is Catchup.ALL
        and schedule.concurrency_policy is not ConcurrencyPolicy.ALLOW
    ):
        yield replace(
            _without_effect("catchup", "missed times start at once, and one run alone is allowed"),
            hint="write concurrency_policy: Allow, or leave catchup out",
            others=(("spec", "concurrency_policy"),),
        )
    if schedule.interval is not None and schedule.timezone != _DEFAULT.timezone:
        yield _without_effect("timezone", "an interval does not depend on the zone")
    if schedule.catchup is not Catchup.ALL and schedule.max_catchup != _DEFAULT.max_catchup:
        yield _without_effect("max_catchup", "it needs catchup: all")
    if schedule.catchup is Catchup.NONE and schedule.catchup_window != _DEFAULT.catchup_window:
        yield _without_effect("catchup_window", "with catchup: none no missed time starts")


def _without_effect(name: str, message: str) -> Fault:
    return Fault(
        code=SpecCode.WITHOUT_EFFECT,
        path=("spec", name),
        message=f"'{name}' has no effect: {message}",
        hint="leave it out",
        place=Place.KEY,
    )
