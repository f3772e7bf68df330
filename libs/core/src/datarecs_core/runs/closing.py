"""How a run gets its terminal state: the common part of every end.

One place for the guarantee that a run ends with exactly one `run.finalised` or `run.cancelled`,
that its timers are removed and its lease ends. The rules that choose the end are in `completion`,
`start` and `cancellation`.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from datarecs_core.runs.decided import EndLease, Record, RunDecision
from datarecs_core.runs.events import RunCancelled, RunEvent, RunFinalised
from datarecs_core.runs.model import (
    Backend,
    Disposition,
    Run,
    RunError,
    RunResult,
    RunStatus,
    RunSummary,
    Wish,
)
from datarecs_core.runs.timers import TimerReason
from datarecs_core.values import EventId


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The fact that ends a run."""

    fact_id: EventId | None
    now: datetime
    ended_at: datetime
    """When the execution ended, if known."""
    record: Record | None = None
    """Set where the fact never was an event."""
    execution_over: bool = False
    """The execution reported its end, so nothing has to be stopped."""

    @classmethod
    def by_request(cls, run: Run, *, now: datetime) -> Self:
        """The cancel request itself, where no execution exists."""
        return cls(fact_id=run.cancel_requested_id, now=now, ended_at=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run closes with."""

    status: RunStatus
    result: RunResult | None = None
    error: RunError | None = None
    summary: RunSummary | None = None


def finalised(
    run: Run, cause: Cause, outcome: Outcome, *, before: tuple[RunEvent, ...] = ()
) -> RunDecision:
    """Close with `run.finalised`, after the events of `before`."""
    summary = replace(outcome.summary, job_name=run.job_name) if outcome.summary else None
    closed = replace(
        _closed(run, cause, outcome.status),
        result=outcome.result,
        error=outcome.error,
        raw_error=outcome.error,
        summary=summary,
        report_path=summary.report_path if summary else None,
        cancel_stale=run.cancel_requested and outcome.status is RunStatus.COMPLETED,
    )
    event = RunFinalised(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        attempt=run.attempt or None,
        result=outcome.result,
        error=outcome.error,
        summary=summary,
    )
    return _decision(closed, cause, (*before, event))


def cancelled(
    run: Run, cause: Cause, *, raw: RunError | None = None, before: tuple[RunEvent, ...] = ()
) -> RunDecision:
    """Close with `run.cancelled`, which repeats the first request; never finalised."""
    closed = replace(_closed(run, cause, RunStatus.CANCELLED), raw_error=raw)
    event = RunCancelled(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        cancelled_by=run.cancelled_by or "",
        reason=run.cancel_reason or "",
    )
    return _decision(closed, cause, (*before, event))


def _closed(run: Run, cause: Cause, status: RunStatus) -> Run:
    submitted = run.backend is Backend.ARGO and run.submit_intent_at is not None
    to_stop = submitted and not cause.execution_over
    return replace(
        run,
        status=status,
        wish=Wish.STOP,
        terminal_fact_id=cause.fact_id,
        ended_at=cause.ended_at,
        closed_at=cause.now,
        next_reconcile_at=cause.now if to_stop else None,
    )


def _decision(closed: Run, cause: Cause, events: tuple[RunEvent, ...]) -> RunDecision:
    return RunDecision(
        closed,
        events,
        disposition=Disposition.SYNTHESISED if cause.record else Disposition.APPLIED,
        caused_by=cause.fact_id,
        record=cause.record,
        drop_timers=tuple(TimerReason),
        lease=EndLease(),
    )
