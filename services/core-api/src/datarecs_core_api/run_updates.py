"""The reads of all followers of runs, combined into one query.

Each follower requests entries after its place; requests during a running query wait for the next
one, which serves all of them. So more activity means fewer queries per follower, and nothing is
stored for a slow one (spec run-lifecycle 15).
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event, Lock
from time import monotonic

from datarecs_application.ports.state import HistoryEntry, Queries
from datarecs_core.runs.model import Run
from datarecs_core.values import RunId, TenantId

PAGE = 200
"""Entries of one update; a follower that gets this number reads again at once."""
PAUSE = timedelta(milliseconds=20)
"""Between two queries, for any number of woken followers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUpdate:
    """The current run, and its entries after the place of the follower."""

    run: Run | None
    """None: the tenant does not have the run, or no longer."""
    entries: Sequence[HistoryEntry] = ()


@dataclass(frozen=True, slots=True)
class _Request:
    tenant: TenantId
    run_id: RunId
    after: int
    answer: Future[RunUpdate] = field(default_factory=Future)


class RunUpdates:
    """One question at a time, however many followers. Safe from several threads."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="run-updates")
        self._lock = Lock()
        self._over = Event()
        self._next = 0.0
        self._waiting: list[_Request] = []

    async def read(self, tenant: TenantId, run_id: RunId, *, after: int) -> RunUpdate:
        """The run and its entries after `after`, at most PAGE entries.

        Raises:
            StoreUnavailableError, StoreBusyError: the database does not respond.
        """
        request = _Request(tenant, run_id, after)
        with self._lock:
            is_first = not self._waiting
            self._waiting.append(request)
        if is_first:
            self._thread.submit(self._answer)
        return await asyncio.wrap_future(request.answer)

    def close(self) -> None:
        """Followers have ended by then."""
        self._over.set()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _answer(self) -> None:
        self._over.wait(self._next - monotonic())
        self._next = monotonic() + PAUSE.total_seconds()
        with self._lock:
            waiting, self._waiting = self._waiting, []
        of_tenants: dict[TenantId, list[_Request]] = defaultdict(list)
        for request in waiting:
            if request.answer.set_running_or_notify_cancel():  # its client may have left
                of_tenants[request.tenant].append(request)
        for tenant, followers in of_tenants.items():
            try:
                updates = self._read_updates(tenant, followers)
            except Exception as failure:  # noqa: BLE001  each follower raises it where it awaits
                for request in followers:
                    request.answer.set_exception(failure)
                continue
            for request, update in zip(followers, updates, strict=True):
                request.answer.set_result(update)

    def _read_updates(self, tenant: TenantId, followers: Sequence[_Request]) -> list[RunUpdate]:
        """The rows first, so that the entries read after them contain everything in the rows."""
        runs = self._queries.runs_of(tenant, {request.run_id for request in followers})
        behind = [
            request
            for request in followers
            if request.run_id in runs and runs[request.run_id].last_sequence > request.after
        ]
        seen = [(request.run_id, request.after) for request in behind]
        news = self._queries.news(tenant, seen, limit=PAGE) if seen else []
        entries = {id(request): lines for request, lines in zip(behind, news, strict=True)}
        return [
            RunUpdate(run=runs.get(request.run_id), entries=entries.get(id(request), ()))
            for request in followers
        ]
