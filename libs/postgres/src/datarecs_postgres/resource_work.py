"""The rows of `resource_work`: which objects are due for their controller, and its lease."""

from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select, update
from sqlalchemy.dialects.postgresql import insert

from datarecs_core.resources.reconciling import Work
from datarecs_core.resources.resource import Kind
from datarecs_core.values import ResourceUid, aware
from datarecs_postgres.session import Session, Woken
from datarecs_postgres.tables.resource_work import RESOURCE_WORK
from datarecs_postgres.tables.resources import RESOURCE

_WORK = RESOURCE_WORK.c


class PostgresResourceWork:
    """Port ResourceWork."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def reconcile_soon(self, uid: ResourceUid, kind: Kind) -> None:
        row = {
            "tenant_id": self._session.tenant_id,
            "uid": uid,
            "kind": kind.value,
            "due_at": func.now(),
            "dirty_seq": 1,
        }
        self._session.execute(
            insert(RESOURCE_WORK)
            .values(row)
            .on_conflict_do_update(
                index_elements=["tenant_id", "uid"],
                set_={"due_at": func.now(), "dirty_seq": _WORK.dirty_seq + 1},
            )
        )
        self._session.wake(Woken.OBJECTS)

    def due_again(self, uid: ResourceUid) -> None:
        self._session.execute(
            update(RESOURCE_WORK)
            .where(self._session.tenant_rows(RESOURCE_WORK), _WORK.uid == uid)
            .values(due_at=func.now(), dirty_seq=_WORK.dirty_seq + 1)
        )
        self._session.wake()

    def reconcile_jobs_using(self, connection: str) -> None:
        self._session.execute(
            update(RESOURCE_WORK)
            .where(
                self._session.tenant_rows(RESOURCE_WORK),
                self._session.tenant_rows(RESOURCE),
                RESOURCE.c.uid == _WORK.uid,
                RESOURCE.c.kind == Kind.RECONCILIATION_JOB.value,
                RESOURCE.c.spec.contains({"sources": [{"connection": connection}]}),
            )
            .values(due_at=func.now(), dirty_seq=_WORK.dirty_seq + 1)
        )
        self._session.wake(Woken.OBJECTS)

    def get(self, uid: ResourceUid) -> Work | None:
        return self._one(self._of(uid))

    def for_update(self, uid: ResourceUid) -> Work | None:
        return self._one(self._of(uid).with_for_update())

    def save(self, work: Work) -> None:
        self._session.execute(
            update(RESOURCE_WORK)
            .where(self._session.tenant_rows(RESOURCE_WORK), _WORK.uid == work.uid)
            .values(
                due_at=work.due_at,
                attempts=work.attempts,
                conflicts=work.conflicts,
                generation=work.generation,
                reconcile_at=work.reconcile_at,
                is_terminal=work.is_terminal,
                window_start=work.window_start,
                window_count=work.window_count,
                epoch=work.epoch,
                lease_until=work.lease_until,
            )
        )

    def _of(self, uid: ResourceUid) -> Select[Any]:
        return select(RESOURCE_WORK).where(
            self._session.tenant_rows(RESOURCE_WORK), _WORK.uid == uid
        )

    def _one(self, query: Select[Any]) -> Work | None:
        row = self._session.execute(query).one_or_none()
        if row is None:
            return None
        return Work(
            uid=ResourceUid(row.uid),
            kind=Kind(row.kind),
            due_at=_instant(row.due_at),
            dirty_seq=row.dirty_seq,
            attempts=row.attempts,
            conflicts=row.conflicts,
            generation=row.generation,
            reconcile_at=row.reconcile_at,
            is_terminal=row.is_terminal,
            window_start=_instant(row.window_start),
            window_count=row.window_count,
            epoch=row.epoch,
            lease_until=_instant(row.lease_until),
        )


def _instant(value: datetime | None) -> datetime | None:
    return None if value is None else aware(value)
