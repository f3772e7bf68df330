"""The spec hash: one hash of the comparison a job declares, independent of its notation.

It covers the job with aliases resolved, without fields that change no number (`description`,
`owner`, `execution`, `results.reports`, the name) and without fields equal to their default, so
that a later optional field changes no hash. Parameter values are hashed beside it, not in it.
"""

from dataclasses import replace

from datarecs_core.documents import to_document
from datarecs_core.hashing import canonical_json, sha256_hex
from datarecs_core.jobs.definition import Execution, ReconciliationJob, Results


def spec_hash(job: ReconciliationJob) -> str:
    """`sha256:` and 64 hexadecimal characters over RFC 8785 JSON."""
    question = replace(
        job,
        name="",
        description="",
        owner="",
        execution=Execution(),
        results=replace(job.results, reports=Results().reports),
    )
    return f"sha256:{sha256_hex(canonical_json(to_document(question)))}"
