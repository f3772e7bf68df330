"""Twin of the durable queue of runs: leases inside a transaction, and work found across tenants.

Core decides the effect of a lease on a run, for the fact AttemptStarted; PostgreSQL repeats it in
SQL, and the conformance suite checks that both have the same result.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from datarecs_application.ports.capturing import ClaimRequest, Claims
from datarecs_application.ports.checks import LeasedCheck
from datarecs_application.ports.keys import ApiKey
from datarecs_application.ports.reconciling import ClaimedResource, ResourceBacklog
from datarecs_application.ports.state import HeldLease, Lease, LeasedRun, Renewal
from datarecs_core.resources.resource import Kind
from datarecs_core.runs.decide import decide
from datarecs_core.runs.facts import AttemptStarted
from datarecs_core.runs.model import Run, RunStatus, Wish
from datarecs_core.values import EventId, ResourceUid, RunId, TenantId
from datarecs_core.webhooks.actions import ActionState
from datarecs_memory.captures import claim_work, tenants_with_work
from datarecs_memory.checks import lease_check
from datarecs_memory.delivery_claims import claim_deliveries, claim_mails
from datarecs_memory.resource_work import adopt_resources, claim_resources, resource_backlog
from datarecs_memory.retention import claim_sweeps
from datarecs_memory.schedules import claim_schedules, decide_schedules_again
from datarecs_memory.scope import RUN_CHANNEL, Scope
from datarecs_memory.store import MemoryStore, TenantState, Timer

LEASE_TTL = timedelta(seconds=60)
RECLAIM_GRACE = timedelta(seconds=5)
HOLD = timedelta(seconds=30)
"""Duration of a claim of a run or timer."""
STATS_LIFETIME = timedelta(seconds=60)
FIRST_EPOCH = 1
NEVER = datetime(9999, 12, 31, tzinfo=UTC)


class MemoryRunLeases:
    """Port RunLeases."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def submit(self, run: Run, *, due_at: datetime | None = None) -> None:
        self._scope.state.leases.setdefault(
            run.run_id,
            Lease(
                run_id=run.run_id,
                due_at=due_at or self._scope.now,
                priority=run.priority,
                attempt=run.attempt,
                lease_epoch=0,
                lease_owner=None,
                lease_until=None,
                releases=0,
            ),
        )
        self._scope.wake()

    def reserve(self, run: Run, *, holder: str) -> int:
        self._scope.state.leases.setdefault(
            run.run_id,
            Lease(
                run_id=run.run_id,
                due_at=NEVER,
                priority=run.priority,
                attempt=run.attempt,
                lease_epoch=FIRST_EPOCH,
                lease_owner=holder,
                lease_until=NEVER,
                releases=0,
            ),
        )
        return FIRST_EPOCH

    def pass_to(self, run_id: RunId, holder: str) -> None:
        lease = self.get(run_id)
        if lease is not None:
            self._scope.state.leases[run_id] = replace(lease, lease_owner=holder)

    def get(self, run_id: RunId) -> Lease | None:
        return self._scope.state.leases.get(run_id)

    def is_current(self, run_id: RunId, lease_epoch: int) -> bool:
        lease = self.get(run_id)
        return (
            lease is not None and lease.lease_owner is not None and lease.lease_epoch == lease_epoch
        )

    def end(self, run_id: RunId) -> None:
        self._scope.state.leases.pop(run_id, None)

    def end_current(self, run_id: RunId, lease_epoch: int) -> bool:
        if not self.is_current(run_id, lease_epoch):
            return False
        self.end(run_id)
        return True

    def release(self, run_id: RunId, *, due_at: datetime, consume: bool) -> None:
        lease = self.get(run_id)
        if lease is None:
            return
        drained = 0 if consume else 1
        self._scope.state.leases[run_id] = replace(
            _freed(lease, due_at),
            attempt=lease.attempt - drained,
            releases=lease.releases + drained,
        )
        self._scope.wake()

    def fence(self, run_id: RunId) -> None:
        lease = self.get(run_id)
        if lease is not None:
            self._scope.state.leases[run_id] = _freed(lease, NEVER)

    def expired(self, limit: int) -> list[Lease]:
        return _expired(self._scope.state, self._scope.store.clock.now())[:limit]


