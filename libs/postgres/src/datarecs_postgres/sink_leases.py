"""The leases of tasks of sinks: claimed over all tenants, renewed and ended in their own."""

from collections.abc import Collection, Mapping, Sequence
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
    case,
    cast,
    func,
    select,
    update,
)

from datarecs_application.ports.outside import Ids
from datarecs_application.ports.sink_leases import ENDS, SINK_LEASE, SinkLease
from datarecs_core.values import ResourceUid, TenantId
from datarecs_postgres.database import Database
from datarecs_postgres.sink_memory import PostgresSinkMemory
from datarecs_postgres.tables.sinks import SINK_STATE, SINK_TASK
from datarecs_postgres.unit_of_work import PostgresUnitOfWork

_STATE, _TASK = SINK_STATE.c, SINK_TASK.c
_CLAIM = select(
    func.datarecs.claim_sink_tasks(
        bindparam("holder", type_=Text),
        bindparam("lease", type_=Interval),
        bindparam("most", type_=Integer),
    ).table_valued("tenant_id", "sink_uid", "number", "epoch")
)
_HALTED = select(func.datarecs.halted_sink_tasks(type_=BigInteger))
_HELD = (
    func.unnest(
        cast(bindparam("sinks", type_=ARRAY(Uuid)), ARRAY(Uuid)),
        cast(bindparam("numbers", type_=ARRAY(Integer)), ARRAY(Integer)),
        cast(bindparam("epochs", type_=ARRAY(BigInteger)), ARRAY(BigInteger)),
    )
    .table_valued("sink_uid", "number", "epoch")
    .render_derived()
)
_RENEW = (
    update(SINK_TASK)
    .where(
        _TASK.tenant_id == bindparam("of_tenant"),
        _TASK.sink_uid == _HELD.c.sink_uid,
        _TASK.number == _HELD.c.number,
        _TASK.epoch == _HELD.c.epoch,
        _TASK.lease_until > func.clock_timestamp(),
        _STATE.tenant_id == _TASK.tenant_id,
        _STATE.sink_uid == _TASK.sink_uid,
    )
    .values(lease_until=func.clock_timestamp() + SINK_LEASE)
    .returning(
        _TASK.sink_uid,
        _TASK.number,
        _TASK.epoch,
        case((_TASK.executor.is_(None), ENDS), else_=_STATE.revision),
    )
)


class PostgresSinkLeases:
    """Port SinkLeases. Renewals have their own, over another `Database`."""

    def __init__(self, database: Database, ids: Ids) -> None:
        self._database = database
        self._unit = PostgresUnitOfWork(database, ids)

    def claim(self, executor: str, *, limit: int) -> Sequence[SinkLease]:
        parameters = {"holder": executor, "lease": SINK_LEASE, "most": limit}
        return [
            SinkLease(
                tenant_id=TenantId(tenant), sink_uid=ResourceUid(uid), number=number, epoch=epoch
            )
            for tenant, uid, number, epoch in self._database.answer(_CLAIM, parameters)
        ]

    def renew(self, leases: Collection[SinkLease]) -> Mapping[SinkLease, str]:
        in_order = sorted(leases, key=lambda lease: (lease.tenant_id, lease.sink_uid, lease.number))
        renewed: dict[SinkLease, str] = {}
        for tenant, of_tenant in groupby(in_order, key=lambda lease: lease.tenant_id):
            renewed |= self._renew_in(tenant, list(of_tenant))
        return renewed

    def release(self, lease: SinkLease, *, is_resting: bool = False) -> None:
        with self._database.transaction(lease.tenant_id) as session:
            session.execute(
                update(SINK_TASK)
                .where(
                    session.tenant_rows(SINK_TASK),
                    _TASK.sink_uid == lease.sink_uid,
                    _TASK.number == lease.number,
                    _TASK.epoch == lease.epoch,
                )
                .values(lease_until=None, executor=None, is_resting=is_resting)
            )

    def halted(self) -> int:
        ((count,),) = self._database.answer(_HALTED, {})
        return int(count)

    def memory(self, lease: SinkLease, session: UUID) -> PostgresSinkMemory:
        return PostgresSinkMemory(self._unit, lease, session)

    def _renew_in(self, tenant: TenantId, leases: Sequence[SinkLease]) -> Mapping[SinkLease, str]:
        parameters = {
            "of_tenant": tenant,
            "sinks": [lease.sink_uid for lease in leases],
            "numbers": [lease.number for lease in leases],
            "epochs": [lease.epoch for lease in leases],
        }
        with self._database.transaction(tenant) as session:
            rows = session.answer(_RENEW, parameters).fetchall()
        return {
            SinkLease(
                tenant_id=tenant, sink_uid=ResourceUid(uid), number=number, epoch=epoch
            ): revision
            for uid, number, epoch, revision in rows
        }
