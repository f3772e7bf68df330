"""What followers of runs read of the table, read together.

Each follower asks for itself, at its own place; whoever asks while a question is under way waits
for the next one, which asks for all of them. So the more is going on, the fewer questions one
follower costs, and nothing is kept for a slow one (spec run-lifecycle 15).
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
"""Entries of one update; a follower that gets so many reads again at once."""
PAUSE = timedelta(milliseconds=20)
"""Between two questions, however many followers were woken meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUpdate:
    """A run as it stands, and its entries behind what the follower has seen."""

    run: Run | None
    """None: the tenant has no such run, or no longer."""
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
        """The run and what stands behind `after`, at most PAGE entries.

        Raises:
            StoreUnavailableError, StoreBusyError: the database does not answer.
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
            if request.answer.set_running_or_notify_cancel():  # its client may have left meanwhile
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
        """The rows first: what they say is done stands in the entries that are read after them."""
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
