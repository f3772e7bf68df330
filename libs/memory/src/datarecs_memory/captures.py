"""Twin of `capture_work` and its claims; every change is that of core's rule."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil

from datarecs_application.ports.capturing import Added, ClaimRequest, Claims, WorkFilter
from datarecs_core.captures.decide import decide, is_expired, is_leased, lease_end
from datarecs_core.captures.facts import Claimed, Opened, Parked
from datarecs_core.captures.items import (
    CaptureJobId,
    Gate,
    WorkItem,
    WorkKind,
    WorkState,
    WorkToken,
)
from datarecs_core.values import TenantId
from datarecs_memory.capture_rows import CaptureRows, counters_of
from datarecs_memory.scope import Scope
from datarecs_memory.store import MemoryStore

RETENTION = timedelta(hours=24)
OPEN = {WorkState.QUEUED, WorkState.RUNNING, WorkState.WAITING}
"""States in which a root has its dedupe key."""


class MemoryWorkItems:
    """Port WorkItems."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    @property
    def _rows(self) -> CaptureRows:
        return self._scope.state.captures

    def add(self, items: Sequence[WorkItem]) -> Sequence[Added]:
        return [self._add(item) for item in items]

    def _add(self, item: WorkItem) -> Added:
        known = self._rows.by_dedupe.get((item.parent_id is None, item.dedupe))
        if known is not None and _has_key(self._rows.items[known]):
            return Added(id=known, is_new=False)
        self._rows.put(item)
        return Added(id=item.id, is_new=True)

    def get(self, item_id: CaptureJobId) -> WorkItem | None:
        return self._rows.items.get(item_id)

    def for_update(self, item_id: CaptureJobId) -> WorkItem | None:
        return self._rows.items.get(item_id)

    def save(self, item: WorkItem) -> None:
        self._rows.put(item)

    def children(
        self, parent_id: CaptureJobId, *, after: CaptureJobId | None = None, limit: int = 500
    ) -> Sequence[WorkItem]:
        below = (
            one for one in self._rows.children_of(parent_id) if after is None or one.id > after
        )
        return sorted(below, key=lambda one: one.id)[:limit]

    def child_states(self, parent_id: CaptureJobId) -> Mapping[WorkState, int]:
        return Counter(one.state for one in self._rows.children_of(parent_id))

    def live_children(self, parent_id: CaptureJobId, *, limit: int) -> Sequence[WorkItem]:
        live = (one for one in self._rows.children_of(parent_id) if not one.has_ended)
        return list(live)[:limit]

    def first_failed_child(self, parent_id: CaptureJobId) -> WorkItem | None:
        failed = [
            (one.finished_at, one.id, one)
            for one in self._rows.children_of(parent_id)
            if one.state is WorkState.FAILED and one.finished_at is not None
        ]
        return min(failed)[2] if failed else None

    def free_key(self, item: WorkItem) -> None:
        if item.claim_key is not None:
            _free_key(self._rows, item, self._scope.now)

    def mark_cancelled(self, item_id: CaptureJobId) -> None:
        self._rows.cancels.add(item_id)

    def is_below_cancelled(self, item: WorkItem) -> bool:
        return not self._rows.cancels.isdisjoint(item.ancestors)

    def renew(self, tokens: Collection[WorkToken]) -> Mapping[WorkToken, bool]:
        now, renewed = self._scope.store.clock.now(), {}
        for token in tokens:
            item = self.get(token.item_id)
            if item is not None and item.epoch == token.epoch and _is_current(item, now):
                self.save(replace(item, lease_until=lease_end(item, now)))
                renewed[token] = item.state is WorkState.CANCELLING
        return renewed

    def expired(self, *, limit: int) -> Sequence[CaptureJobId]:
        return _expired(self._rows, self._scope.store.clock.now())[:limit]

    def live_below_cancelled(self, *, limit: int) -> Sequence[CaptureJobId]:
        live = [one for one in self._rows.items.values() if not one.has_ended]
        for mark in list(self._rows.cancels):
            if not any(mark in one.ancestors for one in live):
                self._rows.cancels.discard(mark)
        return [
            one.id
            for one in live
            if one.state is not WorkState.CANCELLING and self.is_below_cancelled(one)
        ][:limit]

    def matching(
        self, where: WorkFilter, *, before: tuple[datetime, CaptureJobId] | None, limit: int
    ) -> Sequence[WorkItem]:
        chosen = [
            one
            for one in self._rows.items.values()
            if _matches(one, where) and (before is None or (one.created_at, one.id) < before)
        ]
        return sorted(chosen, key=lambda one: (one.created_at, one.id), reverse=True)[:limit]

    def counters_below(self, item_id: CaptureJobId) -> Mapping[str, int]:
        return counters_of(
            one
            for one in self._rows.items.values()
            if one.id == item_id or item_id in one.ancestors
        )

    def remove_ended(self, *, finished_before: datetime, limit: int) -> int:
        roots = _old(self._rows, finished_before)[:limit]
        for root in roots:
            self._rows.remove_tree(root)
        return len(roots)


