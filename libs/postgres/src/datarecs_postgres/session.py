"""One open transaction of one tenant, used by every repository of this library.

Separate from `database`, which opens and ends transactions, so that repositories can do neither.
"""

from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any

from psycopg import sql
from sqlalchemy import ColumnElement, CursorResult, Executable, Table

from datarecs_application.errors import FeedNotDrawnError
from datarecs_core.values import RunId, TenantId, aware
from datarecs_postgres.border import Answer, Opened, Parameters, RowOrRows

RUN_CHANNEL = "datarecs_run"
"""Payload: a run id, or empty if several runs changed."""
WAKE_CHANNEL = "datarecs_wake"
"""Payload: names of `Woken`; empty means all."""


class Woken(StrEnum):
    """Receivers of a wake-up; at 100 events a second other processes should not be woken."""

    OUTBOX = "outbox"
    """Relays."""
    LEASES = "leases"
    """Workers' slots."""
    CANCELS = "cancels"
    """Workers with a lease of a run."""
    CHANGES = "changes"
    """Watchers of declared objects."""
    CHECKS = "checks"
    """Workers that check connections and jobs."""
    WORK = "work"
    """Loops that submit runs, send mails or deliver webhooks."""
    SINKS = "sinks"
    """Processes that run tasks of sinks."""
    OBJECTS = "objects"
    """Loops that reconcile objects or decide schedules."""


def concerns(payload: str, who: Woken) -> bool:
    """Whether a notification on `WAKE_CHANNEL` includes these receivers."""
    return not payload or who in payload.split()


class Session:
    """Statements of one transaction, its database time, its feed numbers, its notifications."""

    def __init__(self, opened: Opened, *, tenant_id: TenantId, feed: int) -> None:
        self._opened = opened
        self.tenant_id = tenant_id
        self._drawn = self._left = feed
        self._touched: set[RunId] = set()
        self._woken: set[Woken] = set()

    @cached_property
    def now(self) -> datetime:
        """Transaction time of the database, aware UTC; the first access begins the transaction."""
        row = self._opened.row
        return aware(row[-2] if self._drawn else row[-1])

    def execute(self, statement: Executable, parameters: RowOrRows = None) -> CursorResult[Any]:
        """Run a statement of SQLAlchemy Core or of a `.sql` file; row security adds the tenant."""
        return self._opened.execute(statement, parameters)

    def answer(self, statement: Executable, parameters: Parameters) -> Answer:
        """Run a statement that is a module constant: compiled once, without result objects."""
        return self._opened.answer(statement, parameters)

    def later(self, statement: Executable, parameters: Parameters) -> None:
        """The same for a write without a result: sent with the next statement or with COMMIT."""
        self._opened.later(statement, parameters)

    def waits(self, parameters: Parameters) -> bool:
        """Whether the write with this mapping object is not sent yet."""
        return self._opened.waits(parameters)

    def tenant_rows(self, table: Table) -> ColumnElement[bool]:
        """The table's rows of this tenant: a condition in the statement, plus row security."""
        mine: ColumnElement[bool] = table.c.tenant_id == self.tenant_id
        return mine

    def next_rv(self) -> int:
        """The next number of the block drawn at begin; FeedNotDrawnError if none is left."""
        if not self._left:
            raise FeedNotDrawnError(drawn=self._drawn)
        self._left -= 1
        first: int = self._opened.row[-1]
        return first + self._drawn - self._left - 1

    def touch_run(self, run_id: RunId) -> None:
        """Notify the live feed of this run at commit."""
        self._touched.add(run_id)

    def wake(self, who: Woken = Woken.WORK) -> None:
        """Wake these loops at commit; only a hint, loops also poll."""
        self._woken.add(who)

    def notifications(self) -> bytes:
        """A statement that queues notifications, one per channel: COMMIT takes a global lock once.

        Called only by `Database`, which sends it with COMMIT. Empty without notifications.
        """
        payloads = {}
        if self._touched:
            payloads[RUN_CHANNEL] = (
                str(next(iter(self._touched))) if len(self._touched) == 1 else ""
            )
        if self._woken:
            payloads[WAKE_CHANNEL] = " ".join(sorted(self._woken))
        calls = [
            f"pg_notify({sql.quote(name)}, {sql.quote(what)})" for name, what in payloads.items()
        ]
        return f"SELECT {', '.join(calls)}".encode() if calls else b""
