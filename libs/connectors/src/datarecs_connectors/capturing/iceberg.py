"""Captures of Iceberg: the history from the metadata, files from manifests, figures of live rows.

Everything is read by the connector's own reader: the same plan, the same deletes, the same types. A
data file is read alone, with the delete files that apply to it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from pyiceberg.table import TableProperties
from pyiceberg.types import NestedField

from datarecs_application.ports.capturing import FileRequest
from datarecs_connectors.capturing.columns import FIELD_ID, counts_columns, too_many_columns
from datarecs_connectors.capturing.sidecars import SidecarWriter
from datarecs_connectors.capturing.statistics import StatisticsEngine, statistics_engine
from datarecs_connectors.errors import (
    CorruptSourceError,
    QueryFailedError,
    SnapshotLostError,
    SourceLimitError,
    SourceUnsupportedError,
)
from datarecs_connectors.iceberg.catalogs import Catalog, TableName
from datarecs_connectors.iceberg.columns import FileColumns
from datarecs_connectors.iceberg.deletes import DeadRows
from datarecs_connectors.iceberg.files import TableFiles
from datarecs_connectors.iceberg.history import (
    at_snapshot,
    known_of,
    partition_keys,
    partition_of,
    snapshots_of,
    table_columns,
)
from datarecs_connectors.iceberg.listing import listed
from datarecs_connectors.iceberg.planning import PlannedFile, planned
from datarecs_connectors.iceberg.reading import TableReader
from datarecs_connectors.iceberg.snapshots import FrozenTable, canonical_type
from datarecs_connectors.iceberg.views import view_of
from datarecs_core.captures.plan import chosen_columns
from datarecs_core.captures.request import CapturePolicy, CaptureScope, ObjectName, Output
from datarecs_core.captures.source_facts import (
    CapturedFile,
    CapturedTable,
    Completion,
    Sidecar,
    SourceFile,
    SourceObjects,
    SourceTable,
    SourceView,
)
from datarecs_core.catalog.records import ScalarStats, TableColumn
from datarecs_core.hashing import sha256_hex
from datarecs_core.jobs.types import CanonicalType

_FORMAT = "parquet"


@dataclass(slots=True, kw_only=True)
class IcebergCaptureSource:
    """Port CaptureSource over one catalog."""

    catalog: Catalog
    _opened: set[str] = field(default_factory=set)

    @property
    def opened_files(self) -> int:
        """Data files, without delete files, manifests and metadata."""
        return len(self._opened)

    def objects(self, scope: CaptureScope) -> SourceObjects:
        """Tables and views directly in the namespaces of the scope, or all, nested ones as well."""
        named = {*scope.tables, *((scope.view,) if scope.view else ())}
        namespaces = {each.namespace for each in named} or set(scope.namespaces)
        listing = listed(self.catalog, sorted(namespaces))
        tables, views = (
            sorted({_object_name(each) for each in names}, key=_order)
            for names in (listing.tables, listing.views)
        )
        return SourceObjects(
            tables=tuple(each for each in tables if not named or each in named),
            views=tuple(each for each in views if not named or each in named),
        )

    def table(self, name: ObjectName, *, known: Sequence[str]) -> SourceTable:
        """The table with the snapshots of its main branch that are not known."""
        try:
            return self._table(name, known)
        except SourceLimitError as limit:
            raise too_many_columns(str(_table_name(name)), limit) from limit

    def _table(self, name: ObjectName, known: Sequence[str]) -> SourceTable:
        current = self.catalog.current(_table_name(name))
        metadata = current.metadata
        return SourceTable(
            name=name,
            uri=metadata.location,
            format="iceberg",
            completion=Completion.FILE_GROUPS,
            columns=table_columns(self.catalog.source, metadata.schema()),
            column_ids=FIELD_ID,
            partition_keys=partition_keys(metadata),
            constraints=(),
            snapshots=snapshots_of(self.catalog.source, current, known),
            known_snapshots=known_of(metadata, known),
            comment=metadata.properties.get("comment"),
            properties=dict(metadata.properties),
        )

    def view(self, name: ObjectName) -> SourceView:
        return view_of(self.catalog, _table_name(name))

    def files(self, name: ObjectName, native_id: str) -> Sequence[SourceFile]:
        """Data files with the delete files that may apply to each; only manifests are read."""
        table = self._at(name, native_id)
        plan = planned(table, TableFiles(self.catalog.places))
        mapping = _mapping_of(table)
        return [_source_file(table, each, mapping) for each in plan]

    def capture_files(
        self, name: ObjectName, native_id: str, files: Sequence[SourceFile], request: FileRequest
    ) -> Iterator[CapturedFile]:
        """Figures of the live rows of each file."""
        table = self._at(name, native_id)
        reader = TableReader(table=table, files=TableFiles(self.catalog.places))
        plan = {each.file.file_path: each for each in planned(table, reader.files)}
        columns, mapping = _Columns.of(table, request), _mapping_of(table)
        with (
            statistics_engine() as engine,
            closing(reader.dead_rows(request.directory)) as dead,
        ):
            for file in files:
                each = plan.get(file.path)
                if each is None or _source_file(table, each, mapping).identity != file.identity:
                    raise self._changed(file, f"is not in snapshot {native_id} as it was planned")
                yield self._captured(_Task(reader, dead, engine, each), columns, file)

    def capture_table(self, name: ObjectName, policy: CapturePolicy) -> CapturedTable:
        del policy
        raise SourceUnsupportedError(
            self.catalog.source, f"{str(_table_name(name))!r} is captured file by file"
        )

    def close(self) -> None:
        self.catalog.places.close()

    def _at(self, name: ObjectName, native_id: str) -> FrozenTable:
        try:
            metadata = self.catalog.load(_table_name(name))
        except QueryFailedError as cause:
            raise SnapshotLostError(
                self.catalog.source,
                f"the table {str(_table_name(name))!r} was dropped, or became a view, since its "
                "capture was planned",
            ) from cause
        return at_snapshot(self.catalog.source, metadata, native_id)

    def _captured(self, task: "_Task", columns: "_Columns", file: SourceFile) -> CapturedFile:
        self._opened.add(file.path)
        size = len(task.reader.files.new_input(file.path))
        if size != file.size_bytes:
            raise self._changed(file, f"has {size} bytes, and {file.size_bytes} in its manifest")
        sidecar = columns.index(task, file) if columns.is_indexed else None
        if columns.readable:
            rows, stats, is_complete = columns.figures(task)
        else:
            rows, stats, is_complete = task.live_rows(), {}, True
        return CapturedFile(
            path=file.path,
            rows=rows,
            stored_rows=task.planned.file.record_count,
            columns=columns.ordered(stats, rows),
            is_complete=is_complete
            and not columns.has_unreadable
            and columns.is_indexed is (sidecar is not None),
            sidecar=sidecar,
        )

    def _changed(self, file: SourceFile, how: str) -> SnapshotLostError:
        return SnapshotLostError(
            self.catalog.source, f"{file.path.rpartition('/')[2]} {how}; plan the capture again"
        )


@dataclass(frozen=True, slots=True)
class _Task:
    """One data file and what reads it."""

    reader: TableReader
    dead: DeadRows
    engine: StatisticsEngine
    planned: PlannedFile

    def live_rows(self) -> int:
        """From the footer and the deletes, without a read of rows."""
        file = self.planned.file
        with self.reader.opened(file.file_path) as opened:
            rows = opened.metadata.num_rows
        if rows != file.record_count:
            raise CorruptSourceError(
                self.reader.table.source,
                f"{file.file_path.rpartition('/')[2]} has {rows} rows, but {file.record_count} in "
                "its manifest",
            )
        dead = self.dead.of(self.planned)
        return int(rows - ((dead >= 0) & (dead < rows)).sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """The captured columns of a table at a snapshot."""

    chosen: Sequence[TableColumn]
    table: FrozenTable
    request: FileRequest

    @classmethod
    def of(cls, table: FrozenTable, request: FileRequest) -> "_Columns":
        chosen = chosen_columns(request.policy, request.columns)
        known = {each.field_id for each in table.schema.fields}
        for column in chosen:
            if column.field_id not in known:
                raise QueryFailedError(
                    table.source,
                    f"the snapshot has no column {column.name!r} (id {column.field_id}); plan the "
                    "capture again",
                )
        return cls(chosen=chosen, table=table, request=request)

    @property
    def is_indexed(self) -> bool:
        return Output.PARQUET_PAGE_INDEX in self.request.policy.outputs

    @property
    def counted(self) -> Sequence[TableColumn]:
        return self.chosen if counts_columns(self.request.policy) else ()

    @property
    def readable(self) -> Sequence[TableColumn]:
        return [column for column in self.counted if self._kind(column) is not None]

    @property
    def has_unreadable(self) -> bool:
        """Nested columns, and types of later versions of the format."""
        return len(self.readable) < len(self.counted)

    def index(self, task: _Task, file: SourceFile) -> Sidecar | None:
        """The index of the file, with the names that its columns have in the file."""
        with task.reader.opened(file.path) as opened:
            columns = FileColumns.of(
                self.table.source, self.table.metadata, task.planned.file, opened.schema_arrow
            )
            names = columns.names([self._field(column) for column in self.chosen])
            return SidecarWriter(directory=self.request.directory).write(file, opened, set(names))

    def figures(self, task: _Task) -> tuple[int, Mapping[int, ScalarStats], bool]:
        """Live rows, the figures of readable columns by field id, and whether all are there."""
        fields = [self._field(column) for column in self.readable]
        typed = [(column.name, self._kind(column)) for column in self.readable]
        rows = task.reader.read(task.planned, fields, task.dead.of(task.planned))
        figures = task.engine.of_file(typed, rows)
        ids = [each.field_id for each in fields]
        return figures.rows, dict(zip(ids, figures.columns, strict=True)), figures.is_complete

    def ordered(self, stats: Mapping[int, ScalarStats], rows: int) -> tuple[ScalarStats, ...]:
        """One entry per chosen column; an unreadable one has its rows alone."""
        return tuple(
            stats.get(column.field_id) or ScalarStats(name=column.name, type=column.type, rows=rows)
            for column in self.counted
        )

    def _field(self, column: TableColumn) -> NestedField:
        return next(each for each in self.table.schema.fields if each.field_id == column.field_id)

    def _kind(self, column: TableColumn) -> CanonicalType | None:
        return canonical_type(self._field(column).field_type)


def _mapping_of(table: FrozenTable) -> str:
    """Changes with the columns that a file without field ids has; empty without a name mapping."""
    text = table.metadata.properties.get(TableProperties.DEFAULT_NAME_MAPPING)
    return "" if text is None else f"-{sha256_hex(text.encode())[:16]}"


def _source_file(table: FrozenTable, each: PlannedFile, mapping: str) -> SourceFile:
    return SourceFile(
        path=each.file.file_path,
        size_bytes=each.file.file_size_in_bytes,
        etag=f"{each.sequence_number}{mapping}",
        format=_FORMAT,
        partition=partition_of(table, each.file),
        sequence_number=each.sequence_number,
        deletes=each.deletes,
    )


def _table_name(name: ObjectName) -> TableName:
    return TableName(name.namespace, name.name)


def _object_name(name: TableName) -> ObjectName:
    return ObjectName(namespace=name.namespace, name=name.name)


def _order(name: ObjectName) -> tuple[tuple[str, ...], str]:
    return name.namespace, name.name
