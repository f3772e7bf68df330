"""The rows of `run`: loaded, locked and saved with only the columns that changed.

Roles have column grants, so a save that names an unchanged column could be refused; the repository
stores the loaded values for the transaction and writes only changes.
"""

from collections import namedtuple
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, Executable, Uuid, bindparam, cast, func, select, true
from sqlalchemy.dialects.postgresql import insert

from datarecs_application.errors import RunExistsError
from datarecs_application.ports.state import HistoryEntry
from datarecs_core.runs.model import Disposition, Run
from datarecs_core.values import JobId, RunId, aware
from datarecs_postgres import json_text
from datarecs_postgres.history import NewEntry, RunHistory
from datarecs_postgres.run_rows import DEFAULTS, changes, from_row, to_row
from datarecs_postgres.run_writes import LockedRow, RunWrites
from datarecs_postgres.session import Session, Woken
from datarecs_postgres.tables.runs import RUN

_OF_RUN = (RUN.c.tenant_id == bindparam("of_tenant"), RUN.c.run_id == bindparam("of_run"))
_READ = select(RUN).where(*_OF_RUN)
_TIME = func.clock_timestamp().label("time")
_LOCKED = _READ.add_columns(_TIME).with_for_update()
_ADD = (
    insert(RUN)
    .on_conflict_do_nothing()
    .returning(RUN.c.row_version, RUN.c.last_sequence, RUN.c.feed_rv, _TIME)
)
_JOBS = (
    func.unnest(cast(bindparam("jobs", type_=ARRAY(Uuid)), ARRAY(Uuid)))
    .table_valued("job_id", name="jobs")
    .render_derived()
)
_NEWEST = (
    select(RUN)
    .where(
        RUN.c.tenant_id == bindparam("of_tenant"),
        RUN.c.job_id == _JOBS.c.job_id,
        RUN.c.closed_at.is_not(None),
    )
    .order_by(RUN.c.created_at.desc(), RUN.c.run_id.desc())
    .limit(1)
    .lateral("newest")
)
_NEWEST_ENDED = select(_NEWEST).select_from(_JOBS.join(_NEWEST, true()))
"""One search in the index of a job's runs for each job."""
_Row = namedtuple("_Row", RUN.c.keys())  # type: ignore[misc]  # noqa: PYI024  the table\'s columns


class PostgresRuns:
    """Port Runs."""

    def __init__(self, session: Session, history: RunHistory, writes: RunWrites) -> None:
        self._session, self._history, self._writes = session, history, writes
        self._locked: dict[RunId, Run] = {}

    def add(self, run: Run) -> None:
        self._require_session_tenant(run)
        row = to_row(run)
        named = {
            name: value
            for name, value in row.items()
            if name not in DEFAULTS or value != DEFAULTS[name]
        }
        added = self._session.answer(_ADD, named).fetchone()
        if added is None:
            raise RunExistsError(run_id=run.run_id)
        self._writes.locked(run.run_id, _locked_row(*added))
        self._locked[run.run_id] = run
        self._session.touch_run(run.run_id)
        self._session.wake()

    def get(self, run_id: RunId) -> Run | None:
        row = self._read_row(_READ, run_id)
        return None if row is None else from_row(_Row._make(row))

    def for_update(self, run_id: RunId) -> Run | None:
        columns = self._read_row(_LOCKED, run_id)
        if columns is None:
            return None
        row: Any = _Row._make(columns[:-1])
        self._locked[run_id] = run = from_row(row)
        numbers = (row.row_version, row.last_sequence, row.feed_rv)
        self._writes.locked(run_id, _locked_row(*numbers, columns[-1]))
        return run

    def save(self, run: Run) -> None:
        before = self._locked.get(run.run_id)
        if before is None:
            raise LookupError(f"run {run.run_id} was not locked in this transaction")
        changed = changes(before, run)
        if not changed:
            return
        self._writes.save(run.run_id, changed)
        self._locked[run.run_id] = run
        self._session.touch_run(run.run_id)
        if "next_reconcile_at" in changed:
            self._session.wake()
        if "cancel_requested" in changed:
            self._session.wake(Woken.CANCELS)

    def record(self, run_id: RunId, entry: HistoryEntry) -> int:
        known = self._known(run_id, entry)
        if known is not None:
            return known
        numbers = self._history.number(run_id, 1)
        sequence = numbers.sequences[0]
        self._history.insert(
            [
                NewEntry(
                    run_id=run_id,
                    sequence=sequence,
                    event_id=entry.event_id,
                    type=entry.type,
                    source=entry.source,
                    time=entry.time,
                    data=json_text.write(entry.data),
                    disposition=entry.disposition,
                    rv=numbers.rvs[0],
                )
            ]
        )
        return sequence

    def history(self, run_id: RunId, *, after: int = 0, limit: int = 1000) -> list[HistoryEntry]:
        return self._history.entries(run_id, after=after, limit=limit)

    def newest_ended(self, job_ids: Collection[JobId]) -> Mapping[JobId, Run]:
        of_jobs = {"of_tenant": self._session.tenant_id, "jobs": list(job_ids)}
        rows = self._session.answer(_NEWEST_ENDED, of_jobs).fetchall()
        return {run.job_id: run for run in (from_row(_Row._make(row)) for row in rows)}

    def _known(self, run_id: RunId, entry: HistoryEntry) -> int | None:
        """The number of a fact that is already recorded, with its new disposition.

        Received facts usually are, and only run-controller receives; synthesised facts are new,
        also those of workers, which may not change a disposition.
        """
        history, event_id = self._history, entry.event_id
        if entry.disposition is Disposition.SYNTHESISED and not history.knows(run_id, event_id):
            return None
        return history.reclassify(run_id, event_id, entry.disposition)

    def _read_row(self, statement: Executable, run_id: RunId) -> tuple[Any, ...] | None:
        by_id = {"of_tenant": self._session.tenant_id, "of_run": run_id}
        return self._session.answer(statement, by_id).fetchone()

    def _require_session_tenant(self, run: Run) -> None:
        if run.tenant_id != self._session.tenant_id:
            raise ValueError("a run is added in a transaction of its own tenant")


def _locked_row(version: int, sequence: int, rv: int, time: datetime) -> LockedRow:
    return LockedRow(version=version, sequence=sequence, rv=rv, time=aware(time))
