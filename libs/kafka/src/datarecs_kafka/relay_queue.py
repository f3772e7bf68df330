"""Which outbox row may be sent next: one unacknowledged row per key, keys independent.

Only state, separate from the relay so that the order guarantee can be tested without a broker, a
database or a clock: rows of a key are sent by position, and never two at a time.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from datarecs_application.ports.state import OutboxRow


@dataclass(slots=True)
class _Key:
    shard: int
    waiting: deque[OutboxRow]
    in_flight: OutboxRow | None = None


@dataclass(slots=True)
class _Rest:
    shard: int
    failures: int
    until: float


@dataclass(slots=True)
class RelayQueue:
    """Rows read from the outbox and not yet settled, by partition key."""

    _keys: dict[str, _Key] = field(default_factory=dict)
    _resting: dict[str, _Rest] = field(default_factory=dict)

    def offer(self, shard: int, rows: Iterable[OutboxRow], *, now: float) -> int:
        """Add the rows of one read, in position order; return the number of skipped rows.

        A key with unsettled rows gets no new ones: its order is already known, and later rows are
        read again. A paused key waits for its time.
        """
        fresh: dict[str, _Key] = {}
        left_alone = 0
        for row in rows:
            key = row.partition_key
            if key in self._keys or (key in self._resting and self._resting[key].until > now):
                left_alone += 1
            else:
                fresh.setdefault(key, _Key(shard, deque())).waiting.append(row)
        self._keys.update(fresh)
        return left_alone

    def next_rows(self) -> list[OutboxRow]:
        """The first waiting row of each key without a row in flight; these are now in flight."""
        ready = []
        for key in self._keys.values():
            if key.in_flight is None and key.waiting:
                key.in_flight = key.waiting.popleft()
                ready.append(key.in_flight)
        return ready

    def settle(self, row: OutboxRow) -> OutboxRow | None:
        """The row was sent or parked: return the key's next row, which is now in flight."""
        self._resting.pop(row.partition_key, None)
        key = self._keys[row.partition_key]
        key.in_flight = key.waiting.popleft() if key.waiting else None
        if key.in_flight is None:
            del self._keys[row.partition_key]
        return key.in_flight

    def put_back(self, row: OutboxRow) -> None:
        """The row in flight was not sent; it is the key's first row again."""
        key = self._keys[row.partition_key]
        key.in_flight = None
        key.waiting.appendleft(row)

    def fail(self, row: OutboxRow) -> int:
        """The row was refused: discard the key's rows; return its failures in a row."""
        key = self._keys.pop(row.partition_key)
        before = self._resting.get(row.partition_key)
        failures = 1 + (before.failures if before else 0)
        self._resting[row.partition_key] = _Rest(key.shard, failures, float("inf"))
        return failures

    def rest(self, row: OutboxRow, *, until: float) -> None:
        """A failed key is not sent again before this time; other keys continue."""
        self._resting[row.partition_key].until = until

    def unsettled(self) -> Counter[int]:
        """Number of rows waiting or in flight, by shard; shards without rows are not included."""
        rows: Counter[int] = Counter()
        for key in self._keys.values():
            rows[key.shard] += len(key.waiting) + (key.in_flight is not None)
        return rows

    def retain_shards(self, shards: Collection[int]) -> None:
        """Discard waiting rows of shards that are no longer owned; rows in flight may end."""
        for name, key in list(self._keys.items()):
            if key.shard not in shards:
                key.waiting.clear()
                if key.in_flight is None:
                    del self._keys[name]
        for name, rest in list(self._resting.items()):
            if rest.shard not in shards:
                del self._resting[name]
