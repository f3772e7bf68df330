"""How a run begins: triggered, submitted, queued, or not taken by the backend.

Rows 1 to 3 of the state machine. Separate from the rest because core-api and the scheduler run the
first row and the launching loop the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.closing import Cause, Outcome, cancelled, finalised
from datarecs_core.runs.decided import Record, RunDecision, unchanged
from datarecs_core.runs.events import RunQueued, RunQueueErrored, RunTriggered
from datarecs_core.runs.model import Backend, Run, RunError, RunMode, RunStatus
from datarecs_core.runs.naming import execution_name
from datarecs_core.runs.retry import SUBMISSIONS
from datarecs_core.runs.timers import DEFAULT_TIMING, PutTimer, TimerReason, Timing
from datarecs_core.runs.wording import storable_text
from datarecs_core.values import EventId, JobId, RunId, TenantId

NOT_STARTED = (TimerReason.SUBMIT, TimerReason.LATE_START)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerRun:
    """The request of a principal or a schedule for a run of a job."""

    tenant_id: TenantId
    run_id: RunId
    job_id: JobId
    job_name: str
    job_generation: int
    spec_hash: str
    spec: Mapping[str, object]
    """The current job; stored with the run."""
    triggered_by: str
    """User id, or the literal `scheduled`."""
    reason: str | None = None
    """Why, for people."""
    retry_of: RunId | None = None
    """The ended run that this run retries."""
    mode: RunMode = RunMode.IMMEDIATE
    parameters: Mapping[str, object] = field(default_factory=dict)
    idempotency_key: str | None = None
    backend: Backend = Backend.QUEUE
    priority: int = 5
    deadline_seconds: int = 3600
    """From 60 to 86,400; from the start of the first attempt."""
    max_attempts: int = 3
    traceparent: str | None = None
    schedule_uid: UUID | None = None
    fire_time: datetime | None = None


def trigger(command: TriggerRun, *, now: datetime, timing: Timing = DEFAULT_TIMING) -> RunDecision:
    """A new run (row 1). The key decides whether the same trigger was requested before."""
    run = Run(
        tenant_id=command.tenant_id,
        run_id=command.run_id,
        job_id=command.job_id,
        job_name=command.job_name,
        job_generation=command.job_generation,
        spec_hash=command.spec_hash,
        spec=command.spec,
        parameters=command.parameters,
        mode=command.mode,
        triggered_by=command.triggered_by,
        trigger_reason=None if command.reason is None else storable_text(command.reason),
        retry_of=command.retry_of,
        idempotency_key=command.idempotency_key,
        backend=command.backend,
        execution_name=execution_name(command.job_id, command.run_id),
        next_reconcile_at=now,
        max_attempts=command.max_attempts,
        priority=command.priority,
        deadline_seconds=command.deadline_seconds,
        created_at=now,
        traceparent=command.traceparent,
        fire_time=command.fire_time,
        schedule_uid=command.schedule_uid,
    )
    triggered = RunTriggered(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        mode=run.mode,
        triggered_by=run.triggered_by,
        reason=run.trigger_reason,
    )
    return RunDecision(
        run,
        (triggered,),
        put_timers=(
            PutTimer(reason=TimerReason.SUBMIT, due_at=now + timing.submit),
            PutTimer(reason=TimerReason.LATE_START, due_at=now + timing.late_start),
        ),
    )


def intend(run: Run, *, now: datetime) -> Run:
    """The run as it is committed before the backend is called, so that a crash leaves a trace.

    Under Argo the first attempt begins with the call, since its pods carry the number.
    """
    return replace(
        run,
        submit_intent_at=run.submit_intent_at or now,
        submit_attempts=run.submit_attempts + 1,
        attempt=max(run.attempt, 1) if run.backend is Backend.ARGO else run.attempt,
    )


def defer(run: Run, *, now: datetime, jitter: float) -> Run:
    """The backend did not respond: check again later, until the submit timer fires."""
    wait = SUBMISSIONS.wait(run.submit_attempts, jitter=jitter)
    return replace(run, next_reconcile_at=now + wait)


def accept(run: Run, *, now: datetime, timing: Timing) -> RunDecision:
    """The backend has the execution (row 2); no effect on a run that is past that point."""
    if run.status is not RunStatus.TRIGGERED:
        return unchanged(run)
    if run.cancel_requested:
        return cancelled(run, Cause.by_request(run, now=now))
    queued, event = queue(run, now=now)
    return RunDecision(
        queued, (event,), put_timers=queue_timers(queued, now, timing), drop_timers=NOT_STARTED
    )


def queue(run: Run, *, now: datetime) -> tuple[Run, RunQueued]:
    """The run QUEUED, with its event."""
    queued = replace(run, status=RunStatus.QUEUED, queued_at=now, next_reconcile_at=None)
    return queued, RunQueued(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        argo_workflow_name=run.execution_name,
    )


def queue_timers(run: Run, now: datetime, timing: Timing) -> tuple[PutTimer, ...]:
    return (
        PutTimer(reason=TimerReason.QUEUE_WAIT, due_at=now + timing.queue_wait),
        PutTimer(reason=TimerReason.QUEUE_TTL, due_at=now + timing.queue_ttl(run.backend)),
        PutTimer(reason=TimerReason.OBSERVE, due_at=now + timing.observe),
    )


def reject(
    run: Run, detail: RunDetail, *, reason: str, fact_id: EventId, now: datetime
) -> RunDecision:
    """The backend does not take the run (row 3): no failure stays silent (D18)."""
    if run.status is not RunStatus.TRIGGERED:
        return unchanged(run)
    error = RunError(
        code=RunErrorCode.UNKNOWN, message=storable_text(reason), detail_code=detail.name
    )
    record = Record(
        fact_id=fact_id,
        name=detail.name.lower(),
        data={"detail_code": detail.name, "reason": error.message},
    )
    cause = Cause(fact_id=fact_id, now=now, ended_at=now, record=record)
    if run.cancel_requested:
        return cancelled(run, cause, raw=error)
    queue_errored = RunQueueErrored(
        run_id=run.run_id, job_id=run.job_id, tenant_id=run.tenant_id, reason=error.message
    )
    outcome = Outcome(status=RunStatus.QUEUE_ERRORED, error=error)
    return finalised(run, cause, outcome, before=(queue_errored,))
