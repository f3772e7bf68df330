"""When an object is reconciled again: after a success, an error, a conflict, or too many times.

Pure: the work of one object and the result of its controller in, the next work out. Loops carry it
out (`datarecs_application.controllers`).
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

from datarecs_core.captures.declared import CaptureStart
from datarecs_core.resources.conditions import Condition
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.sink.declared import SinkWish
from datarecs_core.values import ResourceUid

RECONCILED = frozenset({Kind.CONNECTION, Kind.RECONCILIATION_JOB, Kind.CAPTURE, Kind.SINK_TABLE})
"""Kinds with a controller in the resource-controller: their objects have a row of work."""
PAUSED = "datarecs.io/paused"
"""Annotation; with the value `true` nothing acts on the object. A sink commits what it has read,
then holds."""
RECONCILE_AT = "datarecs.io/reconcile-at"
"""Annotation; each new value makes the object due, also after a terminal error."""
IN_USE = "datarecs.io/in-use"
"""Finalizer of a deleted connection that jobs, captures or sinks still name."""
DRAIN_SINK = "datarecs.io/drain-sink"
"""Finalizer of a deleted sink: it goes after its last commit."""
SKIP_DRAIN = "datarecs.io/skip-drain"
"""Annotation of a sink; with the value `true` its deletion waits for no commit."""
RESYNC = timedelta(hours=6)
"""Of kinds without a state outside of the platform."""
RESYNC_SPREAD = 0.1
"""Part by which the interval differs between objects, so that they are not due together."""
FIRST_DELAY = timedelta(seconds=1)
LONGEST_DELAY = timedelta(seconds=300)
MOST_CONFLICTS = 5
"""In a row; the next one counts as an error."""
MOST_RECONCILES = 20
"""Of one object within `WINDOW` without a change of its declaration."""
WINDOW = timedelta(seconds=60)
THRASH_DELAY = timedelta(seconds=300)
_DOUBLINGS = 16
_SPREAD_STEPS = 10_000


class Ended(StrEnum):
    """How a reconcile ended, as the metrics count it."""

    SUCCESS = "success"
    REQUEUE_AFTER = "requeue_after"
    REQUEUE = "requeue"
    ERROR = "error"
    TIMEOUT = "timeout"
    TERMINAL = "terminal"
    CONFLICT = "conflict"

    @property
    def is_failure(self) -> bool:
        return self in {Ended.ERROR, Ended.TIMEOUT, Ended.TERMINAL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a controller returns: how it ended, and what it observed."""

    ended: Ended
    after: timedelta = timedelta()
    """Of REQUEUE_AFTER: exactly this long."""
    error: str = ""
    """Of a failure: what happened and what to do, without secrets."""
    conditions: tuple[Condition, ...] = ()
    """All that hold; a failure without conditions leaves the stored ones and only Ready changes."""
    details: tuple[tuple[str, object], ...] = ()
    """The other fields of the status, by name, as JSON."""
    has_figures: bool = False
    """The details are figures that always move: a change of them alone is no event of its own."""
    released: str = ""
    """Of a success: the finalizer that the deletion no longer waits for."""
    check: str | None = None
    """Subject of the check that a worker shall make of the object; None: no check."""
    makes_users_due: bool = False
    """Whether the jobs, captures and sinks that use this connection are due."""
    capture: CaptureStart | None = None
    """The capture to add to the queue, in the transaction of the status."""
    sink: SinkWish | None = None
    """What the tasks of a sink shall do from now on; None: as before."""


def success(*conditions: Condition, details: tuple[tuple[str, object], ...] = ()) -> Result:
    """Done until the next resync or change."""
    return Result(ended=Ended.SUCCESS, conditions=conditions, details=details)


def finalized(finalizer: str) -> Result:
    """The deletion of the object no longer waits for this finalizer."""
    return Result(ended=Ended.SUCCESS, released=finalizer)


def requeue_after(
    after: timedelta, *conditions: Condition, details: tuple[tuple[str, object], ...] = ()
) -> Result:
    """Done for now; something outside is checked again after exactly this time."""
    return Result(ended=Ended.REQUEUE_AFTER, after=after, conditions=conditions, details=details)


def requeue(*conditions: Condition) -> Result:
    """Not done; again after the delay of an error."""
    return Result(ended=Ended.REQUEUE, conditions=conditions)


def failed(error: str, *conditions: Condition) -> Result:
    """An error that may heal itself: again after a growing delay."""
    return Result(ended=Ended.ERROR, error=error, conditions=conditions)


def terminal(error: str, *conditions: Condition) -> Result:
    """An error that only a person can correct: again after an edit or on request."""
    return Result(ended=Ended.TERMINAL, error=error, conditions=conditions)


