"""Live view of one run: committed `run_event` rows as server-sent events, woken by NOTIFY.

The table is the truth and a poll each second the backstop, so a lost notification or a restarted
process loses nothing: clients resume after the last id they saw. Frames: `event` (id = sequence),
`run` (row snapshot), `end` after the terminal state (spec run-lifecycle 15).
"""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

from starlette.concurrency import run_in_threadpool

from datarecs_application.ports.state import HistoryEntry, Queries
from datarecs_core.runs.model import Run
from datarecs_core.values import RunId, TenantId
from datarecs_core_api.dependencies import RunsChanged
from datarecs_core_api.views import entry_view, run_view

POLL = timedelta(seconds=1)
PING = timedelta(seconds=15)
PAGE = 200


class LoopWake:
    """A latch another thread may set and this event loop waits for."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def set(self) -> None:
        self._loop.call_soon_threadsafe(self._event.set)

    def clear(self) -> None:
        self._event.clear()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002 - the Wake port's shape
        raise RuntimeError("an event loop must not block; await `arrived`")

    async def arrived(self, within: timedelta) -> None:
        """Come back when set, or after the timeout; then it is clear again."""
        try:
            await asyncio.wait_for(self._event.wait(), within.total_seconds())
        except TimeoutError:
            return
        finally:
            self._event.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One client that follows one run."""

    queries: Queries
    changed: RunsChanged
    tenant: TenantId
    run_id: RunId
    after: int

    async def frames(self) -> AsyncIterator[bytes]:
        """Every entry after `after` exactly once, in order; ends behind the terminal state."""
        wake, after, silent = LoopWake(), self.after, timedelta()
        version = 0
        self.changed.watch(str(self.run_id), wake)
        try:
            yield b"retry: 2000\n\n"
            while True:
                # The row first: what it says is done stands in the entries that are read after it.
                run = await run_in_threadpool(self.queries.run, self.tenant, self.run_id)
                if run is None:
                    return
                entries = await self._entries(after)
                for entry in entries:
                    yield _frame("event", entry_view(entry), number=entry.sequence)
                    after = entry.sequence
                if run.row_version != version:
                    version = run.row_version
                    yield _frame("run", run_view(run))
                if run.status.is_terminal and after >= run.last_sequence:
                    yield _frame("end", {"status": run.status, "result": run.result})
                    return
                silent = timedelta() if entries else silent + POLL
                if silent >= PING:
                    silent = timedelta()
                    yield b": ping\n\n"
                if len(entries) < PAGE:
                    await wake.arrived(POLL)
        finally:
            self.changed.leave(str(self.run_id), wake)

    async def _entries(self, after: int) -> list[HistoryEntry]:
        def read() -> list[HistoryEntry]:
            return self.queries.run_events(self.tenant, self.run_id, after=after, limit=PAGE)

        return await run_in_threadpool(read)


def _frame(event: str, data: dict[str, object], *, number: int | None = None) -> bytes:
    head = f"event: {event}\n" if number is None else f"event: {event}\nid: {number}\n"
    return f"{head}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


async def terminal_within(
    queries: Queries, changed: RunsChanged, run: Run, *, limit: timedelta
) -> Run:
    """The run as soon as it is terminal, or as it stands when the limit has passed."""
    wake = LoopWake()
    changed.watch(str(run.run_id), wake)
    loop = asyncio.get_running_loop()
    ends = loop.time() + limit.total_seconds()
    try:
        while True:
            seen = await run_in_threadpool(queries.run, run.tenant_id, run.run_id)
            run = seen or run
            left = ends - loop.time()
            if run.status.is_terminal or left <= 0:
                return run
            await wake.arrived(min(POLL, timedelta(seconds=left)))
    finally:
        changed.leave(str(run.run_id), wake)
