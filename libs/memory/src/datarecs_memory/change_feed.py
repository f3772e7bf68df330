"""Twin of the run feed: transactions run one after another, so all commits are visible."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import islice

from datarecs_application.ports.feed import EventFilter, FeedBatch, FeedEntry
from datarecs_core.values import TenantId
from datarecs_memory.store import MemoryStore, TenantState


class MemoryChangeFeed:
    """Port ChangeFeed."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def head(self) -> int:
        return max((rv for _, rv in self._numbers()), default=0)

    def read_after(self, *, after: int, limit: int) -> FeedBatch:
        entries = sorted(
            ((tenant, rv) for tenant, rv in self._numbers() if rv > after), key=lambda one: one[1]
        )
        return FeedBatch(entries=tuple(entries[:limit]), ended=0, begun=0)

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
