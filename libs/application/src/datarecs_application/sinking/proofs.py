"""The jobs that a sink names in `verify`, with their newest runs.

Separate from the controller, which reads nothing here for a sink without `verify`.
"""

from collections.abc import Sequence
from dataclasses import replace

from datarecs_application.controllers import Snapshot
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_core.resources.proven_condition import VerifyJob
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.runs.model import Run
from datarecs_core.sink.definition import SinkTable
from datarecs_core.values import JobId


def read_proofs(
    seen: Snapshot, resource: Resource, sink: SinkTable, jobs: StoredSpecs[ReconciliationJob]
) -> Sequence[VerifyJob]:
    """One entry for each name in `verify`, in this order; nothing is read without names."""
    if not sink.verify:
        return ()
    stored = {
        name: seen.tx.resources.get(Kind.RECONCILIATION_JOB, resource.namespace, name)
        for name in sink.verify
    }
    runs = seen.tx.runs.newest_ended([JobId(one.uid) for one in stored.values() if one])
    return tuple(
        VerifyJob(name=name, exists=False)
        if job is None
        else _of(name, job, _since(resource, runs.get(JobId(job.uid))), jobs)
        for name, job in stored.items()
    )


def _since(sink: Resource, run: Run | None) -> Run | None:
    """A run from before the sink was declared is about another one of its name."""
    return None if run is None or run.created_at < sink.created_at else run


def _of(
    name: str, job: Resource, run: Run | None, jobs: StoredSpecs[ReconciliationJob]
) -> VerifyJob:
    declared = jobs.of(job)
    if run is None or run.job_generation == job.generation:
        return VerifyJob(name=name, exists=True, declared=declared, run=run, compared=declared)
    earlier = replace(job, spec=run.spec, generation=run.job_generation)
    return VerifyJob(name=name, exists=True, declared=declared, run=run, compared=jobs.of(earlier))
