"""The rows of `sealed_secret`: who inserts need not be able to read (spec security 10)."""

from sqlalchemy import delete, func, insert, or_, select

from datarecs_core.values import ResourceUid
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
            .where(
                self._session.own(SEALED_SECRET),
                table.resource_uid == resource_uid,
                table.field == field,
                or_(table.expires_at.is_(None), table.expires_at > func.clock_timestamp()),
            )
            .order_by(table.created_at.desc(), table.key_id.desc())
        )
        return [(row.key_id, bytes(row.sealed)) for row in rows]

    def erase(self, resource_uid: ResourceUid) -> None:
        self._session.execute(
            delete(SEALED_SECRET).where(
                self._session.own(SEALED_SECRET), SEALED_SECRET.c.resource_uid == resource_uid
            )
        )
