"""What is stored of one sink, for the process of one task.

Each call is one transaction, and none has an effect once the lease of the task is another one's:
the row of the task is locked before anything is written. An event is appended with the row that it
describes, so a repetition appends none.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Table, and_, delete, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from datarecs_application.ports.sink_leases import SinkLease
from datarecs_core.errors.captures import LeaseLostError
from datarecs_core.sink.checkpoint import (
    Checkpoint,
    SinkCommit,
    SinkState,
    TableCommit,
    TaskReport,
)
from datarecs_core.sink.documents import positions_document, sink_document
from datarecs_core.sink.events import SinkCommitCompleted, SinkTableCommitted
from datarecs_postgres.session import Session
from datarecs_postgres.sinks import report_of, state_of
from datarecs_postgres.tables.sinks import (
    SINK_COMMIT,
    SINK_STATE,
    SINK_TABLE_COMMIT,
    SINK_TASK,
)
from datarecs_postgres.unit_of_work import PostgresTransaction, PostgresUnitOfWork

HISTORY = timedelta(days=90)
"""How long commits are stored."""
_MOST_REMOVED = 200
"""Old rows that one commit removes, of each table."""
_STATE, _TASK = SINK_STATE.c, SINK_TASK.c


@dataclass(frozen=True, slots=True)
class PostgresSinkMemory:
    """Port SinkMemory."""

    unit: PostgresUnitOfWork
    lease: SinkLease
    session: UUID
    """Of the process; its reports count from 0."""

    def state(self) -> SinkState:
        with self.unit.begin(self.lease.tenant_id) as tx:
            row = tx.session.execute(
                select(SINK_STATE)
                .join(SINK_TASK, and_(*self._states(tx.session), _TASK.sink_uid == _STATE.sink_uid))
                .where(*self._held(tx.session))
            ).first()
        if row is None:
            raise self._lost()
        return state_of(row)

    def begin_epoch(self) -> int:
        with self._writing() as tx:
            epoch: int = tx.session.execute(
                update(SINK_STATE)
                .where(*self._states(tx.session))
                .values(epoch=_STATE.epoch + 1)
                .returning(_STATE.epoch)
            ).scalar_one()
        return epoch

    def begin_lineage(self, checkpoint: Checkpoint) -> None:
        with self._writing() as tx:
            tx.session.execute(
                update(SINK_STATE)
                .where(
                    *self._states(tx.session),
                    func.coalesce(_STATE.checkpoint["lineage"].astext, "") == "",
                )
                .values(
                    checkpoint=sink_document(checkpoint),
                    control_offset=checkpoint.control_offset,
                )
            )

    def committed_table(self, commit: TableCommit) -> None:
        with self._writing() as tx:
            row = {
                "table_uuid": commit.table.uuid,
                "snapshot_id": commit.snapshot_id,
                "commit_id": commit.commit_id,
                "catalog": commit.table.catalog,
                "namespace": list(commit.table.namespace),
                "name": commit.table.name,
                "control_offset": commit.control_offset,
                "valid_through": commit.valid_through,
                "records": commit.records,
                "files": commit.files,
                "source_ends": positions_document(commit.source_ends),
                "committed_at": tx.now,
            }
            if self._is_new(tx.session, SINK_TABLE_COMMIT, row):
                tx.outbox.append(
                    SinkTableCommitted.of(self.lease.tenant_id, self.lease.sink_uid, commit)
                )

    def committed(self, commit: SinkCommit) -> None:
        with self._writing() as tx:
            row = {
                "commit_id": commit.commit_id,
                "epoch": commit.epoch,
                "completed_at": tx.now,
                "is_partial": commit.is_partial,
                "control_offset": commit.checkpoint.control_offset,
                "valid_through": commit.checkpoint.valid_through,
                "records": commit.records,
            }
            if self._is_new(tx.session, SINK_COMMIT, row):
                tx.outbox.append(
                    SinkCommitCompleted.of(self.lease.tenant_id, self.lease.sink_uid, commit)
                )
            tx.session.execute(
                update(SINK_STATE)
                .where(
                    *self._states(tx.session),
                    _STATE.control_offset <= commit.checkpoint.control_offset,
                )
                .values(
                    checkpoint=sink_document(commit.checkpoint),
                    control_offset=commit.checkpoint.control_offset,
                )
            )
            self._remove_old(tx)

    def decided(self, epoch: int, checkpoint: Checkpoint) -> bool:
        with self._writing() as tx:
            changed = tx.session.execute(
                update(SINK_STATE)
                .where(*self._states(tx.session), _STATE.epoch == epoch)
                .values(
                    checkpoint=sink_document(checkpoint), control_offset=checkpoint.control_offset
                )
            )
        return changed.rowcount == 1

    def drained(self) -> None:
        with self._writing() as tx:
            tx.session.execute(
                update(SINK_STATE).where(*self._states(tx.session)).values(is_drained=True)
            )

    def report(self, report: TaskReport) -> None:
        with self._writing() as tx:
            row = tx.session.execute(
                select(
                    _TASK.session,
                    _TASK.session_letters,
                    _TASK.session_fenced,
                    _TASK.executor,
                    _TASK.report,
                ).where(*self._held(tx.session))
            ).one()
            seen = report.with_ends_of(report_of(row.report))
            is_same = row.session == self.session
            counted = max(report.dead_letters - (row.session_letters if is_same else 0), 0)
            is_fenced = report.fenced > (row.session_fenced if is_same else 0)
            if counted or is_fenced:
                values: dict[str, Any] = {"dead_letters": _STATE.dead_letters + counted}
                values |= {"fenced_at": func.now()} if is_fenced else {}
                tx.session.execute(
                    update(SINK_STATE).where(*self._states(tx.session)).values(values)
                )
            tx.session.execute(
                update(SINK_TASK)
                .where(*self._held(tx.session))
                .values(
                    session=self.session,
                    session_letters=report.dead_letters,
                    session_fenced=report.fenced,
                    # After a retry the process that ends is not how the task is doing.
                    **({} if row.executor is None else _how(seen)),
                )
            )

    @contextmanager
    def _writing(self) -> Iterator[PostgresTransaction]:
        """A transaction with the locked rows of the sink and of the task."""
        with self.unit.begin(self.lease.tenant_id) as tx:
            tx.session.execute(
                select(_STATE.epoch).where(*self._states(tx.session)).with_for_update()
            )
            task = select(_TASK.number).where(*self._held(tx.session))
            if tx.session.execute(task.with_for_update(read=True)).first() is None:
                raise self._lost()
            yield tx

    def _is_new(self, session: Session, table: Table, row: dict[str, Any]) -> bool:
        added = session.execute(
            insert(table)
            .values(tenant_id=self.lease.tenant_id, sink_uid=self.lease.sink_uid, **row)
            .on_conflict_do_nothing()
        )
        return added.rowcount == 1

    def _remove_old(self, tx: PostgresTransaction) -> None:
        before = tx.now - HISTORY
        for table, time, key in (
            (SINK_COMMIT, "completed_at", ("sink_uid", "commit_id")),
            (SINK_TABLE_COMMIT, "committed_at", ("sink_uid", "table_uuid", "snapshot_id")),
        ):
            columns = [table.c[name] for name in key]
            old = (
                select(*columns)
                .where(
                    tx.session.tenant_rows(table),
                    table.c.sink_uid == self.lease.sink_uid,
                    table.c[time] < before,
                )
                .limit(_MOST_REMOVED)
            )
            tx.session.execute(
                delete(table).where(tx.session.tenant_rows(table), tuple_(*columns).in_(old))
            )

    def _states(self, session: Session) -> tuple[Any, ...]:
        return (session.tenant_rows(SINK_STATE), _STATE.sink_uid == self.lease.sink_uid)

    def _held(self, session: Session) -> tuple[Any, ...]:
        """The row of the task, as long as the lease is this one."""
        return (
            session.tenant_rows(SINK_TASK),
            _TASK.sink_uid == self.lease.sink_uid,
            _TASK.number == self.lease.number,
            _TASK.epoch == self.lease.epoch,
            _TASK.lease_until.is_not(None),
        )

    def _lost(self) -> LeaseLostError:
        return LeaseLostError(item_id=self.lease.sink_uid, epoch=self.lease.epoch)


def _how(report: TaskReport) -> dict[str, Any]:
    """How the task is doing."""
    return {
        "report": sink_document(report),
        "reported_at": func.now(),
        "is_halted": report.is_halted,
    }
