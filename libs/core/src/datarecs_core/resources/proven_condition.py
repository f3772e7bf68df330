"""The condition Proven of a sink, from the newest ended runs of the jobs that it names.

Pure: the declaration, the jobs and their runs in; a claim and a field of the status out. Separate
from the other conditions of a sink, which are about its tasks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_core.resources.conditions import Condition, ConditionType, Truth
from datarecs_core.runs.model import Run, RunResult, RunStatus
from datarecs_core.sink.definition import SinkTable
from datarecs_core.sink.proving import proof_fault, unproven
from datarecs_core.values import instant_text

LAST_PROOFS = "last_proofs"
"""Field of the status: the newest ended run of each named job that has one."""
MOST_NAMED = 5
"""Jobs, topics and tables in a message; further ones are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyJob:
    """A job that a sink names in `verify`."""

    name: str
    exists: bool
    declared: ReconciliationJob | None = None
    """None: it does not exist, or this release cannot read it."""
    run: Run | None = None
    """The newest one that has ended since the sink was declared; None without any."""
    compared: ReconciliationJob | None = None
    """The job as it was declared for the run; None as in `declared`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unknown:
    """Why nothing is known from a job."""

    reason: str
    message: str


def missing_jobs(jobs: Sequence[VerifyJob]) -> tuple[str, ...]:
    """Names of those that do not exist."""
    return tuple(one.name for one in jobs if not one.exists)


def proven_condition(sink: SinkTable, jobs: Sequence[VerifyJob]) -> Condition:
    """True: the newest ended run of every job is MATCHED; False: that of one is UNMATCHED.

    Args:
        sink: the declaration.
        jobs: one entry for each name in `verify`, in this order; at least one.
    """
    doubts = {one.name: next(_doubts(sink, one), None) for one in jobs}
    unknown = [doubt for doubt in doubts.values() if doubt is not None]
    runs = [(one.name, one.run) for one in jobs if one.run and doubts[one.name] is None]
    unmatched = [_difference(*pair) for pair in runs if pair[1].result is RunResult.UNMATCHED]
    if unmatched:
        return _claim(Truth.FALSE, "Unmatched", _joined(unmatched))
    if unknown:
        words = _joined([one.message for one in unknown])
        return _claim(Truth.UNKNOWN, unknown[0].reason, words)
    rest = unproven(sink, (one.compared for one in jobs if one.compared))
    if rest:
        words = f"{_oldest(runs)}; no job in verify compares {_joined(rest, ', ')}"
        return _claim(Truth.TRUE, "MatchedInPart", words)
    return _claim(Truth.TRUE, "Matched", _oldest(runs))


def last_proofs(jobs: Sequence[VerifyJob]) -> list[dict[str, str | None]]:
    """The field of the status.

    `result` is MATCHED or UNMATCHED; of a run without one it is the status in which it ended.
    """
    return [
        {
            "job": one.name,
            "run_id": str(one.run.run_id),
            "result": str(one.run.result or one.run.status),
            "finished_at": _end(one.run),
        }
        for one in jobs
        if one.run is not None
    ]


def _doubts(sink: SinkTable, job: VerifyJob) -> Iterator[_Unknown]:
    """First what is wrong with the job, then with its run."""
    fault = _fault(sink, job.declared)
    if not job.exists:
        yield _Unknown(
            reason="JobMissing",
            message=f"job {job.name} does not exist in the namespace of the sink; apply what"
            " `datarecs sink proof` prints, or name another job in verify",
        )
    elif fault is not None:
        yield _Unknown(
            reason="NoProof", message=f"job {job.name} does not prove this sink: {fault}"
        )
    elif job.run is None:
        yield _Unknown(
            reason="NoRunYet",
            message=f"no run of job {job.name} has ended yet; start one with"
            f" `datarecs run {job.name}`",
        )
    else:
        yield from _run_doubts(sink, job, job.run)


def _run_doubts(sink: SinkTable, job: VerifyJob, run: Run) -> Iterator[_Unknown]:
    words, fault = _words(job.name, run), _fault(sink, job.compared)
    if run.result is None:
        reason = "RunCancelled" if run.status is RunStatus.CANCELLED else "RunErrored"
        cause = "" if run.error is None else f" with {run.error.detail_code or run.error.code}"
        yield _Unknown(
            reason=reason,
            message=f"{words}{cause} and compared nothing; see `datarecs get run {run.run_id}`",
        )
    elif fault is not None:
        yield _Unknown(
            reason="NoProof",
            message=f"{words}, and did not prove this sink as the job was declared then: {fault};"
            " run it again",
        )
    elif run.summary is not None and run.summary.empty:
        yield _Unknown(reason="NothingCompared", message=f"{words} and found no record to compare")


def _fault(sink: SinkTable, job: ReconciliationJob | None) -> str | None:
    if job is None:
        return "this release cannot read its declaration; apply it again"
    return proof_fault(sink, job)


def _difference(name: str, run: Run) -> str:
    count = 0 if run.summary is None else run.summary.rows_unmatched
    words = f" with {count:,} difference{'' if count == 1 else 's'}" if count else ""
    return f"{_words(name, run)}{words}; see `datarecs diff {run.run_id}`"


def _oldest(runs: Sequence[tuple[str, Run]]) -> str:
    """The claim is as old as the oldest of the runs."""
    name, run = min(runs, key=lambda pair: _end(pair[1]))
    more = f"; those of {len(runs) - 1} more ended later" if len(runs) > 1 else ""
    return f"{_words(name, run)}{more}"


def _words(name: str, run: Run) -> str:
    return f"run {run.run_id} of job {name} ended {run.result or run.status} at {_end(run)}"


def _end(run: Run) -> str:
    return instant_text(run.closed_at or run.ended_at or run.created_at)


def _joined(texts: Sequence[str], sign: str = "; ") -> str:
    rest = f"{sign}{len(texts) - MOST_NAMED} more" if len(texts) > MOST_NAMED else ""
    return sign.join(texts[:MOST_NAMED]) + rest


def _claim(status: Truth, reason: str, message: str) -> Condition:
    return Condition(type=ConditionType.PROVEN, status=status, reason=reason, message=message)
