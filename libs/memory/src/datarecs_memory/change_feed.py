"""Twin of the feeds: transactions run one after another, so all commits are visible."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import islice

from datarecs_application.ports.feed import EventFilter, FeedBatch, FeedEntry
from datarecs_core.resources.change_feed import ResourceChange, WatchFilter
from datarecs_core.values import TenantId
from datarecs_memory.store import MemoryStore, TenantState


class MemoryChangeFeed:
    """Port ChangeFeed."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def head(self) -> int:
        return _head(self._numbers())

    def read_after(self, *, after: int, limit: int) -> FeedBatch:
        return _batch(self._numbers(), after=after, limit=limit)

    def entries(
        self, tenant: TenantId, where: EventFilter, *, after: int, upto: int, limit: int
    ) -> list[FeedEntry]:
        lines = (
            one
            for one in _lines(self._store.committed(tenant))
            if after < one.entry.rv <= upto and where.admits(one)
        )
        return list(islice(lines, limit))

    def is_expired(self, tenant: TenantId, after: int, *, age: timedelta) -> bool:
        if after > self.head():
            return True
        oldest = self._store.clock.now() - age
        times = [(one.entry.rv, one.entry.time) for one in _lines(self._store.committed(tenant))]
        missed = [time for rv, time in times if rv > after]
        if not missed or missed[0] < oldest:
            return bool(missed)
        seen = [time for rv, time in times if rv <= after]
        return after > 0 and (not seen or seen[-1] < oldest)

    def _numbers(self) -> Iterator[tuple[TenantId, int]]:
        for tenant, state in self._store.everything().items():
            for line in _lines(state):
                yield tenant, line.entry.rv


def _lines(state: TenantState) -> list[FeedEntry]:
    """Every entry of the tenant, in the order of the feed."""
    lines = (
        FeedEntry(run_id=run_id, job_id=state.runs[run_id].job_id, entry=entry)
        for run_id, history in state.history.items()
        for entry in history
    )
    return sorted(lines, key=lambda one: one.entry.rv)


class MemoryResourceFeed:
    """Port ResourceFeed."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def head(self) -> int:
        return _head(self._numbers())

    def read_after(self, *, after: int, limit: int) -> FeedBatch:
        return _batch(self._numbers(), after=after, limit=limit)

    def entries(
        self, tenant: TenantId, where: WatchFilter | None, *, after: int, upto: int, limit: int
    ) -> list[ResourceChange]:
        changes = (
            one
            for one in self._store.committed(tenant).changes
            if after < one.rv <= upto and (where is None or where.covers(one))
        )
        return list(islice(changes, limit))

    def lacks_objects(self, tenant: TenantId, after: int) -> bool:
        changes = self._store.committed(tenant).changes
        return after > self.head() or any(
            one.rv > after and one.resource is None for one in changes
        )

    def _numbers(self) -> Iterator[tuple[TenantId, int]]:
        for tenant, state in self._store.everything().items():
            for change in state.changes:
                yield tenant, change.rv


def _head(numbers: Iterator[tuple[TenantId, int]]) -> int:
    return max((rv for _, rv in numbers), default=0)


def _batch(numbers: Iterator[tuple[TenantId, int]], *, after: int, limit: int) -> FeedBatch:
    later = sorted((one for one in numbers if one[1] > after), key=lambda one: one[1])
    return FeedBatch(entries=tuple(later[:limit]), ended=0, begun=0)
