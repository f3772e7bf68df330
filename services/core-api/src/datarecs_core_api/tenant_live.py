"""Live view of a tenant: the events of all its runs in commit order, for one client.

Frames: `event` (its id is a place of `Places`), and `reset` when missed events are older
than a day or the place is unknown: the client lists again, and continues from the place of that
frame (spec run-lifecycle 15).
"""

from collections.abc import Callable
from datetime import timedelta

from starlette.concurrency import run_in_threadpool

from datarecs_application.ports.feed import ChangeFeed, EventFilter, FeedEntry
from datarecs_core.access.principal import Principal
from datarecs_core.values import TenantId
from datarecs_core_api.feed import Feed, Item
from datarecs_core_api.feed_stream import FeedStream
from datarecs_core_api.following import Following
from datarecs_core_api.frames import Frame, FrameBatch, Mark, a_frame
from datarecs_core_api.places import Places
from datarecs_core_api.views import entry_view

REACH = timedelta(hours=24)
"""How far back a client may resume."""


class RunEventForm:
    """Events of runs as frames."""

    name = "feed"
    lag_metric = "feed_lag_seconds"
    is_counted = False
    everything = EventFilter()

    def __init__(self, places: Places) -> None:
        self._places = places

    def item(self, tenant: TenantId, line: FeedEntry) -> Item[FeedEntry]:
        entry = line.entry
        view = entry_view(tenant, line.run_id, entry)
        frame = a_frame("event", view, place=self.place(tenant, entry.rv))
        return Item(rv=entry.rv, time=entry.time, line=line, frame=frame)

    def frame_for(self, item: Item[FeedEntry], where: EventFilter) -> Frame | None:
        return item.frame if where.admits(item.line) else None

    def place(self, tenant: TenantId, number: int) -> str:
        return self._places.write(tenant, number)


RunFeed = Feed[FeedEntry, EventFilter]


class TenantStream(FeedStream[FeedEntry, EventFilter]):
    """One client that follows the runs of its tenant."""

    def __init__(  # noqa: PLR0913  one port each
        self,
        source: ChangeFeed,
        feed: RunFeed,
        following: Following,
        *,
        places: Places,
        caller: Principal,
        may_see: Callable[[], bool],
    ) -> None:
        super().__init__(feed, following, caller=caller, may_see=may_see)
        self._source, self._places = source, places

    async def _opening(self, since: int, after: str | None) -> FrameBatch:
        place = self._place(since)
        if after is None:
            self._at = since
            return (Mark(place=place),)
        known = self._places.read(self._tenant, after)
        if known is None or await run_in_threadpool(self._is_expired, known):
            self._at = since
            return (a_frame("reset", {"after": place}, place=place),)
        self._at = known
        return ()

    def _is_expired(self, number: int) -> bool:
        return self._source.is_expired(self._tenant, number, age=REACH)

    def _silence(self) -> FrameBatch:
        moved = self._at > self._marked
        self._marked = self._at
        return (Mark(place=self._place(self._at)),) if moved else ()
