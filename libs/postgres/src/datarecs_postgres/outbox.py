"""Append events in the transaction of the state: encoded once, numbered, recorded, queued.

The bytes are fixed here; relay, retries and replays send exactly these bytes.
"""

import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import BigInteger, Text, bindparam, cast, func, insert
from sqlalchemy.dialects.postgresql import JSONB

from datarecs_application.ports.outside import Ids
from datarecs_core.captures.events import CaptureEvent
from datarecs_core.decision import Event
from datarecs_core.runs.events import RunEvent
from datarecs_core.runs.model import Disposition
from datarecs_core.values import EventId, RunId
from datarecs_events.catalogue import EventKind
from datarecs_events.codec import EncodedEvent, Stamp, encode
from datarecs_postgres.capture_sequences import number_events
from datarecs_postgres.history import NewEntry, RunHistory
from datarecs_postgres.session import Session, Woken
from datarecs_postgres.tables.delivery import OUTBOX


def hash_of(partition_key: str) -> int:
    """The hash of a key for its relay shard: the same in every process and release."""
    return zlib.crc32(partition_key.encode())


class _Place(NamedTuple):
    """The position of an event in its run or capture."""

    sequence: int
    time: datetime
    rv: int = 0
    """Feed number of an event of a run; the feed has no captures."""


_QUEUE = (
    insert(OUTBOX)
    .values(
        shard=bindparam("hash", type_=BigInteger) % func.datarecs.outbox_shards(),
        headers=cast(bindparam("headers", type_=Text()), JSONB),
    )
    .inline()
)


class PostgresOutbox:
    """Port Outbox."""

    def __init__(self, session: Session, history: RunHistory, ids: Ids) -> None:
        self._session, self._history, self._ids = session, history, ids

    def append(
        self,
        *events: Event,
        caused_by: EventId | None = None,
        ids: Sequence[EventId] | None = None,
        traceparent: str | None = None,
    ) -> tuple[EventId, ...]:
        event_ids = tuple(ids or (EventId(self._ids.new()) for _ in events))
        places = self._places(events)
        encoded: list[EncodedEvent] = []
        entries: list[NewEntry] = []
        for event, event_id in zip(events, event_ids, strict=True):
            counter = _counter_of(event)
            place = None if counter is None else next(places[counter])
            stamp = Stamp(
                event_id=event_id,
                time=self._session.now if place is None else place.time,
                sequence=None if place is None else place.sequence,
                caused_by=caused_by,
                traceparent=traceparent,
            )
            one = encode(event, stamp)
            encoded.append(one)
            if isinstance(event, RunEvent) and place is not None:
                entries.append(_entry(one, event.run_id, event_id, place))
        if entries:
            self._history.insert(entries)
        if encoded:
            self._queue(event_ids, encoded)
        return event_ids

    def _places(self, events: Sequence[Event]) -> dict[UUID, Iterator[_Place]]:
        """All numbers of each run and capture at once, assigned in the order of the events."""
        runs = Counter(event.run_id for event in events if isinstance(event, RunEvent))
        roots = Counter(event.root_job_id for event in events if isinstance(event, CaptureEvent))
        places: dict[UUID, Iterator[_Place]] = {}
        for run_id, count in runs.items():
            of_run = self._history.number(run_id, count)
            pairs = zip(of_run.sequences, of_run.rvs, strict=True)
            places[run_id] = iter([_Place(number, of_run.time, rv) for number, rv in pairs])
        for root, count in sorted(roots.items()):  # one order: two transactions never deadlock
            taken = number_events(self._session, root, count)
            places[root] = iter([_Place(number, taken.time) for number in taken.sequences])
        return places

    def _queue(self, ids: Sequence[EventId], encoded: Sequence[EncodedEvent]) -> None:
        for event_id, one in zip(ids, encoded, strict=True):
            if one.topic is None:
                raise ValueError(f"{one.type} is sent only over HTTP and has no outbox row")
            if one.attributes["tenantid"] != str(self._session.tenant_id):
                raise ValueError("an event is appended in a transaction of its own tenant")
            self._session.later(
                _QUEUE,
                {
                    "event_id": event_id,
                    "tenant_id": self._session.tenant_id,
                    "type": one.type,
                    "topic": one.topic,
                    "partition_key": one.key,
                    "hash": hash_of(one.key),
                    "headers": json.dumps([[name, value.decode()] for name, value in one.headers]),
                    "data": one.data,
                },
            )
        self._session.wake(Woken.OUTBOX)


def _counter_of(event: Event) -> UUID | None:
    """The run or capture that numbers the event."""
    match event:
        case RunEvent():
            return event.run_id
        case CaptureEvent():
            return event.root_job_id
        case _:
            return None


def _entry(one: EncodedEvent, run_id: RunId, event_id: EventId, place: _Place) -> NewEntry:
    """The record of an emitted event; a raw outcome waits as HISTORY for its consumer."""
    applied = one.kind is EventKind.PLATFORM
    return NewEntry(
        run_id=run_id,
        sequence=place.sequence,
        event_id=event_id,
        type=one.type,
        source=one.source,
        time=place.time,
        data=one.data.decode(),
        disposition=Disposition.APPLIED if applied else Disposition.HISTORY,
        rv=place.rv,
    )
