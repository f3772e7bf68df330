"""What the catalogue knows about the sources of a run, and the pins of what the run reads.

Separate from the supervision because it decides which table of the catalogue a source reads: that
of its connection, by the name that a capture gave it. Spec catalogue-storage 8 and 14.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from uuid import UUID

import structlog

from datarecs_application.assignments import Pins, SourceNotPinnedError, stored_json
from datarecs_application.captured_tables import (
    files_not_captured,
    is_entry,
    moment_of,
    names_a_time,
    not_captured,
    table_names,
)
from datarecs_application.catalogue.account import CatalogueAccount
from datarecs_application.catalogue.entities import Entities
from datarecs_application.catalogue.generations import Generations
from datarecs_application.catalogue.planned_files import PlannedFiles
from datarecs_application.catalogue.snapshots import Snapshots
from datarecs_application.catalogue.tables import TableRoots, Tables
from datarecs_application.child_frames import BadFrameError
from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.outside import BlobStores, Clock
from datarecs_application.ports.state import Transaction, UnitOfWork
from datarecs_core.captures.catalogued import CataloguedFile, CataloguedTable
from datarecs_core.catalog import layout
from datarecs_core.catalog.records import Catalog, Namespace, Table
from datarecs_core.comparison.planning.scan import (
    CataloguedSnapshot,
    ExportedSnapshot,
    TopicOffsets,
)
from datarecs_core.documents import from_document, to_document
from datarecs_core.errors.base import DatarecsError
from datarecs_core.hashing import JsonValue
from datarecs_core.jobs.definition import ReconciliationJob, Source
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind
from datarecs_core.runs.model import Run

log = structlog.get_logger()
MOST_SNAPSHOTS = 256
"""The newest snapshots of a table that a run knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogued:
    """Tables on their way through a pipe."""

    by_source: Mapping[str, CataloguedTable]


@dataclass(slots=True, kw_only=True)
class CatalogueReads:
    """What one attempt of a run reads of the catalogue, and pins in it."""

    unit: UnitOfWork
    blobs: BlobStores
    clock: Clock
    run: Run
    job: ReconciliationJob

    tables: dict[str, CataloguedTable] = field(default_factory=dict)
    """By source; without those whose table was never captured."""

    def read(self) -> None:
        """Find the tables of the sources.

        Raises:
            SourceNotPinnedError: a source of files asks for a time that no capture has.
            StoreUnavailableError, StoreBusyError: try again.
        """
        if all(source.connection is None for source in self.job.sources):
            return
        with self.unit.begin(self.run.tenant_id, read_only=True) as tx:
            for index, source in enumerate(self.job.sources):
                table = self._table(tx, index, source)
                if table is not None:
                    self.tables[source.name] = table

    def frame(self) -> dict[str, JsonValue]:
        """The part of the run frame; empty for sources that were never captured."""
        if not self.tables:
            return {}
        return {"catalogued": to_document(Catalogued(by_source=self.tables))}

    def protect(self, document: Mapping[str, object]) -> None:
        """Pin the catalogued snapshots that a child has pinned, until the run's retention ends.

        A snapshot that was removed meanwhile is only logged: its data is read anyway.

        Raises:
            BadFrameError: the pins are unreadable, or name a snapshot that the child does not know.
            StoreUnavailableError, StoreBusyError: try again.
        """
        if not self.tables:
            return
        retention = self.job.results.breaks.retention
        for snapshot in _pinned_snapshots(document, self.tables):
            try:
                with self.unit.begin(self.run.tenant_id) as tx:
                    Snapshots(self._account(tx)).pin(
                        snapshot.table_id,
                        self.run.run_id,
                        snapshot.snapshot_id,
                        until=tx.now + retention,
                    )
            except (StoreUnavailableError, StoreBusyError):
                raise
            except DatarecsError as error:
                log.warning("snapshot_not_pinned", code=error.code.name)

    def _table(self, tx: Transaction, index: int, source: Source) -> CataloguedTable | None:
        account = self._account(tx)
        try:
            table = _Lookup(account=account, tx=tx).table(source)
            if table is not None:
                return _known(account, source, table)
        except (StoreUnavailableError, StoreBusyError):
            raise
        except DatarecsError as error:
            if names_a_time(source):
                raise SourceNotPinnedError(index) from error
            # A run does not need the catalogue: it only says less about what it reads.
            log.warning("catalogue_not_read", code=error.code.name)
        if names_a_time(source):
            raise SourceNotPinnedError(index) from not_captured(source)
        return None

    def _account(self, tx: Transaction) -> CatalogueAccount:
        tenant = self.run.tenant_id
        return CatalogueAccount(
            tenant=tenant, pointers=tx.pointers, blobs=self.blobs.of(tenant), clock=self.clock
        )


