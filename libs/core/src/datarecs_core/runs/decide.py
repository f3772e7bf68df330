"""`decide`: the whole state machine of a run, as one pure function.

Called under the lock of the run's row; ids, time and randomness come with the fact. Each arm calls
the module with the rows of the table (spec run-lifecycle 7); this module only selects the module
for a fact, and checks the attempt before the state.
"""

from dataclasses import replace
from datetime import datetime
from typing import assert_never

from datarecs_core.errors.run import RunDetail
from datarecs_core.runs import cancellation, completion, progress, start
from datarecs_core.runs.closing import Cause
from datarecs_core.runs.decided import RunDecision, refused, unchanged
from datarecs_core.runs.facts import (
    AttemptLost,
    AttemptStarted,
    BackendEnded,
    CancelRequested,
    ConfirmCancel,
    EndReported,
    Fact,
    ProgressSeen,
    SubmitAccepted,
    SubmitRejected,
    TimerFired,
)
from datarecs_core.runs.model import Disposition, Run, RunStatus
from datarecs_core.runs.refusals import Refusal
from datarecs_core.runs.timers import DEFAULT_TIMING, PutTimer, TimerReason, Timing


def decide(run: Run, fact: Fact, *, now: datetime, timing: Timing = DEFAULT_TIMING) -> RunDecision:
    """The effect of a fact on a run. Nothing has happened when it returns.

    Args:
        run: the row, locked.
        fact: what happened; a repeated fact changes nothing more, in any state of the run.
        now: database time of the transaction.
        timing: delays; the defaults are the published ones.
    """
    wrong = _wrong_attempt(run, fact)
    return _judged(run, fact, now=now, timing=timing) if wrong is None else wrong


def _judged(run: Run, fact: Fact, *, now: datetime, timing: Timing) -> RunDecision:
    match fact:
        case SubmitAccepted() | SubmitRejected():
            return _submitted(run, fact, now=now, timing=timing)
        case CancelRequested():
            return cancellation.request(run, fact, now=now, timing=timing)
        case ConfirmCancel():
            return cancellation.confirm(run, now=now)
        case AttemptStarted() | AttemptLost() | ProgressSeen():
            return _attempted(run, fact, now=now, timing=timing)
        case EndReported() | BackendEnded():
            return _ended(run, fact, now=now, timing=timing)
        case TimerFired():
            return _fired(run, fact, now=now, timing=timing)
    assert_never(fact)


def _wrong_attempt(run: Run, fact: Fact) -> RunDecision | None:
    """Row 23. Before the first lease only attempt 1 can have begun; none named is accepted."""
    attempt = _attempt_of(fact)
    current = max(run.attempt, 1)
    if attempt is None or attempt == current:
        return None
    if attempt > current:
        return refused(run, Refusal.ATTEMPT_AHEAD)
    return unchanged(run, Disposition.STALE_ATTEMPT)


def _attempt_of(fact: Fact) -> int | None:
    match fact:
        case EndReported(end=end) | BackendEnded(outcome=end):
            return end.attempt
        case ProgressSeen(attempt=attempt) | AttemptLost(attempt=attempt):
            return attempt
        case _:
            return None


def _submitted(
    run: Run, fact: SubmitAccepted | SubmitRejected, *, now: datetime, timing: Timing
) -> RunDecision:
    if isinstance(fact, SubmitAccepted):
        if run.status.is_terminal:
            return progress.accepted_late(run, now=now)
        return start.accept(run, now=now, timing=timing)
    detail = RunDetail.SUBMIT_REJECTED
    return start.reject(run, detail, reason=fact.reason, fact_id=fact.fact_id, now=now)


def _attempted(
    run: Run,
    fact: AttemptStarted | AttemptLost | ProgressSeen,
    *,
    now: datetime,
    timing: Timing,
) -> RunDecision:
    match fact:
        case AttemptStarted():
            return progress.lease(run, fact, now=now, timing=timing)
        case AttemptLost():
            return completion.lose(run, fact, now=now)
        case ProgressSeen():
            return progress.sign_of_life(run, fact, now=now, timing=timing)
    assert_never(fact)


def _ended(
    run: Run, fact: EndReported | BackendEnded, *, now: datetime, timing: Timing
) -> RunDecision:
    if isinstance(fact, BackendEnded):
        return completion.repair(run, fact, now=now, timing=timing)
    cause = Cause(
        fact_id=fact.fact_id, now=now, ended_at=fact.happened_at or now, execution_over=True
    )
    return completion.complete(run, fact.end, cause)


def _fired(run: Run, fact: TimerFired, *, now: datetime, timing: Timing) -> RunDecision:
    """A timer without effect is dropped; `observe` repeats while it may."""
    if run.status.is_terminal:
        return replace(unchanged(run), drop_timers=tuple(TimerReason))
    match fact.reason:
        case TimerReason.SUBMIT:
            why = "The execution backend did not accept the run in time."
            detail = RunDetail.SUBMIT_TIMEOUT
            decision = start.reject(run, detail, reason=why, fact_id=fact.fact_id, now=now)
        case TimerReason.CANCEL_FORCE:
            decision = cancellation.force(run, fact_id=fact.fact_id, now=now)
        case TimerReason.QUEUE_TTL if run.status is RunStatus.QUEUED:
            detail = RunDetail.QUEUE_TIMEOUT
            decision = completion.time_out(run, detail, fact_id=fact.fact_id, now=now)
        case TimerReason.DEADLINE if run.status is RunStatus.RUNNING:
            detail = RunDetail.DEADLINE_EXCEEDED
            decision = completion.time_out(run, detail, fact_id=fact.fact_id, now=now)
        case TimerReason.OBSERVE:
            return _observe_again(run, fact, now=now, timing=timing)
        case _:
            decision = unchanged(run)
    return decision if decision.drop_timers else replace(decision, drop_timers=(fact.reason,))


def _observe_again(run: Run, fact: TimerFired, *, now: datetime, timing: Timing) -> RunDecision:
    """While a run is RUNNING its deadline is watched too, for every kind of start."""
    again = PutTimer(reason=TimerReason.OBSERVE, due_at=now + timing.observe * fact.jitter)
    if run.status is not RunStatus.RUNNING:
        return replace(unchanged(run), put_timers=(again,))
    deadline, _ = progress.running_timers(run, now=now, timing=timing)
    return replace(unchanged(run), put_timers=(deadline, again))
