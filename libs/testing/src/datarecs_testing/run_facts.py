"""One run with known ids, and the facts that can happen to it, for tests of rules.

Ids are made from small numbers, so that a failing test prints readable ones. Other tests take the
builders of `datarecs_testing.builders`, where each run has different ids.
"""

from datetime import timedelta
from typing import Any
from uuid import UUID

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.runs.events import RunCompleted, RunErrored
from datarecs_core.runs.facts import CancelRequested, EndReported
from datarecs_core.runs.model import Run, RunError, RunResult, RunStatus, RunSummary, Wish
from datarecs_core.values import EventId, JobId, RunId, TenantId
from datarecs_testing.builders import NOON, a_run

TENANT = TenantId(UUID("019b0000-0000-7000-8000-000000000001"))
JOB = JobId(UUID("019b0000-0000-7000-8000-0000000000a1"))
RUN = RunId(UUID("019b0000-0000-7000-8000-0000000000b1"))


def an_id(number: int) -> EventId:
    """A UUIDv7 that shows its number."""
    return EventId(UUID(f"019b0000-0000-7000-8000-{number:012d}"))


def the_run(**fields: Any) -> Run:  # noqa: ANN401 - any field of Run
    """The run, TRIGGERED at NOON; a later status brings the fields that belong to it."""
    status = fields.get("status", RunStatus.TRIGGERED)
    known: dict[str, Any] = {"tenant_id": TENANT, "run_id": RUN, "job_id": JOB}
    if status is not RunStatus.TRIGGERED:
        known |= {"submit_intent_at": NOON}
    if status is RunStatus.RUNNING:
        known |= {"deadline_at": NOON + timedelta(hours=1)}
    return a_run(**(known | fields))


def the_flagged_run(**fields: Any) -> Run:  # noqa: ANN401 - any field of Run
    """The run after u-7 has requested to cancel it, with the id 77."""
    flag: dict[str, Any] = {
        "cancel_requested": True,
        "cancel_requested_at": NOON,
        "cancel_requested_id": an_id(77),
        "cancelled_by": "u-7",
        "cancel_reason": "Wrong month",
        "wish": Wish.STOP,
    }
    return the_run(**(flag | fields))


def a_cancel(
    number: int = 77, by: str = "u-7", reason: str | None = "Wrong month"
) -> CancelRequested:
    return CancelRequested(fact_id=an_id(number), by=by, reason=reason)


def a_completion(
    run: Run, result: RunResult = RunResult.MATCHED, *, attempt: int | None = 1
) -> RunCompleted:
    return RunCompleted(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        attempt=attempt,
        workflow_name=run.execution_name,
        result=result,
        summary=a_summary(),
    )


def an_errored(
    run: Run,
    code: RunErrorCode = RunErrorCode.CRASHED,
    *,
    attempt: int | None = 1,
    detail_code: str | None = None,
) -> RunErrored:
    return RunErrored(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        attempt=attempt,
        workflow_name=run.execution_name,
        error=RunError(code=code, message="It broke.", detail_code=detail_code),
    )


def reported(end: RunCompleted | RunErrored, number: int = 50) -> EndReported:
    return EndReported(fact_id=an_id(number), end=end)


def a_summary() -> RunSummary:
    """Source 001's sample numbers."""
    return RunSummary(
        stages_total=1,
        stages_matched=0,
        rows_compared=1005,
        rows_matched=975,
        rows_unmatched=30,
        duration_ms=48_210,
    )
