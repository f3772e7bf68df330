"""The outbox as an archive: events for a group that the log no longer has.

Consumers read it with their own login: the query for missing events covers all tenants and returns
ids; the events are read inside their tenant, and only subscribed types.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from sqlalchemy import ARRAY, Row, Text, bindparam, cast, func, select
from sqlalchemy.exc import DBAPIError

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.ports.messaging import EventMemory, LogRecord
from datarecs_core.values import TenantId, aware
from datarecs_postgres.database import Database
from datarecs_postgres.failures import sqlstate
from datarecs_postgres.tables.delivery import OUTBOX

SLICE, LONGEST_SLICE = timedelta(hours=1), timedelta(days=1)
"""Time span of one search; longer if nothing is missing."""
PAGE = 1_000
_NOT_MIGRATED = {"3F000", "42883", "42501"}
"""SQLSTATEs: no schema, no such function, or no rights of this role yet."""


class PostgresEventArchive:
    """Port EventArchive, over the consumer's database login, which defines the group."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def memory(self, group: str) -> EventMemory:
        del group  # the login's service
        policy = func.datarecs.event_memory().table_valued("outbox_days", "inbox_days", "heard")
        try:
            (row,) = self._database.call(select(policy))
        except DBAPIError as failure:
            if sqlstate(failure) not in _NOT_MIGRATED:
                raise
            cause = "a migration of this release is missing; run `datarecs admin migrate`"
            raise StoreUnavailableError(cause=cause) from failure
        return EventMemory(
            outbox=timedelta(days=row.outbox_days),
            inbox=timedelta(days=row.inbox_days),
            has_marks=row.heard,
        )

    def unheard(self, group: str, topic: str, types: Collection[str]) -> Iterator[LogRecord]:
        retention = self.memory(group).outbox
        (now,) = self._database.call(select(func.clock_timestamp().label("now")))
        until: datetime = aware(now.now)
        since, step = until - retention, SLICE
        while since < until:
            count = 0
            for record in self._slice(topic, types, since, min(since + step, until)):
                count += 1
                yield record
            since += step
            step = SLICE if count else min(step * 2, LONGEST_SLICE)

    def _slice(
        self, topic: str, types: Collection[str], since: datetime, until: datetime
    ) -> Iterator[LogRecord]:
        after = 0
        while True:
            wanted = cast(bindparam("types", sorted(types)), ARRAY(Text))
            events = func.datarecs.unheard_events(
                topic, wanted, since, until, after, PAGE
            ).table_valued("tenant_id", "event_id", "outbox_position")
            missing = self._database.call(select(events).order_by(events.c.outbox_position))
            if not missing:
                return
            for tenant, rows in groupby(missing, key=lambda row: row.tenant_id):
                yield from self._records(TenantId(tenant), list(rows), since, until)
            after = missing[-1].outbox_position

    def _records(
        self, tenant: TenantId, missing: Sequence[Row[Any]], since: datetime, until: datetime
    ) -> list[LogRecord]:
        """The events in the order of the outbox; none is omitted."""
        wanted = select(
            *(OUTBOX.c.event_id, OUTBOX.c.position, OUTBOX.c.topic, OUTBOX.c.partition_key),
            *(OUTBOX.c.headers, OUTBOX.c.data, OUTBOX.c.created_at),
        ).where(
            OUTBOX.c.event_id.in_([row.event_id for row in missing]),
            OUTBOX.c.created_at >= since,
            OUTBOX.c.created_at < until,
        )
        with self._database.transaction(tenant, read_only=True) as session:
            rows = session.execute(
                wanted.where(session.tenant_rows(OUTBOX)).order_by(OUTBOX.c.position)
            )
            return [_record(row) for row in rows]


def _record(row: Row[Any]) -> LogRecord:
    """The record as the relay sent it; its position in the log is no longer known."""
    return LogRecord(
        topic=row.topic,
        partition=-1,
        offset=row.position,
        timestamp_ms=int(aware(row.created_at).timestamp() * 1000),
        key=row.partition_key.encode(),
        value=bytes(row.data),
        headers=tuple((name, value.encode()) for name, value in row.headers),
    )
