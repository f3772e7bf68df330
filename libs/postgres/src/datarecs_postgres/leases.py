"""The rows of `run_lease` inside a transaction: the durable queue of runs, fenced by epoch.

`work_finder` finds and takes leases across tenants; this changes the lease of a run that a use case
has locked.
"""

from collections import namedtuple
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Integer, bindparam, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from datarecs_application.ports.state import Lease
from datarecs_core.runs.model import Run
from datarecs_core.values import RunId, aware
from datarecs_postgres.session import Session, Woken
from datarecs_postgres.tables.runs import RUN_LEASE

NEVER = datetime(9999, 12, 31, tzinfo=UTC)
"""`due_at` of a fenced lease: the row remains and no worker can take it."""
FIRST_EPOCH = 1
"""Of a lease outside of the queue, which has one attempt."""
RECLAIM_GRACE = timedelta(seconds=5)
"""Time in which an expired lease may still be renewed before its reclaim; as in `due_tenants`."""

_OF_RUN = (
    RUN_LEASE.c.tenant_id == bindparam("tenant"),
    RUN_LEASE.c.run_id == bindparam("run"),
)
_SUBMIT = insert(RUN_LEASE).on_conflict_do_nothing().inline()
_RESERVE = insert(RUN_LEASE).on_conflict_do_nothing().inline()
_PASS = update(RUN_LEASE).where(*_OF_RUN).values(lease_owner=bindparam("holder"))
_END = delete(RUN_LEASE).where(*_OF_RUN)
_END_CURRENT = _END.where(
    RUN_LEASE.c.lease_epoch == bindparam("epoch"), RUN_LEASE.c.lease_owner.is_not(None)
)
_LOCKED = select(RUN_LEASE).where(*_OF_RUN).with_for_update()
_FREE = {"lease_owner": None, "lease_until": None, "lease_epoch": RUN_LEASE.c.lease_epoch + 1}
_RELEASE = (
    update(RUN_LEASE)
    .where(*_OF_RUN)
    .values(
        due_at=bindparam("due"),
        attempt=RUN_LEASE.c.attempt - bindparam("drained", type_=Integer),
        releases=RUN_LEASE.c.releases + bindparam("drained", type_=Integer),
        **_FREE,
    )
)
_FENCE = update(RUN_LEASE).where(*_OF_RUN).values(due_at=NEVER, **_FREE)
_Row = namedtuple("_Row", RUN_LEASE.c.keys())  # type: ignore[misc]  # noqa: PYI024  the table\'s columns


class PostgresRunLeases:
    """Port RunLeases."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def submit(self, run: Run, *, due_at: datetime | None = None) -> None:
        lease = {
            "tenant_id": self._session.tenant_id,
            "run_id": run.run_id,
            "due_at": due_at or self._session.now,
            "priority": run.priority,
            "attempt": run.attempt,
        }
        self._session.later(_SUBMIT, lease)
        self._session.wake(Woken.LEASES)

    def reserve(self, run: Run, *, holder: str) -> int:
        lease = {
            "tenant_id": self._session.tenant_id,
            "run_id": run.run_id,
            "due_at": NEVER,
            "priority": run.priority,
            "attempt": run.attempt,
            "lease_epoch": FIRST_EPOCH,
            "lease_owner": holder,
            "lease_until": NEVER,
        }
        self._session.later(_RESERVE, lease)
        return FIRST_EPOCH

    def pass_to(self, run_id: RunId, holder: str) -> None:
        self._session.later(_PASS, {**self._of(run_id), "holder": holder})

    def get(self, run_id: RunId) -> Lease | None:
        row = self._session.answer(_LOCKED, self._of(run_id)).fetchone()
        return None if row is None else _lease(_Row._make(row))

    def is_current(self, run_id: RunId, lease_epoch: int) -> bool:
        lease = self.get(run_id)
        return (
            lease is not None and lease.lease_owner is not None and lease.lease_epoch == lease_epoch
        )

    def end(self, run_id: RunId) -> None:
        self._session.later(_END, self._of(run_id))

    def end_current(self, run_id: RunId, lease_epoch: int) -> bool:
        lease = {**self._of(run_id), "epoch": lease_epoch}
        return self._session.answer(_END_CURRENT, lease).rowcount == 1

    def release(self, run_id: RunId, *, due_at: datetime, consume: bool) -> None:
        lease = {**self._of(run_id), "due": due_at, "drained": 0 if consume else 1}
        self._session.later(_RELEASE, lease)
        self._session.wake(Woken.LEASES)

    def fence(self, run_id: RunId) -> None:
        self._session.later(_FENCE, self._of(run_id))

    def expired(self, limit: int) -> list[Lease]:
        rows = self._session.execute(
            select(RUN_LEASE)
            .where(
                self._session.tenant_rows(RUN_LEASE),
                RUN_LEASE.c.lease_owner.is_not(None),
                RUN_LEASE.c.lease_until < func.clock_timestamp() - RECLAIM_GRACE,
            )
            .order_by(RUN_LEASE.c.lease_until)
            .limit(limit)
        )
        return [_lease(row) for row in rows]

    def _of(self, run_id: RunId) -> dict[str, object]:
        return {"tenant": self._session.tenant_id, "run": run_id}


def _lease(row: Any) -> Lease:  # noqa: ANN401  a row of SQLAlchemy or of the driver
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
