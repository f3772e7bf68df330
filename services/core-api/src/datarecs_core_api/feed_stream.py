"""One client of a feed: missed lines from the table, then those of the process's one reader.

Each line reaches the client once, in commit order, with a place from which it continues. Separate
from `tenant_live` and `watching`, which decide how a stream begins and what its silence looks like.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Generic

from starlette.concurrency import run_in_threadpool

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_core.access.principal import Principal
from datarecs_core_api.feed import PAGE, Buffer, Feed, LineT, WhereT
from datarecs_core_api.following import Following, LoopWake
from datarecs_core_api.frames import FrameBatch
from datarecs_core_api.streaming import Due

FOLLOWERS = "feed"
"""The key of followers of a feed in `Following`; no run has such an id."""


class FeedStream(ABC, Generic[LineT, WhereT]):
    """One client that follows its tenant; use it once, on an event loop."""

    def __init__(
        self,
        feed: Feed[LineT, WhereT],
        following: Following,
        *,
        caller: Principal,
        may_see: Callable[[], bool],
    ) -> None:
        """`may_see` returns whether the caller's key is still valid; called during the stream."""
        self._feed, self._following = feed, following
        self._tenant, self._may_see = caller.tenant_id, may_see
        self._at = 0
        """Number up to which the client has all its lines."""
        self._marked = 0
        """Number of the last place that the client has."""

    async def frames(self, where: WhereT, *, after: str | None) -> AsyncGenerator[FrameBatch, None]:
        """Every line after this place exactly once, in order; None: lines from now on.

        It ends when the client is 256 frames behind, the process drains, the key is revoked or the
        database is unavailable: the client reconnects with its last place.
        """
        self._check = Due(self._following.pace.check)
        with self._following.watching(FOLLOWERS) as wake:
            buffer = Buffer(self._feed.form, self._tenant, where, wake)
            try:
                await run_in_threadpool(self._feed.join, buffer)
                if opening := await self._opening(buffer.since, after):
                    yield opening
                for phase in (self._missed(where, buffer), self._live(buffer, wake)):
                    async with aclosing(phase):
                        async for batch in phase:
                            yield batch
            except (StoreUnavailableError, StoreBusyError):
                return
            finally:
                self._feed.leave(buffer)

    @abstractmethod
    async def _opening(self, since: int, after: str | None) -> FrameBatch:
        """Set the place of the client, and return what tells it, if it differs from `after`."""

    @abstractmethod
    def _silence(self) -> FrameBatch:
        """What is sent when a ping is due."""

    def _place(self, number: int) -> str:
        return self._feed.form.place(self._tenant, number)

    async def _missed(
        self, where: WhereT, buffer: Buffer[LineT, WhereT]
    ) -> AsyncGenerator[FrameBatch, None]:
        """From the table, until the buffer has all that follows."""
        form = self._feed.form
        while self._at < buffer.since and await self._goes_on():
            upto = buffer.since
            read = partial(self._feed.source.entries, after=self._at, upto=upto, limit=PAGE)
            page = await run_in_threadpool(read, self._tenant, where)
            items = [form.item(self._tenant, one) for one in page]
            if any(one.frame is None for one in items):
                buffer.is_lost = True
                return
            self._at = items[-1].rv if len(items) == PAGE else upto
            frames = [form.frame_for(one, where) for one in items]
            if shown := tuple(one for one in frames if one is not None):
                yield shown
            if self._at == upto and buffer.is_lost:
                await run_in_threadpool(self._feed.join, buffer)

    async def _live(
        self, buffer: Buffer[LineT, WhereT], wake: LoopWake
    ) -> AsyncGenerator[FrameBatch, None]:
        pace = self._following.pace
        ping, self._marked = Due(pace.ping), self._at
        while await self._goes_on():
            frames, upto = buffer.taken()
            if buffer.is_lost:
                return
            news = tuple(frame for rv, frame in frames if rv > self._at)
            self._at = max(self._at, upto)
            if news:
                ping.begin()
                self._marked = self._at
                self._spoke()
                yield news
            elif ping.has_come():
                yield self._silence()
            else:
                await wake.arrived(pace.poll)

    def _spoke(self) -> None:
        """A line was sent."""

    async def _goes_on(self) -> bool:
        if self._following.is_over:
            return False
        return not self._check.has_come() or await run_in_threadpool(self._may_see)
