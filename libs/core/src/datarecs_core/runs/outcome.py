"""What the supervisor knows of an attempt that is over, to run.completed or run.errored.

A valid COMPLETED file decides alone while the deadline has not fired; otherwise every piece of
evidence names one suspect and D19's precedence chooses (spec run-lifecycle 10). Argo's evidence has
a module of its own, `workflow_end`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.events import RunCompleted, RunEnd, RunErrored
from datarecs_core.runs.model import Run
from datarecs_core.runs.precedence import Suspect, convict, reported
from datarecs_core.runs.result_file import NoResult, ResultFile

JVM_OUT_OF_MEMORY = 3
"""Exit code of `-XX:+ExitOnOutOfMemoryError`."""
EXIT_STOPPED = 75
"""The child's exit code after a stop on request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """How an attempt ended, as the supervisor saw it."""

    file: ResultFile | NoResult
    exit_code: int | None = None
    """None when a signal ended the child."""
    signal: int | None = None
    """The signal that ended it."""
    stopped: bool = False
    """The supervisor asked it to stop, whatever for; its signals are then ours."""
    deadline_fired: bool = False
    """The supervisor stopped it because the run's deadline had passed."""
    out_of_memory: bool = False
    """The cgroup counted a kill, or the supervisor killed it at the memory limit."""
    jvm_exit: int | None = None
    """Exit code of the Java machine from the child's last frame."""
    gateway_lost: bool = False
    """The child reported that its Spark gateway is gone."""
    unresponsive: bool = False
    """No ping for 120 s, so the supervisor stopped it."""


def classify(run: Run, evidence: Evidence) -> RunEnd:
    """The raw outcome of the run's current attempt.

    UNMATCHED is a result like MATCHED; nothing here is decided by text.
    """
    file = evidence.file
    if isinstance(file, ResultFile) and file.result is not None and not evidence.deadline_fired:
        return RunCompleted(
            run_id=run.run_id,
            job_id=run.job_id,
            tenant_id=run.tenant_id,
            attempt=run.attempt,
            workflow_name=run.execution_name,
            result=file.result,
            summary=file.summary,
        )
    return RunErrored(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        attempt=run.attempt,
        workflow_name=run.execution_name,
        error=convict(_suspects(evidence)),
    )


def _suspects(evidence: Evidence) -> Iterator[Suspect]:
    yield from (_suspect(detail, rank) for rank, detail in enumerate(_seen(evidence)))
    if isinstance(evidence.file, ResultFile):
        yield from (reported(node) for node in evidence.file.nodes)
    yield _by_file(evidence)


def _seen(evidence: Evidence) -> Iterator[RunDetail]:
    """What the supervisor saw itself, the surest first."""
    file = evidence.file if isinstance(evidence.file, ResultFile) else None
    jvm_exits = {evidence.jvm_exit, file.jvm_exit if file else None}
    if evidence.deadline_fired:
        yield RunDetail.DEADLINE_EXCEEDED
    if evidence.out_of_memory or JVM_OUT_OF_MEMORY in jvm_exits:
        yield RunDetail.OUT_OF_MEMORY
    if evidence.unresponsive:
        yield RunDetail.UNRESPONSIVE
    if evidence.gateway_lost:
        yield RunDetail.DRIVER_LOST
    if evidence.signal is not None and not evidence.stopped:
        yield RunDetail.KILLED
    if file is None and evidence.exit_code not in {None, 0, EXIT_STOPPED}:
        yield RunDetail.TERMINATED


def _by_file(evidence: Evidence) -> Suspect:
    """The last resort, below all other evidence of its code."""
    if evidence.stopped or evidence.exit_code == EXIT_STOPPED:
        return _suspect(RunDetail.STOPPED, _LAST)
    if isinstance(evidence.file, NoResult):
        found = _suspect(evidence.file.detail, _LAST)
        return Suspect(
            code=found.code,
            message=f"{found.message} ({evidence.file.why})",
            detail_code=found.detail_code,
            order=found.order,
        )
    return _suspect(RunDetail.COMPARISON_FAILED, _LAST)


_LAST = 99
_MESSAGES = {
    RunDetail.DEADLINE_EXCEEDED: "The run did not end before its deadline and was stopped.",
    RunDetail.OUT_OF_MEMORY: "The run needed more memory than its limit.",
    RunDetail.UNRESPONSIVE: "The run's process gave no sign of life for 120 s and was stopped.",
    RunDetail.DRIVER_LOST: "The run's process lost its Spark driver.",
    RunDetail.KILLED: "Something outside killed the run's process.",
    RunDetail.TERMINATED: "The run's process ended by itself without leaving a result.",
    RunDetail.STOPPED: "The execution was stopped on request.",
    RunDetail.RESULT_MISSING: "The execution ended without a result file.",
    RunDetail.RESULT_INVALID: "The execution left a result file that cannot be trusted.",
    RunDetail.COMPARISON_FAILED: "The comparison failed without saying why.",
}


def _suspect(detail: RunDetail, rank: int) -> Suspect:
    code = detail.entry.run_code or RunErrorCode.UNKNOWN
    return Suspect(
        code=code, message=_MESSAGES[detail], detail_code=detail.name, order=(_order(rank), "")
    )


def _order(rank: int) -> int:
    """Seen evidence stands before what nodes report (0), except the last resort."""
    return rank if rank == _LAST else rank - _LAST
