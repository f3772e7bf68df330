"""How a run becomes RUNNING, and the meaning of later progress.

Rows 6, 7 (its first half), 12's next attempt and 21. The lease is the usual start; under Argo it is
the first progress, which may overtake the submit reply.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from datarecs_core.runs.decided import EndLease, RunDecision, refused, unchanged
from datarecs_core.runs.events import RunEvent
from datarecs_core.runs.facts import AttemptStarted, ProgressSeen
from datarecs_core.runs.model import Backend, Disposition, Run, RunStatus, Wish
from datarecs_core.runs.refusals import Refusal
from datarecs_core.runs.start import NOT_STARTED, queue
from datarecs_core.runs.timers import PutTimer, TimerReason, Timing

_WAITING = (*NOT_STARTED, TimerReason.QUEUE_WAIT, TimerReason.QUEUE_TTL)


def lease(run: Run, fact: AttemptStarted, *, now: datetime, timing: Timing) -> RunDecision:
    """A worker leased the run (row 6), or its next attempt after a lost one (row 12).

    The same number again is the same attempt, returned by a drain. A flagged run never starts.
    """
    if run.status.is_terminal:
        return _stopped(run, now=now)
    if run.cancel_requested or run.status is RunStatus.TRIGGERED:
        return refused(run, Refusal.LEASE_REFUSED)
    if fact.attempt > run.attempt + 1:
        return refused(run, Refusal.ATTEMPT_AHEAD)
    if fact.attempt < run.attempt:
        return unchanged(run, Disposition.STALE_ATTEMPT)
    leased = replace(run, attempt=fact.attempt)
    if run.status is RunStatus.RUNNING:
        return RunDecision(leased)
    return _running(leased, now=now, timing=timing)


def sign_of_life(run: Run, fact: ProgressSeen, *, now: datetime, timing: Timing) -> RunDecision:
    """A progress event: the first one starts a run without cancel flag, all others are history."""
    if run.status.is_terminal:
        return unchanged(run, Disposition.LATE)
    seen = replace(run, last_progress_at=now)
    if run.cancel_requested or run.status is RunStatus.RUNNING:
        return unchanged(seen)
    if run.status is RunStatus.TRIGGERED and run.submit_intent_at is None:
        return unchanged(seen)
    seen, before = queued_first(seen, now=now)
    started = _running(replace(seen, attempt=max(seen.attempt, 1)), now=now, timing=timing)
    return replace(
        started,
        events=before,
        disposition=Disposition.HISTORY,
        caused_by=fact.fact_id if before else None,
    )


def queued_first(run: Run, *, now: datetime) -> tuple[Run, tuple[RunEvent, ...]]:
    """Row 7: the submit reply was overtaken, so QUEUED and its event are added now."""
    if run.status is not RunStatus.TRIGGERED:
        return run, ()
    queued, event = queue(run, now=now)
    return queued, (event,)


def running_timers(run: Run, *, now: datetime, timing: Timing) -> tuple[PutTimer, ...]:
    """The timers of a running run; setting them again has no effect."""
    deadline = run.deadline_at or now + timedelta(seconds=run.deadline_seconds)
    return (
        PutTimer(reason=TimerReason.DEADLINE, due_at=deadline + timing.deadline_grace),
        PutTimer(reason=TimerReason.OBSERVE, due_at=now + timing.observe),
    )


def accepted_late(run: Run, *, now: datetime) -> RunDecision:
    """The submit reply of a run that has ended (row 20): its execution is to be stopped."""
    return replace(_stopped(run, now=now), refusal=None)


def _running(run: Run, *, now: datetime, timing: Timing) -> RunDecision:
    """No wire event reports RUNNING: Source 001 has none."""
    running = replace(
        run,
        status=RunStatus.RUNNING,
        started_at=now,
        deadline_at=now + timedelta(seconds=run.deadline_seconds),
        next_reconcile_at=None,
    )
    timers = running_timers(running, now=now, timing=timing)
    return RunDecision(running, put_timers=timers, drop_timers=_WAITING)


def _stopped(run: Run, *, now: datetime) -> RunDecision:
    again = run.backend is Backend.ARGO
    stopping = replace(run, wish=Wish.STOP, next_reconcile_at=now) if again else run
    return RunDecision(
        stopping,
        disposition=Disposition.LATE,
        refusal=Refusal.LEASE_REFUSED,
        lease=EndLease(),
    )
