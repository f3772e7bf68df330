"""Values that change nothing yet are said, at their place, and keep no job from anything."""

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
    - {{name: one, kind: csv, connection: files, path: a.csv}}
    - {{name: two, kind: csv, connection: files, path: b.csv}}
  stages:
    - {{name: rows, type: row, dimensions: [id], measures: "*"}}
  {rest}
"""
ANYWHERE, HERE = Surroundings(), Surroundings(local_files=True)


@pytest.mark.parametrize(
    ("rest", "surroundings", "expected"),
    [
        ("execution: {extract: stream}", HERE, "orders:10:24 DR1009 warning: spec.execution"),
        ("execution: {memory: 8GiB}", ANYWHERE, "orders:10:23 DR1009 warning: spec.execution"),
        ("results: {breaks: {retention: P7D}}", HERE, "orders:10:33 DR1009 warning: spec.results"),
    ],
)
def test_a_value_without_effect_is_said_at_its_place(
    rest: str, surroundings: Surroundings, expected: str
) -> None:
    (decoded,) = decode_yaml(JOB.format(rest=rest).encode(), surroundings=surroundings)
    (found,) = decoded.warnings
    place = f"orders:{found.line}:{found.column} {found.code.docs_id} warning: {found.path}"
    assert place.startswith(expected)
    assert decoded.spec is not None


def test_the_memory_of_a_local_comparison_has_its_effect() -> None:
    rest = "execution: {memory: 8GiB}"
    (decoded,) = decode_yaml(JOB.format(rest=rest).encode(), surroundings=HERE)
    assert decoded.findings == ()


def test_a_stored_job_with_a_warning_can_still_be_run() -> None:
    (decoded,) = decode_yaml(JOB.format(rest="execution: {memory: 8GiB}").encode())
    declared, spec = decoded.require()
    found = decode_stored(Kind.RECONCILIATION_JOB, "orders", declared.spec)
    assert isinstance(found, ReconciliationJob)
    assert found == spec
