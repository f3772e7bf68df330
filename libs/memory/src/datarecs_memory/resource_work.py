"""Twin of `resource_work`, and the claim of due objects."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from math import ceil

from datarecs_application.ports.reconciling import (
    RESOURCE_LEASE,
    ClaimedResource,
    ResourceBacklog,
)
from datarecs_core.resources.reconciling import Work
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.values import ResourceUid, TenantId
from datarecs_memory.resources import reads_from
from datarecs_memory.scope import Scope
from datarecs_memory.store import MemoryStore, TenantState


class MemoryResourceWork:
    """Port ResourceWork."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def reconcile_soon(self, uid: ResourceUid, kind: Kind) -> None:
        work = self.get(uid) or Work(uid=uid, kind=kind)
        self._scope.state.work[uid] = _due(work, self._scope.now)
        self._scope.wake()

    def due_again(self, uid: ResourceUid) -> None:
        work = self.get(uid)
        if work is not None:
            self._scope.state.work[uid] = _due(work, self._scope.now)
            self._scope.wake()

    def reconcile_users_of(self, connection: str) -> None:
        state = self._scope.state
        for uid, work in state.work.items():
            if reads_from(state.resources[uid], connection):
                state.work[uid] = _due(work, self._scope.now)
        self._scope.wake()

    def get(self, uid: ResourceUid) -> Work | None:
        return self._scope.state.work.get(uid)

    def observed(self, uids: Collection[ResourceUid]) -> Sequence[tuple[Resource, Work]]:
        state = self._scope.state
        return [(state.resources[uid], state.work[uid]) for uid in uids if uid in state.work]

    def for_update(self, *uids: ResourceUid) -> Mapping[ResourceUid, Work]:
        return {uid: work for uid in uids if (work := self.get(uid)) is not None}

    def save(self, work: Work) -> None:
        stored = self.get(work.uid)
        if stored is not None:
            self._scope.state.work[work.uid] = replace(work, dirty_seq=stored.dirty_seq)

    def renew(self, claims: Collection[ClaimedResource]) -> Collection[ResourceUid]:
        renewed = []
        for claim in claims:
            work = self.get(claim.uid)
            if work is not None and work.epoch == claim.epoch and work.lease_until is not None:
                until = self._scope.store.clock.now() + RESOURCE_LEASE
                self._scope.state.work[claim.uid] = replace(work, lease_until=until)
                renewed.append(claim.uid)
        return renewed


def _due(work: Work, now: datetime) -> Work:
    return replace(work, due_at=now, dirty_seq=work.dirty_seq + 1)


def claim_resources(
    store: MemoryStore, kinds: Collection[Kind], limit: int
) -> list[ClaimedResource]:
    """Of WorkFinder."""
    now, claimed = store.clock.now(), []
    with store.writing_all() as tenants:
        waiting = {
            tenant: works
            for tenant, state in tenants.items()
            if (works := _claimable(state, now, kinds))
        }
        share = ceil(limit / max(len(waiting), 1))
        due = sorted(
            (_leases(tenants[tenant], now), due_at, tenant, uid)
            for tenant, works in waiting.items()
            for due_at, uid in works[:share]
        )[:limit]
        for _, _, tenant, uid in due:
            claimed.append(_leased(tenants[tenant], tenant, uid, now))
    return claimed


def _claimable(
    state: TenantState, now: datetime, kinds: Collection[Kind]
) -> list[tuple[datetime, ResourceUid]]:
    return sorted(
        (work.due_at, uid)
        for uid, work in state.work.items()
        if work.kind in kinds and work.due_at is not None and work.due_at <= now
        if work.lease_until is None or work.lease_until <= now
    )


def _leases(state: TenantState, now: datetime) -> int:
    leases = (work.lease_until for work in state.work.values())
    return sum(until is not None and until > now for until in leases)


def _leased(
    state: TenantState, tenant: TenantId, uid: ResourceUid, now: datetime
) -> ClaimedResource:
    work = state.work[uid]
    state.work[uid] = replace(work, epoch=work.epoch + 1, lease_until=now + RESOURCE_LEASE)
    return ClaimedResource(
        tenant_id=tenant,
        uid=uid,
        kind=work.kind,
        epoch=work.epoch + 1,
        dirty_seq=work.dirty_seq,
    )


def adopt_resources(store: MemoryStore, kinds: Collection[Kind]) -> int:
    """Of WorkFinder."""
    now, adopted = store.clock.now(), 0
    with store.writing_all() as tenants:
        for state in tenants.values():
            for uid, resource in state.resources.items():
                if resource.kind in kinds and uid not in state.work:
                    state.work[uid] = _due(Work(uid=uid, kind=resource.kind), now)
                    adopted += 1
    return adopted


def resource_backlog(store: MemoryStore) -> list[ResourceBacklog]:
    """Of WorkFinder."""
    now, counts, oldest = store.clock.now(), Counter[Kind](), dict[Kind, datetime]()
    for state in store.everything().values():
        for due_at, uid in _claimable(state, now, set(Kind)):
            kind = state.work[uid].kind
            counts[kind] += 1
            oldest[kind] = min(due_at, oldest.get(kind, due_at))
    return [
        ResourceBacklog(kind=kind, due=count, oldest_seconds=(now - oldest[kind]).total_seconds())
        for kind, count in counts.items()
    ]
