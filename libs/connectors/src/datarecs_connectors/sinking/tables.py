"""The tables of one sink: found, created, written and committed through its catalogs."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from threading import Lock
from uuid import UUID

from pyiceberg.table.metadata import TableMetadata

from datarecs_application.ports.sinking import (
    CommitRequest,
    SinkRecord,
    TableAcceptance,
    TableStanding,
)
from datarecs_application.stopping import Stopping
from datarecs_connectors.iceberg.catalogs import Catalog, CurrentTable, TableName
from datarecs_connectors.sinking.catalog_changes import WritableCatalog
from datarecs_connectors.sinking.change_writer import ChangeTableWriter
from datarecs_connectors.sinking.commit_turns import CommitTurns
from datarecs_connectors.sinking.committing import TableCommitter
from datarecs_connectors.sinking.creating import new_table
from datarecs_connectors.sinking.files import SinkFiles
from datarecs_connectors.sinking.rest_catalogs import RestTables
from datarecs_connectors.sinking.schema_changes import SchemaChanger
from datarecs_connectors.sinking.sql_catalogs import SqlTables
from datarecs_connectors.sinking.watermarks import standing_of
from datarecs_connectors.sinking.writer import IcebergTableWriter, check_writable
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.resources.connection import HadoopCatalog, RestCatalog, SqlCatalog
from datarecs_core.sink.checkpoint import Lineage, TableCommit, replaced_table
from datarecs_core.sink.control import FileEntry
from datarecs_core.sink.definition import Evolution, SinkMode, SinkTable, SinkTarget

_NOT_OF_NAMES = re.compile(r"[^A-Za-z0-9.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSinkTables:
    """Port SinkTables over the catalogs of a sink's connections."""

    sink: SinkTable
    catalogs: Mapping[str, Catalog]
    """By the name of the connection."""
    task: str
    """Of the process, as snapshots and names of files have it."""
    now: Callable[[], datetime]
    stop: Stopping
    _search: Lock = field(default_factory=Lock, init=False)
    _turns: CommitTurns = field(default_factory=CommitTurns, init=False)

    def writer(
        self, target: SinkTarget, *, known: UUID | None = None
    ) -> IcebergTableWriter | ChangeTableWriter:
        catalog = self._tables(target)
        current = catalog.find(_name(target))
        _check_known(target, current, known)
        if current is not None:
            self._turns.note(target, current.metadata)
            check_writable(str(target), current.metadata, self._catalog(target).places)
        elif not self.sink.auto_create:
            raise _lost(target)
        if self.sink.mode is not SinkMode.APPEND:
            return self._change_writer(target, catalog, known)
        return IcebergTableWriter(
            target=target,
            load=lambda records: self._loaded(target, catalog, records, known),
            places=self._catalog(target).places,
            metadata_columns=self.sink.metadata_columns,
            prefix=_NOT_OF_NAMES.sub("-", self.task) or "sink",
            ignores_case=self.sink.case_insensitive,
            changer=self._changer(target, catalog),
        )

    def _change_writer(
        self, target: SinkTarget, catalog: WritableCatalog, known: UUID | None
    ) -> ChangeTableWriter:
        return ChangeTableWriter(
            target=target,
            find=lambda: self._existing(target, catalog, known),
            load=lambda records: self._loaded(target, catalog, records, known),
            places=self._catalog(target).places,
            metadata_columns=self.sink.metadata_columns,
            id_columns=self.sink.id_columns,
            prefix=_NOT_OF_NAMES.sub("-", self.task) or "sink",
        )

    def commit(self, target: SinkTarget, request: CommitRequest) -> Sequence[TableCommit]:
        with self._turns.of(target):
            return self._committer(target).commit(_name(target), request)

    def standing(self, target: SinkTarget, lineage: Lineage) -> TableStanding | None:
        current = self._tables(target).find(_name(target))
        return None if current is None else standing_of(current.metadata, lineage)

    def accept(self, target: SinkTarget, acceptance: TableAcceptance) -> None:
        self._committer(target).accept(_name(target), acceptance)

    def missing_file(self, target: SinkTarget, files: Sequence[FileEntry]) -> str | None:
        opened = SinkFiles(self._catalog(target).places)
        missing = (one.path for one in files if not opened.new_input(one.path).exists())
        return next(missing, None)

    def _committer(self, target: SinkTarget) -> TableCommitter:
        return TableCommitter(
            catalog=self._tables(target),
            places=self._catalog(target).places,
            task=self.task,
            now=self.now,
            stop=self.stop,
            search=self._search,
            note=partial(self._turns.note, target),
        )

    def close(self) -> None:
        for catalog in self.catalogs.values():
            catalog.places.close()

    def _changer(self, target: SinkTarget, catalog: WritableCatalog) -> SchemaChanger | None:
        if self.sink.evolve is Evolution.NONE:
            return None
        return SchemaChanger(
            catalog=catalog,
            name=_name(target),
            evolution=self.sink.evolve,
            metadata_columns=self.sink.metadata_columns,
            ignores_case=self.sink.case_insensitive,
        )

    def _loaded(
        self,
        target: SinkTarget,
        catalog: WritableCatalog,
        records: Sequence[SinkRecord],
        known: UUID | None,
    ) -> TableMetadata:
        metadata = self._existing(target, catalog, known)
        if metadata is None:
            catalog.create(_name(target), new_table(self.sink, records))
            metadata = self._existing(target, catalog, known)
        if metadata is None:
            raise _lost(target)
        return metadata

    def _existing(
        self, target: SinkTarget, catalog: WritableCatalog, known: UUID | None
    ) -> TableMetadata | None:
        """None: a table that is created at the first row."""
        current = catalog.find(_name(target))
        _check_known(target, current, known)
        if current is not None:
            self._turns.note(target, current.metadata)
            check_writable(str(target), current.metadata, self._catalog(target).places)
            return current.metadata
        if not self.sink.auto_create:
            raise _lost(target)
        return None

    def _catalog(self, target: SinkTarget) -> Catalog:
        catalog = self.catalogs.get(target.catalog)
        if catalog is None:
            raise SinkError(
                SinkCode.CATALOG_UNSUPPORTED,
                f"table {target} names the catalog {target.catalog!r}, which is no connection of "
                "type iceberg of the sink",
            )
        return catalog

    def _tables(self, target: SinkTarget) -> WritableCatalog:
        catalog = self._catalog(target)
        match catalog.config.catalog:
            case SqlCatalog() as config:
                return SqlTables(catalog=catalog, config=config)
            case RestCatalog() as config:
                return RestTables(catalog=catalog, config=config)
            case HadoopCatalog():
                raise SinkError(
                    SinkCode.CATALOG_UNSUPPORTED,
                    f"table {target} is in a hadoop catalog, which cannot refuse a commit that is "
                    "based on an old state; use a rest or sql catalog",
                )


def _name(target: SinkTarget) -> TableName:
    return TableName(target.namespace, target.name)


def _check_known(target: SinkTarget, current: CurrentTable | None, known: UUID | None) -> None:
    """A table that holds commits is neither created again nor exchanged for another one."""
    if known is not None and (current is None or current.metadata.table_uuid != known):
        raise replaced_table(str(target))


def _lost(target: SinkTarget) -> SinkError:
    return SinkError(
        SinkCode.TABLE_LOST,
        f"table {target} does not exist in the catalog {target.catalog!r}; create it, or declare "
        "auto_create",
    )
