"""Work across tenants: the closed list of definer functions, and the renewal of held leases.

The only module that queries without a tenant; results are ids and numbers.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Integer,
    Interval,
    Text,
    Uuid,
    bindparam,
    cast,
    func,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB

from datarecs_application.ports.capturing import ClaimRequest, Claims
from datarecs_application.ports.checks import CHECK_LEASE, LeasedCheck
from datarecs_application.ports.keys import ApiKey
from datarecs_application.ports.reconciling import ClaimedResource, ResourceBacklog
from datarecs_application.ports.state import HeldLease, LeasedRun, Renewal
from datarecs_core.captures.items import DEADLINES, LEASE, CaptureJobId, WorkKind, WorkToken
from datarecs_core.resources.resource import Kind
from datarecs_core.runs.model import Wish
from datarecs_core.values import ResourceUid, RunId, TenantId
from datarecs_postgres.api_keys import key_of
from datarecs_postgres.database import Database
from datarecs_postgres.tables.runs import RUN, RUN_LEASE

LEASE_TTL = timedelta(seconds=60)
_LEASE_RUN = select(
    func.datarecs.lease_run(
        bindparam("executor", type_=Text), bindparam("ttl", type_=Interval)
    ).table_valued("tenant", "run", "attempt_no", "epoch", "remaining")
)
_MOST = bindparam("most", type_=Integer)
_CLAIM_RUNS = select(func.datarecs.claim_runs(_MOST).table_valued("tenant_id", "run_id"))
_CLAIM_DELIVERIES = select(
    func.datarecs.claim_deliveries(_MOST).table_valued("tenant_id", "endpoint_uid")
)
_CLAIM_MAILS = select(func.datarecs.claim_mails(_MOST).table_valued("tenant_id", "delivery_id"))
_CLAIM_SCHEDULES = select(
    func.datarecs.claim_schedules(_MOST).table_valued("tenant_id", "schedule_uid")
)
_CLAIM_SWEEPS = select(func.datarecs.claim_sweeps(_MOST).table_valued("tenant_id", "policy_uid"))
_LEASE_CHECK = select(
    func.datarecs.lease_check(bindparam("ttl", type_=Interval)).table_valued(
        "tenant_id", "resource_uid", "epoch"
    )
)
_CLAIM_RESOURCES = select(
    func.datarecs.claim_resources(bindparam("kinds", type_=ARRAY(Text)), _MOST).table_valued(
        "tenant_id", "uid", "kind", "epoch", "dirty_seq"
    )
)
_ADOPT_RESOURCES = select(func.datarecs.adopt_resources(bindparam("kinds", type_=ARRAY(Text))))
_DECIDE_AGAIN = select(func.datarecs.decide_schedules_again(bindparam("tzdata", type_=Text)))
_CLAIM_WORK = select(
    func.datarecs.claim_work(
        bindparam("executor", type_=Text),
        bindparam("kinds", type_=ARRAY(Text)),
        bindparam("deadlines", type_=ARRAY(Interval)),
        bindparam("lanes", type_=ARRAY(Text)),
        bindparam("classes", type_=ARRAY(Text)),
        bindparam("ttl", type_=Interval),
        _MOST,
        bindparam("tenant", type_=Uuid),
    ).table_valued("tenant_id", "id", "epoch")
)
_CAPTURE_TENANTS = select(
    func.datarecs.capture_tenants(bindparam("what", type_=Text)).table_valued("tenant_id")
)
_CAPTURE_WORK = frozenset({"expired", "cancelled", "old"})
_DUE_TIMERS = select(func.datarecs.due_timers(_MOST).table_valued("tenant_id", "run_id", "reason"))
_DUE_TENANTS = select(
    func.datarecs.due_tenants(bindparam("what", type_=Text)).table_valued("tenant_id", "items")
)


class PostgresWorkFinder:
    """Port WorkFinder. A heartbeat thread has its own, over a Database of one connection."""

    def __init__(self, database: Database, *, lease_ttl: timedelta = LEASE_TTL) -> None:
        self._database, self._lease_ttl = database, lease_ttl

    def claim_runs(self, limit: int) -> list[tuple[TenantId, RunId]]:
        rows = self._database.answer(_CLAIM_RUNS, {"most": limit})
        return [(TenantId(tenant), RunId(run)) for tenant, run in rows]

    def claim_deliveries(self, limit: int) -> list[tuple[TenantId, ResourceUid]]:
        rows = self._database.answer(_CLAIM_DELIVERIES, {"most": limit})
        return [(TenantId(tenant), ResourceUid(endpoint)) for tenant, endpoint in rows]

    def claim_mails(self, limit: int) -> list[tuple[TenantId, UUID]]:
        rows = self._database.answer(_CLAIM_MAILS, {"most": limit})
        return [(TenantId(tenant), delivery) for tenant, delivery in rows]

    def claim_schedules(self, limit: int) -> list[tuple[TenantId, ResourceUid]]:
        rows = self._database.answer(_CLAIM_SCHEDULES, {"most": limit})
        return [(TenantId(tenant), ResourceUid(schedule)) for tenant, schedule in rows]

    def claim_sweeps(self, limit: int) -> list[tuple[TenantId, ResourceUid]]:
        rows = self._database.answer(_CLAIM_SWEEPS, {"most": limit})
        return [(TenantId(tenant), ResourceUid(policy)) for tenant, policy in rows]

    def claim_resources(self, kinds: Collection[Kind], limit: int) -> list[ClaimedResource]:
        parameters = {"kinds": sorted(kind.value for kind in kinds), "most": limit}
        return [
            ClaimedResource(
                tenant_id=TenantId(tenant),
                uid=ResourceUid(uid),
                kind=Kind(kind),
                epoch=epoch,
                dirty_seq=dirty_seq,
            )
            for tenant, uid, kind, epoch, dirty_seq in self._database.answer(
                _CLAIM_RESOURCES, parameters
            )
        ]

    def adopt_resources(self, kinds: Collection[Kind]) -> int:
        ((adopted,),) = self._database.answer(
            _ADOPT_RESOURCES, {"kinds": sorted(kind.value for kind in kinds)}
        )
        return int(adopted)

    def resource_backlog(self) -> list[ResourceBacklog]:
        backlog = func.datarecs.resource_backlog().table_valued("kind", "due", "oldest_seconds")
        return [
            ResourceBacklog(
                kind=Kind(row.kind), due=row.due, oldest_seconds=float(row.oldest_seconds)
            )
            for row in self._database.call(select(backlog))
        ]

    def decide_schedules_again(self, tzdata: str) -> int:
        ((made,),) = self._database.answer(_DECIDE_AGAIN, {"tzdata": tzdata})
        return int(made)

    def lease_check(self) -> LeasedCheck | None:
        for tenant, uid, epoch in self._database.answer(_LEASE_CHECK, {"ttl": CHECK_LEASE}):
            return LeasedCheck(tenant_id=TenantId(tenant), uid=ResourceUid(uid), epoch=epoch)
        return None

    def claim_work(self, request: ClaimRequest) -> Claims:
        kinds = [kind for kind in WorkKind if not request.kinds or kind in request.kinds]
        parameters = {
            "executor": request.executor,
            "kinds": [kind.value for kind in kinds],
            "deadlines": [DEADLINES[kind] for kind in kinds],
            "lanes": list(request.lanes),
            "classes": [one.value for one in request.execution_classes],
            "ttl": LEASE,
            "most": request.limit,
            "tenant": request.tenant,
        }
        return Claims(
            tokens=[
                WorkToken(tenant_id=TenantId(tenant), item_id=CaptureJobId(item), epoch=epoch)
                for tenant, item, epoch in self._database.answer(_CLAIM_WORK, parameters)
            ]
        )

    def tenants_with_work(self, what: str) -> Sequence[TenantId]:
        if what not in _CAPTURE_WORK:
            raise ValueError(f"no work of captures is {what!r}; it is expired, cancelled or old")
        rows = self._database.answer(_CAPTURE_TENANTS, {"what": what})
        return [TenantId(tenant) for (tenant,) in rows]

    def due_timers(self, limit: int) -> list[tuple[TenantId, RunId, str]]:
        rows = self._database.answer(_DUE_TIMERS, {"most": limit})
        return [(TenantId(tenant), RunId(run), reason) for tenant, run, reason in rows]

    def due_tenants(self, what: str) -> list[tuple[TenantId, int]]:
        rows = self._database.answer(_DUE_TENANTS, {"what": what})
        return [(TenantId(tenant), items) for tenant, items in rows]

    def lease_run(self, executor: str) -> LeasedRun | None:
        parameters = {"executor": executor, "ttl": self._lease_ttl}
        for tenant, run, attempt, epoch, remaining in self._database.answer(_LEASE_RUN, parameters):
            return LeasedRun(
                tenant_id=TenantId(tenant),
                run_id=RunId(run),
                attempt=attempt,
                lease_epoch=epoch,
                remaining=remaining,
                lease_ttl=self._lease_ttl,
            )
        return None

    def renew(self, held: Sequence[HeldLease]) -> Mapping[RunId, Renewal]:
        answers = {lease.run_id: Renewal(current=False, stop=False) for lease in held}
        in_order = sorted(held, key=lambda lease: lease.tenant_id)
        for tenant, leases in groupby(in_order, key=lambda lease: lease.tenant_id):
            answers.update(self._renew_in(tenant, list(leases)))
        return answers

    def feed_after(self, feed: str, rv: int, limit: int) -> list[tuple[TenantId, int]]:
        numbers = func.datarecs.feed_after(feed, rv, limit).table_valued("tenant_id", "rv")
        rows = self._database.call(select(numbers))
        return [(TenantId(row.tenant_id), row.rv) for row in rows]

    def report_stats(self, instance: UUID, counters: Mapping[str, float]) -> None:
        figures = cast(bindparam("figures", json.dumps(dict(counters)), type_=Text), JSONB)
        self._database.call(select(func.datarecs.report_stats(instance, figures)))

    def read_stats(self) -> list[Mapping[str, float]]:
        reports = func.datarecs.read_stats().table_valued("counters")
        return [row.counters for row in self._database.call(select(reports))]

    def resolve_api_key(self, key_id: str) -> ApiKey | None:
        keys = func.datarecs.resolve_api_key(key_id).table_valued(
            *("key_id", "tenant_id", "name", "subject", "secret_sha256", "permissions"),
            *("created_at", "expires_at", "revoked_at"),
        )
        return next((key_of(row) for row in self._database.call(select(keys))), None)

    def resolve_session(self, sha256: bytes) -> TenantId | None:
        sessions = func.datarecs.resolve_session(sha256).table_valued("tenant_id")
        return next(
            (TenantId(row.tenant_id) for row in self._database.call(select(sessions))), None
        )

    def _renew_in(self, tenant: TenantId, leases: Sequence[HeldLease]) -> Mapping[RunId, Renewal]:
        """One statement; its result does not include leases of other epochs."""
        runs = cast(bindparam("runs", [one.run_id for one in leases]), ARRAY(Uuid))
        epochs = cast(bindparam("epochs", [one.lease_epoch for one in leases]), ARRAY(BigInteger))
        held = func.unnest(runs, epochs).table_valued("run_id", "lease_epoch").render_derived()
        with self._database.transaction(tenant) as session:
            rows = session.execute(
                update(RUN_LEASE)
                .where(
                    session.tenant_rows(RUN_LEASE),
                    session.tenant_rows(RUN),
                    RUN_LEASE.c.run_id == held.c.run_id,
                    RUN_LEASE.c.lease_epoch == held.c.lease_epoch,
                    RUN_LEASE.c.lease_owner.is_not(None),
                    RUN.c.run_id == RUN_LEASE.c.run_id,
                )
                .values(lease_until=func.clock_timestamp() + self._lease_ttl)
                .returning(RUN_LEASE.c.run_id, RUN.c.wish)
            ).all()
        return {
            RunId(row.run_id): Renewal(current=True, stop=row.wish == Wish.STOP.value)
            for row in rows
        }
