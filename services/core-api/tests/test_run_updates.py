"""Followers of runs share queries: each gets its entries, and many cost one query."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from threading import Event
from uuid import UUID

import pytest

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.ports.state import HistoryEntry
from datarecs_core.runs.model import Run
from datarecs_core.values import RunId, TenantId
from datarecs_core_api.run_updates import RunUpdates
from datarecs_memory.queries import MemoryQueries
from datarecs_testing.api import memory_api
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.live_views import a_followed_run, record


class Counting(MemoryQueries):
    """Counts questions; the first waits until it is let go, and one tenant's may fail."""

    failing: TenantId | None = None

    def watch(self) -> "Counting":
        self.queried: list[tuple[TenantId, int]] = []
        self.entry_count = 0
        self.go_on = Event()
        return self

    def runs_of(self, tenant: TenantId, run_ids: Collection[RunId]) -> Mapping[RunId, Run]:
        self.queried.append((tenant, len(run_ids)))
        self.go_on.wait(5)
        if tenant == self.failing:
            raise StoreUnavailableError(cause="gone")
        return super().runs_of(tenant, run_ids)

    def news(
        self, tenant: TenantId, seen: Sequence[tuple[RunId, int]], *, limit: int
    ) -> list[list[HistoryEntry]]:
        self.entry_count += len(seen)
        return super().news(tenant, seen, limit=limit)


def a_house() -> tuple[Counting, RunId, RunId]:
    house = memory_api()
    one = a_followed_run(house)
    other = house.caller().post("/api/v1/jobs/ledger-vs-exports/runs").headers["Location"]
    record(house, one, 3)
    first, second = (RunId(UUID(path.rpartition("/")[2])) for path in (one, other))
    return Counting(house.store).watch(), first, second


async def answers(updates: RunUpdates, *requests: tuple[TenantId, RunId, int]) -> list[object]:
    """What each gets when all request during the first query."""
    first = asyncio.ensure_future(updates.read(A_TENANT, requests[0][1], after=99))
    await asyncio.sleep(0)
    rest = [asyncio.ensure_future(updates.read(t, run, after=after)) for t, run, after in requests]
    await asyncio.sleep(0)
    queries = updates._queries  # noqa: SLF001  the one passed
    assert isinstance(queries, Counting)
    queries.go_on.set()
    await first
    gathered = await asyncio.gather(*rest, return_exceptions=True)
    updates.close()
    return [
        one if isinstance(one, BaseException) else [line.sequence for line in one.entries]
        for one in gathered
    ]


def test_requests_during_a_query_share_the_next_query() -> None:
    queries, one, other = a_house()
    requests = [(A_TENANT, one, 1), (A_TENANT, one, 3), (A_TENANT, other, 0), (A_TENANT, one, 99)]
    updates_read = asyncio.run(answers(RunUpdates(queries), *requests))
    assert updates_read == [[2, 3, 4], [4], [1], []]
    assert len(queries.queried) <= 2
    assert queries.entry_count == 3, "who has seen everything asks for no entries"


def test_a_run_of_another_tenant_is_none() -> None:
    queries, one, _ = a_house()

    async def read_once() -> object:
        queries.go_on.set()
        return (await RunUpdates(queries).read(B_TENANT, one, after=0)).run

    assert asyncio.run(read_once()) is None


def test_a_failure_reaches_every_caller_of_the_query() -> None:
    queries, one, _ = a_house()
    queries.failing = B_TENANT
    updates_read = asyncio.run(answers(RunUpdates(queries), (A_TENANT, one, 3), (B_TENANT, one, 0)))
    assert updates_read[0] == [4]
    assert isinstance(updates_read[1], StoreUnavailableError)


def test_one_that_left_while_it_waited_affects_no_other() -> None:
    queries, one, _ = a_house()

    async def act() -> list[int]:
        updates = RunUpdates(queries)
        first = asyncio.ensure_future(updates.read(A_TENANT, one, after=0))
        await asyncio.sleep(0)
        gone = asyncio.ensure_future(updates.read(A_TENANT, one, after=1))
        staying = asyncio.ensure_future(updates.read(A_TENANT, one, after=2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        queries.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await gone
        await first
        return [line.sequence for line in (await staying).entries]

    assert asyncio.run(act()) == [3, 4]