def _freed(lease: Lease, due_at: datetime) -> Lease:
    return replace(
        lease,
        due_at=due_at,
        lease_owner=None,
        lease_until=None,
        lease_epoch=lease.lease_epoch + 1,
    )


def _open_actions(state: TenantState) -> int:
    actions = state.delivery.actions.values()
    return sum(one.state is ActionState.OPEN for one in actions)


def _expired(state: TenantState, now: datetime) -> list[Lease]:
    held = [(one.lease_until, one) for one in state.leases.values() if one.lease_until is not None]
    over = [(until, one) for until, one in held if until < now - RECLAIM_GRACE]
    return [one for _, one in sorted(over, key=lambda item: (item[0], item[1].run_id))]


class MemoryWorkFinder:
    """Port WorkFinder."""

    def __init__(self, store: MemoryStore, *, lease_ttl: timedelta = LEASE_TTL) -> None:
        self._store, self._lease_ttl = store, lease_ttl

    def claim_runs(self, limit: int) -> list[tuple[TenantId, RunId]]:
        now = self._store.clock.now()
        with self._store.writing_all() as states:
            due = sorted(
                (run.next_reconcile_at, tenant, run.run_id)
                for tenant, state in states.items()
                for run in state.runs.values()
                if run.next_reconcile_at is not None and run.next_reconcile_at <= now
            )[:limit]
            for _, tenant, run_id in due:
                runs = states[tenant].runs
                runs[run_id] = replace(runs[run_id], next_reconcile_at=now + HOLD)
        return [(tenant, run_id) for _, tenant, run_id in due]

    def claim_deliveries(self, limit: int) -> list[tuple[TenantId, ResourceUid]]:
        return claim_deliveries(self._store, limit)

    def claim_mails(self, limit: int) -> list[tuple[TenantId, UUID]]:
        return claim_mails(self._store, limit)

    def claim_sweeps(self, limit: int) -> list[tuple[TenantId, ResourceUid]]:
        return claim_sweeps(self._store, limit)

    def claim_schedules(self, limit: int) -> list[tuple[TenantId, ResourceUid]]:
        return claim_schedules(self._store, limit)

    def claim_resources(self, kinds: Collection[Kind], limit: int) -> list[ClaimedResource]:
        return claim_resources(self._store, kinds, limit)

    def adopt_resources(self, kinds: Collection[Kind]) -> int:
        return adopt_resources(self._store, kinds)

    def resource_backlog(self) -> list[ResourceBacklog]:
        return resource_backlog(self._store)

    def decide_schedules_again(self, tzdata: str) -> int:
        return decide_schedules_again(self._store, tzdata)

    def lease_check(self) -> LeasedCheck | None:
        return lease_check(self._store)

    def claim_work(self, request: ClaimRequest) -> Claims:
        return claim_work(self._store, request)

    def tenants_with_work(self, what: str) -> Sequence[TenantId]:
        return tenants_with_work(self._store, what)

    def due_timers(self, limit: int) -> list[tuple[TenantId, RunId, str]]:
        now = self._store.clock.now()
        with self._store.writing_all() as states:
            due = sorted(
                (timer.due_at, tenant, run_id, reason)
                for tenant, state in states.items()
                for (run_id, reason), timer in state.timers.items()
                if timer.due_at <= now and (timer.claimed_until or now) <= now
            )[:limit]
            for due_at, tenant, run_id, reason in due:
                held = Timer(due_at=due_at, claimed_until=now + HOLD)
                states[tenant].timers[run_id, reason] = held
        return [(tenant, run_id, reason) for _, tenant, run_id, reason in due]

    def due_tenants(self, what: str) -> list[tuple[TenantId, int]]:
        now, states = self._store.clock.now(), self._store.everything()
        if what == "webhook_actions":
            counts = {tenant: _open_actions(state) for tenant, state in states.items()}
        elif what == "run_leases":
            counts = {tenant: len(_expired(state, now)) for tenant, state in states.items()}
        else:
            raise ValueError(f"nothing is due under the name {what}")
        return [(tenant, count) for tenant, count in counts.items() if count]

    def lease_run(self, executor: str) -> LeasedRun | None:
        with self._store.writing_all() as states:
            chosen = self._most_urgent(states)
            granted = chosen and self._grant(*chosen, executor)
        if granted:
            self._store.notify(RUN_CHANNEL, str(granted.run_id))
        return granted

    def renew(self, held: Sequence[HeldLease]) -> Mapping[RunId, Renewal]:
        now = self._store.clock.now()
        answers = {}
        with self._store.writing_all() as states:
            for one in held:
                state = states.get(one.tenant_id, TenantState())
                lease = state.leases.get(one.run_id)
                current = (
                    lease is not None
                    and lease.lease_owner is not None
                    and lease.lease_epoch == one.lease_epoch
                )
                stop = current and state.runs[one.run_id].wish is Wish.STOP
                answers[one.run_id] = Renewal(current=current, stop=stop)
                if current and lease is not None:
                    renewed = replace(lease, lease_until=now + self._lease_ttl)
                    state.leases[one.run_id] = renewed
        return answers

    def feed_after(self, feed: str, rv: int, limit: int) -> list[tuple[TenantId, int]]:
        states = self._store.everything()
        if feed == "run":
            entries = [
                (line.rv, tenant)
                for tenant, state in states.items()
                for lines in state.history.values()
                for line in lines
            ]
        elif feed == "resource":
            entries = [
                (change.rv, tenant) for tenant, state in states.items() for change in state.changes
            ]
        else:
            raise ValueError(f"there is no feed {feed}")
        later = sorted(item for item in entries if item[0] > rv)
        return [(tenant, number) for number, tenant in later[:limit]]

    def report_stats(self, instance: UUID, counters: Mapping[str, float]) -> None:
        self._store.stats[instance] = (self._store.clock.now(), dict(counters))

    def read_stats(self) -> list[Mapping[str, float]]:
        oldest = self._store.clock.now() - STATS_LIFETIME
        return [counters for at, counters in self._store.stats.values() if at > oldest]

    def resolve_api_key(self, key_id: str) -> ApiKey | None:
        states = self._store.everything().values()
        return next((state.api_keys[key_id] for state in states if key_id in state.api_keys), None)

    def resolve_session(self, sha256: bytes) -> TenantId | None:
        states = self._store.everything().items()
        return next((tenant for tenant, state in states if sha256 in state.tickets), None)

    def _most_urgent(
        self, states: Mapping[TenantId, TenantState]
    ) -> tuple[TenantState, Run, Lease] | None:
        """Tenants with few running runs first, then by priority, then by waiting time."""
        now = self._store.clock.now()
        waiting = []
        for state in states.values():
            running = sum(one.lease_owner is not None for one in state.leases.values())
            if running < self._store.running_limit:
                waiting += [
                    (running, lease.priority, lease.due_at, lease.run_id, state)
                    for lease in state.leases.values()
                    if _leasable(lease, state.runs[lease.run_id], now)
                ]
        if not waiting:
            return None
        *_, run_id, state = min(waiting, key=lambda item: item[:4])
        return state, state.runs[run_id], state.leases[run_id]

    def _grant(self, state: TenantState, run: Run, lease: Lease, executor: str) -> LeasedRun | None:
        now = self._store.clock.now()
        attempt = lease.attempt + 1
        fact = AttemptStarted(fact_id=EventId(self._store.ids.new()), attempt=attempt)
        decision = decide(run, fact, now=now)
        if decision.refusal is not None:
            return None
        started = replace(decision.state, row_version=run.row_version + 1)
        state.runs[run.run_id] = started
        for reason in decision.drop_timers:
            state.timers.pop((run.run_id, reason.value), None)
        for timer in decision.put_timers:
            state.timers[run.run_id, timer.reason.value] = Timer(due_at=timer.due_at)
        state.leases[run.run_id] = replace(
            lease,
            attempt=attempt,
            lease_epoch=lease.lease_epoch + 1,
            lease_owner=executor,
            lease_until=now + self._lease_ttl,
        )
        return LeasedRun(
            tenant_id=run.tenant_id,
            run_id=run.run_id,
            attempt=attempt,
            lease_epoch=lease.lease_epoch + 1,
            remaining=(started.deadline_at or now) - now,
            lease_ttl=self._lease_ttl,
        )


def _leasable(lease: Lease, run: Run, now: datetime) -> bool:
    return (
        lease.lease_owner is None
        and lease.due_at <= now
        and run.status in {RunStatus.QUEUED, RunStatus.RUNNING}
        and not run.cancel_requested
        and (run.deadline_at is None or run.deadline_at > now)
    )
