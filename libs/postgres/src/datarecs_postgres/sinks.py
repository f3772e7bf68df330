"""What is stored of sinks for their controller and for the API: wishes, tasks and commits.

The row of `sink_state` is locked before those of `sink_task`, here and in `sink_memory`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Row, and_, case, delete, func, null, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert as insert_once

from datarecs_core.sink.accepting import reset_checkpoint
from datarecs_core.sink.checkpoint import (
    Checkpoint,
    SinkState,
    TableCommit,
    TaskReport,
    TaskWish,
)
from datarecs_core.sink.control import SourcePartition, TableReference
from datarecs_core.sink.declared import CommitRecord, SinkStatus, SinkWish, TaskStatus
from datarecs_core.sink.documents import from_positions, from_sink_document, sink_document
from datarecs_core.values import ResourceUid, aware
from datarecs_postgres.session import Session, Woken
from datarecs_postgres.tables.sinks import (
    SINK_COMMIT,
    SINK_STATE,
    SINK_TABLE_COMMIT,
    SINK_TASK,
)

_STATE, _TASK = SINK_STATE.c, SINK_TASK.c
_COMMIT, _TABLE = SINK_COMMIT.c, SINK_TABLE_COMMIT.c
_WITHOUT_REPORT: Mapping[str, Any] = {"is_halted": False, "report": null(), "reported_at": None}
"""Counters of the session stay: a process may report once more before it ends."""
_ENDS_ALONE: Mapping[str, Any] = {
    **_WITHOUT_REPORT,
    "report": case(
        (_TASK.report.has_key("ends"), func.jsonb_build_object("ends", _TASK.report["ends"])),
        else_=null(),
    ),
}
"""The same as `ends_alone`."""


class PostgresSinks:
    """Port SinkTasks."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def want(self, sink_uid: ResourceUid, wish: SinkWish) -> None:
        before = self._state_row(sink_uid, lock=True)
        values = {"tasks": wish.tasks, "wish": wish.wish.value, "revision": wish.revision}
        of_sink = {"tenant_id": self._session.tenant_id, "sink_uid": sink_uid}
        self._session.execute(
            insert_once(SINK_STATE)
            .values(**of_sink, **values)
            .on_conflict_do_update(index_elements=["tenant_id", "sink_uid"], set_=values)
        )
        self._session.execute(
            delete(SINK_TASK).where(*self._tasks(sink_uid), _TASK.number >= wish.tasks)
        )
        if wish.tasks:
            rows = [{**of_sink, "number": number} for number in range(wish.tasks)]
            self._session.execute(insert_once(SINK_TASK).values(rows).on_conflict_do_nothing())
        if before is not None and before.revision != wish.revision:
            self._session.execute(
                update(SINK_TASK).where(*self._tasks(sink_uid)).values(_WITHOUT_REPORT)
            )
        self._session.wake(Woken.SINKS)

    def status(self, sink_uid: ResourceUid) -> SinkStatus:
        row = self._state_row(sink_uid)
        if row is None:
            return SinkStatus()
        newest = self._commit_rows(sink_uid, limit=1, before=None)
        return SinkStatus(
            wished=SinkWish(tasks=row.tasks, wish=TaskWish(row.wish), revision=row.revision),
            state=state_of(row),
            tasks=tuple(self._task_statuses(sink_uid)),
            last_commit=_record(newest[0], ()) if newest else None,
            last_written=self._last_written(sink_uid),
            fenced_at=_instant(row.fenced_at),
            dead_letters=row.dead_letters,
        )

    def remove(self, sink_uid: ResourceUid) -> None:
        self._session.execute(delete(SINK_STATE).where(*self._states(sink_uid)))
        self._session.wake(Woken.SINKS)

    def commits(
        self,
        sink_uid: ResourceUid,
        *,
        limit: int,
        before: tuple[datetime, UUID] | None = None,
    ) -> Sequence[CommitRecord]:
        rows = self._commit_rows(sink_uid, limit=limit, before=before)
        snapshots: dict[UUID, list[TableCommit]] = {row.commit_id: [] for row in rows}
        for row in self._session.execute(
            select(SINK_TABLE_COMMIT)
            .where(
                self._session.tenant_rows(SINK_TABLE_COMMIT),
                _TABLE.sink_uid == sink_uid,
                _TABLE.commit_id.in_(snapshots),
            )
            .order_by(_TABLE.committed_at, _TABLE.snapshot_id)
        ):
            snapshots[row.commit_id].append(_table_commit(row))
        return [_record(row, snapshots[row.commit_id]) for row in rows]

    def request_commit(self, sink_uid: ResourceUid) -> bool:
        changed = self._session.execute(
            update(SINK_STATE)
            .where(*self._states(sink_uid))
            .values(commit_requests=_STATE.commit_requests + 1)
        )
        self._session.wake(Woken.SINKS)
        return changed.rowcount == 1

    def retry(self, sink_uid: ResourceUid) -> bool:
        if self._state_row(sink_uid, lock=True) is None:
            return False
        self._session.execute(
            update(SINK_TASK)
            .where(*self._tasks(sink_uid), _TASK.is_halted)
            # Its process may still vote what it has read: it stops as after another declaration,
            # and a lease without an executor says so.
            .values(executor=None, **_ENDS_ALONE)
        )
        self._session.wake(Woken.SINKS)
        return True

    def reset(
        self,
        sink_uid: ResourceUid,
        positions: Mapping[SourcePartition, int],
        held: Mapping[SourcePartition, int],
    ) -> bool:
        row = self._state_row(sink_uid, lock=True)
        if row is None:
            return False
        # After the lock: what a task has stored before it is older.
        now = aware(self._session.execute(select(func.clock_timestamp())).scalar_one())
        moved = reset_checkpoint(state_of(row).checkpoint, positions, held, now=now)
        self._begin_again(sink_uid, moved)
        return True

    def newest_commits(self, sink_uid: ResourceUid) -> Sequence[TableCommit]:
        row = self._state_row(sink_uid, lock=True)
        if row is None:
            return ()
        since = state_of(row).checkpoint.reset_at
        of_sink = (
            self._session.tenant_rows(SINK_TABLE_COMMIT),
            _TABLE.sink_uid == sink_uid,
            *(() if since is None else (_TABLE.committed_at > since,)),
        )
        newest = (
            select(_TABLE.table_uuid, func.max(_TABLE.control_offset))
            .where(*of_sink)
            .group_by(_TABLE.table_uuid)
        )
        rows = self._session.execute(
            select(SINK_TABLE_COMMIT).where(
                *of_sink, tuple_(_TABLE.table_uuid, _TABLE.control_offset).in_(newest)
            )
        )
        return [_table_commit(one) for one in rows]

    def decide(self, sink_uid: ResourceUid, checkpoint: Checkpoint) -> bool:
        if self._state_row(sink_uid, lock=True) is None:
            return False
        self._begin_again(sink_uid, checkpoint)
        return True

    def _begin_again(self, sink_uid: ResourceUid, checkpoint: Checkpoint) -> None:
        """Every task, from another checkpoint; no process stores anything from before it."""
        self._session.execute(
            update(SINK_STATE)
            .where(*self._states(sink_uid))
            .values(
                epoch=_STATE.epoch + 1,
                checkpoint=sink_document(checkpoint),
                control_offset=checkpoint.control_offset,
            )
        )
        self._session.execute(
            update(SINK_TASK)
            .where(*self._tasks(sink_uid))
            .values(epoch=_TASK.epoch + 1, executor=None, lease_until=None, **_ENDS_ALONE)
        )
        self._session.wake(Woken.SINKS)

    def _state_row(self, sink_uid: ResourceUid, *, lock: bool = False) -> Row[Any] | None:
        statement = select(SINK_STATE).where(*self._states(sink_uid))
        return self._session.execute(statement.with_for_update() if lock else statement).first()

    def _task_statuses(self, sink_uid: ResourceUid) -> list[TaskStatus]:
        is_held = func.coalesce(_TASK.lease_until > func.clock_timestamp(), False)
        rows = self._session.execute(
            select(
                _TASK.number,
                _TASK.report,
                _TASK.reported_at,
                is_held.label("is_held"),
                and_(_TASK.is_resting, _STATE.wish == TaskWish.PAUSE).label("is_resting"),
            )
            .join(SINK_STATE, and_(*self._states(sink_uid), _TASK.sink_uid == _STATE.sink_uid))
            .where(*self._tasks(sink_uid))
            .order_by(_TASK.number)
        )
        return [
            TaskStatus(
                number=row.number,
                is_held=row.is_held,
                report=report_of(row.report),
                reported_at=_instant(row.reported_at),
                is_resting=row.is_resting,
            )
            for row in rows
        ]

    def _commit_rows(
        self, sink_uid: ResourceUid, *, limit: int, before: tuple[datetime, UUID] | None
    ) -> Sequence[Row[Any]]:
        statement = (
            select(SINK_COMMIT)
            .where(self._session.tenant_rows(SINK_COMMIT), _COMMIT.sink_uid == sink_uid)
            .order_by(_COMMIT.completed_at.desc(), _COMMIT.commit_id.desc())
            .limit(limit)
        )
        if before is not None:
            statement = statement.where(tuple_(_COMMIT.completed_at, _COMMIT.commit_id) < before)
        return self._session.execute(statement).all()

    def _last_written(self, sink_uid: ResourceUid) -> CommitRecord | None:
        is_of_it = and_(
            _COMMIT.tenant_id == _TABLE.tenant_id,
            _COMMIT.sink_uid == _TABLE.sink_uid,
            _COMMIT.commit_id == _TABLE.commit_id,
        )
        row = self._session.execute(
            select(SINK_COMMIT)
            .join(SINK_TABLE_COMMIT, is_of_it)
            .where(self._session.tenant_rows(SINK_TABLE_COMMIT), _TABLE.sink_uid == sink_uid)
            .order_by(_TABLE.committed_at.desc())
            .limit(1)
        ).first()
        return None if row is None else _record(row, ())

    def _states(self, sink_uid: ResourceUid) -> tuple[Any, ...]:
        return (self._session.tenant_rows(SINK_STATE), _STATE.sink_uid == sink_uid)

    def _tasks(self, sink_uid: ResourceUid) -> tuple[Any, ...]:
        return (self._session.tenant_rows(SINK_TASK), _TASK.sink_uid == sink_uid)


