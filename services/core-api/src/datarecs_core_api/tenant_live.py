"""Live view of a tenant: the events of all its runs in commit order, for one client.

Frames: `event` (its id is a place of `Places`), and `reset` when missed events are older
than a day or the place is unknown: the client lists again, and continues from the place of that
frame. Missed events are read from the table, later ones come from the process's one reader of the
feed (spec run-lifecycle 15).
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import timedelta
from functools import partial

from starlette.concurrency import run_in_threadpool

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.feed import ChangeFeed, EventFilter
from datarecs_core.access.principal import Principal
from datarecs_core_api.feed import PAGE, Buffer, Feed, item_of
from datarecs_core_api.following import Following, LoopWake
from datarecs_core_api.frames import FrameBatch, Mark, a_frame
from datarecs_core_api.streaming import Due

REACH = timedelta(hours=24)
"""How far back a client may resume."""
TENANT_WIDE = "feed"
"""The key of its followers in `Following`; no run has such an id."""


class TenantStream:
    """One client that follows its tenant; use it once, on an event loop."""

    def __init__(
        self,
        source: ChangeFeed,
        feed: Feed,
        following: Following,
        *,
        caller: Principal,
        may_see: Callable[[], bool],
    ) -> None:
        """`may_see` returns whether the caller's key is still valid; called during the stream."""
        self._source, self._feed, self._following = source, feed, following
        self._tenant, self._may_see = caller.tenant_id, may_see
        self._at = 0
        """Number up to which the client has all its events."""

    async def frames(
        self, where: EventFilter, *, after: str | None
    ) -> AsyncGenerator[FrameBatch, None]:
        """Every event after this place exactly once, in order; None: events from now on.

        It ends when the client is 256 frames behind, the process drains, the key is revoked or the
        database is unavailable: the client reconnects with its last place.
        """
        self._check = Due(self._following.pace.check)
        with self._following.watching(TENANT_WIDE) as wake:
            buffer = Buffer(self._tenant, where, wake)
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

    async def _opening(self, since: int, after: str | None) -> FrameBatch:
        """The place of the client from now on, sent to it if it differs from the request."""
        place = self._place(since)
        if after is None:
            self._at = since
            return (Mark(place=place),)
        known = self._feed.places.read(self._tenant, after)
        if known is None or await run_in_threadpool(self._is_expired, known):
            self._at = since
            return (a_frame("reset", {"after": place}, place=place),)
        self._at = known
        return ()

    def _is_expired(self, number: int) -> bool:
        return self._source.is_expired(self._tenant, number, age=REACH)

    def _place(self, number: int) -> str:
        return self._feed.places.write(self._tenant, number)

    async def _missed(self, where: EventFilter, buffer: Buffer) -> AsyncGenerator[FrameBatch, None]:
        """From the table, until the buffer has all that follows."""
        while self._at < buffer.since and await self._goes_on():
            upto = buffer.since
            read = partial(self._source.entries, after=self._at, upto=upto, limit=PAGE)
            page = await run_in_threadpool(read, self._tenant, where)
            self._at = page[-1].entry.rv if len(page) == PAGE else upto
            if page:
                yield tuple(item_of(self._tenant, one, self._feed.places).frame for one in page)
            if self._at == upto and buffer.is_lost:
                await run_in_threadpool(self._feed.join, buffer)

    async def _live(self, buffer: Buffer, wake: LoopWake) -> AsyncGenerator[FrameBatch, None]:
        pace = self._following.pace
        ping, marked = Due(pace.ping), self._at
        while await self._goes_on():
            items, upto = buffer.taken()
            if buffer.is_lost:
                return
            news = tuple(one.frame for one in items if one.rv > self._at)
            self._at = max(self._at, upto)
            if news:
                ping.begin()
                marked = self._at
                yield news
            elif ping.has_come():
                yield (Mark(place=self._place(self._at)),) if self._at > marked else ()
                marked = self._at
            else:
                await wake.arrived(pace.poll)

    async def _goes_on(self) -> bool:
        if self._following.is_over:
            return False
        return not self._check.has_come() or await run_in_threadpool(self._may_see)
