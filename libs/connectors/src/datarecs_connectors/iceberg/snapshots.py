"""Which snapshot and schema of a table are read, and the canonical types of its columns.

A snapshot, a tag or a time is read with the schema of that time; a branch with the table's current
schema, as in every engine. Ids decide, never names: a renamed column is the same column.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot as TableVersion
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from datarecs_connectors.errors import (
    QueryFailedError,
    SnapshotLostError,
    SourceLimitError,
    SourceUnsupportedError,
)
from datarecs_connectors.iceberg.catalogs import Catalog, TableName
from datarecs_connectors.iceberg.sink_commits import newest_commit
from datarecs_connectors.sinking.columns import field_positions, mapped_fields
from datarecs_core.comparison.planning.scan import SourceColumn, TableSnapshot
from datarecs_core.comparison.values.moments import as_of_fault, micros_of
from datarecs_core.jobs import types
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.types import CanonicalType, TypeKind
from datarecs_core.sink.definition import MetadataColumns

_PLACE = frozenset(MetadataColumns.ALL.columns)
MAX_COLUMNS = 2_000
MAIN = "main"
_TYPES: dict[type[IcebergType], CanonicalType] = {
    BooleanType: types.BOOL,
    IntegerType: types.INT,
    LongType: types.INT,
    FloatType: types.FLOAT32,
    DoubleType: types.FLOAT64,
    StringType: types.TEXT,
    BinaryType: types.BINARY,
    FixedType: types.BINARY,
    UUIDType: types.UUID,
    DateType: types.DATE,
    TimeType: CanonicalType(kind=TypeKind.TIME),
    TimestampType: CanonicalType(kind=TypeKind.LOCAL_TIMESTAMP),
    TimestamptzType: CanonicalType(kind=TypeKind.INSTANT),
    TimestampNanoType: CanonicalType(kind=TypeKind.LOCAL_TIMESTAMP, precision=9),
    TimestamptzNanoType: CanonicalType(kind=TypeKind.INSTANT, precision=9),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenTable:
    """A table's metadata at a pin: its current schema and snapshot are the pinned ones."""

    source: str
    metadata: TableMetadata
    snapshot: TableVersion | None
    """None for a table without rows."""

    @property
    def schema(self) -> Schema:
        return self.metadata.schema()

    def columns(self) -> tuple[SourceColumn, ...]:
        """Columns in the table's order, with nested columns and their types.

        Raises SourceLimitError, and SourceUnsupportedError if no column can be compared.
        """
        fields = self.schema.fields
        if len(fields) > MAX_COLUMNS:
            raise SourceLimitError(self.source, f"more than {MAX_COLUMNS} columns")
        if len(self.undelivered()) == len(fields):
            raise SourceUnsupportedError(self.source, "none of its columns can be compared yet")
        return tuple(
            SourceColumn(
                name=field.name,
                type=kind,
                native_type=str(field.field_type),
                nullable=field.optional,
            )
            for field in fields
            if (kind := column_type(field.field_type)) is not None
        )

    def undelivered(self) -> tuple[tuple[str, str], ...]:
        """Columns that are not read, and the names of their types in the table."""
        return tuple(
            (field.name, str(field.field_type))
            for field in self.schema.fields
            if canonical_type(field.field_type) is None
        )

    def record_fields(self) -> tuple[tuple[str, str], ...]:
        """Fields of records with the column that a sink writes them to."""
        fields = [field for field in self.schema.fields if field.name not in _PLACE]
        try:
            mapping = self.metadata.name_mapping()
        except ValueError:  # a sink stops at it, and readers of files with ids need none
            mapping = None
        positions = field_positions(fields, mapped_fields(mapping))
        return tuple((name, fields[position].name) for name, position in positions.items())

    def identifier(self) -> tuple[str, ...]:
        """Its identifier fields of the top level, by field id."""
        ids = set(self.schema.identifier_field_ids)
        fields = sorted(self.schema.fields, key=lambda field: field.field_id)
        return tuple(field.name for field in fields if field.field_id in ids)


def canonical_type(kind: IcebergType) -> CanonicalType | None:
    """None for nested types and for types of later versions of the format."""
    if isinstance(kind, DecimalType):
        return types.decimal(kind.precision, kind.scale)
    return _TYPES.get(type(kind))


def column_type(kind: IcebergType) -> CanonicalType | None:
    """Types, also of nested columns: by names as in Parquet files, never by ids."""
    match kind:
        case StructType():
            nested, parts = TypeKind.STRUCT, [(each.name, each.field_type) for each in kind.fields]
        case ListType():
            nested, parts = TypeKind.ARRAY, [("element", kind.element_type)]
        case MapType():
            nested, parts = TypeKind.MAP, [("key", kind.key_type), ("value", kind.value_type)]
        case _:
            return canonical_type(kind)
    members = [(name, made) for name, part in parts if (made := column_type(part)) is not None]
    return (
        CanonicalType(kind=nested, members=tuple(members)) if len(members) == len(parts) else None
    )


