"""Responses about sinks, as published models."""

from typing import Annotated
from uuid import UUID

from pydantic import Field

from datarecs_core.resources.sink_conditions import PartitionView
from datarecs_core.sink.checkpoint import TableCommit
from datarecs_core.sink.declared import CommitRecord
from datarecs_core_api.outputs import Instant, Out
from datarecs_core_api.published_types import Count, Digits, Line, Number, Word

TopicOut = Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": 249})]


class SinkSnapshotOut(Out):
    """A snapshot that a commit added to a table."""

    catalog: Word
    """Connection of the table."""
    namespace: list[Line]
    table: Line
    table_uuid: UUID
    snapshot_id: Digits
    records: Count
    """That the snapshot added."""
    files: Count
    valid_through_ts: Instant | None
    """Every record up to this time is in the table; null if a partition had no vote."""


class SinkCommitOut(Out):
    """A commit of a sink: every table has what was read until then."""

    commit_id: UUID
    completed_at: Instant
    epoch: Number
    """Of the coordinator that made it."""
    partial: bool
    """Whether some partition had no vote when the time was up; its records follow."""
    control_offset: Number
    """Position in the control topic that the tables contain."""
    valid_through_ts: Instant | None
    records: Count
    """That the commit added, of all tables."""
    snapshots: list[SinkSnapshotOut]
    """Of the tables that received files."""


class SinkPartitionOut(Out):
    """A partition of a source topic, and how far the sink is."""

    topic: TopicOut
    partition: Number
    committed: Number | None
    """Next offset to commit; null before the first commit of the partition."""
    largest_ts: Instant | None
    """The largest timestamp of its committed records."""
    position: Number | None
    """Next offset to read; null while no task reads it."""
    end: Number | None
    """One past the last record, as a task last saw it."""


def commit_view(one: CommitRecord) -> SinkCommitOut:
    return SinkCommitOut(
        commit_id=one.commit_id,
        completed_at=one.completed_at,
        epoch=one.epoch,
        partial=one.is_partial,
        control_offset=one.control_offset,
        valid_through_ts=one.valid_through,
        records=one.records,
        snapshots=[_snapshot_view(snapshot) for snapshot in one.snapshots],
    )


def _snapshot_view(one: TableCommit) -> SinkSnapshotOut:
    return SinkSnapshotOut(
        catalog=one.table.catalog,
        namespace=list(one.table.namespace),
        table=one.table.name,
        table_uuid=one.table.uuid,
        snapshot_id=str(one.snapshot_id),
        records=one.records,
        files=one.files,
        valid_through_ts=one.valid_through,
    )


def partition_view(one: PartitionView) -> SinkPartitionOut:
    return SinkPartitionOut(
        topic=one.partition.topic,
        partition=one.partition.number,
        committed=one.accepted,
        largest_ts=one.largest,
        position=one.position,
        end=one.end,
    )
