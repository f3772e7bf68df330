"""The rows of `resource_check`."""

from collections import namedtuple
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Uuid,
    and_,
    any_,
    bindparam,
    cast,
    func,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from datarecs_application.ports.checks import LeasedCheck, ResourceCheck
from datarecs_core.documents import from_document, to_document
from datarecs_core.resources.checks import CheckResult
from datarecs_core.values import ResourceUid, aware
from datarecs_postgres.session import Session, Woken
from datarecs_postgres.tables.checks import RESOURCE_CHECK

_CHECK = RESOURCE_CHECK.c
_Row = namedtuple("_Row", _CHECK.keys())  # type: ignore[misc]  # noqa: PYI024  the table's columns
_OF_RESOURCES = select(RESOURCE_CHECK).where(
    _CHECK.tenant_id == bindparam("of_tenant"),
    _CHECK.resource_uid == any_(cast(bindparam("uids", type_=ARRAY(Uuid)), ARRAY(Uuid))),
)


class PostgresChecks:
    """Port Checks."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def request(self, uid: ResourceUid, *, subject: str) -> None:
        now = func.clock_timestamp()
        row = {"tenant_id": self._session.tenant_id, "resource_uid": uid}
        self._session.execute(
            insert(RESOURCE_CHECK)
            .values({**row, "subject": subject, "due_at": now})
            .on_conflict_do_update(
                index_elements=["tenant_id", "resource_uid"],
                set_={"subject": subject, "due_at": now},
            )
        )
        self._session.wake(Woken.CHECKS)

    def repeat(self, uid: ResourceUid) -> None:
        self._session.execute(
            update(RESOURCE_CHECK)
            .where(self._session.tenant_rows(RESOURCE_CHECK), _CHECK.resource_uid == uid)
            .values(due_at=func.clock_timestamp())
        )
        self._session.wake(Woken.CHECKS)

    def get(self, uid: ResourceUid) -> ResourceCheck | None:
        return self.of_resources([uid]).get(uid)

    def of_resources(self, uids: Collection[ResourceUid]) -> Mapping[ResourceUid, ResourceCheck]:
        wanted = {"of_tenant": self._session.tenant_id, "uids": list(uids)}
        checks = [_check_of(_Row._make(row)) for row in self._session.answer(_OF_RESOURCES, wanted)]
        return {check.uid: check for check in checks}

    def end(self, leased: LeasedCheck, result: CheckResult, *, generation: int) -> bool:
        ended = self._session.execute(
            update(RESOURCE_CHECK)
            .where(self._held(leased))
            .values(
                lease_until=None,
                due_at=func.nullif(_CHECK.due_at, _CHECK.lease_until),
                checked_at=func.clock_timestamp(),
                checked_generation=generation,
                result=to_document(result),
            )
        )
        self._session.wake()
        return ended.rowcount == 1

    def release(self, leased: LeasedCheck) -> None:
        self._session.execute(
            update(RESOURCE_CHECK)
            .where(self._held(leased))
            .values(lease_until=None, due_at=func.clock_timestamp())
        )
        self._session.wake(Woken.CHECKS)

    def _held(self, leased: LeasedCheck) -> ColumnElement[bool]:
        return and_(
            self._session.tenant_rows(RESOURCE_CHECK),
            _CHECK.resource_uid == leased.uid,
            _CHECK.epoch == leased.epoch,
            _CHECK.lease_until.is_not(None),
        )


def _check_of(row: Any) -> ResourceCheck:  # noqa: ANN401  the columns of the table
    return ResourceCheck(
        uid=ResourceUid(row.resource_uid),
        subject=row.subject,
        due_at=_instant(row.due_at),
        epoch=row.epoch,
        lease_until=_instant(row.lease_until),
        checked_at=_instant(row.checked_at),
        checked_generation=row.checked_generation,
        result=_result_of(row.result),
    )


def _result_of(document: Mapping[str, Any] | None) -> CheckResult | None:
    return None if document is None else from_document(CheckResult, dict(document))


def _instant(value: datetime | None) -> datetime | None:
    return None if value is None else aware(value)
