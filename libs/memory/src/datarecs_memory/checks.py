"""Twin of `resource_check` and of the lease of due checks."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from datarecs_application.ports.checks import CHECK_LEASE, LeasedCheck, ResourceCheck
from datarecs_core.resources.checks import CheckResult
from datarecs_core.values import ResourceUid
from datarecs_memory.scope import Scope
from datarecs_memory.store import CheckRow, MemoryStore, TenantState

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class MemoryChecks:
    """Port Checks."""

    _scope: Scope

    def request(self, uid: ResourceUid, *, subject: str) -> None:
        now = self._scope.store.clock.now()
        stored = self._scope.state.checks.get(uid)
        check = stored.check if stored else _new(uid)
        claimed_at = stored.claimed_at if stored else None
        self._scope.state.checks[uid] = CheckRow(
            check=replace(check, subject=subject, due_at=now), claimed_at=claimed_at
        )
        self._scope.wake()

    def repeat(self, uid: ResourceUid) -> None:
        stored = self._scope.state.checks.get(uid)
        if stored is not None:
            self.request(uid, subject=stored.check.subject)

    def get(self, uid: ResourceUid) -> ResourceCheck | None:
        stored = self._scope.state.checks.get(uid)
        return None if stored is None else stored.check

    def of_resources(self, uids: Collection[ResourceUid]) -> Mapping[ResourceUid, ResourceCheck]:
        return {uid: check for uid in uids if (check := self.get(uid)) is not None}

    def end(self, leased: LeasedCheck, result: CheckResult, *, generation: int) -> bool:
        stored = self._held(leased)
        if stored is None:
            return False
        check = stored.check
        ended = replace(
            check,
            lease_until=None,
            due_at=None if check.due_at == check.lease_until else check.due_at,
            checked_at=self._scope.store.clock.now(),
            checked_generation=generation,
            result=result,
        )
        self._scope.state.checks[leased.uid] = replace(stored, check=ended)
        self._scope.wake()
        return True

    def release(self, leased: LeasedCheck) -> None:
        stored = self._held(leased)
        if stored is not None:
            now = self._scope.store.clock.now()
            free = replace(stored.check, lease_until=None, due_at=now)
            self._scope.state.checks[leased.uid] = replace(stored, check=free)
            self._scope.wake()

    def _held(self, leased: LeasedCheck) -> CheckRow | None:
        stored = self._scope.state.checks.get(leased.uid)
        if stored is None or stored.check.lease_until is None:
            return None
        return stored if stored.check.epoch == leased.epoch else None


def _new(uid: ResourceUid) -> ResourceCheck:
    return ResourceCheck(uid=uid, subject="", due_at=None, epoch=0, lease_until=None)


def lease_check(store: MemoryStore) -> LeasedCheck | None:
    """Of WorkFinder."""
    now = store.clock.now()
    with store.writing_all() as tenants:
        due = [
            (_latest(rows), row.check.due_at, tenant, uid)
            for tenant, rows in tenants.items()
            for uid, row in rows.checks.items()
            if row.check.due_at is not None
            and row.check.due_at <= now
            and (row.check.lease_until is None or row.check.lease_until <= now)
        ]
        if not due:
            return None
        *_, tenant, uid = min(due)
        row = tenants[tenant].checks[uid]
        until, epoch = now + CHECK_LEASE, row.check.epoch + 1
        tenants[tenant].checks[uid] = CheckRow(
            check=replace(row.check, epoch=epoch, due_at=until, lease_until=until), claimed_at=now
        )
    return LeasedCheck(tenant_id=tenant, uid=uid, epoch=epoch)


def _latest(rows: TenantState) -> datetime:
    """When a check of the tenant was last leased."""
    times = [row.claimed_at for row in rows.checks.values() if row.claimed_at is not None]
    return max(times, default=_NEVER)
