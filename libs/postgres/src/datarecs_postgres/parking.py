"""Parked events that the broker refuses: list them, and return them to the relay.

Separate from the relay's reader because an operator does this once, with the relay's login and
without a running relay.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select

from datarecs_core.values import EventId
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.outbox_reader import PostgresOutboxReader
from datarecs_postgres.tables.delivery import OUTBOX


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedEvent:
    event_id: EventId
    type: str
    last_error: str


def parked(url: str, events: Sequence[UUID] = ()) -> list[ParkedEvent]:
    """Parked events, oldest first; only the named ones, if any."""
    which = [OUTBOX.c.event_id.in_(events)] if events else []
    wanted = (
        select(OUTBOX.c.event_id, OUTBOX.c.type, OUTBOX.c.last_error)
        .where(OUTBOX.c.sent_at.is_(None), OUTBOX.c.parked_at.is_not(None), *which)
        .order_by(OUTBOX.c.position)
    )
    with closing(_opened(url)) as database:
        return [
            ParkedEvent(
                event_id=EventId(row.event_id), type=row.type, last_error=row.last_error or ""
            )
            for row in database.call(wanted)
        ]


def unpark(url: str, events: Sequence[UUID] = ()) -> int:
    """Return parked events to the relay, all if none is named; the number. Safe to repeat."""
    with closing(_opened(url)) as database:
        return PostgresOutboxReader(database).unpark(*map(EventId, events))


def _opened(url: str) -> Database:
    return Database(url, limits=Limits(pool_size=1), application="datarecs admin")
