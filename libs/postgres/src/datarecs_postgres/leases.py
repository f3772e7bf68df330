"""The rows of `run_lease` inside a transaction: the durable queue of runs, fenced by epoch.

Finding and taking leases across tenants is `work_finder`'s; this is what a use case does to the
lease of a run it has locked.
"""

from datetime import UTC, datetime, timedelta

from sqlalchemy import ColumnElement, Row, bindparam, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from datarecs_application.ports.state import Lease
from datarecs_core.runs.model import Run
from datarecs_core.values import RunId, aware
from datarecs_postgres.session import Session, Woken
from datarecs_postgres.tables.runs import RUN_LEASE

NEVER = datetime(9999, 12, 31, tzinfo=UTC)
"""`due_at` of a fenced lease: the row stays and nobody can take it."""
RECLAIM_GRACE = timedelta(seconds=5)
"""How long an expired lease may still be renewed before it is taken back; as in `due_tenants`."""

_END_CURRENT = delete(RUN_LEASE).where(
    RUN_LEASE.c.tenant_id == bindparam("tenant"),
    RUN_LEASE.c.run_id == bindparam("run"),
    RUN_LEASE.c.lease_epoch == bindparam("epoch"),
    RUN_LEASE.c.lease_owner.is_not(None),
)


class PostgresRunLeases:
    """Port RunLeases."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def submit(self, run: Run, *, due_at: datetime | None = None) -> None:
        self._session.execute(
            insert(RUN_LEASE)
            .values(
                tenant_id=self._session.tenant_id,
                run_id=run.run_id,
                due_at=due_at or self._session.now,
                priority=run.priority,
                attempt=run.attempt,
            )
            .on_conflict_do_nothing()
            .inline()
        )
        self._session.wake(Woken.LEASES)

    def get(self, run_id: RunId) -> Lease | None:
        row = self._session.execute(
            select(RUN_LEASE).where(*self._of(run_id)).with_for_update()
        ).one_or_none()
        return None if row is None else _lease(row)

    def is_current(self, run_id: RunId, lease_epoch: int) -> bool:
        lease = self.get(run_id)
        return (
            lease is not None and lease.lease_owner is not None and lease.lease_epoch == lease_epoch
        )

    def end(self, run_id: RunId) -> None:
        self._session.execute(delete(RUN_LEASE).where(*self._of(run_id)))

    def end_current(self, run_id: RunId, lease_epoch: int) -> bool:
        lease = {"tenant": self._session.tenant_id, "run": run_id, "epoch": lease_epoch}
        return self._session.execute(_END_CURRENT, lease).rowcount == 1

    def release(self, run_id: RunId, *, due_at: datetime, consume: bool) -> None:
        drained = 0 if consume else 1
        self._session.execute(
            update(RUN_LEASE)
            .where(*self._of(run_id))
            .values(
                due_at=due_at,
                lease_owner=None,
                lease_until=None,
                lease_epoch=RUN_LEASE.c.lease_epoch + 1,
                attempt=RUN_LEASE.c.attempt - drained,
                releases=RUN_LEASE.c.releases + drained,
            )
        )
        self._session.wake(Woken.LEASES)

    def fence(self, run_id: RunId) -> None:
        self._session.execute(
            update(RUN_LEASE)
            .where(*self._of(run_id))
            .values(
                due_at=NEVER,
                lease_owner=None,
                lease_until=None,
                lease_epoch=RUN_LEASE.c.lease_epoch + 1,
            )
        )

    def expired(self, limit: int) -> list[Lease]:
        rows = self._session.execute(
            select(RUN_LEASE)
            .where(
                self._session.own(RUN_LEASE),
                RUN_LEASE.c.lease_owner.is_not(None),
                RUN_LEASE.c.lease_until < func.clock_timestamp() - RECLAIM_GRACE,
            )
            .order_by(RUN_LEASE.c.lease_until)
            .limit(limit)
        )
        return [_lease(row) for row in rows]

    def _of(self, run_id: RunId) -> tuple[ColumnElement[bool], ...]:
        return (self._session.own(RUN_LEASE), RUN_LEASE.c.run_id == run_id)


def _lease(row: Row[tuple[object, ...]]) -> Lease:
    return Lease(
        run_id=RunId(row.run_id),
        due_at=aware(row.due_at),
        priority=row.priority,
        attempt=row.attempt,
        lease_epoch=row.lease_epoch,
        lease_owner=row.lease_owner,
        lease_until=None if row.lease_until is None else aware(row.lease_until),
        releases=row.releases,
    )