def pinned(
    source: Source, catalog: Catalog, metadata: TableMetadata, now: Callable[[], datetime]
) -> TableSnapshot:
    """The pin of the snapshot that the source declares.

    Raises:
        QueryFailedError: no such snapshot, branch or tag, or the table is newer than `as_of`,
            which is no time or still to come.
    """
    taken_at = now()
    _check_as_of(source, taken_at)
    snapshot, schema_id = _wanted(source, metadata)
    return TableSnapshot(
        catalog=catalog.label,
        table=str(TableName.of(source.name, source.relation or "")),
        table_uuid=str(metadata.table_uuid),
        snapshot_id=None if snapshot is None else snapshot.snapshot_id,
        schema_id=schema_id,
        taken_at=taken_at,
        sink=None if snapshot is None else newest_commit(metadata, snapshot),
    )


def frozen(source: str, metadata: TableMetadata, pin: TableSnapshot) -> FrozenTable:
    """The table as it was pinned, from metadata of any later time.

    Raises SnapshotLostError when the table was replaced, or the snapshot has expired.
    """
    if str(metadata.table_uuid) != pin.table_uuid:
        raise SnapshotLostError(
            source, f"the table {pin.table!r} was dropped and created again after it was pinned"
        )
    snapshot = None if pin.snapshot_id is None else metadata.snapshot_by_id(pin.snapshot_id)
    if snapshot is None and pin.snapshot_id is not None:
        raise SnapshotLostError(
            source,
            f"snapshot {pin.snapshot_id} of {pin.table!r} has expired since it was pinned; run "
            "again, and keep snapshots for longer than a run takes",
        )
    if metadata.schema_by_id(pin.schema_id) is None:
        raise SnapshotLostError(source, f"schema {pin.schema_id} of {pin.table!r} is gone")
    changed = {"current_schema_id": pin.schema_id, "current_snapshot_id": pin.snapshot_id}
    return FrozenTable(
        source=source, metadata=metadata.model_copy(update=changed), snapshot=snapshot
    )


def _wanted(source: Source, metadata: TableMetadata) -> tuple[TableVersion | None, int]:
    """The declared snapshot, and the schema to read it with."""
    request = source.snapshot
    if sum(one is not None for one in (request.snapshot_id, request.ref, request.as_of)) > 1:
        raise QueryFailedError(source.name, "declare only one of snapshot_id, ref and as_of")
    if request.snapshot_id is not None:
        version = metadata.snapshot_by_id(request.snapshot_id)
        return _at(source, version, metadata, f"snapshot {request.snapshot_id}")
    if request.as_of is not None:
        return _at(
            source,
            _as_of(request.as_of, metadata),
            metadata,
            f"snapshot at {request.as_of}",
        )
    ref = request.ref or MAIN
    if ref == MAIN and metadata.current_snapshot() is None:
        return None, metadata.current_schema_id
    known = metadata.refs.get(ref)
    snapshot = None if known is None else metadata.snapshot_by_id(known.snapshot_id)
    if known is not None and known.snapshot_ref_type is SnapshotRefType.BRANCH:
        return _at(source, snapshot, metadata, f"branch {ref!r}")[0], metadata.current_schema_id
    return _at(source, snapshot, metadata, f"branch or tag {ref!r}")


def _at(
    source: Source, snapshot: TableVersion | None, metadata: TableMetadata, what: str
) -> tuple[TableVersion, int]:
    if snapshot is None:
        raise QueryFailedError(
            source.name, f"the table {source.relation!r} has no {what}, or no longer has it"
        )
    schema_id = snapshot.schema_id
    return snapshot, metadata.current_schema_id if schema_id is None else schema_id


def _check_as_of(source: Source, now: datetime) -> None:
    written = source.snapshot.as_of
    fault = None if written is None else as_of_fault(written, now)
    if fault is not None:
        raise QueryFailedError(source.name, f"snapshot.as_of {fault}")


def _as_of(written: str, metadata: TableMetadata) -> TableVersion | None:
    """The snapshot that was current at a checked time, by the table's snapshot log."""
    milliseconds = (micros_of(written) or 0) // 1000
    earlier = [one for one in metadata.snapshot_log if one.timestamp_ms <= milliseconds]
    return metadata.snapshot_by_id(earlier[-1].snapshot_id) if earlier else None
