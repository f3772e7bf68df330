"""How a run's end is chosen: from the report of its execution, or from a missing report.

Rows 7 (its second half), 9 to 15 and 19. The first end wins and terminal states absorb the rest; an
error ends a flagged run CANCELLED and never finalised, a completion wins over the flag.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.closing import Cause, Outcome, cancelled, finalised
from datarecs_core.runs.decided import Record, ReleaseLease, RunDecision, unchanged
from datarecs_core.runs.events import RunCompleted, RunEnd, RunErrored
from datarecs_core.runs.facts import AttemptLost, BackendEnded, Loss
from datarecs_core.runs.model import Disposition, Run, RunError, RunStatus
from datarecs_core.runs.progress import queued_first
from datarecs_core.runs.retry import ATTEMPTS, MAX_RELEASES, may_try_again, overdue
from datarecs_core.runs.timers import Timing
from datarecs_core.values import EventId


def complete(run: Run, end: RunEnd, cause: Cause) -> RunDecision:
    """Close a run by the way its execution ended (rows 7, 9, 10, 11, 19)."""
    if run.status.is_terminal:
        return unchanged(run, _after_the_end(run, end))
    unsubmitted = run.status is RunStatus.TRIGGERED and run.submit_intent_at is None
    if isinstance(end, RunErrored):
        if unsubmitted and not run.cancel_requested:
            return unchanged(run)
        return fail(run, end.error, cause)
    if unsubmitted:
        return unchanged(run)
    known = replace(run, attempt=max(run.attempt, end.attempt or 1))
    queued, before = queued_first(known, now=cause.now)
    outcome = Outcome(status=RunStatus.COMPLETED, result=end.result, summary=end.summary)
    return finalised(queued, cause, outcome, before=before)


def fail(run: Run, error: RunError, cause: Cause) -> RunDecision:
    """Close a run by an error, reported or synthesised: ERRORED, or CANCELLED under the flag."""
    submitted = run.submit_intent_at is not None
    queued, before = queued_first(run, now=cause.now) if submitted else (run, ())
    if run.cancel_requested:
        return cancelled(queued, cause, raw=error, before=before)
    return finalised(queued, cause, Outcome(status=RunStatus.ERRORED, error=error), before=before)


def lose(run: Run, fact: AttemptLost, *, now: datetime) -> RunDecision:
    """An attempt ended without an outcome: try again (row 12) or close the run (row 13).

    Past the deadline the run is always TIMED_OUT (D19).
    """
    if run.status is not RunStatus.RUNNING:
        return unchanged(run)
    record = Record(
        fact_id=fact.fact_id,
        name="attempt_lost",
        data={"attempt": fact.attempt, "loss": fact.loss.value},
    )
    drained = fact.loss is Loss.DRAINED and fact.releases < MAX_RELEASES
    if may_try_again(run, now=now, free=drained):
        wait = timedelta() if drained else ATTEMPTS.wait(run.attempt, jitter=fact.jitter)
        return RunDecision(
            run,
            disposition=Disposition.SYNTHESISED,
            record=record,
            lease=ReleaseLease(due_at=now + wait, consume=not drained),
        )
    detail = RunDetail.DEADLINE_EXCEEDED if overdue(run, now=now) else RunDetail.LEASE_EXPIRED
    return _synthesised(run, detail, record=record, now=now)


def time_out(run: Run, detail: RunDetail, *, fact_id: EventId, now: datetime) -> RunDecision:
    """A timer closes the run (row 14) because no end was reported."""
    record = Record(fact_id=fact_id, name=detail.name.lower(), data={"detail_code": detail.name})
    return _synthesised(run, detail, record=record, now=now)


def repair(run: Run, fact: BackendEnded, *, now: datetime, timing: Timing) -> RunDecision:
    """The execution has ended and its end was never handled (row 15).

    Too early, or before QUEUED, nothing happens: the end may still arrive.
    """
    if run.status not in {RunStatus.QUEUED, RunStatus.RUNNING}:
        return unchanged(run)
    if now - fact.ended_at < timing.end_unhandled:
        return unchanged(run)
    record = (
        None
        if fact.recorded
        else Record(fact_id=fact.fact_id, name="backend_ended", data=_end_data(fact.outcome))
    )
    cause = Cause(
        fact_id=fact.fact_id,
        now=now,
        ended_at=fact.ended_at,
        record=record,
        execution_over=True,
    )
    return complete(run, fact.outcome, cause)


_MESSAGES = {
    RunDetail.DEADLINE_EXCEEDED: "The run did not end before its deadline.",
    RunDetail.QUEUE_TIMEOUT: "No worker took the run in time.",
    RunDetail.LEASE_EXPIRED: "The worker stopped responding and no attempt is left.",
}


def _synthesised(run: Run, detail: RunDetail, *, record: Record, now: datetime) -> RunDecision:
    error = RunError(code=detail.run_code, message=_MESSAGES[detail], detail_code=detail.name)
    cause = Cause(fact_id=record.fact_id, now=now, ended_at=now, record=record)
    return fail(run, error, cause)


def _after_the_end(run: Run, end: RunEnd) -> Disposition:
    """CONFLICT, which raises an alert, when the late end contradicts the recorded one."""
    if isinstance(end, RunCompleted):
        opposite = run.status in {RunStatus.ERRORED, RunStatus.QUEUE_ERRORED} or (
            run.status is RunStatus.COMPLETED and run.result is not end.result
        )
    else:
        opposite = run.status is RunStatus.COMPLETED
    return Disposition.CONFLICT if opposite else Disposition.LATE


def _end_data(end: RunEnd) -> dict[str, object]:
    if isinstance(end, RunCompleted):
        return {"result": end.result.value}
    return {"code": end.error.code.value, "detail_code": end.error.detail_code}
