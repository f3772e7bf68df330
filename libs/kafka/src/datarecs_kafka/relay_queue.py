"""Which outbox row may be sent next: one unacked row per key, keys independent of each other.

Pure bookkeeping, apart from the relay so that the order promise can be tested without a broker, a
database or a clock: rows of a key leave by position, and never two at a time.
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
        """Take the rows of one read, in position order; returns how many were left alone.

        A key with unsettled rows keeps what it has: its order is known here already, and what came
        behind them is read again later. A resting key waits for its time.
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
        """The first waiting row of each key that has none in flight; they are in flight now."""
        ready = []
        for key in self._keys.values():
            if key.in_flight is None and key.waiting:
                key.in_flight = key.waiting.popleft()
                ready.append(key.in_flight)
        return ready

    def settle(self, row: OutboxRow) -> OutboxRow | None:
        """The row was taken or parked: the key's next row, which is in flight now."""
        self._resting.pop(row.partition_key, None)
        key = self._keys[row.partition_key]
        key.in_flight = key.waiting.popleft() if key.waiting else None
        if key.in_flight is None:
            del self._keys[row.partition_key]
        return key.in_flight

    def put_back(self, row: OutboxRow) -> None:
        """The row in flight was not sent after all; it is the key's first again."""
        key = self._keys[row.partition_key]
        key.in_flight = None
        key.waiting.appendleft(row)

    def fail(self, row: OutboxRow) -> int:
        """The row was not taken: forget the key's rows; returns its failures in a row."""
        key = self._keys.pop(row.partition_key)
        before = self._resting.get(row.partition_key)
        failures = 1 + (before.failures if before else 0)
        self._resting[row.partition_key] = _Rest(key.shard, failures, float("inf"))
        return failures

    def rest(self, row: OutboxRow, *, until: float) -> None:
        """A failed key is not taken again before this instant; the others go on."""
        self._resting[row.partition_key].until = until

    def unsettled(self) -> Counter[int]:
        """Rows waiting or in flight, by shard; a shard without any is not in it."""
        rows: Counter[int] = Counter()
        for key in self._keys.values():
            rows[key.shard] += len(key.waiting) + (key.in_flight is not None)
        return rows

    def retain_shards(self, shards: Collection[int]) -> None:
        """Forget waiting rows of shards that are no longer ours; what is in flight may end."""
        for name, key in list(self._keys.items()):
            if key.shard not in shards:
                key.waiting.clear()
                if key.in_flight is None:
                    del self._keys[name]
        for name, rest in list(self._resting.items()):
            if rest.shard not in shards:
                del self._resting[name]
