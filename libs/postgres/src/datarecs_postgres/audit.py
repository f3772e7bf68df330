"""The audit chain in the database: one row per action, hashed with the previous row.

The head row of a tenant is locked while a row is added, so the chain has no forks; no role has
UPDATE or DELETE on the table.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row, insert, select
from sqlalchemy.dialects.postgresql import insert as upsert

from datarecs_application.ports.state import AuditEntry
from datarecs_core.access.audit import (
    FIRST_PREV_HASH,
    AuditRow,
    ChainedRow,
    audit_hash,
    first_broken,
)
from datarecs_core.values import TenantId, aware
from datarecs_postgres import json_text
from datarecs_postgres.ownership import as_owner
from datarecs_postgres.session import Session
from datarecs_postgres.tables.access import AUDIT_EVENT, AUDIT_HEAD


class PostgresAudit:
    """Port Audit."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def append(self, entry: AuditEntry) -> None:
        last_seq, prev_hash = self._locked_head()
        row = AuditRow(
            tenant_id=self._session.tenant_id,
            seq=last_seq + 1,
            at=self._session.now,
            actor=entry.actor,
            actor_kind=entry.actor_kind,
            action=entry.action,
            resource_kind=entry.resource_kind,
            resource_uid=entry.resource_uid,
            before_sha256=entry.before_sha256,
            after_sha256=entry.after_sha256,
            request_id=entry.request_id,
            address=entry.address,
            outcome=entry.outcome,
            detail=_detail(entry),
        )
        hashed = audit_hash(row, prev_hash)
        values = {name: getattr(row, name) for name in AuditRow.__slots__}
        self._session.execute(
            insert(AUDIT_EVENT).values(values | {"prev_hash": prev_hash, "hash": hashed}).inline()
        )
        head = upsert(AUDIT_HEAD).values(
            tenant_id=self._session.tenant_id, seq=row.seq, hash=hashed
        )
        self._session.execute(
            head.on_conflict_do_update(
                index_elements=["tenant_id"],
                set_={"seq": head.excluded.seq, "hash": head.excluded.hash},
            ).inline()
        )

    def _locked_head(self) -> tuple[int, bytes]:
        """The end of the chain, locked; created if the tenant has none."""
        self._session.execute(
            upsert(AUDIT_HEAD)
            .values(tenant_id=self._session.tenant_id, seq=0, hash=FIRST_PREV_HASH)
            .on_conflict_do_nothing()
            .inline()
        )
        head = self._session.execute(
            select(AUDIT_HEAD).where(self._session.tenant_rows(AUDIT_HEAD)).with_for_update()
        ).one()
        return head.seq, bytes(head.hash)


def broken_chains(url: str) -> dict[TenantId, int]:
    """The first altered, missing or misplaced row of every tenant with a damaged chain.

    Called by `datarecs admin audit verify`, with the login datarecs_migrate.
    """
    with as_owner(url) as connection:
        return dict(_broken(connection))


def _broken(connection: Connection) -> Iterator[tuple[TenantId, int]]:
    ends = {
        TenantId(head.tenant_id): (head.seq, bytes(head.hash))
        for head in connection.execute(select(AUDIT_HEAD))
    }
    rows = connection.execute(
        select(AUDIT_EVENT).order_by(AUDIT_EVENT.c.tenant_id, AUDIT_EVENT.c.seq)
    )
    chains = {
        TenantId(tenant): [_chained(row) for row in chain]
        for tenant, chain in groupby(rows, key=lambda row: row.tenant_id)
    }
    for tenant in sorted(ends.keys() | chains.keys()):
        chain = chains.get(tenant, [])
        broken = first_broken(chain)
        last = (chain[-1].row.seq, chain[-1].hash) if chain else (0, FIRST_PREV_HASH)
        if broken is not None:
            yield tenant, broken
        elif ends.get(tenant) != last:
            yield tenant, last[0] + 1


def _chained(row: Row[Any]) -> ChainedRow:
    values = {name: getattr(row, name) for name in AuditRow.__slots__}
    return ChainedRow(
        row=AuditRow(**values | {"at": aware(row.at)}),
        prev_hash=bytes(row.prev_hash),
        hash=bytes(row.hash),
    )


def _detail(entry: AuditEntry) -> Any:  # noqa: ANN401  JSON as jsonb gives it back
    return None if entry.detail is None else json_text.read(json_text.write(entry.detail))
