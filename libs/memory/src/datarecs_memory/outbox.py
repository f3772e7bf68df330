"""Twin of outbox and inbox: encoded in the transaction of the state, marked with the effect."""

import zlib
from collections.abc import Sequence
from dataclasses import replace

from datarecs_application.ports.state import HistoryEntry, OutboxRow
from datarecs_core.captures.events import CaptureEvent
from datarecs_core.decision import Event
from datarecs_core.runs.events import RunEvent
from datarecs_core.runs.model import Disposition
from datarecs_core.values import EventId
from datarecs_events.catalogue import EventKind
from datarecs_events.codec import EncodedEvent, Stamp, encode, read_data
from datarecs_memory.runs import number, remember
from datarecs_memory.scope import Scope
from datarecs_memory.store import SHARDS, Queued


class MemoryOutbox:
    """Port Outbox."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def append(
        self,
        *events: Event,
        caused_by: EventId | None = None,
        ids: Sequence[EventId] | None = None,
        traceparent: str | None = None,
    ) -> tuple[EventId, ...]:
        event_ids = tuple(ids or (EventId(self._scope.store.ids.new()) for _ in events))
        for event, event_id in zip(events, event_ids, strict=True):
            stamp = Stamp(
                event_id=event_id,
                time=self._scope.now,
                caused_by=caused_by,
                traceparent=traceparent,
            )
            self._queue(event_id, self._encoded(event, stamp))
        if events:
            self._scope.wake()
        return event_ids

    def _encoded(self, event: Event, stamp: Stamp) -> EncodedEvent:
        match event:
            case RunEvent():
                return self._of_run(event, stamp)
            case CaptureEvent():
                if event.root_job_id not in self._scope.state.captures.items:
                    raise LookupError(f"capture {event.root_job_id} is not one of this tenant")
                number = self._scope.state.captures.next_sequence(event.root_job_id)
                return encode(event, replace(stamp, sequence=number))
            case _:
                return encode(event, stamp)

    def _of_run(self, event: RunEvent, stamp: Stamp) -> EncodedEvent:
        """Numbered and recorded; a raw outcome waits as HISTORY for its consumer."""
        sequences, rvs = number(self._scope, event.run_id, 1)
        encoded = encode(event, replace(stamp, sequence=sequences[0]))
        applied = encoded.kind is EventKind.PLATFORM
        entry = HistoryEntry(
            sequence=sequences[0],
            event_id=stamp.event_id,
            type=encoded.type,
            source=encoded.source,
            time=stamp.time,
            data=read_data(encoded.data),
            disposition=Disposition.APPLIED if applied else Disposition.HISTORY,
            rv=rvs[0],
        )
        remember(self._scope, event.run_id, entry)
        return encoded

    def _queue(self, event_id: EventId, one: EncodedEvent) -> None:
        if one.topic is None:
            raise ValueError(f"{one.type} is sent only over HTTP and has no outbox row")
        if one.attributes["tenantid"] != str(self._scope.tenant_id):
            raise ValueError("an event is appended in a transaction of its own tenant")
        row = OutboxRow(
            position=self._scope.store.next_position(),
            event_id=event_id,
            topic=one.topic,
            partition_key=one.key,
            headers=one.headers,
            data=one.data,
            type=one.type,
            created_at=self._scope.now,
        )
        shard = zlib.crc32(one.key.encode()) % SHARDS
        self._scope.state.outbox[event_id] = Queued(row=row, shard=shard)


class MemoryInbox:
    """Port Inbox."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def first_time(self, consumer: str, source: str, event_id: EventId) -> bool:
        mark = (consumer, source, event_id)
        if mark in self._scope.state.inbox:
            return False
        self._scope.state.inbox |= {mark}
        return True

    def first_of(
        self, consumer: str, events: Sequence[tuple[str, EventId]]
    ) -> set[tuple[str, EventId]]:
        return {one for one in events if self.first_time(consumer, *one)}
