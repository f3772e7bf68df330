"""The five messages of a sink's control topic, and what travels in their headers.

Workers and coordinator of one sink talk only through these. Values have the fields of the Java
connector's messages and nothing else; what is ours travels in headers, which Java never reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID


class SourcePartition(NamedTuple):
    topic: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SourceRange:
    """Offsets [start, end) of one partition that a vote claims; equal when nothing was read."""

    partition: SourcePartition
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReference:
    """A table as messages name it."""

    catalog: str
    namespace: tuple[str, ...]
    name: str
    uuid: UUID

    def __str__(self) -> str:
        return ".".join((*self.namespace, self.name))


class FileContent(IntEnum):
    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


PartitionScalar = bool | int | float | str | bytes | Decimal | UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionField:
    """One value of a file's partition, in the form of Iceberg: days and microseconds as int."""

    field_id: int
    name: str
    type: str
    """Primitive type of Iceberg, such as `int`, `date`, `timestamptz`, `decimal(9, 2)`."""
    value: PartitionScalar


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A written file, as a manifest has it."""

    content: FileContent = FileContent.DATA
    path: str
    spec_id: int
    partition: tuple[PartitionField, ...] = ()
    record_count: int
    size: int
    """In bytes."""
    column_sizes: Mapping[int, int] = field(default_factory=dict)
    value_counts: Mapping[int, int] = field(default_factory=dict)
    null_value_counts: Mapping[int, int] = field(default_factory=dict)
    nan_value_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)
    split_offsets: tuple[int, ...] = ()
    equality_ids: tuple[int, ...] = ()
    sort_order_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far one vote has read a partition."""

    partition: SourcePartition
    offset: int | None
    """Next to read; None: nothing was ever read."""
    timestamp: datetime | None
    """The largest of the records read in this vote; None without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCommit:
    """From the coordinator: workers close their files and vote."""

    commit_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class DataWritten:
    """From a worker: files of one table. Several of them precede the vote that covers them."""

    commit_id: UUID
    table: TableReference
    data_files: tuple[FileEntry, ...] = ()
    delete_files: tuple[FileEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DataComplete:
    """From a worker: its vote, with every partition that it is assigned."""

    commit_id: UUID
    positions: tuple[Position, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitToTable:
    """From the coordinator: a snapshot was added."""

    commit_id: UUID
    table: TableReference
    snapshot_id: int | None
    valid_through: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitComplete:
    """From the coordinator: every table has the commit."""

    commit_id: UUID
    valid_through: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFile:
    """A Parquet file with the keys that a worker's files of one table and cycle change."""

    path: str
    sha256: str
    """Of its bytes, as hex digits."""
    rows: int


Message = StartCommit | DataWritten | DataComplete | CommitToTable | CommitComplete


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlHeaders:
    """Of a control message; what does not belong to its type is empty."""

    epoch: int
    """Of the coordinator that sent it, or whose StartCommit a vote answers; 0 before the first."""
    ranges: tuple[SourceRange, ...] = ()
    """Of a vote: one for each assigned partition."""
    parts: int = 0
    """Of a vote: how many DataWritten of the same sender precede it and belong to it."""
    expected: Mapping[SourcePartition, int] = field(default_factory=dict)
    """Of StartCommit: accepted positions of partitions whose last vote was refused."""
    keys: KeyFile | None = None
    """Of DataWritten, in the first one of a table that is not only appended to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message to send."""

    message: Message
    headers: ControlHeaders


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A message of this sink's group as it was read from the control topic."""

    offset: int
    """In the one partition of the control topic."""
    sender: UUID
    """The session of the producer; messages of one sender are in order."""
    sent_at: datetime
    headers: ControlHeaders
    message: Message
