"""From the end of an Argo workflow to run.completed or run.errored, for the exit handler.

Every failed node has one code and D19's precedence chooses, in any order of the nodes. Text
patterns are applied only to messages of Argo; a report of a step in the result file has its code
already. Separate from `outcome`, where the evidence comes from a process and not from texts.
"""

import re
from collections.abc import Iterator

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.events import RunCompleted, RunEnd, RunErrored
from datarecs_core.runs.model import Run
from datarecs_core.runs.precedence import EXTRACTION, Suspect, convict, reported
from datarecs_core.runs.result_file import NoResult, ResultFile
from datarecs_core.runs.workflow_failures import FailedNode

SUCCEEDED = "Succeeded"

_STOPPED = re.compile(r"stopped with strategy|workflow shutdown with strategy", re.IGNORECASE)
_DEADLINE = re.compile(
    r"activeDeadlineSeconds|exceeded (?:its |the |workflow )*deadline"
    r"|longer than the specified deadline|max duration limit",
    re.IGNORECASE,
)
# A gRPC timeout (`code = DeadlineExceeded`) is no deadline of the run.
_DEADLINE_REASON = re.compile(r"(?<!code = )DeadlineExceeded")
_MEMORY = re.compile(r"OOMKilled|memory", re.IGNORECASE)
_KILLED = re.compile(r"exit code (?:134|137|139)\b", re.IGNORECASE)
_GONE = re.compile(r"pod (?:was )?deleted|evicted|node ?lost", re.IGNORECASE)

_PATTERNS = (
    (_STOPPED, RunDetail.STOPPED_EXTERNALLY),
    (_DEADLINE, RunDetail.DEADLINE_EXCEEDED),
    (_DEADLINE_REASON, RunDetail.DEADLINE_EXCEEDED),
    (_MEMORY, RunDetail.OUT_OF_MEMORY),
    (_KILLED, RunDetail.KILLED),
    (_GONE, RunDetail.TERMINATED),
)


def end_of_workflow(
    run: Run, *, status: str, failures: tuple[FailedNode, ...], file: ResultFile | NoResult
) -> RunEnd:
    """The raw outcome of a workflow.

    Args:
        run: of the workflow.
        status: `{{workflow.status}}`; anything but `Succeeded` is a failure.
        failures: `read_failures` of `{{workflow.failures}}`.
        file: `read_result` of the uploaded result file.
    """
    if status == SUCCEEDED and isinstance(file, ResultFile) and file.result is not None:
        return RunCompleted(
            run_id=run.run_id,
            job_id=run.job_id,
            tenant_id=run.tenant_id,
            attempt=run.attempt or None,
            workflow_name=run.execution_name,
            result=file.result,
            summary=file.summary,
        )
    return RunErrored(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        attempt=run.attempt or None,
        workflow_name=run.execution_name,
        error=convict(_suspects(status, failures, file)),
    )


def suspect_of(node: FailedNode) -> Suspect:
    """The one code of a failed node.

    A stopped node reports this itself, independent of its name and place.
    """
    detail = next((why for pattern, why in _PATTERNS if pattern.search(node.message)), None)
    code = RunErrorCode.UNKNOWN if detail is None else detail.run_code
    if detail is None and _extracts(node):
        code = RunErrorCode.QUERY_FAILED
    return Suspect(
        code=code,
        message=node.message or f"Step {node.display_name} failed.",
        detail_code=None if detail is None else detail.name,
        order=(1, node.finished_at, node.display_name, node.pod_name),
    )


def _extracts(node: FailedNode) -> bool:
    return node.display_name.startswith(EXTRACTION) or node.template_name.startswith(EXTRACTION)


def _suspects(
    status: str, failures: tuple[FailedNode, ...], file: ResultFile | NoResult
) -> Iterator[Suspect]:
    yield from (suspect_of(node) for node in failures)
    if isinstance(file, ResultFile):
        yield from (reported(node) for node in file.nodes)
    elif status == SUCCEEDED:
        why = f"The workflow succeeded, but its result cannot be used: {file.why}."
        yield Suspect(
            code=RunErrorCode.UNKNOWN, message=why, detail_code=file.detail.name, order=(2, "")
        )
    yield Suspect(
        code=RunErrorCode.UNKNOWN, message=f"The workflow ended {status or '?'}.", order=(3, "")
    )
