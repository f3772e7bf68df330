"""Exact counts of what a tenant has, so that a quota holds under concurrent requests.

Separate from `state`, which is long.
"""

from dataclasses import dataclass
from typing import Protocol

from datarecs_core.resources.resource import Kind
from datarecs_core.values import JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRuns:
    """Runs that have not started: TRIGGERED or QUEUED."""

    of_job: int
    of_tenant: int

    def excess(self, most: "WaitingRuns") -> str | None:
        """The number of runs that leaves no room for one more, in words; None if there is room."""
        if self.of_job >= most.of_job:
            return f"{self.of_job} waiting runs of this job"
        if self.of_tenant >= most.of_tenant:
            return f"{self.of_tenant} waiting runs of this tenant"
        return None


class Quotas(Protocol):
    """Counts of the transaction's tenant.

    From the first count to its end, the transaction blocks the counts of other transactions of
    the tenant. Count before the audit entry is written, which locks as well.
    """

    def waiting_runs(self, job_id: JobId) -> WaitingRuns: ...

    def open_captures(self) -> int:
        """Captures that have neither ended nor been cancelled, those of this transaction too."""

    def resources(self, kind: Kind) -> int:
        """Objects of the kind in all namespaces, those that are being deleted included."""
