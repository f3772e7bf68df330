"""The spec of a Schedule, typed: when a job runs and what happens to times that were missed."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class ConcurrencyPolicy(StrEnum):
    """What a time does while a run of the same schedule has not ended."""

    ALLOW = "Allow"
    """Starts a further run."""
    FORBID = "Forbid"
    """Starts nothing."""
    REPLACE = "Replace"
    """Cancels the run; the new one starts when it has ended."""


class Catchup(StrEnum):
    """Which of the times that no process could start in time still start."""

    NONE = "none"
    LATEST = "latest"
    """The newest one, unless a time that is not late starts as well."""
    ALL = "all"
    """The newest `max_catchup`, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Exactly one of `cron` and `interval` is set."""

    job: str
    """Name of a job in the namespace of the schedule."""
    cron: str | None = None
    """Five fields, or an alias such as `@daily`."""
    interval: timedelta | None = None
    """At least a minute; counted from `start_at`, else from the creation cut to the minute."""
    timezone: str = "UTC"
    """IANA name of the zone in which `cron` is read."""
    start_at: datetime | None = None
    """No time before it, inclusive."""
    end_at: datetime | None = None
    """No time after it, inclusive."""
    suspend: bool = False
    concurrency_policy: ConcurrencyPolicy = ConcurrencyPolicy.FORBID
    catchup: Catchup = Catchup.LATEST
    max_catchup: int = 5
    """1 to 100."""
    catchup_window: timedelta = timedelta(days=1)
    """How far back missed times are considered and counted; at most 7 days."""
    starting_deadline: timedelta | None = None
    """A time that is later than this never starts."""
    jitter: timedelta = timedelta(0)
    """Runs start up to this much after their time, at most an hour; the same for a time always.

    Runs start in the order of their times.
    """


class TickOutcome(StrEnum):
    """What became of a time."""

    FIRED = "FIRED"
    SKIPPED_OVERLAP = "SKIPPED_OVERLAP"
    MISSED_DEADLINE = "MISSED_DEADLINE"
    MISSED_CATCHUP = "MISSED_CATCHUP"
    SUSPENDED = "SUSPENDED"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """What became of one time, or of a range of times with the same end."""

    fire_time: datetime
    """The time, or the last of the range."""
    outcome: TickOutcome
    first_fire_time: datetime | None = None
    """The first time of a range."""
    missed: int = 0
    """How many times did not start, 0 for FIRED; at least so many where `reason` says so."""
    reason: str | None = None
    """For people; None for FIRED."""
