"""The outcome of an ended execution without a handled end (row 15).

The recorded raw outcome, else the result file, else the status of the backend. Separate from
`completion`, which judges the outcome found here.
"""

from collections.abc import Mapping

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.events import RunCompleted, RunEnd, RunErrored
from datarecs_core.runs.model import Run, RunError, RunResult
from datarecs_core.runs.result_file import NoResult, ResultFile
from datarecs_core.runs.summary import read_summary
from datarecs_core.runs.workflow_end import SUCCEEDED, end_of_workflow
from datarecs_core.runs.workflow_failures import FailedNode

_COMPLETED = ".run.completed"
_ERRORED = ".run.errored"


def recorded_end(run: Run, *, wire_type: str, data: Mapping[str, object]) -> RunEnd | None:
    """The raw outcome in a line of `run_event`; None for a line of another type.

    Only the platform writes these lines, through the codec, so their fields are valid.
    """
    if wire_type.endswith(_COMPLETED):
        summary = data.get("summary")
        return RunCompleted(
            run_id=run.run_id,
            job_id=run.job_id,
            tenant_id=run.tenant_id,
            attempt=_attempt(data),
            workflow_name=str(data["workflow_name"]),
            result=RunResult(str(data["result"])),
            summary=read_summary(summary) if isinstance(summary, dict) else None,
        )
    if wire_type.endswith(_ERRORED) and isinstance(data.get("error"), dict):
        return RunErrored(
            run_id=run.run_id,
            job_id=run.job_id,
            tenant_id=run.tenant_id,
            attempt=_attempt(data),
            workflow_name=str(data["workflow_name"]),
            error=_error(data["error"]),
        )
    return None


def outcome_of_repair(
    run: Run,
    *,
    recorded: RunEnd | None,
    file: ResultFile | NoResult,
    status: str | None,
    failures: tuple[FailedNode, ...] = (),
) -> RunEnd:
    """The end of an execution that has ended.

    Args:
        run: the row.
        recorded: what `recorded_end` found in the run's history.
        file: the result file, if it can be reached.
        status: the end according to the backend; None when the backend no longer has the execution.
        failures: the nodes that failed according to the backend.
    """
    if recorded is not None:
        return recorded
    if status is None and isinstance(file, NoResult):
        return RunErrored(
            run_id=run.run_id,
            job_id=run.job_id,
            tenant_id=run.tenant_id,
            attempt=run.attempt or None,
            workflow_name=run.execution_name,
            error=RunError(
                code=RunErrorCode.UNKNOWN,
                message="The execution is gone and left no result.",
                detail_code=RunDetail.STOPPED_EXTERNALLY.name,
            ),
        )
    return end_of_workflow(run, status=status or SUCCEEDED, failures=failures, file=file)


def _attempt(data: Mapping[str, object]) -> int | None:
    attempt = data.get("attempt")
    return attempt if isinstance(attempt, int) else None


def _error(value: object) -> RunError:
    error = value if isinstance(value, dict) else {}
    detail = error.get("detail_code")
    return RunError(
        code=RunErrorCode(str(error["code"])),
        message=str(error["message"]),
        detail_code=None if detail is None else str(detail),
    )
