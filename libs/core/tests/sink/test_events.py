"""What events of sinks say about commits."""

from datetime import UTC, datetime
from uuid import UUID

from datarecs_core.sink.checkpoint import Checkpoint, PartitionState, SinkCommit, TableCommit
from datarecs_core.sink.control import SourcePartition, TableReference
from datarecs_core.sink.events import SinkCommitCompleted, SinkTableCommitted, SourceEnd
from datarecs_core.values import ResourceUid, TenantId

TENANT, UID = TenantId(UUID(int=1)), ResourceUid(UUID(int=2))
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
TABLE = TableReference(catalog="lake", namespace=("sales",), name="orders", uuid=UUID(int=7))


def a_commit(*, is_partial: bool) -> SinkCommit:
    return SinkCommit(
        commit_id=UUID(int=3),
        epoch=4,
        checkpoint=Checkpoint(
            control_offset=5,
            partitions={SourcePartition("orders", 1): PartitionState(accepted=9)},
            valid_through=NOON,
        ),
        is_partial=is_partial,
        tables=1,
        records=2,
    )


def test_a_snapshot_is_named_with_its_positions_in_order() -> None:
    ends = {SourcePartition("orders", number): number * 10 for number in (2, 10, 1)}
    commit = TableCommit(
        commit_id=UUID(int=3),
        table=TABLE,
        snapshot_id=2**62,
        control_offset=5,
        valid_through=NOON,
        records=2,
        files=1,
        source_ends=ends,
    )
    event = SinkTableCommitted.of(TENANT, UID, commit)
    assert event.snapshot_id == str(2**62)
    assert event.source_ends == tuple(
        SourceEnd(topic="orders", partition=number, offset=number * 10) for number in (1, 2, 10)
    )
    assert (event.partitions, event.table_uuid) == (3, TABLE.uuid)


def test_of_many_partitions_the_first_64_are_named() -> None:
    ends = {SourcePartition("orders", number): number for number in range(200)}
    commit = TableCommit(
        commit_id=UUID(int=3),
        table=TABLE,
        snapshot_id=1,
        control_offset=5,
        valid_through=None,
        records=2,
        files=1,
        source_ends=ends,
    )
    event = SinkTableCommitted.of(TENANT, UID, commit)
    assert event.partitions == 200
    assert [one.partition for one in event.source_ends] == list(range(64))


def test_a_partial_cycle_says_nothing_about_completeness() -> None:
    assert SinkCommitCompleted.of(TENANT, UID, a_commit(is_partial=False)).valid_through == NOON
    assert SinkCommitCompleted.of(TENANT, UID, a_commit(is_partial=True)).valid_through is None
