"""The history of a table as captures record it: snapshots, columns and partitions as texts.

Only snapshots of the table's main branch are history: a snapshot of another branch, or one that was
rolled back, was not the state of the table, however new it is.
"""

from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta

from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot as TableVersion
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.types import NestedField

from datarecs_connectors.errors import CorruptSourceError, SnapshotLostError, SourceLimitError
from datarecs_connectors.iceberg.catalogs import CurrentTable
from datarecs_connectors.iceberg.snapshots import MAX_COLUMNS, FrozenTable, column_type
from datarecs_core.captures.source_facts import SourceSnapshot
from datarecs_core.catalog.records import TableColumn

MAX_SNAPSHOTS = 10_000
MAX_SNAPSHOT_COLUMNS = 1_000_000
"""Of all listed snapshots together. The newest ones are listed, as many as the limits allow; older
ones follow when these are known."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def table_columns(source: str, schema: Schema) -> tuple[TableColumn, ...]:
    """Every top-level column; a type without a canonical one has its name in the table.

    Raises SourceLimitError.
    """
    if len(schema.fields) > MAX_COLUMNS:
        raise SourceLimitError(source, f"more than {MAX_COLUMNS} columns")
    return tuple(_column(field) for field in schema.fields)


def _column(field: NestedField) -> TableColumn:
    default = field.write_default
    return TableColumn(
        field_id=field.field_id,
        name=field.name,
        type=str(column_type(field.field_type) or field.field_type),
        nullable=field.optional,
        default=None if default is None else str(default),
        comment=field.doc,
    )


def snapshots_of(
    source: str, current: CurrentTable, known: Collection[str]
) -> tuple[SourceSnapshot, ...]:
    """The newest snapshots of the main branch that are not known, the last commit first."""
    lineage = sorted(_lineage(current.metadata), key=_commit_order, reverse=True)
    unknown = [each for each in lineage if str(each.snapshot_id) not in known]
    made: list[SourceSnapshot] = []
    columns = 0
    for version in unknown[:MAX_SNAPSHOTS]:
        snapshot = _snapshot(source, current, version)
        columns += len(snapshot.columns)
        if made and columns > MAX_SNAPSHOT_COLUMNS:
            break
        made.append(snapshot)
    return tuple(made)


def known_of(metadata: TableMetadata, known: Collection[str]) -> tuple[str, ...]:
    """The known snapshots that the main branch still has, the last commit first."""
    return tuple(
        str(each.snapshot_id)
        for each in sorted(_lineage(metadata), key=_commit_order, reverse=True)
        if str(each.snapshot_id) in known
    )


def _lineage(metadata: TableMetadata) -> Iterator[TableVersion]:
    """The current snapshot and its ancestors; damaged metadata may name one of them twice."""
    by_id = {version.snapshot_id: version for version in metadata.snapshots}
    following = metadata.current_snapshot_id
    while following is not None and following in by_id:
        version = by_id.pop(following)
        yield version
        following = version.parent_snapshot_id


def _commit_order(version: TableVersion) -> tuple[int, int]:
    return version.timestamp_ms, version.sequence_number or 0


def _snapshot(source: str, current: CurrentTable, version: TableVersion) -> SourceSnapshot:
    table = _frozen(source, current.metadata, version)
    parent, summary = version.parent_snapshot_id, version.summary
    try:
        committed_at = _EPOCH + timedelta(milliseconds=version.timestamp_ms)
    except OverflowError as cause:
        raise CorruptSourceError(
            source, f"snapshot {version.snapshot_id} has a time outside the years 1 to 9999"
        ) from cause
    return SourceSnapshot(
        native_id=str(version.snapshot_id),
        committed_at=committed_at,
        sequence_number=version.sequence_number,
        parent_native_id=None if parent is None else str(parent),
        schema_id=table.metadata.current_schema_id,
        columns=table_columns(source, table.schema),
        partition_spec=partition_text(current.metadata),
        manifest_list=version.manifest_list,
        metadata_location=current.location,
        summary={}
        if summary is None
        else {"operation": summary.operation.value, **summary.additional_properties},
    )


def at_snapshot(source: str, metadata: TableMetadata, native_id: str) -> FrozenTable:
    """The table at a snapshot of any branch, with the schema of that time.

    Raises SnapshotLostError if the table no longer has it.
    """
    for version in metadata.snapshots:
        if str(version.snapshot_id) == native_id:
            return _frozen(source, metadata, version)
    raise SnapshotLostError(
        source,
        f"snapshot {native_id} has expired, or the table was created again; capture the table's "
        "current snapshots",
    )


def _frozen(source: str, metadata: TableMetadata, version: TableVersion) -> FrozenTable:
    schema_id = metadata.current_schema_id if version.schema_id is None else version.schema_id
    if metadata.schema_by_id(schema_id) is None:
        raise SnapshotLostError(
            source, f"schema {schema_id} of snapshot {version.snapshot_id} is gone"
        )
    changed = {"current_schema_id": schema_id, "current_snapshot_id": version.snapshot_id}
    return FrozenTable(
        source=source, metadata=metadata.model_copy(update=changed), snapshot=version
    )


def partition_keys(metadata: TableMetadata) -> tuple[str, ...]:
    """The columns of the current partitions."""
    schema = metadata.schema()
    names = (schema.find_column_name(field.source_id) for field in _parts(metadata.spec()))
    return tuple(dict.fromkeys(name for name in names if name is not None))


def partition_text(metadata: TableMetadata) -> str | None:
    """The current partitions, such as `region, day(at)`; None without any."""
    schema = metadata.schema()
    texts = []
    for field in _parts(metadata.spec()):
        name = schema.find_column_name(field.source_id) or field.name
        plain = isinstance(field.transform, IdentityTransform)
        texts.append(name if plain else f"{field.transform}({name})")
    return ", ".join(texts) or None


def _parts(spec: PartitionSpec) -> list[PartitionField]:
    return [field for field in spec.fields if not isinstance(field.transform, VoidTransform)]


def partition_of(table: FrozenTable, file: DataFile) -> str | None:
    """The values of a file's partition, such as `region=eu/at_day=2026-01-31`; None without any."""
    spec = table.metadata.specs()[file.spec_id]
    if spec.is_unpartitioned():
        return None
    try:
        return spec.partition_to_path(file.partition, table.schema)
    except (ValueError, TypeError, KeyError, OverflowError):
        # A column of an old partition may be gone: the values themselves are still known.
        return "/".join(
            f"{field.name}={file.partition[at]}" for at, field in enumerate(spec.fields)
        )
