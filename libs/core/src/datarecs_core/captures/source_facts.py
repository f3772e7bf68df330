"""What a source says about itself, as the child of a worker reports it: data without a decision.

Records of the catalogue are made from these by the control plane, so a worker far away sends the
same values as one beside the database. Spec queue-capture 12, 16.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from datarecs_core.captures.request import ObjectName
from datarecs_core.catalog.records import (
    Constraint,
    FileContent,
    ScalarStats,
    TableColumn,
    ViewDefinition,
)


class Completion(StrEnum):
    """How the statistics of a snapshot are captured."""

    FILE_GROUPS = "FILE_GROUPS"
    """From its files, in groups."""
    DIRECT_STATS = "DIRECT_STATS"
    """By the source, in the transaction that is the snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceObjects:
    """The tables and views in the scope, sorted."""

    tables: tuple[ObjectName, ...]
    views: tuple[ObjectName, ...]
    ignored: int = 0
    """Entries of a folder or bucket that are no table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSnapshot:
    """A state of a table that can be read."""

    native_id: str
    """Of the source: an id of Iceberg, the digest of a list of files, a snapshot of PostgreSQL."""
    committed_at: datetime
    sequence_number: int | None = None
    parent_native_id: str | None = None
    schema_id: int | None = None
    columns: tuple[TableColumn, ...]
    partition_spec: str | None = None
    manifest_list: str | None = None
    metadata_location: str | None = None
    summary: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """A table and its snapshots, the newest commit first."""

    name: ObjectName
    uri: str
    format: str
    """`parquet`, `csv`, `json`, `iceberg` or `postgres`."""
    completion: Completion
    columns: tuple[TableColumn, ...]
    column_ids: str
    """FIELD_ID or PATH_ORDINAL."""
    partition_keys: tuple[str, ...]
    constraints: tuple[Constraint, ...]
    snapshots: tuple[SourceSnapshot, ...]
    known_snapshots: tuple[str, ...] = ()
    """Native ids of those that the catalogue knows and whose details are left out."""
    comment: str | None = None
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    name: ObjectName
    definitions: tuple[ViewDefinition, ...]
    base_relations: tuple[str, ...]
    search_path: tuple[str, ...]
    columns: tuple[TableColumn, ...]
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file of a snapshot, without a look inside it."""

    path: str
    """As the connector opens it: relative to the connection, or the URI of Iceberg."""
    size_bytes: int
    etag: str
    """Changes with the content; for files of Iceberg, which never change, their sequence number,
    and the name mapping of the table, if it has one."""
    format: str
    content: FileContent = FileContent.DATA
    partition: str | None = None
    sequence_number: int | None = None
    deletes: tuple[str, ...] = ()
    """Paths of the files of deletes that apply to it."""

    @property
    def identity(self) -> tuple[str, int, str, tuple[str, ...]]:
        """Equal identities have equal rows."""
        return (self.path, self.size_bytes, self.etag, self.deletes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """The index of one source file, stored beside the catalogue by its hash."""

    sha256: str
    size_bytes: int
    columns: tuple[str, ...]
    """With at least one row; empty: nothing of the file can be indexed."""
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedFile:
    """The statistics of a file, and its index if one was requested."""

    path: str
    rows: int
    """Without its deleted rows."""
    stored_rows: int
    """In the file."""
    columns: tuple[ScalarStats, ...]
    is_complete: bool
    """False: a figure that was requested cannot be computed for the type of a column."""
    sidecar: Sidecar | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedTable:
    """A table that its source captured in one transaction."""

    snapshot: SourceSnapshot
    rows: int
    size_bytes: int | None = None
    columns: tuple[ScalarStats, ...]
    constraints: tuple[Constraint, ...] = ()
    """Of the same transaction."""
    is_complete: bool