def state_of(row: Any) -> SinkState:  # noqa: ANN401  a row of `sink_state`
    return SinkState(
        epoch=row.epoch,
        checkpoint=from_sink_document(Checkpoint, row.checkpoint),
        wish=TaskWish(row.wish),
        commit_requests=row.commit_requests,
        is_drained=row.is_drained,
    )


def report_of(document: Any) -> TaskReport | None:  # noqa: ANN401  a column of JSON
    return None if document is None else from_sink_document(TaskReport, document)


def _record(row: Any, snapshots: Sequence[TableCommit]) -> CommitRecord:  # noqa: ANN401  a row
    return CommitRecord(
        commit_id=row.commit_id,
        epoch=row.epoch,
        completed_at=aware(row.completed_at),
        is_partial=row.is_partial,
        control_offset=row.control_offset,
        valid_through=_instant(row.valid_through),
        records=row.records,
        snapshots=tuple(snapshots),
    )


def _table_commit(row: Any) -> TableCommit:  # noqa: ANN401  a row of `sink_table_commit`
    return TableCommit(
        commit_id=row.commit_id,
        table=TableReference(
            catalog=row.catalog,
            namespace=tuple(row.namespace),
            name=row.name,
            uuid=row.table_uuid,
        ),
        snapshot_id=row.snapshot_id,
        control_offset=row.control_offset,
        valid_through=_instant(row.valid_through),
        records=row.records,
        files=row.files,
        source_ends=from_positions(row.source_ends),
    )


def _instant(value: datetime | None) -> datetime | None:
    return None if value is None else aware(value)
