"""What the platform stores of declared sinks: which tasks shall run, and how they are doing.

The resource-controller states what a declaration needs and reads how far it is; the API reads
commits and stores the verbs of people. Separate from `sinking`, which is what a task itself uses.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from datarecs_core.sink.checkpoint import Checkpoint, TableCommit
from datarecs_core.sink.control import SourcePartition
from datarecs_core.sink.declared import CommitRecord, SinkStatus, SinkWish
from datarecs_core.values import ResourceUid


class SinkTasks(Protocol):
    """The stored state of the sinks of one tenant; each row goes with its SinkTable."""

    def want(self, sink_uid: ResourceUid, wish: SinkWish) -> None:
        """Replace what the declaration needs; creates the rows at the first call.

        Tasks with a number of `wish.tasks` or above are removed. A task of another revision is
        ended and begun again with the declaration as it is stored then. Safe to repeat.
        """

    def status(self, sink_uid: ResourceUid) -> SinkStatus:
        """As it is now, without a lock; `SinkStatus()` for a sink that was never wanted."""

    def remove(self, sink_uid: ResourceUid) -> None:
        """Remove every row of the sink, whose tasks lose their leases; nothing without rows."""

    def commits(
        self,
        sink_uid: ResourceUid,
        *,
        limit: int,
        before: tuple[datetime, UUID] | None = None,
    ) -> Sequence[CommitRecord]:
        """Completed cycles, newest first by (completed_at, commit_id), before the cursor."""

    def request_commit(self, sink_uid: ResourceUid) -> bool:
        """Raise `SinkState.commit_requests`. False: the sink was never wanted."""

    def retry(self, sink_uid: ResourceUid) -> bool:
        """Begin each halted task again, without its stored error. False: never wanted."""

    def newest_commits(self, sink_uid: ResourceUid) -> Sequence[TableCommit]:
        """The newest stored snapshot of each table since the last reset, by control offset.

        Nothing of the sink is stored by its tasks until the transaction ends: what is decided from
        the answer, and from a status that is read after it, is still true then.
        """

    def decide(self, sink_uid: ResourceUid, checkpoint: Checkpoint) -> bool:
        """Store a checkpoint with a decision for a coordinator, and begin every task again.

        The epoch is raised and every lease of a task ends, so that no older coordinator stores
        another checkpoint. Call it after `newest_commits`. False: the sink was never wanted.
        """

    def reset(
        self,
        sink_uid: ResourceUid,
        positions: Mapping[SourcePartition, int],
        held: Mapping[SourcePartition, int],
    ) -> bool:
        """Forget the control topic, set accepted positions, and begin every task again.

        The lineage of the checkpoint becomes None and its control offset 0: the next coordinator
        takes the control topic as it is, from its end. Positions of partitions that are not named
        stay; `held` is what the tables hold, for a later reset. The epoch is raised, and every
        lease of a task ends, so that nothing which was read before is committed afterwards. False:
        the sink was never wanted.
        """
