"""Twin of the tables of sinks, as the resource-controller and the API use them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from datarecs_core.sink.accepting import reset_checkpoint
from datarecs_core.sink.checkpoint import Checkpoint, TableCommit, ends_alone
from datarecs_core.sink.control import SourcePartition
from datarecs_core.sink.declared import CommitRecord, SinkStatus, SinkWish, TaskStatus
from datarecs_core.values import ResourceUid
from datarecs_memory.scope import Scope
from datarecs_memory.sink_rows import SinkRow, TaskLease, is_halted


class MemorySinkTasks:
    """Port SinkTasks."""

    def __init__(self, scope: Scope) -> None:
        self._scope, self._rows = scope, scope.state.sinks

    def want(self, sink_uid: ResourceUid, wish: SinkWish) -> None:
        before = self.status(sink_uid)
        is_same = before.wished is not None and before.wished.revision == wish.revision
        known = {one.number: one for one in before.tasks} if is_same else {}
        tasks = (
            known.get(number, TaskStatus(number=number, is_held=False))
            for number in range(wish.tasks)
        )
        state = replace(before.state, wish=wish.wish)
        self.set_status(sink_uid, replace(before, wished=wish, state=state, tasks=tuple(tasks)))
        row = self._rows[sink_uid]
        leases = {number: one for number, one in row.leases.items() if number < wish.tasks}
        self._rows[sink_uid] = replace(row, leases=leases)
        self._scope.wake()

    def status(self, sink_uid: ResourceUid) -> SinkStatus:
        row = self._rows.get(sink_uid)
        if row is None:
            return SinkStatus()
        tasks = tuple(
            replace(
                one,
                is_held=one.is_held or self._is_leased(row.leases.get(one.number)),
                is_resting=row.is_resting(one.number),
            )
            for one in row.status.tasks
        )
        last = max(row.commits, key=_place, default=None)
        adding = {one.commit_id for one in row.snapshots}
        written = (one for one in row.commits if one.commit_id in adding)
        return replace(
            row.status,
            tasks=tasks,
            last_commit=last,
            last_written=max(written, key=_place, default=None),
        )

    def _is_leased(self, lease: TaskLease | None) -> bool:
        return lease is not None and lease.until is not None and lease.until > self._scope.now

    def set_status(self, sink_uid: ResourceUid, status: SinkStatus) -> None:
        """What the service and the tasks of the sink would have stored."""
        self._rows[sink_uid] = replace(self._rows.get(sink_uid) or SinkRow(), status=status)

    def add_commit(self, sink_uid: ResourceUid, commit: CommitRecord) -> None:
        """What the coordinator of the sink would have stored."""
        row = self._rows.get(sink_uid) or SinkRow()
        self._rows[sink_uid] = replace(
            row,
            commits=(*row.commits, replace(commit, snapshots=())),
            snapshots=(*row.snapshots, *commit.snapshots),
        )

    def remove(self, sink_uid: ResourceUid) -> None:
        self._rows.pop(sink_uid, None)

    def commits(
        self,
        sink_uid: ResourceUid,
        *,
        limit: int,
        before: tuple[datetime, UUID] | None = None,
    ) -> Sequence[CommitRecord]:
        row = self._rows.get(sink_uid) or SinkRow()
        newest = sorted(row.commits, key=_place, reverse=True)
        page = [one for one in newest if before is None or _place(one) < before][:limit]
        return [
            replace(
                one,
                snapshots=tuple(of for of in row.snapshots if of.commit_id == one.commit_id),
            )
            for one in page
        ]

    def request_commit(self, sink_uid: ResourceUid) -> bool:
        status = self.status(sink_uid)
        if status.wished is None:
            return False
        requests = status.state.commit_requests + 1
        state = replace(status.state, commit_requests=requests)
        self.set_status(sink_uid, replace(status, state=state))
        return True

    def retry(self, sink_uid: ResourceUid) -> bool:
        status = self.status(sink_uid)
        if status.wished is None:
            return False
        halted = {one.number for one in status.tasks if is_halted(one)}
        self._restart(sink_uid, status, halted, lambda lease: replace(lease, ends=True))
        return True

    def newest_commits(self, sink_uid: ResourceUid) -> Sequence[TableCommit]:
        row = self._rows.get(sink_uid) or SinkRow()
        stored = row.snapshots[row.reset_snapshots :]
        return list({one.table.uuid: one for one in sorted(stored, key=_offset)}.values())

    def decide(self, sink_uid: ResourceUid, checkpoint: Checkpoint) -> bool:
        status = self.status(sink_uid)
        if status.wished is None:
            return False
        self._begin_again(sink_uid, status, checkpoint)
        return True

    def reset(
        self,
        sink_uid: ResourceUid,
        positions: Mapping[SourcePartition, int],
        held: Mapping[SourcePartition, int],
    ) -> bool:
        status = self.status(sink_uid)
        if status.wished is None:
            return False
        moved = reset_checkpoint(status.state.checkpoint, positions, held, now=self._scope.now)
        self._begin_again(sink_uid, status, moved)
        row = self._rows[sink_uid]
        self._rows[sink_uid] = replace(row, reset_snapshots=len(row.snapshots))
        return True

    def _begin_again(
        self, sink_uid: ResourceUid, status: SinkStatus, checkpoint: Checkpoint
    ) -> None:
        state = replace(status.state, epoch=status.state.epoch + 1, checkpoint=checkpoint)
        status = replace(status, state=state)
        every = {one.number for one in status.tasks}
        self._restart(sink_uid, status, every, lambda lease: replace(lease, until=None))

    def _restart(
        self,
        sink_uid: ResourceUid,
        status: SinkStatus,
        numbers: Collection[int],
        changed: Callable[[TaskLease], TaskLease],
    ) -> None:
        """Nothing but the ends stays: a process that still runs ends, and another begins."""
        tasks = tuple(
            TaskStatus(number=one.number, is_held=False, report=ends_alone(one.report))
            if one.number in numbers
            else one
            for one in status.tasks
        )
        self.set_status(sink_uid, replace(status, tasks=tasks))
        row = self._rows[sink_uid]
        leases = {
            number: changed(one) if number in numbers else one for number, one in row.leases.items()
        }
        self._rows[sink_uid] = replace(row, leases=leases)
        self._scope.wake()


def _offset(one: TableCommit) -> int:
    return one.control_offset


def _place(one: CommitRecord) -> tuple[datetime, UUID]:
    return one.completed_at, one.commit_id
