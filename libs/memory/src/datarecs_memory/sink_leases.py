"""Twin of the leases of sink tasks, and of what their processes store of a sink."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from datarecs_application.ports.sink_leases import ENDS, SINK_LEASE, SinkLease
from datarecs_core.errors.captures import LeaseLostError
from datarecs_core.sink.checkpoint import (
    Checkpoint,
    SinkCommit,
    SinkState,
    TableCommit,
    TaskReport,
)
from datarecs_core.sink.declared import CommitRecord, SinkStatus, TaskStatus
from datarecs_core.sink.events import SinkCommitCompleted, SinkTableCommitted
from datarecs_core.values import ResourceUid, TenantId
from datarecs_memory.sink_rows import SinkRow, TaskLease, is_halted
from datarecs_memory.store import MemoryStore, TenantState
from datarecs_memory.unit_of_work import MemoryTransaction, MemoryUnitOfWork

_Place = tuple[TenantId, ResourceUid, int]
"""Tenant, sink and number of a task."""


class MemorySinkLeases:
    """Port SinkLeases."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def claim(self, executor: str, *, limit: int) -> Sequence[SinkLease]:  # noqa: ARG002  no other process reads who holds a task
        now = self._store.clock.now()
        with self._store.writing_all() as states:
            return [
                self._lease(states[tenant], tenant, sink_uid, number)
                for tenant, sink_uid, number in _free(states, now)[:limit]
            ]

    def renew(self, leases: Collection[SinkLease]) -> Mapping[SinkLease, str]:
        now, renewed = self._store.clock.now(), dict[SinkLease, str]()
        with self._store.writing_all() as states:
            for lease in leases:
                row = _held_row(states.get(lease.tenant_id), lease, now=now)
                if row is not None and row.status.wished is not None:
                    states[lease.tenant_id].sinks[lease.sink_uid] = _until(
                        row, lease, now + SINK_LEASE
                    )
                    ends = row.leases[lease.number].ends
                    renewed[lease] = ENDS if ends else row.status.wished.revision
        return renewed

    def release(self, lease: SinkLease, *, is_resting: bool = False) -> None:
        with self._store.writing(lease.tenant_id) as state:
            row = _held_row(state, lease)
            if row is not None:
                ended = replace(row.leases[lease.number], until=None, is_resting=is_resting)
                leases = {**row.leases, lease.number: ended}
                state.sinks[lease.sink_uid] = replace(row, leases=leases)

    def halted(self) -> int:
        with self._store.writing_all() as states:
            rows = [row for state in states.values() for row in state.sinks.values()]
        return sum(
            is_halted(task)
            for row in rows
            if not row.status.state.is_drained
            for task in row.status.tasks
        )

    def memory(self, lease: SinkLease, session: UUID) -> "MemorySinkMemory":
        return MemorySinkMemory(MemoryUnitOfWork(self._store), lease, session)

    def _lease(
        self, state: TenantState, tenant: TenantId, sink_uid: ResourceUid, number: int
    ) -> SinkLease:
        row, epoch = state.sinks[sink_uid], self._store.next_sink_epoch()
        until = self._store.clock.now() + SINK_LEASE
        before = row.leases.get(number) or TaskLease(epoch=epoch, until=until)
        taken = replace(before, epoch=epoch, until=until, ends=False, is_resting=False)
        state.sinks[sink_uid] = replace(row, leases={**row.leases, number: taken})
        return SinkLease(tenant_id=tenant, sink_uid=sink_uid, number=number, epoch=epoch)


def _free(states: Mapping[TenantId, TenantState], now: datetime) -> list[_Place]:
    """Tasks that may begin, of the tenants with the fewest running tasks first."""
    ordered: list[tuple[int, int, ResourceUid, TenantId]] = []
    for tenant, state in states.items():
        leases = [one for row in state.sinks.values() for one in row.leases.values()]
        running = sum(_is_running(one, now) for one in leases)
        free = sorted(
            (task.number, sink_uid)
            for sink_uid, row in state.sinks.items()
            for task in row.status.tasks
            if _may_begin(row, task, now)
        )
        ordered += [
            (running + at, number, sink_uid, tenant) for at, (number, sink_uid) in enumerate(free)
        ]
    return [(tenant, sink_uid, number) for _, number, sink_uid, tenant in sorted(ordered)]


def _may_begin(row: SinkRow, task: TaskStatus, now: datetime) -> bool:
    lease = row.leases.get(task.number)
    is_running = lease is not None and _is_running(lease, now)
    is_resting = row.is_resting(task.number)
    return not (is_running or is_halted(task) or is_resting or row.status.state.is_drained)


def _is_running(lease: TaskLease, now: datetime) -> bool:
    return lease.until is not None and lease.until > now


