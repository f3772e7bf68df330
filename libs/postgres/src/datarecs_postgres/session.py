"""One open transaction in one tenant's scope: what every repository of this library works with.

Apart from `database`, which opens and ends transactions, so that repositories can neither.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from psycopg import sql
from sqlalchemy import ColumnElement, CursorResult, Executable, Table

from datarecs_application.errors import FeedNotDrawnError
from datarecs_core.values import RunId, TenantId
from datarecs_postgres.border import Answer, Opened, Parameters, RowOrRows

RUN_CHANNEL = "datarecs_run"
"""Payload: a run id, or nothing when several runs changed."""
WAKE_CHANNEL = "datarecs_wake"
"""Payload: names of `Woken`, or nothing, which means everybody."""


class Woken(StrEnum):
    """Who has something to do; at 100 events a second nobody else wants to look."""

    OUTBOX = "outbox"
    """Relays."""
    LEASES = "leases"
    """Workers' slots."""
    WORK = "work"
    """Loops that submit runs, send mails or deliver webhooks."""


def concerns(payload: str, who: Woken) -> bool:
    """Whether a notification on `WAKE_CHANNEL` is meant for these, among others."""
    return not payload or who in payload.split()


class Session:
    """Statements of one transaction, its database time, its feed numbers, its notifications."""

    def __init__(
        self, opened: Opened, *, tenant_id: TenantId, now: datetime, numbers: Sequence[int]
    ) -> None:
        self._opened = opened
        self.tenant_id = tenant_id
        self.now = now
        """Transaction time of the database, aware UTC."""
        self._drawn = len(numbers)
        self._numbers: Iterator[int] = iter(numbers)
        self._touched: set[RunId] = set()
        self._woken: set[Woken] = set()

    def execute(self, statement: Executable, parameters: RowOrRows = None) -> CursorResult[Any]:
        """Run a statement of SQLAlchemy Core or of a `.sql` file; row security adds the tenant."""
        return self._opened.execute(statement, parameters)

    def answer(self, statement: Executable, parameters: Parameters) -> Answer:
        """Run a statement that stands in a module: compiled once, without result objects."""
        return self._opened.answer(statement, parameters)

    def later(self, statement: Executable, parameters: Parameters) -> None:
        """The same for a write whose answer nobody needs: it goes with the next, or with COMMIT."""
        self._opened.later(statement, parameters)

    def waits(self, parameters: Parameters) -> bool:
        """Whether the write that was given this very mapping is still to be sent."""
        return self._opened.waits(parameters)

    def own(self, table: Table) -> ColumnElement[bool]:
        """The table's rows of this tenant: said in the statement as well as by row security."""
        mine: ColumnElement[bool] = table.c.tenant_id == self.tenant_id
        return mine

    def next_rv(self) -> int:
        """The next number of the block drawn at begin; FeedNotDrawnError when none is left."""
        number = next(self._numbers, None)
        if number is None:
            raise FeedNotDrawnError(drawn=self._drawn)
        return number

    def touch_run(self, run_id: RunId) -> None:
        """The live feed hears of this run at commit."""
        self._touched.add(run_id)

    def wake(self, who: Woken = Woken.WORK) -> None:
        """These loops hear of it at commit; a hint, polling is the truth."""
        self._woken.add(who)

    def notifications(self) -> bytes:
        """A statement that queues them, one per channel: COMMIT takes a global lock for them once.

        Called by `Database` only, which sends it with COMMIT. Empty when nobody is told anything.
        """
        told = {}
        if self._touched:
            told[RUN_CHANNEL] = str(next(iter(self._touched))) if len(self._touched) == 1 else ""
        if self._woken:
            told[WAKE_CHANNEL] = " ".join(sorted(self._woken))
        calls = [f"pg_notify({sql.quote(name)}, {sql.quote(what)})" for name, what in told.items()]
        return f"SELECT {', '.join(calls)}".encode() if calls else b""
