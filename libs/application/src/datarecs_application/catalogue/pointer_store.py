"""Pointers outside of a transaction: every call is one of its own.

Repositories take either this or the pointers of an open transaction, so that a change of the
catalogue can commit together with rows of the queue and the outbox.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from datarecs_application.ports.state import UnitOfWork
from datarecs_core.catalog.pointers import Op, Outcome, Pointer, PointerPage
from datarecs_core.values import TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerStore:
    """Port Pointers, one transaction a call."""

    unit: UnitOfWork
    tenant: TenantId

    def get(self, key: str) -> Pointer | None:
        with self.unit.begin(self.tenant, read_only=True) as tx:
            return tx.pointers.get(key)

    def get_many(self, keys: Collection[str]) -> Mapping[str, Pointer]:
        with self.unit.begin(self.tenant, read_only=True) as tx:
            return tx.pointers.get_many(keys)

    def batch(self, ops: Sequence[Op]) -> Outcome:
        with self.unit.begin(self.tenant) as tx:
            return tx.pointers.batch(ops)

    def list(self, prefix: str, *, limit: int, token: str | None = None) -> PointerPage:
        with self.unit.begin(self.tenant, read_only=True) as tx:
            return tx.pointers.list(prefix, limit=limit, token=token)

    def count(self, prefix: str, *, cap: int) -> int:
        with self.unit.begin(self.tenant, read_only=True) as tx:
            return tx.pointers.count(prefix, cap=cap)

    def delete_prefix(self, prefix: str, *, limit: int) -> int:
        with self.unit.begin(self.tenant) as tx:
            return tx.pointers.delete_prefix(prefix, limit=limit)

    def delete_expired(self, *, limit: int) -> int:
        with self.unit.begin(self.tenant) as tx:
            return tx.pointers.delete_expired(limit=limit)
