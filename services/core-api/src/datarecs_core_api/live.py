"""Live view of one run: committed `run_event` rows as server-sent events, woken by NOTIFY.

The table is the truth and a poll each second the backstop, so a lost notification or a restarted
process loses nothing: clients resume after the last id they saw. Frames: `event` (id = sequence),
`run` (row snapshot), `end` after the terminal state (spec run-lifecycle 15).
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.state import HistoryEntry, Queries
from datarecs_core.access.principal import Principal
from datarecs_core.runs.model import Run
from datarecs_core.values import RunId
from datarecs_core_api.exact_json import exact_json
from datarecs_core_api.following import Following
from datarecs_core_api.views import entry_view, run_view

PAGE = 200
RETRY = b"retry: 2000\n\n"
PING = b": ping\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One client that follows one run."""

    queries: Queries
    following: Following
    caller: Principal
    may_see: Callable[[], bool]
    """Whether the caller's key is still good; asked again while the stream lasts."""
    run_id: RunId
    after: int
    """Number of the last entry the client has seen."""

    async def started(self) -> AsyncIterator[bytes]:
        """The frames, when there is a place for another stream.

        Raises:
            ProblemError: 429, too many are open.
        """
        frames = self._frames()
        first = await anext(frames)

        async def all_frames() -> AsyncIterator[bytes]:
            async with aclosing(frames):
                yield first
                async for frame in frames:
                    yield frame

        return all_frames()

    async def _frames(self) -> AsyncGenerator[bytes, None]:
        """Every entry after `after` exactly once, in order; ends behind the terminal state.

        It also ends, without that frame, when the process drains, the key is revoked or the
        database goes away: the client comes back with the last number it saw.
        """
        pace = self.following.pace
        with self.following.place(self.caller), self.following.watching(str(self.run_id)) as wake:
            yield RETRY
            told, ping, check = _Told(after=self.after), _Due(pace.ping), _Due(pace.check)
            while not self.following.is_over:
                look = partial(self._look, told.after, check=check.has_come())
                run, entries = await run_in_threadpool(look)
                if run is None:
                    return
                for frame in told.news(run, entries):
                    ping.begin()
                    yield frame
                if told.is_over:
                    return
                if ping.has_come():
                    yield PING
                if len(entries) < PAGE:
                    await wake.arrived(pace.poll)

    def _look(self, after: int, *, check: bool) -> tuple[Run | None, list[HistoryEntry]]:
        """The row first: what it says is done stands in the entries that are read after it.

        None when there is nothing to see any more, or nobody who may.
        """
        tenant = self.caller.tenant_id
        try:
            if check and not self.may_see():
                return None, []
            run = self.queries.run(tenant, self.run_id)
            return run, self.queries.run_events(tenant, self.run_id, after=after, limit=PAGE)
        except (StoreUnavailableError, StoreBusyError):
            return None, []


class LiveResponse(StreamingResponse):
    """Frames on their way; a reader that takes nothing for too long is let go."""

    def __init__(self, frames: AsyncIterator[bytes], *, patience: timedelta) -> None:
        # proxies are told not to wait for more before they pass a frame on
        headers = {"X-Accel-Buffering": "no"}
        super().__init__(frames, media_type="text/event-stream", headers=headers)
        self._patience_s = patience.total_seconds()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def patiently(message: Message) -> None:
            async with asyncio.timeout(self._patience_s):
                await send(message)

        with suppress(TimeoutError):
            await super().__call__(scope, receive, patiently)


class _Due:
    """Whether some time has passed since it began or last came."""

    def __init__(self, every: timedelta) -> None:
        self._every_s = every.total_seconds()
        self._clock = asyncio.get_running_loop().time
        self.begin()

    def begin(self) -> None:
        self._since = self._clock()

    def has_come(self) -> bool:
        come = self._clock() - self._since >= self._every_s
        if come:
            self.begin()
        return come


@dataclass(slots=True, kw_only=True)
class _Told:
    """What one client has been told."""

    after: int
    row_version: int = 0
    is_over: bool = False

    def news(self, run: Run, entries: list[HistoryEntry]) -> list[bytes]:
        """Frames of everything that is new to the client, in order."""
        frames = []
        for entry in entries:
            frames.append(_frame("event", entry_view(run, entry), number=entry.sequence))
            self.after = entry.sequence
        if run.row_version != self.row_version:
            self.row_version = run.row_version
            frames.append(_frame("run", run_view(run).model_dump(mode="json")))
        if run.status.is_terminal and self.after >= run.last_sequence:
            frames.append(_frame("end", {"status": run.status, "result": run.result}))
            self.is_over = True
        return frames


def _frame(event: str, data: object, *, number: int | None = None) -> bytes:
    head = f"event: {event}\n" if number is None else f"event: {event}\nid: {number}\n"
    return f"{head}data: {exact_json(data)}\n\n".encode()


async def terminal_within(
    queries: Queries, following: Following, run: Run, *, limit: timedelta
) -> Run:
    """The run as soon as it is terminal, or as it stands when the limit has passed."""
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