def _held_row(
    state: TenantState | None, lease: SinkLease, *, now: datetime | None = None
) -> SinkRow | None:
    """The sink of a lease that nothing has ended; with a time, one that has not expired either."""
    row = None if state is None else state.sinks.get(lease.sink_uid)
    held = None if row is None else row.leases.get(lease.number)
    if held is None or held.epoch != lease.epoch or held.until is None:
        return None
    return row if now is None or held.until > now else None


def _until(row: SinkRow, lease: SinkLease, until: datetime | None) -> SinkRow:
    changed = replace(row.leases[lease.number], until=until)
    return replace(row, leases={**row.leases, lease.number: changed})


@dataclass(frozen=True, slots=True)
class MemorySinkMemory:
    """Port SinkMemory."""

    unit: MemoryUnitOfWork
    lease: SinkLease
    session: UUID
    """Of the process; its reports count from 0."""

    def state(self) -> SinkState:
        with self.unit.begin(self.lease.tenant_id, read_only=True) as tx:
            return self._row(tx).status.state

    def begin_epoch(self) -> int:
        with self._writing() as (tx, row):
            epoch = row.status.state.epoch + 1
            self._set_state(tx, replace(row.status.state, epoch=epoch))
        return epoch

    def begin_lineage(self, checkpoint: Checkpoint) -> None:
        with self._writing() as (tx, row):
            if row.status.state.checkpoint.lineage is None:
                self._set_state(tx, replace(row.status.state, checkpoint=checkpoint))

    def committed_table(self, commit: TableCommit) -> None:
        with self._writing() as (tx, row):
            known = {(one.table.uuid, one.snapshot_id) for one in row.snapshots}
            if (commit.table.uuid, commit.snapshot_id) in known:
                return
            self._put(tx, replace(row, snapshots=(*row.snapshots, commit)))
            tx.outbox.append(
                SinkTableCommitted.of(self.lease.tenant_id, self.lease.sink_uid, commit)
            )

    def committed(self, commit: SinkCommit) -> None:
        with self._writing() as (tx, row):
            if commit.commit_id not in {one.commit_id for one in row.commits}:
                self._put(tx, replace(row, commits=(*row.commits, _record(commit, tx.now))))
                tx.outbox.append(
                    SinkCommitCompleted.of(self.lease.tenant_id, self.lease.sink_uid, commit)
                )
            state = row.status.state
            if state.checkpoint.control_offset <= commit.checkpoint.control_offset:
                self._set_state(tx, replace(state, checkpoint=commit.checkpoint))

    def decided(self, epoch: int, checkpoint: Checkpoint) -> bool:
        with self._writing() as (tx, row):
            is_newest = row.status.state.epoch == epoch
            if is_newest:
                self._set_state(tx, replace(row.status.state, checkpoint=checkpoint))
        return is_newest

    def drained(self) -> None:
        with self._writing() as (tx, row):
            self._set_state(tx, replace(row.status.state, is_drained=True))

    def report(self, report: TaskReport) -> None:
        with self._writing() as (tx, row):
            before = row.leases[self.lease.number]
            is_same = before.session == self.session
            counted = max(report.dead_letters - (before.letters if is_same else 0), 0)
            is_fenced = report.fenced > (before.fenced if is_same else 0)
            status = replace(
                row.status,
                dead_letters=row.status.dead_letters + counted,
                fenced_at=tx.now if is_fenced else row.status.fenced_at,
                tasks=tuple(
                    replace(one, report=report.with_ends_of(one.report), reported_at=tx.now)
                    if one.number == self.lease.number and not before.ends
                    else one
                    for one in row.status.tasks
                ),
            )
            session = replace(
                before, session=self.session, letters=report.dead_letters, fenced=report.fenced
            )
            leases = {**row.leases, self.lease.number: session}
            self._put(tx, replace(row, status=status, leases=leases))

    @contextmanager
    def _writing(self) -> Iterator[tuple[MemoryTransaction, SinkRow]]:
        with self.unit.begin(self.lease.tenant_id) as tx:
            yield tx, self._row(tx)

    def _row(self, tx: MemoryTransaction) -> SinkRow:
        row = _held_row(tx.scope.state, self.lease)
        if row is None:
            raise LeaseLostError(item_id=self.lease.sink_uid, epoch=self.lease.epoch)
        return row

    def _put(self, tx: MemoryTransaction, row: SinkRow) -> None:
        tx.scope.state.sinks[self.lease.sink_uid] = row

    def _set_state(self, tx: MemoryTransaction, state: SinkState) -> None:
        row = self._row(tx)
        status: SinkStatus = replace(row.status, state=state)
        self._put(tx, replace(row, status=status))


def _record(commit: SinkCommit, now: datetime) -> CommitRecord:
    return CommitRecord(
        commit_id=commit.commit_id,
        epoch=commit.epoch,
        completed_at=now,
        is_partial=commit.is_partial,
        control_offset=commit.checkpoint.control_offset,
        valid_through=commit.checkpoint.valid_through,
        records=commit.records,
    )
