"""Read the feeds: the cursor never skips a slower writer (spec resources-scheduler 4).

Writers draw their numbers with the transaction id (`draw_rv`); a reader takes entries older than
every open transaction. Separate from `queries`, because lists do not need this order.
"""

from datetime import timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Select,
    Text,
    bindparam,
    cast,
    func,
    select,
    true,
)

from datarecs_application.ports.feed import EventFilter, FeedBatch, FeedEntry
from datarecs_core.resources.change_feed import ResourceChange, WatchFilter
from datarecs_core.values import JobId, RunId, TenantId
from datarecs_postgres.database import Database
from datarecs_postgres.history import entry_of
from datarecs_postgres.resource_rows import VERSION, change_of
from datarecs_postgres.session import Session
from datarecs_postgres.tables.resources import RESOURCE_CHANGE
from datarecs_postgres.tables.runs import RUN, RUN_EVENT

RUNS, CHANGES = "run", "resource"
"""Names of the feeds in `feed_after`."""


class PostgresChangeFeed:
    """Port ChangeFeed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def head(self) -> int:
        return _head(self._database, RUNS)

    def read_after(self, *, after: int, limit: int) -> FeedBatch:
        return _batch(self._database, RUNS, after=after, limit=limit)

    def entries(
        self, tenant: TenantId, where: EventFilter, *, after: int, upto: int, limit: int
    ) -> list[FeedEntry]:
        rows = self._database.query(
            tenant,
            select(RUN_EVENT, RUN.c.job_id)
            .join(RUN, _same_run())
            .where(RUN_EVENT.c.tenant_id == tenant, RUN_EVENT.c.rv > after, RUN_EVENT.c.rv <= upto)
            .where(*_conditions(where))
            .order_by(RUN_EVENT.c.rv)
            .limit(limit),
        )
        return [
            FeedEntry(run_id=RunId(row.run_id), job_id=JobId(row.job_id), entry=entry_of(row))
            for row in rows
        ]

    def is_expired(self, tenant: TenantId, after: int, *, age: timedelta) -> bool:
        if after > self.head():
            return True
        with self._database.transaction(tenant, read_only=True) as session:
            missed = self._is_old(session, RUN_EVENT.c.rv > after, age, newest=False)
            if missed is None or missed:
                return bool(missed)
            seen = self._is_old(session, RUN_EVENT.c.rv <= after, age, newest=True)
        return after > 0 and seen is not False

    @staticmethod
    def _is_old(
        session: Session, where: ColumnElement[bool], age: timedelta, *, newest: bool
    ) -> bool | None:
        """Whether the tenant's event next to the cursor on one side is old; None: no event."""
        rv = RUN_EVENT.c.rv
        return session.execute(
            select(RUN_EVENT.c.time < func.now() - age)
            .where(session.tenant_rows(RUN_EVENT), where)
            .order_by(rv.desc() if newest else rv)
            .limit(1)
        ).scalar()


class PostgresResourceFeed:
    """Port ResourceFeed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def head(self) -> int:
        return _head(self._database, CHANGES)

    def read_after(self, *, after: int, limit: int) -> FeedBatch:
        return _batch(self._database, CHANGES, after=after, limit=limit)

    def entries(
        self, tenant: TenantId, where: WatchFilter | None, *, after: int, upto: int, limit: int
    ) -> list[ResourceChange]:
        change = RESOURCE_CHANGE.c
        statement = select(RESOURCE_CHANGE).where(
            change.tenant_id == tenant, change.rv > after, change.rv <= upto
        )
        if where is not None:
            statement = statement.where(change.kind == where.kind.value)
            if where.namespace is not None:
                statement = statement.where(change.namespace == where.namespace)
        rows = self._database.query(tenant, statement.order_by(change.rv).limit(limit))
        return [change_of(row) for row in rows]

    def lacks_objects(self, tenant: TenantId, after: int) -> bool:
        if after > self.head():
            return True
        change = RESOURCE_CHANGE.c
        lacking = change.body.is_(None) | ~change.body.has_key(VERSION)
        rows = self._database.query(
            tenant,
            select(change.rv)
            .where(change.tenant_id == tenant, change.rv > after, lacking)
            .limit(1),
        )
        return bool(rows)


def _head(database: Database, feed: str) -> int:
    newest = func.datarecs.feed_after(feed, None, 1).table_valued("tenant_id", "rv")
    rows = database.query(None, select(newest.c.rv))
    return int(rows[0].rv) if rows else 0


def _batch(database: Database, feed: str, *, after: int, limit: int) -> FeedBatch:
    """One statement, so one snapshot: the transactions reported as ended are those returned."""
    rows = database.query(None, _BATCH, {"feed": feed, "after": after, "limit": limit})
    entries = tuple((TenantId(row.tenant_id), row.rv) for row in rows if row.rv is not None)
    return FeedBatch(entries=entries, ended=rows[0].ended, begun=rows[0].begun)


def _select_batch() -> Select[Any]:
    snapshot = func.pg_current_snapshot()
    horizon = select(
        _number(func.pg_snapshot_xmin(snapshot)).label("ended"),
        _number(func.pg_snapshot_xmax(snapshot)).label("begun"),
    ).subquery()
    name = bindparam("feed", type_=Text)
    place, most = bindparam("after", type_=BigInteger), bindparam("limit", type_=Integer)
    shown = func.datarecs.feed_after(name, place, most).table_valued("tenant_id", "rv")
    return (
        select(horizon, shown.c.tenant_id, shown.c.rv)
        .select_from(horizon.outerjoin(shown, true()))
        .order_by(shown.c.rv)
    )


def _conditions(where: EventFilter) -> list[ColumnElement[bool]]:
    wanted: list[ColumnElement[bool]] = []
    if where.types:
        wanted.append(RUN_EVENT.c.type.in_(sorted(where.types)))
    if where.job_id is not None:
        wanted.append(RUN.c.job_id == where.job_id)
    return wanted


def _same_run() -> ColumnElement[bool]:
    same: ColumnElement[bool] = RUN.c.tenant_id == RUN_EVENT.c.tenant_id
    return same & (RUN.c.run_id == RUN_EVENT.c.run_id)


def _number(xid8: ColumnElement[str]) -> ColumnElement[int]:
    """A transaction id with its epoch as a number; PostgreSQL casts it only through text."""
    return cast(cast(xid8, Text), BigInteger)


_BATCH = _select_batch()
