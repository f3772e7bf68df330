"""What `decide` refuses, and the exceptions of its callers.

Values first: a refusal is part of the decision and its caller chooses between an HTTP response, a
dead letter and no effect. The exceptions are here because two services raise the same ones.
"""

from enum import StrEnum

from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunFault
from datarecs_core.runs.events import RunEvent
from datarecs_core.runs.model import Run


class Refusal(StrEnum):
    """Why a requested change had no effect."""

    RUN_ALREADY_TERMINAL = "RUN_ALREADY_TERMINAL"
    """A cancel of a run that has ended otherwise: 409."""
    ATTEMPT_AHEAD = "ATTEMPT_AHEAD"
    """An attempt that has not begun: dead letter."""
    LEASE_REFUSED = "LEASE_REFUSED"
    """The run is flagged, ended or not queued: the worker takes another."""


class UnknownRunError(DatarecsError):
    """An event names a run that its tenant does not have, or has with another job."""

    code = RunFault.UNKNOWN_RUN

    def __init__(self, event: RunEvent) -> None:
        super().__init__(f"tenant {event.tenant_id} has no run {event.run_id} of {event.job_id}")
        self.run_id, self.job_id, self.tenant_id = event.run_id, event.job_id, event.tenant_id


class AttemptAheadError(DatarecsError):
    """An event belongs to an attempt that has not begun."""

    code = RunFault.ATTEMPT_AHEAD

    def __init__(self, run: Run, *, attempt: int | None) -> None:
        super().__init__(f"run {run.run_id} is at attempt {run.attempt}, the event has {attempt}")
        self.run_id, self.attempt = run.run_id, attempt


class RunAlreadyTerminalError(DatarecsError):
    """A cancel arrived after the end."""

    code = ApiCode.RUN_ALREADY_TERMINAL

    def __init__(self, run: Run) -> None:
        super().__init__(f"run {run.run_id} has already ended {run.status}; nothing was cancelled")
        self.run_id, self.status = run.run_id, run.status


class RunNotTerminalError(DatarecsError):
    """A retry came before the end."""

    code = ApiCode.RUN_NOT_TERMINAL

    def __init__(self, run: Run) -> None:
        super().__init__(
            f"run {run.run_id} is {run.status} and has no end yet; wait for it, or cancel it first"
        )
        self.run_id, self.status = run.run_id, run.status


def known_run(run: Run | None, event: RunEvent) -> Run:
    """The run that an event is about, found in the event's tenant.

    Raises:
        UnknownRunError: there is none, or the event names another job: for the dead letters, since
            a run's row is always committed before its events.
    """
    if run is None or (run.run_id, run.job_id) != (event.run_id, event.job_id):
        raise UnknownRunError(event)
    return run
