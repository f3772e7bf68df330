"""The condition Proven: what the newest ended runs of the jobs of a sink say."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.resources.conditions import Condition, Truth
from datarecs_core.resources.proven_condition import (
    VerifyJob,
    last_proofs,
    missing_jobs,
    proven_condition,
)
from datarecs_core.runs.model import Run, RunError, RunResult, RunStatus, RunSummary
from datarecs_core.sink.definition import SinkTable, SinkTarget
from datarecs_core.sink.proof import ProofOptions, proof_job
from datarecs_core.values import JobId, RunId, TenantId

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
ORDERS = SinkTarget(catalog="lake", namespace=("sales",), name="orders")
SINK = SinkTable(connection="kafka", topics=("orders",), tables=(ORDERS,), verify=("orders-proof",))
PROOF = proof_job("orders", SINK, ProofOptions())
OTHER = proof_job("other", replace(SINK, topics=("other",)), ProofOptions())
SUMMARY = RunSummary(
    stages_total=1,
    stages_matched=1,
    rows_compared=1_200,
    rows_matched=1_200,
    rows_unmatched=0,
    duration_ms=900,
)
MATCHED = Run(
    tenant_id=TenantId(UUID(int=1)),
    run_id=RunId(UUID(int=7)),
    job_id=JobId(UUID(int=2)),
    job_name="orders-proof",
    job_generation=1,
    spec_hash="sha256:" + 64 * "0",
    spec={},
    triggered_by="ann",
    execution_name="e",
    created_at=NOON - HOUR,
    closed_at=NOON,
    status=RunStatus.COMPLETED,
    result=RunResult.MATCHED,
    summary=SUMMARY,
)
UNMATCHED = replace(
    MATCHED,
    run_id=RunId(UUID(int=8)),
    result=RunResult.UNMATCHED,
    summary=replace(SUMMARY, stages_matched=0, rows_matched=0, rows_unmatched=1_200),
)
ERRORED = replace(
    MATCHED,
    status=RunStatus.ERRORED,
    result=None,
    summary=None,
    error=RunError(
        code=RunErrorCode.QUERY_FAILED, message="gone", detail_code="OFFSET_OUT_OF_RANGE"
    ),
)
CANCELLED = replace(MATCHED, status=RunStatus.CANCELLED, result=None, summary=None)
EMPTY = replace(MATCHED, summary=replace(SUMMARY, rows_compared=0, rows_matched=0, empty=True))


def job(run: Run | None = MATCHED, name: str = "orders-proof") -> VerifyJob:
    return VerifyJob(name=name, exists=True, declared=PROOF, run=run, compared=PROOF)


def proven(*jobs: VerifyJob, sink: SinkTable = SINK) -> Condition:
    condition = proven_condition(sink, jobs)
    assert condition.type == "Proven"
    return condition


def test_a_matched_run_proves_the_sink() -> None:
    assert proven(job()) == Condition(
        type="Proven",
        status=Truth.TRUE,
        reason="Matched",
        message=f"run {UUID(int=7)} of job orders-proof ended MATCHED at"
        " 2026-11-27T12:00:00.000000Z",
    )


def test_an_unmatched_run_is_named_with_its_differences() -> None:
    condition = proven(job(UNMATCHED))
    assert (condition.status, condition.reason) == (Truth.FALSE, "Unmatched")
    assert condition.message == (
        f"run {UUID(int=8)} of job orders-proof ended UNMATCHED at 2026-11-27T12:00:00.000000Z"
        f" with 1,200 differences; see `datarecs diff {UUID(int=8)}`"
    )
    bare = proven(job(replace(UNMATCHED, summary=None)))
    assert "12:00:00.000000Z; see" in bare.message
    summary = replace(SUMMARY, rows_matched=1_199, rows_unmatched=1)
    assert " with 1 difference; " in proven(job(replace(UNMATCHED, summary=summary))).message


MISSING = VerifyJob(name="orders-proof", exists=False)
UNREADABLE = VerifyJob(name="orders-proof", exists=True)


@pytest.mark.parametrize(
    ("one", "reason", "words"),
    [
        (MISSING, "JobMissing", "job orders-proof does not exist in the namespace of the sink"),
        (UNREADABLE, "NoProof", "this release cannot read its declaration"),
        (replace(job(), declared=OTHER), "NoProof", "does not prove this sink: it reads no topic"),
        (replace(job(), compared=OTHER), "NoProof", "as the job was declared then"),
        (replace(job(UNMATCHED), compared=OTHER), "NoProof", "as the job was declared then"),
        (replace(job(), compared=None), "NoProof", "cannot read its declaration"),
        (job(None), "NoRunYet", "start one with `datarecs run orders-proof`"),
        (job(ERRORED), "RunErrored", "with OFFSET_OUT_OF_RANGE and compared nothing"),
        (job(CANCELLED), "RunCancelled", "ended CANCELLED at"),
        (job(EMPTY), "NothingCompared", "found no record to compare"),
    ],
)
def test_without_a_verdict_about_this_sink_nothing_is_known(
    one: VerifyJob, reason: str, words: str
) -> None:
    condition = proven(one)
    assert (condition.status, condition.reason) == (Truth.UNKNOWN, reason)
    assert words in condition.message


def test_one_unmatched_job_outweighs_what_others_say() -> None:
    condition = proven(job(name="a"), MISSING, job(UNMATCHED, "b"))
    assert (condition.status, condition.reason) == (Truth.FALSE, "Unmatched")
    assert "of job b ended" in condition.message


def test_one_job_without_a_verdict_leaves_the_claim_open() -> None:
    condition = proven(job(name="a"), job(None, "b"), job(ERRORED, "c"))
    assert (condition.status, condition.reason) == (Truth.UNKNOWN, "NoRunYet")
    assert "no run of job b" in condition.message
    assert "of job c ended" in condition.message


def test_the_claim_is_as_old_as_the_oldest_run() -> None:
    older = replace(MATCHED, run_id=RunId(UUID(int=3)), closed_at=NOON - HOUR)
    condition = proven(job(name="a"), job(older, "b"), job(name="c"))
    assert condition.status is Truth.TRUE
    assert condition.message.startswith(
        f"run {UUID(int=3)} of job b ended MATCHED at 2026-11-27T11"
    )
    assert condition.message.endswith("Z; those of 2 more ended later")


def test_a_table_that_no_job_compares_is_named() -> None:
    sink = replace(SINK, tables=(ORDERS, replace(ORDERS, name="refunds")))
    condition = proven(job(), sink=sink)
    assert (condition.status, condition.reason) == (Truth.TRUE, "MatchedInPart")
    assert condition.message.endswith("; no job in verify compares table sales.refunds")


def test_many_faults_are_counted() -> None:
    condition = proven(*(VerifyJob(name=f"j{number}", exists=False) for number in range(7)))
    assert condition.message.count("does not exist") == 5
    assert condition.message.endswith("; 2 more")


def test_the_status_lists_the_newest_run_of_each_job() -> None:
    assert last_proofs([job(), MISSING, job(None), job(ERRORED, "b")]) == [
        {
            "job": "orders-proof",
            "run_id": str(UUID(int=7)),
            "result": "MATCHED",
            "finished_at": "2026-11-27T12:00:00.000000Z",
        },
        {
            "job": "b",
            "run_id": str(UUID(int=7)),
            "result": "ERRORED",
            "finished_at": "2026-11-27T12:00:00.000000Z",
        },
    ]
    assert missing_jobs([job(), MISSING]) == ("orders-proof",)
