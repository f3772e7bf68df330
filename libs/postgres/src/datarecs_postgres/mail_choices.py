"""Unsubscribed recipients, suppressed addresses, and revoked report links."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert

from datarecs_application.ports.delivery import Suppression
from datarecs_core.values import RunId, aware
from datarecs_postgres.session import Session
from datarecs_postgres.tables.mails import (
    EMAIL_SUPPRESSION,
    EMAIL_UNSUBSCRIBE,
    REPORT_LINK_REVOCATION,
)


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
                self._session.tenant_rows(table), table.c.recipient_key.in_(keys)
            )
        )
        return {row.recipient_key for row in rows}

    def suppress(self, recipient_key: str, *, reason: str, reply: str) -> None:
        row = insert(EMAIL_SUPPRESSION).values(
            tenant_id=self._session.tenant_id,
            recipient_key=recipient_key,
            reason=reason,
            reply=reply,
            created_at=self._session.now,
        )
        self._session.execute(row.on_conflict_do_nothing().inline())

    def suppressions(self, limit: int) -> list[Suppression]:
        table = EMAIL_SUPPRESSION
        rows = self._session.execute(
            select(table)
            .where(self._session.tenant_rows(table))
            .order_by(table.c.created_at.desc(), table.c.recipient_key.desc())
            .limit(limit)
        )
        return [
            Suppression(row.recipient_key, row.reason, row.reply, aware(row.created_at))
            for row in rows
        ]

    def release(self, recipient_key: str) -> bool:
        table = EMAIL_SUPPRESSION
        removed = self._session.execute(
            delete(table).where(
                self._session.tenant_rows(table), table.c.recipient_key == recipient_key
            )
        )
        return bool(removed.rowcount)

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
