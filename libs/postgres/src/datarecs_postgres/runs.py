"""The rows of `run`: loaded, locked and saved with only the columns that changed.

Roles hold column grants, so a save that named an unchanged column could be refused; the repository
keeps what it loaded in this transaction and writes the difference.
"""

from sqlalchemy import Select, select, update
from sqlalchemy.dialects.postgresql import insert

from datarecs_application.errors import RunExistsError
from datarecs_application.ports.state import HistoryEntry
from datarecs_core.runs.model import Run
from datarecs_core.values import RunId
from datarecs_postgres import json_text
from datarecs_postgres.history import NewEntry, RunHistory
from datarecs_postgres.run_rows import DEFAULTS, NUMBERED, from_row, to_row
from datarecs_postgres.session import Session
from datarecs_postgres.tables.runs import RUN


class PostgresRuns:
    """Port Runs."""

    def __init__(self, session: Session, history: RunHistory) -> None:
        self._session, self._history = session, history
        self._locked: dict[RunId, Run] = {}

    def add(self, run: Run) -> None:
        self._session_owns(run)
        row = to_row(run)
        named = {
            name: value
            for name, value in row.items()
            if name not in DEFAULTS or value != DEFAULTS[name]
        }
        added = self._session.execute(insert(RUN).values(named).on_conflict_do_nothing().inline())
        if not added.rowcount:
            raise RunExistsError(run_id=run.run_id)
        self._locked[run.run_id] = run
        self._session.touch_run(run.run_id)
        self._session.wake()

    def get(self, run_id: RunId) -> Run | None:
        return self._load(self._by_id(run_id))

    def for_update(self, run_id: RunId) -> Run | None:
        run = self._load(self._by_id(run_id).with_for_update())
        if run is not None:
            self._locked[run_id] = run
        return run

    def save(self, run: Run) -> None:
        before = self._locked.get(run.run_id)
        if before is None:
            raise LookupError(f"run {run.run_id} was not locked in this transaction")
        old = to_row(before)
        changed = {
            name: value
            for name, value in to_row(run).items()
            if name not in NUMBERED and value != old[name]
        }
        if not changed:
            return
        self._session.execute(
            update(RUN)
            .where(self._session.own(RUN), RUN.c.run_id == run.run_id)
            .values(**changed, row_version=RUN.c.row_version + 1)
        )
        self._locked[run.run_id] = run
        self._session.touch_run(run.run_id)
        if "next_reconcile_at" in changed:
            self._session.wake()

    def record(self, run_id: RunId, entry: HistoryEntry) -> int:
        known = self._history.find(run_id, entry.event_id)
        if known is not None:
            self._history.reclassify(run_id, known, entry.disposition)
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

    def _by_id(self, run_id: RunId) -> Select[tuple[object, ...]]:
        return select(RUN).where(self._session.own(RUN), RUN.c.run_id == run_id)

    def _load(self, statement: Select[tuple[object, ...]]) -> Run | None:
        row = self._session.execute(statement).one_or_none()
        return None if row is None else from_row(row)

    def _session_owns(self, run: Run) -> None:
        if run.tenant_id != self._session.tenant_id:
            raise ValueError("a run is added in a transaction of its own tenant")
