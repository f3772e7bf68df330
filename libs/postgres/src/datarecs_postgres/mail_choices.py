"""Unsubscribed recipients, suppressed addresses, bounces, and revoked report links."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import ColumnElement, delete, func, or_, select
from sqlalchemy.dialects.postgresql import insert

from datarecs_application.ports.delivery import Suppression
from datarecs_core.notifications.feedback import NewSuppression
from datarecs_core.values import RunId, aware
from datarecs_postgres.session import Session
from datarecs_postgres.tables.mails import (
    EMAIL_BOUNCE,
    EMAIL_SUPPRESSION,
    EMAIL_UNSUBSCRIBE,
    REPORT_LINK_REVOCATION,
)

_T = EMAIL_SUPPRESSION.c
_IS_LIVE: ColumnElement[bool] = or_(_T.ends_at.is_(None), _T.ends_at > func.now())


class PostgresMailChoices:
    """Port MailChoices."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def unsubscribed(self, scopes: Collection[str]) -> Collection[tuple[str, str]]:
        table = EMAIL_UNSUBSCRIBE
        rows = self._session.execute(
            select(table.c.recipient_hash, table.c.scope).where(
                self._session.tenant_rows(table), table.c.scope.in_(scopes)
            )
        )
        return {(row.recipient_hash, row.scope) for row in rows}

    def unsubscribe(self, recipient_hash: str, scopes: Collection[str]) -> None:
        for scope in scopes:
            row = insert(EMAIL_UNSUBSCRIBE).values(
                tenant_id=self._session.tenant_id,
                recipient_hash=recipient_hash,
                scope=scope,
                created_at=self._session.now,
            )
            self._session.execute(row.on_conflict_do_nothing().inline())

    def suppressed(self, keys: Collection[str]) -> Collection[str]:
        table = EMAIL_SUPPRESSION
        rows = self._session.execute(
            select(table.c.recipient_key).where(
                self._session.tenant_rows(table), table.c.recipient_key.in_(keys), _IS_LIVE
            )
        )
        return {row.recipient_key for row in rows}

    def suppress(self, made: NewSuppression) -> None:
        values = {
            "reason": made.reason.value,
            "reply": made.text,
            "created_at": self._session.now,
            "ends_at": made.ends_at,
        }
        key = {"tenant_id": self._session.tenant_id, "recipient_key": made.recipient_key}
        row = insert(EMAIL_SUPPRESSION).values(key | values)
        self._session.execute(
            row.on_conflict_do_update(
                index_elements=list(key), set_=values, where=_T.ends_at.is_not(None)
            ).inline()
        )

    def suppressions(self, limit: int) -> list[Suppression]:
        table = EMAIL_SUPPRESSION
        rows = self._session.execute(
            select(table)
            .where(self._session.tenant_rows(table), _IS_LIVE)
            .order_by(table.c.created_at.desc(), table.c.recipient_key.desc())
            .limit(limit)
        )
        return [
            Suppression(
                recipient_key=row.recipient_key,
                reason=row.reason,
                reply=row.reply,
                created_at=aware(row.created_at),
                ends_at=None if row.ends_at is None else aware(row.ends_at),
            )
            for row in rows
        ]

    def release(self, recipient_key: str) -> bool:
        removed = [
            self._session.execute(
                delete(table).where(
                    self._session.tenant_rows(table), table.c.recipient_key == recipient_key
                )
            )
            for table in (EMAIL_BOUNCE, EMAIL_SUPPRESSION)
        ]
        return bool(removed[-1].rowcount)

    def count_soft_bounce(self, recipient_key: str, report_id: str, *, since: datetime) -> int:
        table, of_tenant = EMAIL_BOUNCE, self._session.tenant_rows(EMAIL_BOUNCE)
        row = insert(table).values(
            tenant_id=self._session.tenant_id,
            recipient_key=recipient_key,
            report_id=report_id,
            created_at=self._session.now,
        )
        self._session.execute(row.on_conflict_do_nothing().inline())
        self._session.execute(delete(table).where(of_tenant, table.c.created_at < since))
        of_address = (of_tenant, table.c.recipient_key == recipient_key)
        count = self._session.execute(select(func.count()).select_from(table).where(*of_address))
        return int(count.scalar() or 0)

    def revoke_report_links(self, run_id: RunId) -> None:
        now = self._session.now
        row = insert(REPORT_LINK_REVOCATION).values(
            tenant_id=self._session.tenant_id, run_id=run_id, revoked_at=now
        )
        self._session.execute(
            row.on_conflict_do_update(
                index_elements=["tenant_id", "run_id"], set_={"revoked_at": now}
            ).inline()
        )

    def report_links_revoked_at(self, run_id: RunId) -> datetime | None:
        table = REPORT_LINK_REVOCATION
        revoked = self._session.execute(
            select(table.c.revoked_at).where(
                self._session.tenant_rows(table), table.c.run_id == run_id
            )
        ).scalar()
        return None if revoked is None else aware(revoked)
