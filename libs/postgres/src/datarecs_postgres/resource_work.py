"""The rows of `resource_work`: which objects are due for their controller, and its lease."""

from collections import namedtuple
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Uuid, any_, bindparam, cast, func, select, update
from sqlalchemy.dialects.postgresql import insert

from datarecs_application.ports.reconciling import RESOURCE_LEASE, ClaimedResource
from datarecs_core.resources.reconciling import Work
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.values import ResourceUid, aware
from datarecs_postgres.resource_rows import STORED, ResourceRow, reads_from, resource_of
from datarecs_postgres.session import Session, Woken
from datarecs_postgres.tables.resource_work import RESOURCE_WORK
from datarecs_postgres.tables.resources import RESOURCE

_WORK = RESOURCE_WORK.c
_Row = namedtuple("_Row", _WORK.keys())  # type: ignore[misc]  # noqa: PYI024  the table's columns
_UIDS = cast(bindparam("uids", type_=ARRAY(Uuid)), ARRAY(Uuid))
_OF_UIDS = (_WORK.tenant_id == bindparam("of_tenant"), _WORK.uid == any_(_UIDS))
_READ = select(RESOURCE_WORK).where(*_OF_UIDS)
_LOCKED = _READ.order_by(_WORK.uid).with_for_update()
_OBSERVED = (
    select(RESOURCE, RESOURCE_WORK)
    .where(*_OF_UIDS, RESOURCE.c.tenant_id == bindparam("of_tenant"), RESOURCE.c.uid == _WORK.uid)
    .order_by(_WORK.uid)
)
_SAVE = update(RESOURCE_WORK).where(
    _WORK.tenant_id == bindparam("of_tenant"), _WORK.uid == bindparam("of_uid")
)
"""Sets the named columns."""
_CLAIMS = (
    func.unnest(_UIDS, cast(bindparam("epochs", type_=ARRAY(BigInteger)), ARRAY(BigInteger)))
    .table_valued("uid", "epoch")
    .render_derived()
)
_RENEW = (
    update(RESOURCE_WORK)
    .where(
        _WORK.tenant_id == bindparam("of_tenant"),
        _WORK.uid == _CLAIMS.c.uid,
        _WORK.epoch == _CLAIMS.c.epoch,
        _WORK.lease_until.is_not(None),
    )
    .values(lease_until=func.clock_timestamp() + RESOURCE_LEASE)
    .returning(_WORK.uid)
)


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

    def reconcile_users_of(self, connection: str) -> None:
        self._session.execute(
            update(RESOURCE_WORK)
            .where(
                self._session.tenant_rows(RESOURCE_WORK),
                self._session.tenant_rows(RESOURCE),
                RESOURCE.c.uid == _WORK.uid,
                reads_from(connection),
            )
            .values(due_at=func.now(), dirty_seq=_WORK.dirty_seq + 1)
        )
        self._session.wake(Woken.OBJECTS)

    def get(self, uid: ResourceUid) -> Work | None:
        row = self._session.answer(_READ, self._of((uid,))).fetchone()
        return None if row is None else _work_of(row)

    def observed(self, uids: Collection[ResourceUid]) -> Sequence[tuple[Resource, Work]]:
        rows = self._session.answer(_OBSERVED, self._of(uids)).fetchall()
        return [
            (resource_of(ResourceRow._make(row[:STORED])), _work_of(row[STORED:])) for row in rows
        ]

    def for_update(self, *uids: ResourceUid) -> Mapping[ResourceUid, Work]:
        rows = self._session.answer(_LOCKED, self._of(uids)).fetchall()
        return {work.uid: work for work in map(_work_of, rows)}

    def save(self, work: Work) -> None:
        self._session.later(
            _SAVE,
            {
                "of_tenant": self._session.tenant_id,
                "of_uid": work.uid,
                "due_at": work.due_at,
                "attempts": work.attempts,
                "conflicts": work.conflicts,
                "generation": work.generation,
                "reconcile_at": work.reconcile_at,
                "is_terminal": work.is_terminal,
                "window_start": work.window_start,
                "window_count": work.window_count,
                "epoch": work.epoch,
                "lease_until": work.lease_until,
            },
        )

    def renew(self, claims: Collection[ClaimedResource]) -> Collection[ResourceUid]:
        held = self._of([one.uid for one in claims])
        epochs = {"epochs": [one.epoch for one in claims]}
        return [ResourceUid(uid) for (uid,) in self._session.answer(_RENEW, held | epochs)]

    def _of(self, uids: Collection[ResourceUid]) -> dict[str, object]:
        return {"of_tenant": self._session.tenant_id, "uids": list(uids)}


def _work_of(columns: tuple[Any, ...]) -> Work:
    row: Any = _Row._make(columns)
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
