"""From the evidence of the supervisor about an ended attempt to run.completed or run.errored.

A valid COMPLETED file decides alone while the deadline has not fired; otherwise every piece of
evidence names one suspect and D19's precedence chooses (spec run-lifecycle 10). Argo's evidence has
a separate module, `workflow_end`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.deaths import (
    EXIT_STOPPED,
    JAVA_OUT_OF_MEMORY,
    Exits,
    cause_of_death,
    java_end_words,
)
from datarecs_core.runs.events import RunCompleted, RunEnd, RunErrored
from datarecs_core.runs.model import Run
from datarecs_core.runs.precedence import Suspect, convict, reported
from datarecs_core.runs.result_file import NoResult, ResultFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """How an attempt ended, as the supervisor saw it."""

    file: ResultFile | NoResult
    exit_code: int | None = None
    """None when a signal ended the child."""
    signal: int | None = None
    """The signal that ended it."""
    stopped: bool = False
    """The supervisor requested a stop, for any reason; later signals come from the platform."""
    deadline_fired: bool = False
    """The supervisor stopped it because the run's deadline had passed."""
    out_of_memory: bool = False
    """The supervisor stopped it at the memory limit."""
    oom_kill: bool = False
    """The kernel counted a kill for lack of memory while the child lived."""
    jvm_exit: int | None = None
    """Exit code of the Java process from the child's last frame, negative for a signal."""
    gateway_lost: bool = False
    """The child reported that Java does not respond, or it never became ready."""
    start_error: str | None = None
    """Why the child never became ready; nothing of the run was begun then."""
    unresponsive: bool = False
    """No ping for 120 s, so the supervisor stopped it."""


def classify(run: Run, evidence: Evidence) -> RunEnd:
    """The raw outcome of the run's current attempt.

    UNMATCHED is a result like MATCHED; no text decides here.
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
    file = evidence.file if isinstance(evidence.file, ResultFile) else None
    if evidence.deadline_fired:
        yield _suspect(RunDetail.DEADLINE_EXCEEDED, 0)
    exits = _exits(evidence, file)
    cause = cause_of_death(exits)
    if cause is not None:
        yield _suspect(cause, 1, _words(cause, exits, evidence))
    yield from map(reported, file.nodes if file else ())
    yield _by_file(evidence)


def _exits(evidence: Evidence, file: ResultFile | None) -> Exits:
    nodes = file.nodes if file else ()
    reported_exit = file.jvm_exit if file else None
    return Exits(
        child_exit=evidence.exit_code,
        child_signal=evidence.signal,
        java_exit=reported_exit if evidence.jvm_exit is None else evidence.jvm_exit,
        java_lost=evidence.gateway_lost,
        oom_kills=evidence.oom_kill,
        memory_limit=evidence.out_of_memory,
        memory_error=any(node.detail_code == RunDetail.OUT_OF_MEMORY.name for node in nodes),
        unresponsive=evidence.unresponsive,
        stopped=evidence.stopped,
        has_result=file is not None,
    )


def _words(cause: RunDetail, exits: Exits, evidence: Evidence) -> str:
    """The message of a cause, with the known facts about the process that ended."""
    match cause:
        case RunDetail.DRIVER_LOST if evidence.start_error is not None:
            return f"The run's process did not start: {evidence.start_error}"
        case RunDetail.DRIVER_LOST:
            return f"{_capital(java_end_words(exits))}."
        case RunDetail.KILLED:
            return f"Signal {exits.child_signal} from outside ended the run's process."
        case RunDetail.OUT_OF_MEMORY if exits.java_exit in JAVA_OUT_OF_MEMORY:
            return f"{java_end_words(exits)}; raise DATARECS_SPARK__DRIVER_MEMORY of the worker."
        case RunDetail.OUT_OF_MEMORY if exits.oom_kills and not exits.memory_limit:
            return "The machine or container ran out of memory, and the kernel ended the run."
        case _:
            return _MESSAGES[cause]


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _by_file(evidence: Evidence) -> Suspect:
    """The last resort, below all other evidence of its code."""
    if evidence.stopped or evidence.exit_code == EXIT_STOPPED:
        return _suspect(RunDetail.STOPPED, _LAST)
    if isinstance(evidence.file, NoResult):
        detail = evidence.file.detail
        return _suspect(detail, _LAST, f"{_MESSAGES[detail]} ({evidence.file.why})")
    return _suspect(RunDetail.COMPARISON_FAILED, _LAST)


_LAST = 99
_MESSAGES = {
    RunDetail.DEADLINE_EXCEEDED: "The run did not end before its deadline and was stopped.",
    RunDetail.OUT_OF_MEMORY: "The run needed more memory than its limit.",
    RunDetail.UNRESPONSIVE: "The run's process showed no activity for 120 s and was stopped.",
    RunDetail.TERMINATED: "The run's process ended by itself and left no result.",
    RunDetail.STOPPED: "The execution was stopped on request.",
    RunDetail.RESULT_MISSING: "The execution ended without a result file.",
    RunDetail.RESULT_INVALID: "The execution left a result file that is not valid.",
    RunDetail.COMPARISON_FAILED: "The comparison failed without a message.",
}


def _suspect(detail: RunDetail, rank: int, message: str | None = None) -> Suspect:
    code = detail.entry.run_code or RunErrorCode.UNKNOWN
    return Suspect(
        code=code,
        message=message or _MESSAGES[detail],
        detail_code=detail.name,
        order=(_order(rank), ""),
    )


def _order(rank: int) -> int:
    """Direct evidence precedes reports of nodes (0), except the fallback."""
    return rank if rank == _LAST else rank - _LAST
