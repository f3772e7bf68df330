"""The relay's side of the outbox: shards under lease, unsent rows, marks.

A separate login and module: only it reads rows of all tenants, and no other table of tenants.
"""

from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import (
    ARRAY,
    Connection,
    Integer,
    Select,
    SmallInteger,
    Uuid,
    any_,
    bindparam,
    cast,
    delete,
    func,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from datarecs_application.ports.state import OutboxRow
from datarecs_core.values import EventId, aware
from datarecs_postgres.database import Database
from datarecs_postgres.tables.delivery import OUTBOX, RELAY_OWNER, RELAY_SHARD

MAX_ERROR_CHARACTERS = 2000
_ROW = (
    *("position", "shard", "event_id", "created_at", "type", "topic", "partition_key"),
    *("headers", "data"),
)
_Row = namedtuple("_Row", _ROW)  # type: ignore[misc]  # noqa: PYI024  columns by name


def _unsent() -> Select[Any]:
    """The first rows of each shard by one probe of its index, for all shards at once."""
    shards = cast(bindparam("shards", type_=ARRAY(SmallInteger)), ARRAY(SmallInteger))
    counts = cast(bindparam("counts", type_=ARRAY(Integer)), ARRAY(Integer))
    wanted = func.unnest(shards, counts).table_valued("shard", "count").render_derived("wanted")
    rows = (
        select(*(OUTBOX.c[name] for name in _ROW))
        .where(
            OUTBOX.c.shard == wanted.c.shard,
            OUTBOX.c.sent_at.is_(None),
            OUTBOX.c.parked_at.is_(None),
        )
        .order_by(OUTBOX.c.position)
        .limit(wanted.c.count)
        .lateral("unsent")
    )
    return (
        select(*(rows.c[name] for name in _ROW))
        .select_from(wanted.join(rows, true()))
        .order_by(rows.c.position)
    )


_UNSENT = _unsent()
# One array of any length: one text, so the server plans it once.
_MARK_SENT = (
    update(OUTBOX)
    .where(
        OUTBOX.c.event_id == any_(cast(bindparam("ids", type_=ARRAY(Uuid)), ARRAY(Uuid))),
        OUTBOX.c.sent_at.is_(None),
    )
    .values(sent_at=func.clock_timestamp(), attempts=OUTBOX.c.attempts + 1)
    .returning(OUTBOX.c.position)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The backlog of the relay, for readiness and metrics."""

    unsent: int
    oldest_unsent: timedelta
    """Age of the oldest waiting row; zero if none waits."""
    parked: int


class PostgresOutboxReader:
    """Port OutboxReader. The database uses the relay's own login."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def hold_shards(self, owner: str, *, ttl: timedelta) -> Mapping[int, int]:
        with self._database.platform() as connection:
            owners = _owners(connection, owner, ttl)
            free = or_(
                RELAY_SHARD.c.owner.is_(None), RELAY_SHARD.c.lease_until <= func.clock_timestamp()
            )
            shards = connection.execute(
                select(RELAY_SHARD, free.label("free"))
                .order_by(RELAY_SHARD.c.shard)
                .with_for_update()
            ).all()
            share = -(-len(shards) // owners)  # a fair share among all live relays
            current = [row.shard for row in shards if row.owner == owner]
            renewals = current[:share]
            others = [row.shard for row in shards if row.free and row.owner != owner]
            taken = others[: share - len(renewals)]
            _lease(connection, renewals, owner, ttl, grant=0)
            _lease(connection, taken, owner, ttl, grant=1)
            _release(connection, current[share:])
            held = {*renewals, *taken}
            return {
                row.shard: row.epoch + (row.shard in taken) for row in shards if row.shard in held
            }

    def release_shards(self, owner: str) -> None:
        with self._database.platform() as connection:
            connection.execute(delete(RELAY_OWNER).where(RELAY_OWNER.c.owner == owner))
            mine = select(RELAY_SHARD.c.shard).where(RELAY_SHARD.c.owner == owner)
            _release(connection, list(connection.execute(mine).scalars()))

    def unsent(self, limits: Mapping[int, int]) -> Mapping[int, list[OutboxRow]]:
        rows: dict[int, list[OutboxRow]] = {shard: [] for shard in limits}
        parameters = {"shards": list(limits), "counts": list(limits.values())}
        row: Any
        for row in map(_Row._make, self._database.answer(_UNSENT, parameters) if limits else ()):
            rows[row.shard].append(
                OutboxRow(
                    position=row.position,
                    event_id=EventId(row.event_id),
                    topic=row.topic,
                    partition_key=row.partition_key,
                    headers=tuple((name, value.encode()) for name, value in row.headers),
                    data=bytes(row.data),
                    type=row.type,
                    created_at=aware(row.created_at),
                )
            )
        return rows

    def mark_sent(self, event_ids: Sequence[EventId]) -> None:
        self._database.answer(_MARK_SENT, {"ids": list(event_ids)})

    def mark_failed(self, event_id: EventId, error: str, *, park: bool) -> None:
        parked = {"parked_at": func.clock_timestamp()} if park else {}
        with self._database.platform() as connection:
            connection.execute(
                update(OUTBOX)
                .where(OUTBOX.c.event_id == event_id, OUTBOX.c.sent_at.is_(None))
                .values(
                    attempts=OUTBOX.c.attempts + 1,
                    last_error=error[:MAX_ERROR_CHARACTERS],
                    **parked,
                )
            )

    def unpark(self, *event_ids: EventId) -> int:
        """Return these parked rows, or all if none is named, to the relay; the number of rows."""
        which = [OUTBOX.c.event_id.in_(event_ids)] if event_ids else []
        with self._database.platform() as connection:
            freed = connection.execute(
                update(OUTBOX)
                .where(OUTBOX.c.sent_at.is_(None), OUTBOX.c.parked_at.is_not(None), *which)
                .values(parked_at=None)
            )
            return freed.rowcount

    def backlog(self) -> Backlog:
        waiting = OUTBOX.c.parked_at.is_(None)
        age = func.clock_timestamp() - func.min(OUTBOX.c.created_at).filter(waiting)
        statement = select(
            func.count().filter(waiting).label("unsent"),
            age.label("oldest"),
            func.count().filter(~waiting).label("parked"),
        ).where(OUTBOX.c.sent_at.is_(None))
        (row,) = self._database.call(statement)
        return Backlog(
            unsent=row.unsent, oldest_unsent=row.oldest or timedelta(0), parked=row.parked
        )


def _owners(connection: Connection, owner: str, ttl: timedelta) -> int:
    """The number of live relays, with this one."""
    until = func.clock_timestamp() + ttl
    alive = insert(RELAY_OWNER).values(owner=owner, seen_until=until)
    connection.execute(
        alive.on_conflict_do_update(index_elements=["owner"], set_={"seen_until": until}).inline()
    )
    connection.execute(delete(RELAY_OWNER).where(RELAY_OWNER.c.seen_until < func.clock_timestamp()))
    return connection.execute(select(func.count()).select_from(RELAY_OWNER)).scalar_one()


def _lease(
    connection: Connection, shards: Sequence[int], owner: str, ttl: timedelta, *, grant: int
) -> None:
    """Hold these shards until now + ttl; `grant` raises the epoch of those with a new owner."""
    connection.execute(
        update(RELAY_SHARD)
        .where(RELAY_SHARD.c.shard.in_(shards))
        .values(
            owner=owner,
            lease_until=func.clock_timestamp() + ttl,
            epoch=RELAY_SHARD.c.epoch + grant,
        )
    )


def _release(connection: Connection, shards: Sequence[int]) -> None:
    connection.execute(
        update(RELAY_SHARD)
        .where(RELAY_SHARD.c.shard.in_(shards))
        .values(owner=None, lease_until=None)
    )
