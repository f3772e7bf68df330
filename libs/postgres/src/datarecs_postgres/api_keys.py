"""The rows of `api_key` of one tenant; `work_finder` finds a key before the tenant is known."""

from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, func, insert, select, update

from datarecs_application.ports.keys import ApiKey
from datarecs_core.values import TenantId, aware
from datarecs_postgres.session import Session
from datarecs_postgres.tables.access import API_KEY


def key_of(row: Row[Any]) -> ApiKey:
    """The key of a row, in the form that `resolve_api_key` returns."""
    return ApiKey(
        key_id=row.key_id,
        tenant_id=TenantId(row.tenant_id),
        name=row.name,
        owner=row.subject,
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
                subject=key.owner,
                secret_sha256=key.secret_sha256,
                permissions=sorted(key.permissions),
                created_at=key.created_at,
                expires_at=key.expires_at,
                revoked_at=key.revoked_at,
                parent_key_id=key.parent_id,
            )
            .inline()
        )

    def for_update(self, key_id: str) -> ApiKey | None:
        locked = select(API_KEY).where(*self._named(key_id)).with_for_update()
        row = self._session.execute(locked).one_or_none()
        return None if row is None else _stored(row)

    def revoke(self, key_id: str) -> tuple[str, ...]:
        """Repeat until no key is left.

        A new key of the family locks its parent key: either the next statement sees the new key,
        or its insert waits until this transaction has ended and finds its parent revoked.
        """
        revoked: list[str] = []
        statement = (
            update(API_KEY)
            .where(
                self._session.tenant_rows(API_KEY),
                API_KEY.c.key_id.in_(self._family_ids(key_id)),
                API_KEY.c.revoked_at.is_(None),
            )
            .values(revoked_at=func.clock_timestamp())
            .returning(API_KEY.c.key_id)
        )
        while batch := self._session.execute(statement).scalars().all():
            revoked += batch
        return tuple(revoked)

    def family(self, key_id: str) -> list[ApiKey]:
        return self._keys(API_KEY.c.key_id.in_(self._family_ids(key_id)))

    def all(self) -> list[ApiKey]:
        return self._keys()

    def _keys(self, *where: ColumnElement[bool]) -> list[ApiKey]:
        statement = select(API_KEY).where(self._session.tenant_rows(API_KEY), *where)
        newest = statement.order_by(API_KEY.c.created_at.desc(), API_KEY.c.key_id)
        return [_stored(row) for row in self._session.execute(newest)]

    def _named(self, key_id: str) -> tuple[ColumnElement[bool], ...]:
        return self._session.tenant_rows(API_KEY), API_KEY.c.key_id == key_id

    def _family_ids(self, key_id: str) -> Select[tuple[str]]:
        first = select(API_KEY.c.key_id).where(*self._named(key_id))
        family = first.cte("family", recursive=True)
        made = select(API_KEY.c.key_id).where(
            self._session.tenant_rows(API_KEY), API_KEY.c.parent_key_id == family.c.key_id
        )
        return select(family.union(made).c.key_id)


def _stored(row: Row[Any]) -> ApiKey:
    return replace(key_of(row), parent_id=row.parent_key_id)
