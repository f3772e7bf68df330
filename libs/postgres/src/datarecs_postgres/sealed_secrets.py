"""The rows of `sealed_secret`: inserting needs no right to read (spec security 10)."""

from datetime import datetime

from sqlalchemy import ColumnElement, delete, func, insert, or_, select, update

from datarecs_application.ports.sealing import SecretLabel
from datarecs_core.values import ResourceUid, aware
from datarecs_postgres.session import Session
from datarecs_postgres.tables.resources import SEALED_SECRET


class PostgresSealedSecrets:
    """Port SealedSecrets."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, resource_uid: ResourceUid, field: str, key_id: str, sealed: bytes) -> None:
        self._session.execute(
            insert(SEALED_SECRET)
            .values(
                tenant_id=self._session.tenant_id,
                resource_uid=resource_uid,
                field=field,
                key_id=key_id,
                sealed=sealed,
            )
            .inline()
        )

    def live(self, resource_uid: ResourceUid, field: str) -> list[tuple[str, bytes]]:
        table = SEALED_SECRET.c
        rows = self._session.execute(
            select(table.key_id, table.sealed)
            .where(*self._live(resource_uid, field))
            .order_by(table.created_at.desc(), table.key_id.desc())
        )
        return [(row.key_id, bytes(row.sealed)) for row in rows]

    def labels(self, resource_uid: ResourceUid, field: str) -> list[SecretLabel]:
        table = SEALED_SECRET.c
        rows = self._session.execute(
            select(table.key_id, table.created_at, table.expires_at)
            .where(*self._live(resource_uid, field))
            .order_by(table.created_at.desc(), table.key_id.desc())
        )
        return [
            SecretLabel(
                key_id=row.key_id,
                created_at=aware(row.created_at),
                expires_at=None if row.expires_at is None else aware(row.expires_at),
            )
            for row in rows
        ]

    def expire(self, resource_uid: ResourceUid, field: str, key_id: str, at: datetime) -> None:
        table = SEALED_SECRET.c
        self._session.execute(
            update(SEALED_SECRET)
            .where(
                self._session.tenant_rows(SEALED_SECRET),
                table.resource_uid == resource_uid,
                table.field == field,
                table.key_id == key_id,
            )
            .values(expires_at=at)
        )

    def _live(self, resource_uid: ResourceUid, field: str) -> tuple[ColumnElement[bool], ...]:
        table = SEALED_SECRET.c
        return (
            self._session.tenant_rows(SEALED_SECRET),
            table.resource_uid == resource_uid,
            table.field == field,
            or_(table.expires_at.is_(None), table.expires_at > func.clock_timestamp()),
        )

    def erase(self, resource_uid: ResourceUid) -> None:
        self._session.execute(
            delete(SEALED_SECRET).where(
                self._session.tenant_rows(SEALED_SECRET),
                SEALED_SECRET.c.resource_uid == resource_uid,
            )
        )
