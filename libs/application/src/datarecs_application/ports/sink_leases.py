"""Leases of the tasks of sinks, for the service that runs them.

Claims go over all tenants; everything else happens in the tenant of a lease.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from datarecs_application.ports.sinking import SinkMemory
from datarecs_core.values import ResourceUid, TenantId

SINK_LEASE = timedelta(seconds=15)
SINK_HEARTBEAT = timedelta(seconds=4)
ENDS = ""
"""Instead of a revision, which is never empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkLease:
    """A task, held by a process; another claim has another epoch."""

    tenant_id: TenantId
    sink_uid: ResourceUid
    number: int
    """Of the task, from 0."""
    epoch: int


class SinkLeases(Protocol):
    """Each call is one transaction and may raise StoreUnavailableError or StoreBusyError."""

    def claim(self, executor: str, *, limit: int) -> Sequence[SinkLease]:
        """Tasks that nobody holds, of the tenants with the fewest running tasks first.

        A halted task is left out until `retry`, or until its declaration changes, a resting one
        while its sink pauses.
        """

    def renew(self, leases: Collection[SinkLease]) -> Mapping[SinkLease, str]:
        """The wished revision of each lease that is still held; the others are lost.

        `ENDS` for a lease whose task was begun again by `retry`: stop its process, then release it.
        """

    def release(self, lease: SinkLease, *, is_resting: bool = False) -> None:
        """End a lease; nothing happens if it is lost.

        Args:
            lease: its process has ended.
            is_resting: everything that the task read is committed, and its sink pauses.
        """

    def halted(self) -> int:
        """Tasks of all tenants that are halted."""

    def memory(self, lease: SinkLease, session: UUID) -> SinkMemory:
        """What is stored of the sink, for one process of the task.

        Args:
            lease: each call is refused by LeaseLostError once it is lost.
            session: of the process; counters of its reports begin at 0.
        """
