"""Cancelling: a flag now, the end later (Source 001, D17).

Rows 4, 5, 8, 16, 17 and 18. The flag changes no status; it alone blocks submission and lease. What
a flagged run's end makes of it is decided in `completion`.
"""

from dataclasses import replace
from datetime import datetime

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.closing import Cause, cancelled
from datarecs_core.runs.decided import Record, RunDecision, refused, unchanged
from datarecs_core.runs.events import RunCancelRequested
from datarecs_core.runs.facts import CancelRequested
from datarecs_core.runs.model import Run, RunError, RunStatus, Wish
from datarecs_core.runs.refusals import Refusal
from datarecs_core.runs.timers import PutTimer, TimerReason, Timing
from datarecs_core.runs.wording import storable_text
from datarecs_core.values import EventId

DEFAULT_REASON = "User requested cancellation"


def request(run: Run, fact: CancelRequested, *, now: datetime, timing: Timing) -> RunDecision:
    """Flag the run (rows 4, 8); the first request is kept (17), an end does not change (18).

    The request's id becomes the id of its event. A CANCELLED run accepts a repeated request,
    any other end refuses.
    """
    if run.status.is_terminal:
        if run.status is RunStatus.CANCELLED:
            return unchanged(run)
        return refused(run, Refusal.RUN_ALREADY_TERMINAL)
    if run.cancel_requested:
        return unchanged(run)
    flagged = replace(
        run,
        cancel_requested=True,
        cancel_requested_at=now,
        cancel_requested_id=fact.fact_id,
        cancelled_by=storable_text(fact.by),
        cancel_reason=storable_text(fact.reason or DEFAULT_REASON),
        wish=Wish.STOP,
        next_reconcile_at=now,
    )
    event = RunCancelRequested(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        cancelled_by=flagged.cancelled_by or "",
        reason=flagged.cancel_reason or "",
    )
    force = PutTimer(reason=TimerReason.CANCEL_FORCE, due_at=now + timing.cancel_force)
    return RunDecision(flagged, (event,), event_ids=(fact.fact_id,), put_timers=(force,))


def confirm(run: Run, *, now: datetime) -> RunDecision:
    """The controller reaches a flagged run (row 5): before RUNNING that is the end.

    A RUNNING one gets a stop request and its end decides; nothing changes here.
    """
    if run.cancel_requested and run.status in {RunStatus.TRIGGERED, RunStatus.QUEUED}:
        return cancelled(run, Cause.by_request(run, now=now))
    return unchanged(run)


def force(run: Run, *, fact_id: EventId, now: datetime) -> RunDecision:
    """The execution did not stop in time (row 16): cut it off, refuse its late writes."""
    if run.status.is_terminal or not run.cancel_requested:
        return unchanged(run)
    error = RunError(
        code=RunErrorCode.UNKNOWN,
        message="The execution did not stop in time after the cancel and was ended by force.",
        detail_code=RunDetail.CANCEL_FORCED.name,
    )
    record = Record(
        fact_id=fact_id, name="cancel_forced", data={"detail_code": RunDetail.CANCEL_FORCED.name}
    )
    cause = Cause(fact_id=fact_id, now=now, ended_at=now, record=record)
    return cancelled(run, cause, raw=error)
