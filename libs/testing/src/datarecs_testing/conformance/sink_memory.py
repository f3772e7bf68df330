"""What the memory of a sink does for its tasks, also over a pipe."""

from datetime import UTC, datetime
from uuid import UUID

from datarecs_application.ports.sinking import SinkMemory
from datarecs_core.sink.checkpoint import (
    Checkpoint,
    Lineage,
    PartitionState,
    SinkCommit,
    SinkState,
    TableCommit,
    TaskReport,
)
from datarecs_core.sink.control import SourcePartition, TableReference

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
ORDERS = SourcePartition("orders", 0)
LINEAGE = Lineage(cluster_id="c", topic_id="t", group="g")
TABLE = TableReference(catalog="lake", namespace=("sales",), name="orders", uuid=UUID(int=7))


def checkpoint(offset: int, *, accepted: int = 10) -> Checkpoint:
    return Checkpoint(
        lineage=LINEAGE,
        control_offset=offset,
        partitions={ORDERS: PartitionState(accepted=accepted, largest=NOON)},
        valid_through=NOON,
    )


def cycle(number: int, *, offset: int) -> SinkCommit:
    return SinkCommit(
        commit_id=UUID(int=number),
        epoch=1,
        checkpoint=checkpoint(offset),
        is_partial=False,
        tables=1,
        records=10,
    )


def snapshot(number: int, *, commit: int = 1) -> TableCommit:
    return TableCommit(
        commit_id=UUID(int=commit),
        table=TABLE,
        snapshot_id=2**62 + number,
        control_offset=5,
        valid_through=NOON,
        records=10,
        files=1,
        source_ends={ORDERS: 10},
    )


class SinkMemoryConformance:
    """The fixture `memory` is that of a new sink."""

    def test_a_new_sink_has_no_checkpoint(self, memory: SinkMemory) -> None:
        assert memory.state() == SinkState()

    def test_each_coordinator_has_a_greater_epoch(self, memory: SinkMemory) -> None:
        assert [memory.begin_epoch() for _ in range(3)] == [1, 2, 3]
        assert memory.state().epoch == 3

    def test_the_checkpoint_never_goes_back(self, memory: SinkMemory) -> None:
        for commit in (cycle(1, offset=5), cycle(2, offset=9), cycle(3, offset=7)):
            memory.committed_table(snapshot(commit.commit_id.int))
            memory.committed(commit)
        assert memory.state().checkpoint == checkpoint(9)

    def test_a_decision_moves_the_checkpoint_back_for_the_newest_coordinator_alone(
        self, memory: SinkMemory
    ) -> None:
        old, epoch = memory.begin_epoch(), memory.begin_epoch()
        memory.committed(cycle(1, offset=9))
        assert not memory.decided(old, checkpoint(3))
        assert memory.state().checkpoint == checkpoint(9)
        assert memory.decided(epoch, checkpoint(5))
        assert memory.state().checkpoint == checkpoint(5)
        memory.committed(cycle(2, offset=7))
        assert memory.state().checkpoint == checkpoint(7)

    def test_a_repetition_changes_nothing(self, memory: SinkMemory) -> None:
        for _ in range(2):
            memory.committed_table(snapshot(1))
            memory.committed(cycle(1, offset=5))
        assert memory.state() == SinkState(checkpoint=checkpoint(5))

    def test_a_report_changes_no_state(self, memory: SinkMemory) -> None:
        memory.report(TaskReport(positions={ORDERS: 3}, dead_letters=2, fenced=1))
        assert memory.state() == SinkState()

    def test_a_drained_sink_stays_drained(self, memory: SinkMemory) -> None:
        for _ in range(2):
            memory.drained()
        assert memory.state().is_drained
