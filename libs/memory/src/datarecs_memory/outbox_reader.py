"""Twin of the relay's side of the outbox: shards under lease, unsent rows, marks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from datarecs_application.ports.state import OutboxRow
from datarecs_core.values import EventId
from datarecs_memory.store import SHARDS, MemoryStore, Queued, Shard


class MemoryOutboxReader:
    """Port OutboxReader."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def hold_shards(self, owner: str, *, ttl: timedelta) -> Mapping[int, int]:
        now = self._store.clock.now()
        with self._store.alone():
            relays = self._store.relays
            relays[owner] = now + ttl
            for gone in [one for one, until in relays.items() if until < now]:
                del relays[gone]
            share = -(-SHARDS // len(relays))
            shards = self._store.shards
            current = [number for number, shard in enumerate(shards) if shard.owner == owner]
            free = [
                n for n, shard in enumerate(shards) if _is_free(shard, now) and n not in current
            ]
            renewals = current[:share]
            taken = free[: share - len(renewals)]
            for number in current[share:]:
                shards[number] = Shard(epoch=shards[number].epoch)
            for number in (*renewals, *taken):
                epoch = shards[number].epoch + (number in taken)
                shards[number] = Shard(owner=owner, epoch=epoch, lease_until=now + ttl)
            return {number: shards[number].epoch for number in (*renewals, *taken)}

    def release_shards(self, owner: str) -> None:
        with self._store.alone():
            self._store.relays.pop(owner, None)
            for number, shard in enumerate(self._store.shards):
                if shard.owner == owner:
                    self._store.shards[number] = Shard(epoch=shard.epoch)

    def unsent(self, limits: Mapping[int, int]) -> Mapping[int, list[OutboxRow]]:
        rows: dict[int, list[OutboxRow]] = {shard: [] for shard in limits}
        for state in self._store.everything().values():
            for queued in state.outbox.values():
                if queued.shard in limits and queued.sent_at is None and queued.parked_at is None:
                    rows[queued.shard].append(queued.row)
        return {
            shard: sorted(of_shard, key=lambda row: row.position)[: limits[shard]]
            for shard, of_shard in rows.items()
        }

    def mark_sent(self, event_ids: Sequence[EventId]) -> None:
        now = self._store.clock.now()
        self._change(event_ids, lambda one: replace(one, sent_at=now, attempts=one.attempts + 1))

    def mark_failed(self, event_id: EventId, error: str, *, park: bool) -> None:
        parked_at = self._store.clock.now() if park else None

        def failed(one: Queued) -> Queued:
            parked = parked_at or one.parked_at
            return replace(one, attempts=one.attempts + 1, last_error=error, parked_at=parked)

        self._change([event_id], failed)

    def _change(self, event_ids: Sequence[EventId], change: Callable[[Queued], Queued]) -> None:
        with self._store.writing_all() as states:
            for state in states.values():
                for event_id in state.outbox.keys() & set(event_ids):
                    if state.outbox[event_id].sent_at is None:
                        state.outbox[event_id] = change(state.outbox[event_id])


def _is_free(shard: Shard, now: datetime) -> bool:
    return shard.owner is None or shard.lease_until is None or shard.lease_until <= now
