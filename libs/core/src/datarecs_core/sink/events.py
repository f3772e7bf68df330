"""What a sink committed; sent in the transaction that stores it, once for each commit."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from datarecs_core.sink.checkpoint import SinkCommit, TableCommit
from datarecs_core.sink.control import SourcePartition
from datarecs_core.values import ResourceUid, TenantId

MOST_ENDS = 64
"""Partitions in an event; the others are in the status of the sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEnd:
    """How far a partition of a source topic is contained."""

    topic: str
    """Name of the source topic."""
    partition: int
    """Number of the partition."""
    offset: int
    """Next offset after the last contained record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkEvent:
    """What every event of a sink carries."""

    tenant_id: TenantId
    """The owner, equal to the envelope's `tenantid`."""
    sink_uid: ResourceUid
    """The SinkTable, and the key of the topic."""
    commit_id: UUID
    """The cycle; also in the snapshots that it added."""
    records: int
    """Records that were added."""
    partitions: int
    """Source partitions of the sink."""
    source_ends: tuple[SourceEnd, ...] = ()
    """Positions in the source topics, by topic and partition; of at most 64 partitions."""
    valid_through: datetime | None = None
    """All records up to this time are contained; None if a partition had no vote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTableCommitted(SinkEvent):
    """A snapshot was added to a table."""

    catalog: str
    """Name of the connection of the catalog."""
    namespace: tuple[str, ...]
    """Of the table."""
    table: str
    """Name of the table."""
    table_uuid: UUID
    """Its identity in the catalog."""
    snapshot_id: str
    """The snapshot, a number as text."""
    files: int
    """Data files and delete files that were added."""

    @classmethod
    def of(cls, tenant: TenantId, uid: ResourceUid, commit: TableCommit) -> "SinkTableCommitted":
        return cls(
            tenant_id=tenant,
            sink_uid=uid,
            commit_id=commit.commit_id,
            records=commit.records,
            partitions=len(commit.source_ends),
            source_ends=_ends(commit.source_ends.items()),
            valid_through=commit.valid_through,
            catalog=commit.table.catalog,
            namespace=commit.table.namespace,
            table=commit.table.name,
            table_uuid=commit.table.uuid,
            snapshot_id=str(commit.snapshot_id),
            files=commit.files,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCommitCompleted(SinkEvent):
    """A cycle is complete: every table of the sink has it."""

    epoch: int
    """Of the coordinator."""
    is_partial: bool
    """Some partition had no vote when the time was up."""
    tables: int
    """Tables that got a snapshot."""

    @classmethod
    def of(cls, tenant: TenantId, uid: ResourceUid, commit: SinkCommit) -> "SinkCommitCompleted":
        partitions = commit.checkpoint.partitions
        return cls(
            tenant_id=tenant,
            sink_uid=uid,
            commit_id=commit.commit_id,
            records=commit.records,
            partitions=len(partitions),
            source_ends=_ends((one, state.accepted) for one, state in partitions.items()),
            valid_through=None if commit.is_partial else commit.checkpoint.valid_through,
            epoch=commit.epoch,
            is_partial=commit.is_partial,
            tables=commit.tables,
        )


def _ends(positions: Iterable[tuple[SourcePartition, int]]) -> tuple[SourceEnd, ...]:
    """The first ones in order of topic and partition."""
    return tuple(
        SourceEnd(topic=partition.topic, partition=partition.number, offset=offset)
        for partition, offset in sorted(positions)[:MOST_ENDS]
    )
