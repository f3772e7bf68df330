"""The condition Proven under the controller: it follows the runs of the jobs that a sink names."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from datarecs_application.resources import Key
from datarecs_application.sinking.declared import FOLLOW_EVERY
from datarecs_core.resources.conditions import Condition
from datarecs_core.resources.resource import Kind
from datarecs_core.runs.model import Run, RunResult, RunStatus
from datarecs_core.sink.checkpoint import TaskWish
from datarecs_core.sink.definition import SinkTable
from datarecs_core.sink.proof import ProofOptions, proof_job
from datarecs_core.values import JobId
from datarecs_specs.kinds import canonical_spec
from datarecs_testing.builders import a_run
from datarecs_testing.controlled_sinks import SPEC, Platform, read_sink

JOB = "landing-proof"
HOUR = timedelta(hours=1)
VERIFIED: Mapping[str, Any] = {**SPEC, "verify": [JOB]}
SINK: SinkTable = read_sink(SPEC)


def proof_spec(sink: SinkTable = SINK) -> Mapping[str, Any]:
    job = proof_job("landing", sink, ProofOptions())
    return canonical_spec(Kind.RECONCILIATION_JOB, job)


@pytest.fixture
def platform() -> Platform:
    return Platform()


def declare_job(platform: Platform, spec: Mapping[str, Any] | None = None, name: str = JOB) -> None:
    platform.apply(name, spec or proof_spec(), kind=Kind.RECONCILIATION_JOB)


def end_run(platform: Platform, name: str = JOB, **changes: Any) -> Run:  # noqa: ANN401  fields of a run
    """A run of the job as it is declared now, which ends MATCHED at once."""
    job = platform.stored(Key(kind=Kind.RECONCILIATION_JOB, name=name))
    assert job is not None
    run = a_run(
        tenant_id=platform.tenant,
        job_id=JobId(job.uid),
        job_name=name,
        job_generation=job.generation,
        spec=job.spec,
        created_at=platform.clock.now(),
        **{"status": RunStatus.COMPLETED, **changes},
    )
    with platform.unit.begin(platform.tenant) as tx:
        tx.runs.add(run)
    return run


def proven(platform: Platform) -> Condition:
    return platform.conditions()["Proven"]


def said(condition: Condition) -> tuple[str, str]:
    return str(condition.status), condition.reason


def test_a_sink_without_jobs_claims_nothing(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    platform.after(FOLLOW_EVERY)
    assert "Proven" not in platform.conditions()
    assert "last_proofs" not in platform.sink().status


def test_a_run_from_before_the_sink_proves_nothing(platform: Platform) -> None:
    declare_job(platform)
    end_run(platform)
    platform.after(HOUR)
    platform.apply("landing", VERIFIED)
    platform.after(FOLLOW_EVERY)
    assert said(proven(platform)) == ("Unknown", "NoRunYet")
    assert platform.sink().status["last_proofs"] == []


def test_the_newest_ended_run_decides(platform: Platform) -> None:
    platform.apply("landing", VERIFIED)
    declare_job(platform)
    platform.after(FOLLOW_EVERY)
    assert said(proven(platform)) == ("Unknown", "NoRunYet")
    first = end_run(platform)
    platform.after(FOLLOW_EVERY)
    assert said(proven(platform)) == ("True", "Matched")
    assert str(first.run_id) in proven(platform).message
    end_run(platform, status=RunStatus.RUNNING)
    platform.after(FOLLOW_EVERY)
    assert said(proven(platform)) == ("True", "Matched")
    second = end_run(platform, result=RunResult.UNMATCHED)
    platform.after(FOLLOW_EVERY)
    assert said(proven(platform)) == ("False", "Unmatched")
    assert f"run {second.run_id} of job {JOB} ended UNMATCHED at" in proven(platform).message
    proofs: Any = platform.sink().status["last_proofs"]
    (last,) = proofs
    assert (last["run_id"], last["result"]) == (str(second.run_id), "UNMATCHED")
    end_run(platform, status=RunStatus.ERRORED)
    platform.after(FOLLOW_EVERY)
    assert said(proven(platform)) == ("Unknown", "RunErrored")


def test_a_proof_that_differs_does_not_stop_the_sink(platform: Platform) -> None:
    platform.apply("landing", VERIFIED)
    declare_job(platform)
    platform.run_tasks()
    platform.after(FOLLOW_EVERY)
    before = platform.wished
    end_run(platform, result=RunResult.UNMATCHED)
    platform.after(FOLLOW_EVERY)
    assert said(proven(platform)) == ("False", "Unmatched")
    assert platform.wished == before
    assert before.wish is TaskWish.RUN
    assert str(platform.ready().status) == "True"


def test_a_missing_job_is_said_and_the_sink_runs(platform: Platform) -> None:
    platform.apply("landing", VERIFIED)
    assert said(proven(platform)) == ("Unknown", "JobMissing")
    resolved = platform.conditions()["ReferencesResolved"]
    assert said(resolved) == ("True", "VerifyJobMissing")
    assert f"job {JOB} in verify does not exist" in resolved.message
    assert platform.wished.wish is TaskWish.RUN
    declare_job(platform)
    platform.after(FOLLOW_EVERY)
    assert said(platform.conditions()["ReferencesResolved"]) == ("True", "AllResolved")


def test_a_job_of_another_topic_proves_nothing_even_if_it_matched(platform: Platform) -> None:
    platform.apply("landing", VERIFIED)
    declare_job(platform, proof_spec(replace(SINK, topics=("other",))))
    end_run(platform)
    platform.after(FOLLOW_EVERY)
    assert said(proven(platform)) == ("Unknown", "NoProof")
    assert "it reads no topic of the sink" in proven(platform).message


def test_a_run_counts_as_its_job_was_declared_then(platform: Platform) -> None:
    """Else a job that compared something else would prove the sink by an edit."""
    platform.apply("landing", VERIFIED)
    declare_job(platform, proof_spec(replace(SINK, topics=("other",))))
    end_run(platform)
    declare_job(platform)
    platform.after(FOLLOW_EVERY)
    assert said(proven(platform)) == ("Unknown", "NoProof")
    assert "as the job was declared then" in proven(platform).message
    end_run(platform)
    platform.after(FOLLOW_EVERY)
    assert said(proven(platform)) == ("True", "Matched")


def test_runs_of_a_deleted_job_of_the_same_name_do_not_count(platform: Platform) -> None:
    platform.apply("landing", VERIFIED)
    declare_job(platform)
    end_run(platform)
    platform.delete(Key(kind=Kind.RECONCILIATION_JOB, name=JOB))
    declare_job(platform)
    platform.after(FOLLOW_EVERY)
    assert said(proven(platform)) == ("Unknown", "NoRunYet")


def test_an_unchanged_proof_leaves_no_trace(platform: Platform) -> None:
    platform.apply("landing", VERIFIED)
    declare_job(platform)
    platform.run_tasks()
    end_run(platform)
    platform.after(FOLLOW_EVERY)
    before = platform.sink()
    for _ in range(5):
        platform.after(FOLLOW_EVERY)
    assert platform.sink() == before


def test_the_claim_goes_with_the_names(platform: Platform) -> None:
    platform.apply("landing", VERIFIED)
    declare_job(platform)
    end_run(platform)
    platform.after(FOLLOW_EVERY)
    assert "Proven" in platform.conditions()
    platform.apply("landing", SPEC)
    platform.after(HOUR)
    assert "Proven" not in platform.conditions()
    assert "last_proofs" not in platform.sink().status
