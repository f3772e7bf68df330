"""The rows of `pointer`: read, decided by the rule of core, and changed under a lock.

The lock of an account also covers keys that do not exist yet: a row cannot be locked before it
does. A transaction holds it from its first batch to its end. One lock, because a transaction of a
capture has several batches: with a lock for each group of keys two of them wait for each other.
"""

from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Row,
    bindparam,
    delete,
    func,
    or_,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import insert

from datarecs_core.catalog.pointers import (
    Applied,
    Changes,
    Op,
    Outcome,
    Pointer,
    PointerPage,
    apply_batch,
    check_batch,
    check_pointer_key,
    check_pointer_prefix,
    position_of,
    token_after,
)
from datarecs_core.values import TenantId, aware
from datarecs_postgres.session import Session
from datarecs_postgres.tables.catalogue import POINTER

_ROW = POINTER.c
_LOCK = text("SELECT pg_advisory_xact_lock(:lock)").bindparams(bindparam("lock", type_=BigInteger))
_FIELDS = ("blob_key", "payload", "resource_id", "expires_at", "version")
_LIVE = or_(_ROW.expires_at.is_(None), _ROW.expires_at > func.clock_timestamp())
_STORE = insert(POINTER)
_STORE = _STORE.on_conflict_do_update(
    index_elements=["tenant_id", "key"],
    set_={name: getattr(_STORE.excluded, name) for name in _FIELDS},
)


class PostgresPointers:
    """Port Pointers, inside the transaction of the session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, key: str) -> Pointer | None:
        return self.get_many([key]).get(key)

    def get_many(self, keys: Collection[str]) -> Mapping[str, Pointer]:
        for key in keys:
            check_pointer_key(key, self._session.tenant_id)
        return self._live(keys)

    def batch(self, ops: Sequence[Op]) -> Outcome:
        check_batch(ops, self._session.tenant_id)
        if not ops:
            return Applied()
        self._session.execute(_LOCK, {"lock": _lock(self._session.tenant_id)})
        # A statement of its own: it sees what the previous holder of the lock has committed.
        outcome, changes = apply_batch(self._live([op.key for op in ops]), ops)
        self._store(changes)
        return outcome

    def list(self, prefix: str, *, limit: int, token: str | None = None) -> PointerPage:
        check_pointer_prefix(prefix, self._session.tenant_id)
        after = position_of(prefix, token)
        rows = self._session.execute(
            select(POINTER)
            .where(self._below(prefix), _ROW.key > after, _LIVE)
            .order_by(_ROW.key)
            .limit(limit + 1)
        )
        page = tuple(_pointer_of(row) for row in rows)
        if len(page) <= limit:
            return PointerPage(pointers=page)
        return PointerPage(pointers=page[:limit], token=token_after(prefix, page[limit - 1].key))

    def count(self, prefix: str, *, cap: int) -> int:
        check_pointer_prefix(prefix, self._session.tenant_id)
        rows = select(_ROW.key).where(self._below(prefix), _LIVE).limit(cap).subquery()
        return int(self._session.execute(select(func.count()).select_from(rows)).scalar_one())

    def delete_prefix(self, prefix: str, *, limit: int) -> int:
        check_pointer_prefix(prefix, self._session.tenant_id)
        return self._delete(self._below(prefix), limit)

    def delete_expired(self, *, limit: int) -> int:
        mine = self._session.tenant_rows(POINTER)
        return self._delete(mine & (_ROW.expires_at <= func.clock_timestamp()), limit)

    def _live(self, keys: Collection[str]) -> Mapping[str, Pointer]:
        rows = self._session.execute(
            select(POINTER).where(self._session.tenant_rows(POINTER), _ROW.key.in_(keys), _LIVE)
        )
        return {row.key: _pointer_of(row) for row in rows}

    def _store(self, changes: Changes) -> None:
        tenant = {"tenant_id": self._session.tenant_id}
        if changes.stored:
            stored = [
                {**tenant, "key": one.key, **{name: getattr(one, name) for name in _FIELDS}}
                for one in changes.stored
            ]
            self._session.execute(_STORE, stored)
        if changes.deleted:
            mine = self._session.tenant_rows(POINTER)
            self._session.execute(delete(POINTER).where(mine, _ROW.key.in_(changes.deleted)))

    def _delete(self, condition: ColumnElement[bool], limit: int) -> int:
        chosen = select(_ROW.key).where(condition).limit(limit).scalar_subquery()
        mine = self._session.tenant_rows(POINTER)
        return self._session.execute(delete(POINTER).where(mine, _ROW.key.in_(chosen))).rowcount

    def _below(self, prefix: str) -> ColumnElement[bool]:
        """A range of the primary key: `0` is the character after `/`."""
        end = f"{prefix.removesuffix('/')}0"
        return self._session.tenant_rows(POINTER) & (_ROW.key > prefix) & (_ROW.key < end)


def _lock(tenant: TenantId) -> int:
    """The advisory lock of an account."""
    return int.from_bytes(sha256(b"pointer" + tenant.bytes).digest()[:8], "big", signed=True)


def _pointer_of(row: Row[Any]) -> Pointer:
    return Pointer(
        key=row.key,
        blob_key=row.blob_key,
        payload=row.payload,
        resource_id=row.resource_id,
        expires_at=None if row.expires_at is None else aware(row.expires_at),
        version=row.version,
    )
