"""Watch of declared objects: each change of a kind as a frame, with the object after the write.

Frames: CREATED, UPDATED, STATUS_UPDATED and DELETED, whose data is the object as GET shows it, and
BOOKMARK after silence. A place that is too old is refused before the stream begins, so that the
client lists again (spec resources-scheduler 4).
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from datarecs_application.ports.outside import Clock
from datarecs_core.access.principal import Principal
from datarecs_core.errors.api import ApiCode
from datarecs_core.resources.change_feed import ResourceChange, WatchFilter
from datarecs_core.values import TenantId
from datarecs_core_api.auth import authenticator
from datarecs_core_api.dependencies import Ports
from datarecs_core_api.feed import Feed, Item
from datarecs_core_api.feed_stream import FeedStream
from datarecs_core_api.following import Following
from datarecs_core_api.frames import Frame, FrameBatch, Mark, a_frame
from datarecs_core_api.places import DatedPlaces
from datarecs_core_api.problems import ProblemError
from datarecs_core_api.streaming import Due, LiveResponse, opened
from datarecs_core_api.views import resource_view

REACH = timedelta(days=7)
"""How far back a client may resume. Changes are stored twice as long (`partition_policy`)."""
BOOKMARK = "BOOKMARK"


class ChangeForm:
    """Changes of declared objects as frames."""

    name = "watch-feed"
    lag_metric = "watch_lag_seconds"
    is_counted = True
    everything: WatchFilter | None = None

    def __init__(self, places: DatedPlaces, clock: Clock) -> None:
        self._places, self._clock = places, clock

    def item(self, tenant: TenantId, line: ResourceChange) -> Item[ResourceChange]:
        frame = None
        if line.resource is not None:
            frame = Frame(
                event=str(line.op),
                data=resource_view(line.resource).model_dump_json(by_alias=True),
                place=self._places.write(tenant, line.rv, at=line.at),
            )
        return Item(rv=line.rv, time=line.at, line=line, frame=frame)

    def frame_for(self, item: Item[ResourceChange], where: WatchFilter | None) -> Frame | None:
        op = item.line.op if where is None else where.shown_as(item.line)
        if op is None or item.frame is None or op is item.line.op:
            return None if op is None else item.frame
        return replace(item.frame, event=str(op))

    def place(self, tenant: TenantId, number: int) -> str:
        return self._places.write(tenant, number, at=self._clock.now())


WatchFeed = Feed[ResourceChange, WatchFilter | None]


class WatchStream(FeedStream[ResourceChange, WatchFilter | None]):
    """One client that watches objects."""

    def __init__(
        self,
        feed: WatchFeed,
        following: Following,
        *,
        since: int | None,
        caller: Principal,
        may_see: Callable[[], bool],
    ) -> None:
        """`since`: number after which the client begins; None: from now on."""
        super().__init__(feed, following, caller=caller, may_see=may_see)
        self._since = since

    async def _opening(self, since: int, after: str | None) -> FrameBatch:
        del after
        self._silent = Due(self._following.pace.bookmark)
        if self._since is not None:
            self._at = self._since
            return ()
        self._at = since
        return (Mark(place=self._place(since)),)

    def _spoke(self) -> None:
        self._silent.begin()

    def _silence(self) -> FrameBatch:
        if not self._silent.has_come():
            return ()
        place = self._place(self._at)
        return (a_frame(BOOKMARK, {"since": place}, place=place),)


async def watch_answer(
    request: Request, use: Ports, caller: Principal, where: WatchFilter, *, since: str | None
) -> Response:
    """The stream of the objects that the filter covers.

    Raises:
        ProblemError: 410, changes after the place are no longer complete; 429, too many streams.
    """
    number = None
    if since is not None:
        number = await run_in_threadpool(_number, use, caller.tenant_id, since)
    keys = authenticator(request)
    stream = WatchStream(
        use.watch_feed,
        use.following,
        since=number,
        caller=caller,
        may_see=lambda: keys.still(caller),
    )
    frames = stream.frames(where, after=since)
    events = await opened(use.following.place(caller, kind="sse"), frames)
    return LiveResponse(events, patience=use.following.pace.patience)


def _number(use: Ports, tenant: TenantId, since: str) -> int:
    """The number of a place from which nothing is missing."""
    known = use.watch_places.read(tenant, since)
    if known is None:
        raise _gone("the place is not one of this tenant's watches")
    number, at = known
    if use.clock.now() - at > REACH:
        raise _gone(f"the place is older than {REACH.days} days")
    if use.resource_changes.lacks_objects(tenant, number):
        raise _gone("changes after the place cannot be shown: the server was upgraded or restored")
    return number


def _gone(reason: str) -> ProblemError:
    detail = f"{reason}; list the objects again, and watch from `watch_since` of that list"
    return ProblemError(code=ApiCode.PLACE_EXPIRED, detail=detail)
