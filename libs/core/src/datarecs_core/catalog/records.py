"""The records of the catalogue: what is stored, immutable, under the hash of its bytes.

A field is only ever appended, with a default, and raises the version of its record; see
`catalog.protobuf`. Source: spec catalogue-storage 6.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar
from uuid import UUID

from datarecs_core.catalog.protobuf import Record, decode, kind_of
from datarecs_core.catalog.publication import Captured
from datarecs_core.documents import PACKED
from datarecs_core.errors.catalogue import UnsupportedRecordError
from datarecs_core.values import ResourceUid, TenantId


class AccountState(StrEnum):
    ACTIVE = "ACTIVE"
    DELETING = "DELETING"


class ConnectorState(StrEnum):
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    DELETING = "DELETING"


class ConstraintKind(StrEnum):
    PRIMARY_KEY = "PRIMARY_KEY"
    FOREIGN_KEY = "FOREIGN_KEY"
    UNIQUE = "UNIQUE"
    CHECK = "CHECK"
    NOT_NULL = "NOT_NULL"


class Producer(StrEnum):
    """Where statistics come from; only ENGINE_COMPUTED is exact."""

    SOURCE_NATIVE = "SOURCE_NATIVE"
    UPSTREAM_METADATA_DERIVED = "UPSTREAM_METADATA_DERIVED"
    ENGINE_COMPUTED = "ENGINE_COMPUTED"


class FileContent(StrEnum):
    DATA = "DATA"
    POSITION_DELETES = "POSITION_DELETES"
    EQUALITY_DELETES = "EQUALITY_DELETES"


class Completeness(StrEnum):
    COMPLETE = "COMPLETE"
    PARTIAL = "PARTIAL"
    UNAVAILABLE = "UNAVAILABLE"


class IndexState(StrEnum):
    """Whether the index of a file can be read."""

    READY = "READY"
    FAILED = "FAILED"
    """The file has nothing that can be indexed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account(Record):
    """A tenant, as the parent of its catalogs."""

    kind: ClassVar = "Account"
    id: TenantId
    name: str
    created_at: datetime
    state: AccountState = AccountState.ACTIVE
    description: str | None = None
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog(Record):
    kind: ClassVar = "Catalog"
    id: UUID
    name: str
    created_at: datetime
    updated_at: datetime
    description: str | None = None
    connector_ref: UUID | None = None
    policy_ref: str | None = None
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace(Record):
    kind: ClassVar = "Namespace"
    id: UUID
    catalog_id: UUID
    path: tuple[str, ...]
    parent_id: UUID | None = None
    """The namespace of the path without its last part; None if the path has one part."""
    created_at: datetime
    updated_at: datetime
    description: str | None = None
    policy_ref: str | None = None
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    field_id: int
    name: str
    type: str
    """Canonical type."""
    nullable: bool
    default: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """Where a table comes from."""

    connector_id: UUID
    uri: str
    namespace: tuple[str, ...]
    name: str
    format: str
    partition_keys: tuple[str, ...]
    column_ids: str
    """FIELD_ID or PATH_ORDINAL: how field ids were assigned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Record):
    kind: ClassVar = "Table"
    id: UUID
    catalog_id: UUID
    namespace_id: UUID
    name: str
    created_at: datetime
    updated_at: datetime
    description: str | None = None
    columns: tuple[TableColumn, ...]
    upstream: Upstream | None = None
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewDefinition:
    sql: str
    dialect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View(Record):
    kind: ClassVar = "View"
    id: UUID
    catalog_id: UUID
    namespace_id: UUID
    name: str
    created_at: datetime
    updated_at: datetime
    description: str | None = None
    definitions: tuple[ViewDefinition, ...]
    base_relations: tuple[str, ...]
    search_path: tuple[str, ...]
    columns: tuple[TableColumn, ...]
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector(Record):
    kind: ClassVar = "Connector"
    id: UUID
    connection_uid: ResourceUid
    name: str
    source_kind: str
    source_selector: str | None = None
    destination_ids: tuple[UUID, ...]
    policy: str | None = None
    state: ConnectorState = ConnectorState.ACTIVE
    secret_refs: tuple[str, ...]
    """References, never secrets."""
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(Record):
    kind: ClassVar = "Snapshot"
    table_id: UUID
    snapshot_id: int
    native_id: str
    """The id in the source: the same id with another native one is a conflict."""
    committed_at: datetime
    ingested_at: datetime
    parent_id: int | None = None
    sequence_number: int | None = None
    schema_id: int | None = None
    columns: tuple[TableColumn, ...]
    partition_spec: str | None = None
    manifest_list: str | None = None
    metadata_location: str | None = None
    summary: Mapping[str, str]

    def entry(self, blob_key: str) -> "ManifestEntry":
        """Its entry in a page of a root."""
        return ManifestEntry(
            snapshot_id=self.snapshot_id,
            committed_at=self.committed_at,
            sequence_number=self.sequence_number,
            blob_key=blob_key,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    type: ConstraintKind
    name: str | None = None
    columns: tuple[str, ...]
    """In order; a constraint of a column names it here."""
    enforced: bool
    expression: str | None = None
    referenced_table: str | None = None
    referenced_columns: tuple[str, ...]
    match: str | None = None
    on_update: str | None = None
    on_delete: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotConstraints(Record):
    """The constraints of a table at a snapshot; those of columns as well."""

    kind: ClassVar = "SnapshotConstraints"
    table_id: UUID
    snapshot_id: int
    constraints: tuple[Constraint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarStats:
    """Figures of one column or expression; numbers and bounds as canonical texts."""

    name: str
    type: str
    rows: int
    nulls: int | None = None
    nans: int | None = None
    ndv: str | None = None
    """Number of different values."""
    ndv_method: str | None = None
    """`exact`, or how the number was estimated."""
    min: str | None = None
    max: str | None = None
    average_width: str | None = None
    """Bytes of a value that is not NULL."""
    sketch: bytes | None = field(default=None, metadata=PACKED)
    """Of `captures.sketches`: what `ndv` of a union needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetStats(Record):
    """Statistics of a table, a column or an expression at a snapshot."""

    kind: ClassVar = "TargetStats"
    table_id: UUID
    snapshot_id: int
    target_id: str
    producer: Producer
    completeness: Completeness
    captured_at: datetime
    rows: int | None = None
    size_bytes: int | None = None
    files: int | None = None
    """Data files."""
    scalar: ScalarStats | None = None
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStats(Record):
    """Statistics of one data file of a snapshot."""

    kind: ClassVar = "FileStats"
    table_id: UUID
    snapshot_id: int
    path: str
    format: str
    producer: Producer
    completeness: Completeness
    captured_at: datetime
    rows: int
    """Without deleted ones."""
    size_bytes: int
    columns: tuple[ScalarStats, ...]
    etag: str
    content: FileContent = FileContent.DATA
    stored_rows: int
    """In the file."""
    partition: str | None = None
    sequence_number: int | None = None
    deletes: tuple[str, ...]
    """Paths of the files of deletes that were applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """A snapshot in a page of a root."""

    snapshot_id: int
    committed_at: datetime
    sequence_number: int | None = None
    blob_key: str

    @property
    def order(self) -> tuple[datetime, int, int]:
        """The newest one is the greatest."""
        return (self.committed_at, self.sequence_number or 0, self.snapshot_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotManifest(Record):
    """A page of the snapshots of a root, the last ingested first."""

    kind: ClassVar = "SnapshotManifest"
    entries: tuple[ManifestEntry, ...]
    older: str | None = None
    """Blob of the page with earlier entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRoot(Record):
    """The whole state of a table: who pins a root reads the same table for ever."""

    kind: ClassVar = "TableRoot"
    table_id: UUID
    root_version: int
    table_blob: str
    current_snapshot_id: int | None = None
    manifest: str | None = None
    """Blob of the newest page; None without snapshots."""
    snapshot_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTarget:
    """A target of a publication and the blob of its statistics."""

    target_id: str
    blob_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsManifest(Record):
    """What a generation of statistics contained when it was published."""

    kind: ClassVar = "StatsManifest"
    table_id: UUID
    snapshot_id: int
    generation: str
    publication_sha: str
    targets: tuple[PublishedTarget, ...]
    """Sorted by pointer."""
    files: int
    files_sha256: str
    """Of the names of the pointers and their blobs, in byte order."""
    captured: Captured


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexArtifact(Record):
    """The index of one data file: a Parquet file beside the catalogue."""

    kind: ClassVar = "IndexArtifact"
    table_id: UUID
    snapshot_id: int
    target_id: str
    path: str
    """Of the data file."""
    source_etag: str
    """Of the data file when it was read."""
    state: IndexState
    format: str = "parquet"
    format_version: int = 1
    blob_key: str | None = None
    """Of the index; None if the state is FAILED."""
    sha256: str | None = None
    size_bytes: int | None = None
    columns: tuple[str, ...]
    """With at least one row in the index."""
    rows: int = 0
    """Of the index."""


RECORDS: tuple[type[Record], ...] = (
    *(Account, Catalog, Namespace, Table, View, Connector, Snapshot, SnapshotConstraints),
    *(TargetStats, FileStats, SnapshotManifest, TableRoot, StatsManifest, IndexArtifact),
)
"""Every class of records."""


def decode_any(data: bytes) -> Record:
    """A record of any kind.

    Raises:
        UnsupportedRecordError: these bytes are no record that this release can read.
    """
    name = kind_of(data)
    kind = next((one for one in RECORDS if one.kind == name), None)
    if kind is None:
        raise UnsupportedRecordError(kind=name, fault="this release does not know the kind")
    return decode(kind, data)
