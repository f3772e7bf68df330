"""What can happen to a run that exists: the inputs of `decide`.

A fact is data from the launching loop, a lease, a timer, a consumer or a user. Each has an
id, under which it is recorded and named as a cause. Separate from `events`, because most
facts never leave the platform.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from datarecs_core.runs.events import RunEnd
from datarecs_core.runs.timers import TimerReason
from datarecs_core.values import EventId


class Loss(StrEnum):
    """Why a lease was returned without an end."""

    EXPIRED = "EXPIRED"
    """No renewal within ttl and grace: the worker ended or lost its connection."""
    DRAINED = "DRAINED"
    """The worker gave it back while stopping; consumes no attempt, five times at most."""
    RETRIED = "RETRIED"
    """The supervisor returned it because the job retries this error."""
    NOT_STARTED = "NOT_STARTED"
    """The worker's child never became ready, so nothing of the run was begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactOfRun:
    """Common to all facts."""

    fact_id: EventId
    """UUIDv7: of its event, else new; redelivery repeats it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitAccepted(FactOfRun):
    """The backend has the execution, under the run's execution name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitRejected(FactOfRun):
    """The backend will never accept it; anything it may have created got a stop request."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested(FactOfRun):
    """A cancel was requested; `fact_id` becomes the id of `run.cancel_requested`."""

    by: str
    """User id, or the literal `scheduled`."""
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmCancel(FactOfRun):
    """The controller's pass reached a flagged run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted(FactOfRun):
    """A worker took the lease for this attempt."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLost(FactOfRun):
    """The attempt's lease ended without an outcome, or no lease is live on a flagged run."""

    attempt: int
    loss: Loss = Loss.EXPIRED
    releases: int = 0
    """How often drains returned the run before this one."""
    jitter: float = 1.0
    """Share of the back-off to wait, in [0.5, 1.0]; the caller draws it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendEnded(FactOfRun):
    """The execution has ended and its end was not handled: repair.

    `outcome` comes from the recorded raw outcome, else the result file, else the backend's status
    (`repairing.outcome_of_repair`).
    """

    outcome: RunEnd
    ended_at: datetime
    recorded: bool = False
    """The outcome is in `run_event` already, and `fact_id` is its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired(FactOfRun):
    """A timer of the run is due by database time."""

    reason: TimerReason
    jitter: float = 1.0
    """Factor on a repeating timer's interval, in [0.9, 1.1]; the caller draws it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressSeen(FactOfRun):
    """A progress event reached the controller."""

    attempt: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndReported(FactOfRun):
    """run.completed or run.errored reached the controller."""

    end: RunEnd
    happened_at: datetime | None = None
    """The event's time; None means now."""


Fact = (
    SubmitAccepted
    | SubmitRejected
    | CancelRequested
    | ConfirmCancel
    | AttemptStarted
    | AttemptLost
    | BackendEnded
    | TimerFired
    | ProgressSeen
    | EndReported
)
