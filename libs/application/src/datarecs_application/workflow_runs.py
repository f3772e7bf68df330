"""The two ends of a run inside a workflow: its execution claims it, its exit handler reports it.

The run-controller has reserved the lease for exactly this execution. Whoever finds it under
another epoch, or gone, changes nothing: the run has ended, or another process has it. Separate from
supervision, which is the same for every backend.
"""

from dataclasses import dataclass
from datetime import timedelta

from datarecs_application.attempt_ends import write_end
from datarecs_application.ports.state import LeasedRun, Transaction
from datarecs_core.runs.model import Run, RunStatus
from datarecs_core.runs.result_file import Attempt, NoResult, ResultFile, read_result
from datarecs_core.runs.summary import with_report_url
from datarecs_core.runs.workflow_end import end_of_workflow
from datarecs_core.runs.workflow_failures import read_failures
from datarecs_core.values import RunId, TenantId

UNLIMITED = timedelta(days=30)
"""Longer than any run: the workflow has the deadline, and its end decides about the lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The parameters of a workflow: one attempt of one run."""

    tenant_id: TenantId
    run_id: RunId
    attempt: int
    lease_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowEnd:
    """What the exit handler knows."""

    status: str
    """`{{workflow.status}}`."""
    failures: str
    """`{{workflow.failures}}`, as Argo writes it."""
    file: bytes | None
    """The uploaded result file; at most one byte more than allowed."""


def claim_run(tx: Transaction, assignment: Assignment, *, holder: str) -> LeasedRun | None:
    """The lease of exactly this run; None where it was cancelled, has ended or is held.

    Safe to repeat by the same holder: a container that starts again claims what it had.
    """
    run = tx.runs.for_update(assignment.run_id)
    if run is None or not _is_claimable(run, assignment):
        return None
    lease = tx.leases.get(run.run_id)
    if lease is None or lease.lease_epoch != assignment.lease_epoch:
        return None
    if lease.lease_owner not in {run.execution_name, holder}:
        return None
    tx.leases.pass_to(run.run_id, holder)
    return LeasedRun(
        tenant_id=run.tenant_id,
        run_id=run.run_id,
        attempt=assignment.attempt,
        lease_epoch=assignment.lease_epoch,
        remaining=UNLIMITED,
        lease_ttl=UNLIMITED,
    )


def report_workflow_end(
    tx: Transaction, assignment: Assignment, ended: WorkflowEnd, *, base_url: str | None
) -> str | None:
    """Classify and write the raw outcome, once; the class of the event that was written.

    None where the lease is gone: the run is closed, or its end was reported before.
    """
    run = tx.runs.for_update(assignment.run_id)
    if run is None or not tx.leases.end_current(run.run_id, assignment.lease_epoch):
        return None
    file = _result_of(assignment, ended.file)
    end = end_of_workflow(
        run, status=ended.status, failures=read_failures(ended.failures), file=file
    )
    pins = file.pins if isinstance(file, ResultFile) else None
    write_end(tx, run, with_report_url(end, base_url), pins=pins)
    return type(end).__name__


def _is_claimable(run: Run, assignment: Assignment) -> bool:
    """The reply of Argo may be behind: a submitted run may still be TRIGGERED."""
    is_open = run.status in {RunStatus.TRIGGERED, RunStatus.QUEUED, RunStatus.RUNNING}
    return is_open and not run.cancel_requested and run.attempt == assignment.attempt


def _result_of(assignment: Assignment, data: bytes | None) -> ResultFile | NoResult:
    attempt = Attempt(
        run_id=assignment.run_id,
        attempt=assignment.attempt,
        lease_epoch=assignment.lease_epoch,
    )
    return read_result(data, of=attempt)
