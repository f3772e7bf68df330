"""Which objects are due for their controller, and the lease of one that works on them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from datarecs_core.resources.reconciling import Work
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.values import ResourceUid, TenantId

RESOURCE_LEASE = timedelta(seconds=12)
"""Renewed every third of it; the work of a process that was killed is free after this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedResource:
    """One object that a process may reconcile until its lease ends."""

    tenant_id: TenantId
    uid: ResourceUid
    kind: Kind
    epoch: int
    dirty_seq: int
    """At the claim: if it differs at the end, a change came meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceBacklog:
    """Due objects of one kind, in all tenants."""

    kind: Kind
    due: int
    oldest_seconds: float


class ResourceFinder(Protocol):
    """The part of WorkFinder that is about objects."""

    def claim_resources(self, kinds: Collection[Kind], limit: int) -> list[ClaimedResource]:
        """Lease due objects of these kinds for 12 s, fairly over tenants: epoch + 1."""

    def adopt_resources(self, kinds: Collection[Kind]) -> int:
        """Make objects of these kinds due that have no row of work yet; their number."""

    def resource_backlog(self) -> list[ResourceBacklog]:
        """Due objects by kind; a kind without any is left out."""


class ResourceWork(Protocol):
    """The rows of `resource_work`; each goes with its object."""

    def reconcile_soon(self, uid: ResourceUid, kind: Kind) -> None:
        """Make the object due now; called in the transaction that changes it."""

    def due_again(self, uid: ResourceUid) -> None:
        """Make an object due that has a row of work: something about it was observed outside."""

    def reconcile_users_of(self, connection: str) -> None:
        """Make every job, capture and sink due that uses the connection of this name."""

    def get(self, uid: ResourceUid) -> Work | None:
        """Without a lock."""

    def observed(self, uids: Collection[ResourceUid]) -> Sequence[tuple[Resource, Work]]:
        """These objects with their work, without a lock; those that are gone are left out."""

    def for_update(self, *uids: ResourceUid) -> Mapping[ResourceUid, Work]:
        """Lock the rows until the transaction ends; an object's row is locked before it."""

    def save(self, work: Work) -> None:
        """Replace the locked row, except `dirty_seq`."""

    def renew(self, claims: Collection[ClaimedResource]) -> Collection[ResourceUid]:
        """Extend leases of this tenant with a current epoch to `RESOURCE_LEASE`; which these are.

        A lease that ran out is extended as well, unless another process has it.
        """
