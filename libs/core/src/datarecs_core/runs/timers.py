"""Which timers a run has and when they fire; a timer only ever produces a fact.

Times are compared with the database clock. Separate from the rules that start and stop timers, so
that an operator finds every delay of a run's life in one place.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from datarecs_core.runs.model import Backend


class TimerReason(StrEnum):
    """The key of a timer within its run; lower case as in `run_timer.reason`."""

    SUBMIT = "submit"
    LATE_START = "late_start"
    QUEUE_WAIT = "queue_wait"
    QUEUE_TTL = "queue_ttl"
    DEADLINE = "deadline"
    OBSERVE = "observe"
    CANCEL_FORCE = "cancel_force"


@dataclass(frozen=True, slots=True, kw_only=True)
class PutTimer:
    """Insert the run's timer of this reason, or move it."""

    reason: TimerReason
    due_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Delays of a run's life; the defaults are the published ones."""

    submit: timedelta = timedelta(seconds=600)
    """How long a run may stay TRIGGERED before it counts as not submittable."""
    late_start: timedelta = timedelta(seconds=15)
    """After this a run that is still TRIGGERED is counted as late; nothing else happens."""
    queue_wait: timedelta = timedelta(seconds=600)
    """After this a QUEUED run is checked: observed in Argo, reported in the queue."""
    queue_ttl_queue: timedelta = timedelta(seconds=86_400)
    """How long a run may wait in the queue for a worker."""
    queue_ttl_argo: timedelta = timedelta(seconds=3_600)
    """How long an accepted workflow may take until its first sign of life."""
    deadline_grace: timedelta = timedelta(seconds=60)
    """The supervisor acts at the deadline; the platform this much later, if it did not."""
    observe: timedelta = timedelta(seconds=60)
    """How often a running execution is observed in the backend, ± 10 %."""
    end_unhandled: timedelta = timedelta(seconds=120)
    """How long an end may be on its way before repair closes the run itself."""
    cancel_force: timedelta = timedelta(seconds=300)
    """After a cancel request: the execution is ended by force."""

    def queue_ttl(self, backend: Backend) -> timedelta:
        return self.queue_ttl_queue if backend is Backend.QUEUE else self.queue_ttl_argo


DEFAULT_TIMING = Timing()