def conflict() -> Result:
    """Another writer came first: again at once."""
    return Result(ended=Ended.CONFLICT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One row of work: when an object is due, and what its last reconciles were."""

    uid: ResourceUid
    kind: Kind
    due_at: datetime | None = None
    """None: not before its declaration changes."""
    dirty_seq: int = 0
    """Raised by each change that makes the object due."""
    attempts: int = 0
    """Failures in a row."""
    conflicts: int = 0
    """In a row."""
    generation: int = 0
    """Of the last reconcile."""
    reconcile_at: str = ""
    """Value of the annotation at the last reconcile."""
    is_terminal: bool = False
    """The last reconcile ended with a terminal error."""
    window_start: datetime | None = None
    window_count: int = 0
    """Reconciles since `window_start`."""
    epoch: int = 0
    lease_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The work after a reconcile; its `due_at` applies if no change came meanwhile."""

    work: Work
    is_thrashing: bool
    ended: Ended
    """A sixth conflict in a row counts as an error."""


def is_paused(resource: Resource) -> bool:
    return resource.annotations.get(PAUSED) == "true"


def reconcile_request(resource: Resource) -> str:
    """The value of the annotation that requests a reconcile; empty without it."""
    return resource.annotations.get(RECONCILE_AT, "")


def is_settled(work: Work, resource: Resource) -> bool:
    """Whether nothing is to do: a terminal error stands until an edit or a request."""
    return (
        work.is_terminal
        and work.generation == resource.generation
        and work.reconcile_at == reconcile_request(resource)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What delays depend on besides the work."""

    fraction: float
    """Uniform in [0, 1), spreads delays after errors."""
    resync: timedelta = RESYNC
    """Interval of the kind after a success."""


def settle(work: Work, resource: Resource, result: Result, *, now: datetime, pace: Pace) -> Settled:
    """The work after a reconcile.

    Args:
        work: before it, as stored.
        resource: as the controller read it.
        result: of the controller.
        now: database time.
        pace: of the delays.
    """
    is_new = work.generation != resource.generation
    attempts = 0 if is_new else work.attempts
    conflicts = 0 if is_new else work.conflicts
    ended = result.ended
    if ended is Ended.CONFLICT and conflicts >= MOST_CONFLICTS:
        ended = Ended.ERROR
    start, count = _window(work, now=now, is_new=is_new)
    is_thrashing = count > MOST_RECONCILES
    delay = _delay(ended, result, attempts=attempts, fraction=pace.fraction)
    if ended is Ended.SUCCESS:
        delay = _spread(pace.resync, work.uid)
    if is_thrashing and delay is not None:
        delay = max(delay, THRASH_DELAY)
    after = replace(
        work,
        due_at=None if delay is None else now + delay,
        attempts=_attempts(ended, attempts),
        conflicts=conflicts + 1 if ended is Ended.CONFLICT else 0,
        generation=resource.generation,
        reconcile_at=reconcile_request(resource),
        is_terminal=ended is Ended.TERMINAL,
        window_start=start,
        window_count=count,
        lease_until=None,
    )
    return Settled(work=after, is_thrashing=is_thrashing, ended=ended)


def backoff(attempts: int, fraction: float) -> timedelta:
    """The delay after a failure: doubled up to 300 s, times uniform in [0.5, 1).

    Args:
        attempts: failures before this one.
        fraction: uniform in [0, 1).
    """
    doubled = FIRST_DELAY * (1 << min(attempts, _DOUBLINGS))
    return min(doubled, LONGEST_DELAY) * (0.5 + fraction / 2)


def _delay(ended: Ended, result: Result, *, attempts: int, fraction: float) -> timedelta | None:
    match ended:
        case Ended.SUCCESS | Ended.CONFLICT:
            return timedelta()
        case Ended.REQUEUE_AFTER:
            return result.after
        case Ended.REQUEUE | Ended.ERROR | Ended.TIMEOUT:
            return backoff(attempts, fraction)
        case Ended.TERMINAL:
            return None
    assert_never(ended)


def _attempts(ended: Ended, attempts: int) -> int:
    match ended:
        case Ended.SUCCESS | Ended.REQUEUE_AFTER:
            return 0
        case Ended.REQUEUE | Ended.ERROR | Ended.TIMEOUT:
            return attempts + 1
        case Ended.TERMINAL | Ended.CONFLICT:
            return attempts
    assert_never(ended)


def _window(work: Work, *, now: datetime, is_new: bool) -> tuple[datetime, int]:
    """The window after this reconcile, which counts itself."""
    start = work.window_start
    if start is None or is_new or now - start >= WINDOW:
        return now, 1
    return start, work.window_count + 1


def _spread(interval: timedelta, uid: ResourceUid) -> timedelta:
    """The interval, up to a tenth shorter or longer; the same for an object at all times."""
    part = uid.int % _SPREAD_STEPS / _SPREAD_STEPS
    return interval * (1 - RESYNC_SPREAD + 2 * RESYNC_SPREAD * part)