def _has_key(item: WorkItem) -> bool:
    return item.parent_id is not None or item.state in OPEN


def _is_current(item: WorkItem, now: datetime) -> bool:
    return is_leased(item) and item.lease_until is not None and item.lease_until > now


def _matches(item: WorkItem, where: WorkFilter) -> bool:
    return (
        where.connection_uid in (None, str(item.task.request.connection_uid))
        and (not where.states or item.state in where.states)
        and (not where.kinds or item.kind in where.kinds)
        and (item.parent_id is None or not where.roots_only)
    )


def _expired(rows: CaptureRows, now: datetime) -> list[CaptureJobId]:
    late = [one for one in rows.items.values() if is_expired(one, now)]
    return [one.id for one in sorted(late, key=lambda one: (one.lease_until or now, one.id))]


def _old(rows: CaptureRows, finished_before: datetime) -> list[CaptureJobId]:
    ended = [
        (one.finished_at, one.id)
        for one in rows.items.values()
        if one.parent_id is None and one.finished_at and one.finished_at < finished_before
    ]
    live = {one.root_id for one in rows.items.values() if not one.has_ended}
    return [root for _, root in sorted(ended) if root not in live]


def _free_key(rows: CaptureRows, item: WorkItem, now: datetime) -> None:
    key = item.claim_key or ""
    if rows.claims.get(key) == item.id:
        del rows.claims[key]
    if key in rows.claims:
        return
    opened = set()
    for one in sorted(rows.parked(key), key=lambda one: (one.due_at, one.id)):
        slice_of = (one.kind, one.lane, one.execution_class, one.pinned_executor)
        if slice_of not in opened:
            opened.add(slice_of)
            rows.put(decide(one, Opened(), now).state)


@dataclass(frozen=True, slots=True)
class _Claim:
    """One call of `claim_work`."""

    store: MemoryStore
    request: ClaimRequest
    now: datetime
    tokens: list[WorkToken] = field(default_factory=list)

    @property
    def left(self) -> int:
        return self.request.limit - len(self.tokens)

    def take(self, tenant: TenantId, rows: CaptureRows, kind: WorkKind, share: int) -> None:
        taken = 0
        for item in self.due(rows, kind):
            if taken >= min(share, self.left):
                break
            taken += self._lease(tenant, rows, item)
        if taken:
            self.store.served(tenant, kind.value)

    def due(self, rows: CaptureRows, kind: WorkKind) -> list[WorkItem]:
        waiting = (one for one in rows.items.values() if self._is_due(rows, one, kind))
        return sorted(waiting, key=lambda one: (one.due_at, one.id))

    def _is_due(self, rows: CaptureRows, item: WorkItem, kind: WorkKind) -> bool:
        return (
            item.state is WorkState.QUEUED
            and item.gate is Gate.OPEN
            and item.kind is kind
            and item.due_at <= self.now
            and self._fits(item)
            and rows.cancels.isdisjoint(item.ancestors)
        )

    def _fits(self, item: WorkItem) -> bool:
        if item.pinned_executor is not None:
            return item.pinned_executor == self.request.executor
        lanes, classes = self.request.lanes, self.request.execution_classes
        return (not lanes or item.lane in lanes) and (
            not classes or item.execution_class in classes
        )

    def _lease(self, tenant: TenantId, rows: CaptureRows, item: WorkItem) -> bool:
        if (
            item.claim_key is not None
            and rows.claims.setdefault(item.claim_key, item.id) != item.id
        ):
            rows.put(decide(item, Parked(), self.now).state)
            return False
        leased = decide(item, Claimed(executor=self.request.executor), self.now).state
        rows.put(leased)
        self.tokens.append(WorkToken(tenant_id=tenant, item_id=item.id, epoch=leased.epoch))
        return True


def claim_work(store: MemoryStore, request: ClaimRequest) -> Claims:
    """Of CaptureFinder."""
    claim = _Claim(store, request, store.clock.now())
    with store.writing_all() as tenants:
        slices = sorted(
            (store.last_served(tenant, kind.value), due[0].due_at, tenant, kind)
            for tenant, state in tenants.items()
            if request.tenant in {None, tenant}
            for kind in request.kinds or WorkKind
            if (due := claim.due(state.captures, kind))
        )
        shares = [ceil(request.limit / max(len(slices), 1)), request.limit]
        for share in shares:
            for _, _, tenant, kind in slices:
                claim.take(tenant, tenants[tenant].captures, kind, share)
    return Claims(tokens=claim.tokens)


def tenants_with_work(store: MemoryStore, what: str) -> Sequence[TenantId]:
    """Of CaptureFinder."""
    now = store.clock.now()
    return sorted(
        tenant
        for tenant, state in store.everything().items()
        if _has_work(state.captures, what, now)
    )


def _has_work(rows: CaptureRows, what: str, now: datetime) -> bool:
    match what:
        case "expired":
            return bool(_expired(rows, now))
        case "cancelled":
            return bool(rows.cancels)
        case "old":
            return bool(_old(rows, now - RETENTION))
        case _:
            raise ValueError(f"no work of captures is {what!r}; it is expired, cancelled or old")
