"""Number and record rows of `run_event`: the only place that increases a run's sequence.

Separate from `runs` and `outbox`, because both record facts and must number them in the same way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from sqlalchemy import BigInteger, Row, Text, bindparam, cast, func, insert, select, update
from sqlalchemy.dialects.postgresql import JSONB

from datarecs_application.errors import StoreBusyError
from datarecs_application.ports.state import HistoryEntry
from datarecs_core.runs.model import Disposition
from datarecs_core.values import EventId, RunId, aware
from datarecs_postgres.run_writes import Numbers, RunWrites
from datarecs_postgres.session import Session
from datarecs_postgres.tables.runs import RUN, RUN_EVENT


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEntry:
    """A row of `run_event` before its insert; `data` is JSON text."""

    run_id: RunId
    sequence: int
    event_id: EventId
    type: str
    source: str
    time: datetime
    data: str
    disposition: Disposition
    rv: int


_NUMBER = (
    update(RUN)
    .where(
        RUN.c.tenant_id == bindparam("tenant"),
        RUN.c.run_id == bindparam("run"),
        RUN.c.feed_rv < bindparam("first_rv"),
    )
    .values(
        last_sequence=RUN.c.last_sequence + bindparam("count", type_=BigInteger),
        feed_rv=bindparam("last_rv"),
    )
    .returning(RUN.c.last_sequence, func.clock_timestamp().label("time"))
)
_OF_FACT = (
    RUN_EVENT.c.tenant_id == bindparam("tenant"),
    RUN_EVENT.c.run_id == bindparam("run"),
    RUN_EVENT.c.event_id == bindparam("event"),
)
_KNOWN = select(RUN_EVENT.c.sequence).where(*_OF_FACT)
_RECLASSIFY = (
    update(RUN_EVENT)
    .where(*_OF_FACT)
    .values(disposition=bindparam("told"))
    .returning(RUN_EVENT.c.sequence)
)
_RECORD = insert(RUN_EVENT).values(data=cast(bindparam("data", type_=Text()), JSONB)).inline()


def entry_of(row: Row[Any]) -> HistoryEntry:
    """The entry of a complete row of `run_event`."""
    return HistoryEntry(
        sequence=row.sequence,
        event_id=EventId(row.event_id),
        type=row.type,
        source=row.source,
        time=aware(row.time),
        data=row.data,
        disposition=Disposition(row.disposition),
        rv=row.rv,
    )


class RunHistory:
    """The rows of `run_event`."""

    def __init__(self, session: Session, writes: RunWrites) -> None:
        self._session, self._writes = session, writes

    def number(self, run_id: RunId, count: int) -> Numbers:
        """Take the next `count` numbers of a run; lock its row if it is not locked.

        Raises:
            StoreBusyError: a transaction with higher feed numbers has written to the run; a
                repeated transaction draws newer numbers, so rv and sequence have the same order.
            LookupError: the tenant has no such run.
        """
        rvs = tuple(self._session.next_rv() for _ in range(count))
        self._session.touch_run(run_id)
        known = self._writes.number(run_id, rvs)
        return known or self._read_numbers(run_id, rvs)

    def _read_numbers(self, run_id: RunId, rvs: tuple[int, ...]) -> Numbers:
        """Numbers for a run that this transaction has not read under its lock."""
        count = len(rvs)
        run = {"tenant": self._session.tenant_id, "run": run_id}
        numbers = {"count": count, "first_rv": rvs[0], "last_rv": rvs[-1]}
        row = self._session.answer(_NUMBER, run | numbers).fetchone()
        if row is None:
            self._explain(run_id)
        last, time = row
        return Numbers(sequences=range(last - count + 1, last + 1), rvs=rvs, time=aware(time))

    def insert(self, entries: Sequence[NewEntry]) -> None:
        """Store rows with numbers taken in this transaction."""
        for entry in entries:
            self._session.later(
                _RECORD,
                {
                    "tenant_id": self._session.tenant_id,
                    "run_id": entry.run_id,
                    "sequence": entry.sequence,
                    "event_id": entry.event_id,
                    "type": entry.type,
                    "source": entry.source,
                    "time": entry.time,
                    "data": entry.data,
                    "disposition": entry.disposition.value,
                    "rv": entry.rv,
                },
            )

    def knows(self, run_id: RunId, event_id: EventId) -> bool:
        """Whether the fact is recorded."""
        fact = {"tenant": self._session.tenant_id, "run": run_id, "event": event_id}
        return self._session.answer(_KNOWN, fact).fetchone() is not None

    def reclassify(self, run_id: RunId, event_id: EventId, disposition: Disposition) -> int | None:
        """Set the disposition of a fact that was recorded before; return its number, if it was."""
        fact = {
            "tenant": self._session.tenant_id,
            "run": run_id,
            "event": event_id,
            "told": disposition.value,
        }
        row = self._session.answer(_RECLASSIFY, fact).fetchone()
        if row is None:
            return None
        self._session.touch_run(run_id)
        return int(row[0])

    def entries(self, run_id: RunId, *, after: int, limit: int) -> list[HistoryEntry]:
        """Entries with a sequence above `after`, in order."""
        rows = self._session.execute(
            select(RUN_EVENT)
            .where(
                self._session.tenant_rows(RUN_EVENT),
                RUN_EVENT.c.run_id == run_id,
                RUN_EVENT.c.sequence > after,
            )
            .order_by(RUN_EVENT.c.sequence)
            .limit(limit)
        )
        return [entry_of(row) for row in rows]

    def _explain(self, run_id: RunId) -> NoReturn:
        known = self._session.execute(
            select(RUN.c.feed_rv).where(self._session.tenant_rows(RUN), RUN.c.run_id == run_id)
        ).scalar()
        if known is None:
            raise LookupError(f"run {run_id} is not one of this tenant")
        raise StoreBusyError(cause=f"run {run_id} was written with newer feed numbers meanwhile")
