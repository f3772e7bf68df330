"""The rows of `api_key` inside a tenant; before a tenant is known `work_finder` finds a key."""

from typing import Any

from sqlalchemy import Row, func, insert, select, update

from datarecs_application.ports.state import ApiKey
from datarecs_core.values import TenantId, aware
from datarecs_postgres.session import Session
from datarecs_postgres.tables.access import API_KEY


def key_of(row: Row[Any]) -> ApiKey:
    """The key of a complete row."""
    return ApiKey(
        key_id=row.key_id,
        tenant_id=TenantId(row.tenant_id),
        name=row.name,
        subject=row.subject,
        secret_sha256=bytes(row.secret_sha256),
        permissions=frozenset(row.permissions),
        created_at=aware(row.created_at),
        expires_at=aware(row.expires_at),
        revoked_at=None if row.revoked_at is None else aware(row.revoked_at),
    )


class PostgresApiKeys:
    """Port ApiKeys."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, key: ApiKey) -> None:
        self._session.execute(
            insert(API_KEY)
            .values(
                tenant_id=key.tenant_id,
                key_id=key.key_id,
                name=key.name,
                subject=key.subject,
                secret_sha256=key.secret_sha256,
                permissions=sorted(key.permissions),
                created_at=key.created_at,
                expires_at=key.expires_at,
                revoked_at=key.revoked_at,
            )
            .inline()
        )

    def revoke(self, key_id: str) -> bool:
        revoked = self._session.execute(
            update(API_KEY)
            .where(self._session.own(API_KEY), API_KEY.c.key_id == key_id)
            .values(revoked_at=func.coalesce(API_KEY.c.revoked_at, func.clock_timestamp()))
        )
        return bool(revoked.rowcount)

    def all(self, *, subject: str | None = None) -> list[ApiKey]:
        statement = select(API_KEY).where(self._session.own(API_KEY))
        if subject is not None:
            statement = statement.where(API_KEY.c.subject == subject)
        newest = statement.order_by(API_KEY.c.created_at.desc(), API_KEY.c.key_id)
        return [key_of(row) for row in self._session.execute(newest)]
