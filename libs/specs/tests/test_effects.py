"""A value that would change nothing is refused at its key, and a stored job is still run."""

import pytest

from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_core.resources.resource import Kind
from datarecs_specs.documents import decode_stored, decode_yaml
from datarecs_specs.reading import Surroundings

JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {{name: orders}}
spec:
  sources:
    - {{name: one, kind: csv, connection: files, path: a.csv{source}}}
    - {{name: two, kind: csv, connection: files, path: b.csv}}
  stages:
    - {{name: rows, {stage}}}
  {rest}
"""
ROWS = 'type: row, dimensions: [id], measures: "*"'
DIGEST = "type: digest, dimensions: [id], measures: [{name: m}]"
ANYWHERE, SERVER = Surroundings(), Surroundings(on_server=True)


def job(rest: str = "", *, source: str = "", stage: str = ROWS) -> bytes:
    return JOB.format(rest=rest, source=source, stage=stage).encode()


@pytest.mark.parametrize(
    ("written", "place"),
    [
        (job("execution: {extract: stream}"), "10:15 spec.execution: 'extract'"),
        (job("execution: {resume: false}"), "10:15 spec.execution: 'resume'"),
        (job("results: {breaks: {retention: P7D}}"), "10:22 spec.results.breaks: 'retention'"),
        (
            job(source=", limits: {max_connections: 2}"),
            "6:71 spec.sources[0].limits: 'max_connections'",
        ),
        (job(stage=f"{DIGEST}, compare_to: spread"), "9:75 spec.stages[0]: 'compare_to'"),
        (job(stage=f"{DIGEST}, reference: two"), "9:75 spec.stages[0]: 'reference'"),
        (
            job(stage="type: counts, warn_at: {unmatched_percent: 1}"),
            "9:44 spec.stages[0].warn_at: 'unmatched_percent'",
        ),
    ],
)
@pytest.mark.parametrize("surroundings", [ANYWHERE, SERVER])
def test_a_value_without_effect_is_refused_at_its_key(
    written: bytes, place: str, surroundings: Surroundings
) -> None:
    (decoded,) = decode_yaml(written, surroundings=surroundings)
    (fault,) = decoded.faults
    said = f"{fault.line}:{fault.column} {fault.path}: {fault.message}"
    assert said.startswith(f"{place} has no effect: ")
    assert fault.code.docs_id == "DR1009"


@pytest.mark.parametrize("surroundings", [ANYWHERE, SERVER])
def test_memory_that_only_a_local_comparison_obeys_is_a_note(surroundings: Surroundings) -> None:
    (decoded,) = decode_yaml(job("execution: {memory: 8GiB}"), surroundings=surroundings)
    (fault,) = decoded.findings
    assert (fault.code.docs_id, fault.path) == ("DR1009", "spec.execution.memory")
    assert (fault.severity, decoded.spec is None) == ("note", False)


def test_a_job_that_was_stored_before_the_rule_can_still_be_run() -> None:
    (decoded,) = decode_yaml(job("execution: {memory: 8GiB}"))
    declared, _ = decoded.require()
    execution = {"memory": "8GiB", "resume": False, "extract": "stream"}
    decoded_job = decode_stored(
        Kind.RECONCILIATION_JOB, "orders", {**declared.spec, "execution": execution}
    )
    assert isinstance(decoded_job, ReconciliationJob)
    assert decoded_job.execution.resume is False
