"""Objects of the catalogue for tests, and its stores with a clock that can be moved."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from datarecs_application.catalogue.account import CatalogueAccount
from datarecs_application.catalogue.entities import Entities
from datarecs_application.catalogue.pointer_store import PointerStore
from datarecs_application.catalogue.tables import Tables
from datarecs_application.ports.catalogue import Pointers
from datarecs_application.ports.outside import BlobStores, Wake
from datarecs_application.ports.state import UnitOfWork
from datarecs_core.catalog.pointers import Op, Outcome, Pointer, PointerPage
from datarecs_core.catalog.records import (
    Account,
    Catalog,
    Completeness,
    Constraint,
    ConstraintKind,
    FileStats,
    Namespace,
    Producer,
    ScalarStats,
    Snapshot,
    SnapshotConstraints,
    Table,
    TableColumn,
    TargetStats,
    View,
)
from datarecs_core.values import TenantId
from datarecs_runtime.clock import SystemClock
from datarecs_testing.builders import A_TENANT, an_id

DAWN = datetime(2026, 1, 15, 6, tzinfo=UTC)
"""Time of objects, before every commit of snapshots."""


class ShiftedClock:
    """The clock of the machine, moved forward by a test: files have real times."""

    def __init__(self) -> None:
        self._real, self._shift = SystemClock(), timedelta()

    def now(self) -> datetime:
        return self._real.now() + self._shift

    def monotonic(self) -> float:
        return self._real.monotonic() + self._shift.total_seconds()

    def wait(self, duration: timedelta, *, until: Wake | None = None) -> bool:
        return self._real.wait(duration, until=until)

    def advance(self, duration: timedelta) -> None:
        self._shift += duration


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyPointers:
    """Pointers with actions of a test before and after each batch; an action may raise."""

    real: Pointers
    before: Callable[[Sequence[Op]], None] = lambda _: None
    after: Callable[[Outcome], None] = lambda _: None

    def get(self, key: str) -> Pointer | None:
        return self.real.get(key)

    def get_many(self, keys: Collection[str]) -> Mapping[str, Pointer]:
        return self.real.get_many(keys)

    def batch(self, ops: Sequence[Op]) -> Outcome:
        self.before(ops)
        outcome = self.real.batch(ops)
        self.after(outcome)
        return outcome

    def list(self, prefix: str, *, limit: int, token: str | None = None) -> PointerPage:
        return self.real.list(prefix, limit=limit, token=token)

    def count(self, prefix: str, *, cap: int) -> int:
        return self.real.count(prefix, cap=cap)

    def delete_prefix(self, prefix: str, *, limit: int) -> int:
        return self.real.delete_prefix(prefix, limit=limit)

    def delete_expired(self, *, limit: int) -> int:
        return self.real.delete_expired(limit=limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueStores:
    """A pair of backends: pointers and blobs."""

    worker: UnitOfWork
    """Transactions of the role that writes the catalogue."""
    collector: UnitOfWork
    """Those of the role that collects."""
    blobs: BlobStores
    pass_database_time: Callable[[timedelta], None]
    clock: ShiftedClock = field(default_factory=ShiftedClock)

    def account(
        self,
        unit: UnitOfWork | None = None,
        tenant: TenantId = A_TENANT,
        **changes: Any,  # noqa: ANN401  fields
    ) -> CatalogueAccount:
        """The stores of an account as a service sees them; the worker if none is named."""
        fields = {
            "tenant": tenant,
            "pointers": PointerStore(unit=unit or self.worker, tenant=tenant),
            "blobs": self.blobs.of(tenant),
            "clock": self.clock,
        }
        return CatalogueAccount(**{**fields, **changes})

    def pass_time(self, duration: timedelta) -> None:
        self.pass_database_time(duration)
        self.clock.advance(duration)

    def now(self) -> datetime:
        """Time of the database."""
        with self.worker.begin(A_TENANT) as tx:
            return tx.now

    def namespace(self) -> Namespace:
        """A namespace with its catalog and account."""
        account = self.account()
        Entities(account, Account).create(an_account())
        catalog = Entities(account, Catalog).create(a_catalog()).record
        return Entities(account, Namespace).create(a_namespace(catalog.id)).record

    def table(self) -> Table:
        """A table in a namespace."""
        return Tables(self.account()).create(a_table(self.namespace())).record


def an_account(**changes: Any) -> Account:  # noqa: ANN401  fields
    fields = {"id": A_TENANT, "name": "bank", "created_at": DAWN, "tags": {}}
    return Account(**{**fields, **changes})


def a_catalog(**changes: Any) -> Catalog:  # noqa: ANN401  fields
    fields = {"id": an_id(), "name": "lake", "properties": {}, **_times()}
    return Catalog(**{**fields, **changes})


def a_namespace(catalog_id: UUID, *path: str, **changes: Any) -> Namespace:  # noqa: ANN401  fields
    fields = {"id": an_id(), "path": path or ("sales",), "properties": {}, **_times()}
    return Namespace(catalog_id=catalog_id, **{**fields, **changes})


def a_table(namespace: Namespace, **changes: Any) -> Table:  # noqa: ANN401  fields
    fields = {"id": an_id(), "name": "orders", "columns": (A_COLUMN,), "properties": {}}
    where = {"catalog_id": namespace.catalog_id, "namespace_id": namespace.id}
    return Table(**{**fields, **where, **_times(), **changes})


def a_view(namespace: Namespace, **changes: Any) -> View:  # noqa: ANN401  fields
    fields = {
        "id": an_id(),
        "name": "orders",
        "definitions": (),
        "base_relations": (),
        "search_path": (),
        "columns": (A_COLUMN,),
        "properties": {},
    }
    where = {"catalog_id": namespace.catalog_id, "namespace_id": namespace.id}
    return View(**{**fields, **where, **_times(), **changes})


def a_snapshot(table: Table, number: int, *, hours: float = 0, **changes: Any) -> Snapshot:  # noqa: ANN401  fields
    """A snapshot that was committed some hours after the table."""
    fields = {
        "table_id": table.id,
        "snapshot_id": number,
        "native_id": f"native-{number}",
        "committed_at": DAWN + timedelta(hours=hours),
        "ingested_at": DAWN + timedelta(days=1),
        "columns": table.columns,
        "summary": {},
    }
    return Snapshot(**{**fields, **changes})


def target_stats(table: Table, number: int, **changes: Any) -> TargetStats:  # noqa: ANN401  fields
    fields = {
        "table_id": table.id,
        "snapshot_id": number,
        "target_id": "table",
        "rows": 17,
        "properties": {},
        **_produced(),
    }
    return TargetStats(**{**fields, **changes})


def file_stats(table: Table, number: int, path: str, **changes: Any) -> FileStats:  # noqa: ANN401  fields
    column = ScalarStats(name="id", type="bigint", rows=17, nulls=0, min="-0", max="17")
    fields = {
        "table_id": table.id,
        "snapshot_id": number,
        "path": path,
        "format": "parquet",
        "rows": 17,
        "size_bytes": 4096,
        "etag": "e1",
        "stored_rows": 17,
        "deletes": (),
        "columns": (column,),
        **_produced(),
    }
    return FileStats(**{**fields, **changes})


def constraints(table: Table, number: int, *columns: str) -> SnapshotConstraints:
    """NOT NULL of columns, in table scope."""
    return SnapshotConstraints(
        table_id=table.id,
        snapshot_id=number,
        constraints=tuple(
            Constraint(
                type=ConstraintKind.NOT_NULL,
                columns=(column,),
                enforced=True,
                referenced_columns=(),
            )
            for column in columns
        ),
    )


A_COLUMN = TableColumn(field_id=1, name="id", type="bigint", nullable=False)


def _times() -> dict[str, datetime]:
    return {"created_at": DAWN, "updated_at": DAWN}


def _produced() -> dict[str, object]:
    return {
        "producer": Producer.ENGINE_COMPUTED,
        "completeness": Completeness.COMPLETE,
        "captured_at": DAWN,
    }