def _pinned_snapshots(
    document: Mapping[str, object], tables: Mapping[str, CataloguedTable]
) -> list[CataloguedSnapshot]:
    """Of a child's report, which is not trusted."""
    by_source = document.get("by_source")
    if not isinstance(by_source, Mapping):
        raise BadFrameError("pins that are none")
    try:
        pins = from_document(Pins, {"by_source": stored_json(by_source)})
    except ValueError as wrong:
        raise BadFrameError("pins that are none") from wrong
    snapshots = []
    for source, pin in pins.by_source.items():
        if isinstance(pin, ExportedSnapshot | TopicOffsets):
            continue
        snapshot = pin.catalogued
        if snapshot is None:
            continue
        table = tables.get(source)
        if table is None or not table.has(snapshot):
            raise BadFrameError("a pin of a snapshot that the source does not have")
        snapshots.append(snapshot)
    return snapshots


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lookup:
    """The table that captures of a source's connection have written."""

    account: CatalogueAccount
    tx: Transaction

    def table(self, source: Source) -> Table | None:
        catalog = self._catalog(source.connection)
        if catalog is None:
            return None
        for namespace, name, entry in table_names(source):
            table = self._named(catalog, namespace, name)
            if table is not None and (entry is None or _is_at(table, entry)):
                return table
        return None

    def _catalog(self, connection: str | None) -> Catalog | None:
        """None also for a catalog of a deleted connection with the same name."""
        if connection is None:
            return None
        by_name = layout.catalog_by_name(self.account.tenant, connection)
        stored = Entities(self.account, Catalog).by_name(by_name)
        declared = self.tx.resources.get(Kind.CONNECTION, DEFAULT_NAMESPACE, connection)
        if stored is None or declared is None or stored.record.connector_ref != declared.uid:
            return None
        return stored.record

    def _named(self, catalog: Catalog, namespace: tuple[str, ...], name: str) -> Table | None:
        tenant = self.account.tenant
        path = layout.namespace_by_path(tenant, catalog.id, namespace)
        parent = Entities(self.account, Namespace).by_name(path)
        if parent is None:
            return None
        key = layout.table_by_name(tenant, catalog.id, parent.record.id, name)
        stored = Tables(self.account).by_name(key)
        return None if stored is None else stored.record


def _is_at(table: Table, entry: str) -> bool:
    return table.upstream is not None and is_entry(table.upstream.uri, entry)


def _known(account: CatalogueAccount, source: Source, table: Table) -> CataloguedTable:
    roots = TableRoots(account=account)
    entries = islice(roots.entries(roots.current(table.id).root), MOST_SNAPSHOTS)
    known = CataloguedTable(
        table_id=table.id,
        name=table.name,
        snapshots={str(one.snapshot_id): one.committed_at for one in entries},
    )
    return _as_of(account, source, known) if names_a_time(source) else known


def _as_of(account: CatalogueAccount, source: Source, known: CataloguedTable) -> CataloguedTable:
    """With the files of the newest snapshot that is not after the time of the source."""
    snapshot = Snapshots(account).as_of(known.table_id, moment_of(source, account.clock.now()))
    if snapshot is None:
        raise not_captured(source)
    files = _files(account, known.table_id, snapshot.snapshot_id)
    if files is None:
        raise files_not_captured(source, snapshot.snapshot_id)
    as_of = CataloguedSnapshot(
        table_id=known.table_id,
        snapshot_id=snapshot.snapshot_id,
        committed_at=snapshot.committed_at,
    )
    return CataloguedTable(
        table_id=known.table_id,
        name=known.name,
        snapshots=known.snapshots,
        as_of=as_of,
        files=files,
    )


def _files(
    account: CatalogueAccount, table_id: UUID, snapshot_id: int
) -> tuple[CataloguedFile, ...] | None:
    """The published files, or those of the plan of a capture that has not ended."""
    active = Generations(account).active(table_id, snapshot_id)
    if active is None:
        return PlannedFiles(account=account).get(table_id, snapshot_id)
    return tuple(
        CataloguedFile(path=one.path, size_bytes=one.size_bytes, etag=one.etag)
        for one in Generations(account).files(active)
    )
