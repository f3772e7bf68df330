"""The job of an event, for filters that name jobs; looked up only if a filter does.

Separate from `webhook_fan_out`, because recover and replay use filters too.
"""

from collections.abc import Mapping
from uuid import UUID

from datarecs_application.ports.state import Transaction
from datarecs_core.values import ResourceUid
from datarecs_core.webhooks.endpoint import WebhookEndpoint
from datarecs_core.webhooks.matching import JOB_ID, JobFacts


def names_jobs(spec: WebhookEndpoint) -> bool:
    """Whether the filter needs the job of an event."""
    return spec.filter.data is not None and spec.filter.data.names_jobs


class JobLookup:
    """Current names and labels of jobs; each job is read once."""

    def __init__(self, tx: Transaction, *, is_needed: bool) -> None:
        self._tx, self._is_needed = tx, is_needed
        self._read: dict[str, JobFacts | None] = {}

    def job_of(self, values: Mapping[str, str]) -> JobFacts | None:
        """The job that an event's values name; None for a deleted job."""
        job_id = values.get(JOB_ID)
        if job_id is None or not self._is_needed:
            return None
        if job_id not in self._read:
            job = self._tx.resources.get_by_uid(ResourceUid(UUID(job_id)))
            facts = None if job is None else JobFacts(name=job.name, labels=job.labels)
            self._read[job_id] = facts
        return self._read[job_id]
