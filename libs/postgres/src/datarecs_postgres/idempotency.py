"""Stored answers: one effect per Idempotency-Key, with the same answer again (experience 7).

Separate from `access`, because waiting for a concurrent first request is a separate rule.
"""

from datetime import timedelta

from sqlalchemy import ColumnElement, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError

from datarecs_application.errors import KeyBusyError
from datarecs_application.ports.state import KeyUse, StoredAnswer
from datarecs_postgres.failures import sqlstate
from datarecs_postgres.session import Session
from datarecs_postgres.tables.access import IDEMPOTENCY_KEY

LIFETIME = timedelta(hours=24)
LOCK_NOT_AVAILABLE = "55P03"


class PostgresIdempotencyKeys:
    """Port IdempotencyKeys."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def take(
        self, *, principal: str, route: str, key: str, request_hash: bytes
    ) -> tuple[KeyUse, StoredAnswer | None]:
        row = insert(IDEMPOTENCY_KEY).values(
            tenant_id=self._session.tenant_id,
            principal=principal,
            route=route,
            key=key,
            request_hash=request_hash,
        )
        forgotten = {"created_at": func.now(), "status": None, "headers": None, "body": None}
        claim = row.on_conflict_do_update(
            index_elements=["tenant_id", "principal", "route", "key"],
            set_={"request_hash": row.excluded.request_hash, **forgotten},
            where=or_(
                IDEMPOTENCY_KEY.c.created_at <= func.now() - LIFETIME,
                IDEMPOTENCY_KEY.c.status.is_(None),
            ),
        ).inline()
        try:
            # The unique entry of a concurrent first request is a lock until its transaction ends.
            self._session.execute(text("SET LOCAL lock_timeout = '2s'"))
            claimed = self._session.execute(claim).rowcount
        except DBAPIError as failure:
            if sqlstate(failure) != LOCK_NOT_AVAILABLE:
                raise
            raise KeyBusyError(route=route) from failure
        if claimed:
            return KeyUse.NEW, None
        return self._earlier(self._of(principal, route, key), request_hash)

    def store(self, *, principal: str, route: str, key: str, answer: StoredAnswer) -> None:
        self._session.execute(
            update(IDEMPOTENCY_KEY)
            .where(*self._of(principal, route, key))
            .values(status=answer.status, headers=dict(answer.headers), body=answer.body)
        )

    def _earlier(
        self, which: tuple[ColumnElement[bool], ...], request_hash: bytes
    ) -> tuple[KeyUse, StoredAnswer | None]:
        row = self._session.execute(select(IDEMPOTENCY_KEY).where(*which)).one()
        if row.request_hash != request_hash:
            return KeyUse.MISMATCH, None
        return KeyUse.REPLAY, StoredAnswer(status=row.status, headers=row.headers, body=row.body)

    def _of(self, principal: str, route: str, key: str) -> tuple[ColumnElement[bool], ...]:
        table = IDEMPOTENCY_KEY.c
        return (
            self._session.tenant_rows(IDEMPOTENCY_KEY),
            table.principal == principal,
            table.route == route,
            table.key == key,
        )
