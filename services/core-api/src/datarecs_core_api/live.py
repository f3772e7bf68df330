"""Live view of one run: its committed `run_event` rows, woken by NOTIFY.

The table is authoritative and a poll each second is the fallback, so a lost notification or a
restarted process loses nothing: clients resume after their last number. Frames: `event` (number =
sequence), `run` (row snapshot), `end` after the terminal state (spec run-lifecycle 15).
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from starlette.concurrency import run_in_threadpool

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.state import HistoryEntry, Queries
from datarecs_core.access.principal import Principal
from datarecs_core.runs.model import Run
from datarecs_core.values import RunId
from datarecs_core_api.following import Following
from datarecs_core_api.frames import Frame, FrameBatch, a_frame
from datarecs_core_api.run_updates import PAGE, RunUpdate, RunUpdates
from datarecs_core_api.streaming import Due
from datarecs_core_api.views import entry_view, run_view


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One client that follows one run."""

    run_updates: RunUpdates
    following: Following
    caller: Principal
    may_see: Callable[[], bool]
    """Whether the caller's key is still valid; checked during the stream."""
    run_id: RunId
    after: int
    """Number of the last entry that the client has."""

    async def frames(self) -> AsyncGenerator[FrameBatch, None]:
        """Every entry after `after` exactly once, in order; ends after the terminal state.

        It also ends, without that frame, when the process drains, the key is revoked or the
        database is unavailable: the client reconnects with its last number.
        """
        pace = self.following.pace
        with self.following.watching(str(self.run_id)) as wake:
            seen, ping, check = _Seen(after=self.after), Due(pace.ping), Due(pace.check)
            while not self.following.is_over:
                update = await self._read_update(seen.after, check=check.has_come())
                if update.run is None:
                    return
                for frame in seen.news(update.run, update.entries):
                    ping.begin()
                    yield (frame,)
                if seen.is_over:
                    return
                if ping.has_come():
                    yield ()
                if len(update.entries) < PAGE:
                    await wake.arrived(pace.poll)

    async def _read_update(self, after: int, *, check: bool) -> RunUpdate:
        """Without a run when the run no longer exists or the caller lost access."""
        try:
            if check and not await run_in_threadpool(self.may_see):
                return RunUpdate(run=None)
            return await self.run_updates.read(self.caller.tenant_id, self.run_id, after=after)
        except (StoreUnavailableError, StoreBusyError):
            return RunUpdate(run=None)


@dataclass(slots=True, kw_only=True)
class _Seen:
    """What one client has been sent."""

    after: int
    row_version: int = 0
    is_over: bool = False

    def news(self, run: Run, entries: Sequence[HistoryEntry]) -> list[Frame]:
        """Frames of everything that is new to the client, in order."""
        frames = []
        for entry in entries:
            view = entry_view(run.tenant_id, run.run_id, entry)
            frames.append(a_frame("event", view, place=entry.sequence))
            self.after = entry.sequence
        if run.row_version != self.row_version:
            self.row_version = run.row_version
            frames.append(a_frame("run", run_view(run).model_dump(mode="json")))
        if run.status.is_terminal and self.after >= run.last_sequence:
            frames.append(a_frame("end", {"status": run.status, "result": run.result}))
            self.is_over = True
        return frames


async def terminal_within(
    queries: Queries, following: Following, run: Run, *, limit: timedelta
) -> Run:
    """The run as soon as it is terminal, or its current state when the limit has passed."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + limit.total_seconds()
    with following.watching(str(run.run_id)) as wake:
        while True:
            seen = await run_in_threadpool(queries.run, run.tenant_id, run.run_id)
            run = seen or run
            left = ends - loop.time()
            if run.status.is_terminal or left <= 0 or following.is_over:
                return run
            await wake.arrived(min(following.pace.poll, timedelta(seconds=left)))
