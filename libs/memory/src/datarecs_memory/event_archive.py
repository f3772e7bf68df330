"""Twin of the outbox as an archive: events for a group that the log no longer has."""

from collections.abc import Collection, Iterator
from datetime import timedelta
from uuid import UUID

from datarecs_application.ports.messaging import EventMemory, LogRecord
from datarecs_memory.store import MemoryStore, Queued

OUTBOX, INBOX = timedelta(days=30), timedelta(days=45)


class MemoryEventArchive:
    """Port EventArchive."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def memory(self, group: str) -> EventMemory:
        return EventMemory(outbox=OUTBOX, inbox=INBOX, has_marks=bool(self._received_ids(group)))

    def unheard(self, group: str, topic: str, types: Collection[str]) -> Iterator[LogRecord]:
        oldest = self._store.clock.now() - OUTBOX
        candidates = [
            queued
            for state in self._store.everything().values()
            for queued in state.outbox.values()
            if queued.row.topic == topic
            and queued.row.type in types
            and queued.sent_at is not None
            and queued.row.created_at >= oldest
        ]
        for queued in sorted(candidates, key=lambda one: one.row.position):
            if queued.row.event_id not in self._received_ids(group):
                yield _record(queued)

    def _received_ids(self, group: str) -> set[UUID]:
        return {
            event_id
            for state in self._store.everything().values()
            for consumer, _, event_id in state.inbox
            if consumer == group
        }


def _record(queued: Queued) -> LogRecord:
    row = queued.row
    return LogRecord(
        topic=row.topic,
        partition=-1,
        offset=row.position,
        timestamp_ms=int(row.created_at.timestamp() * 1000),
        key=row.partition_key.encode(),
        value=row.data,
        headers=row.headers,
    )
