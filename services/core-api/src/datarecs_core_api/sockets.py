"""One WebSocket: its subscribed runs, their frames, and its close code.

Separate from `live`, which decides what is sent about a run; frames are those of the event stream,
each with its `run_id`, since one socket may follow several runs (spec run-lifecycle 15). Pings of
the server keep it alive.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing, suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any

from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_core.access.principal import Principal
from datarecs_core.errors.api import ApiCode
from datarecs_core.values import RunId
from datarecs_core_api.body import parse_object
from datarecs_core_api.following import Following
from datarecs_core_api.frames import Frame, a_frame
from datarecs_core_api.inputs import CanonicalUuid, In, validated
from datarecs_core_api.live import Stream
from datarecs_core_api.problems import ProblemError, not_found
from datarecs_core_api.run_updates import RunUpdates
from datarecs_core_api.streaming import LAST_NUMBER, Due

MAX_SUBSCRIPTIONS = 20
"""Of one socket; as many as a principal may have streams."""
MAX_MESSAGE_BYTES = 4096
WATCHING = "sockets"
"""Their key in `Following`; no run has such an id."""


class SubscribeIn(In):
    """Which run is to be followed."""

    run_id: CanonicalUuid
    after: Annotated[int, Field(ge=0, le=LAST_NUMBER)] = 0
    """Number of the last entry that the client has."""


class MessageIn(In):
    """The messages of a client."""

    subscribe: SubscribeIn


class Close(IntEnum):
    """Why a socket ends; the client reconnects with its last numbers, except for NORMAL."""

    NORMAL = 1000
    """No subscription is left."""
    GONE = 1005
    """The client has left; nothing is sent."""
    POLICY = 1008
    """An invalid message, or a key that is no longer valid."""
    RESTART = 1012
    """The process drains."""
    LATER = 1013
    """The client reads nothing or sends too much, or the database is unavailable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """Who is at the other end, and what may be sent there."""

    run_updates: RunUpdates
    following: Following
    caller: Principal
    may_see: Callable[[], bool]
    """Whether the caller's key is still valid; checked while the socket is open."""
    admits_message: Callable[[], bool]
    """Whether the caller may send one more message now."""


class Socket:
    """An accepted WebSocket until its end."""

    def __init__(self, socket: WebSocket, follower: Follower) -> None:
        self._socket, self._follower = socket, follower
        self._patience_s = follower.following.pace.patience.total_seconds()
        self._over: asyncio.Future[Close] = asyncio.get_running_loop().create_future()
        self._subscribed: dict[RunId, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        """Until one side ends it; every task it started has ended then."""
        duties = [self._started(self._listen()), self._started(self._watch())]
        try:
            code = await self._over
        finally:
            tasks = [*duties, *self._subscribed.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if code is not Close.GONE:
            await self._say(self._socket.close(code))

    def _started(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """`serve` reports a defect of one task; it is not lost with the task."""
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._over.done():
            self._over.set_exception(error)

    def _end(self, code: Close) -> None:
        """The first reason counts."""
        if not self._over.done():
            self._over.set_result(code)

    async def _say(self, sending: Coroutine[Any, Any, None]) -> None:
        try:
            async with asyncio.timeout(self._patience_s):
                await sending
        except TimeoutError:
            self._end(Close.LATER)
        except WebSocketDisconnect:
            self._end(Close.GONE)

    async def _send_frame(self, run_id: RunId, frame: Frame) -> None:
        if not self._over.done():
            await self._say(self._socket.send_text(frame.as_message(run_id)))

    async def _listen(self) -> None:
        while not self._over.done():
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                self._end(Close.GONE)
                return
            if not self._follower.admits_message():
                self._end(Close.LATER)
                return
            try:
                body = parse_object((message.get("text") or "").encode())
                wanted = validated(MessageIn, body).subscribe
            except ProblemError:
                self._end(Close.POLICY)
                return
            await self._subscribe(RunId(wanted.run_id), wanted.after)

    async def _subscribe(self, run_id: RunId, after: int) -> None:
        """From here on; a run that is followed already begins again after this number."""
        if (earlier := self._subscribed.pop(run_id, None)) is not None:
            earlier.cancel()
        if len(self._subscribed) >= MAX_SUBSCRIPTIONS:
            detail = "a socket follows at most 20 runs at once"
            await self._refuse(run_id, ProblemError(code=ApiCode.TOO_MANY_REQUESTS, detail=detail))
            return
        self._subscribed[run_id] = self._started(self._follow(run_id, after))

    async def _refuse(self, run_id: RunId, error: ProblemError) -> None:
        refusal = {"code": error.code.docs_id, "reason": error.code.name, "detail": error.detail}
        await self._send_frame(run_id, a_frame("error", refusal))

    async def _follow(self, run_id: RunId, after: int) -> None:
        about = self._follower
        try:
            if (
                await about.run_updates.read(about.caller.tenant_id, run_id, after=after)
            ).run is None:
                await self._refuse(run_id, not_found("run"))
            elif not await self._follow_to_end(run_id, after):
                self._end(await self._reason() or Close.LATER)
        except (StoreUnavailableError, StoreBusyError):
            self._end(Close.LATER)
        finally:
            if self._subscribed.get(run_id) is asyncio.current_task():
                del self._subscribed[run_id]

    async def _follow_to_end(self, run_id: RunId, after: int) -> bool:
        """Whether the run has ended and the client was sent its end."""
        about = self._follower
        stream = Stream(
            run_updates=about.run_updates,
            following=about.following,
            caller=about.caller,
            may_see=about.may_see,
            run_id=run_id,
            after=after,
        )
        last = None
        async with aclosing(stream.frames()) as frames:
            async for batch in frames:
                for last in batch:
                    if isinstance(last, Frame):
                        await self._send_frame(run_id, last)
        return isinstance(last, Frame) and last.event == "end"

    async def _reason(self) -> Close | None:
        """Why the caller may not continue; None when it may, or when this cannot be checked."""
        if self._follower.following.is_over:
            return Close.RESTART
        with suppress(StoreUnavailableError, StoreBusyError):
            if not await run_in_threadpool(self._follower.may_see):
                return Close.POLICY
        return None

    async def _watch(self) -> None:
        """End it when the process drains, the key is revoked, or nothing is subscribed for long."""
        following = self._follower.following
        check, idle = Due(following.pace.check), Due(following.pace.patience)
        with following.watching(WATCHING) as wake:
            while not following.is_over:
                if check.has_come() and (reason := await self._reason()):
                    return self._end(reason)
                if self._subscribed:
                    idle.begin()
                elif idle.has_come():
                    return self._end(Close.NORMAL)
                await wake.arrived(following.pace.poll)
        return self._end(Close.RESTART)
