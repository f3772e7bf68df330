"""How frames are sent as server-sent events, and when a stream to a slow reader ends.

Separate from `live` and `tenant_live`, which decide what is sent, and from `sockets`.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractContextManager, aclosing, suppress
from datetime import timedelta

from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from datarecs_core_api.frames import FrameBatch

MEDIA_TYPE = "text/event-stream"
RETRY = b"retry: 2000\n\n"
PING = b": ping\n\n"
_PROPERTIES: Mapping[str, object] = {
    "event": {"type": "string", "enum": ["event", "run", "end", "reset"]},
    "id": {
        "type": "string",
        "description": "Send it as Last-Event-ID to continue after this event.",
    },
    "data": {"type": "string", "contentMediaType": "application/json"},
    "retry": {"type": "integer"},
}
EVENT_SCHEMA: Mapping[str, object] = {
    "type": "object",
    "description": "One server-sent event of the stream.",
    "properties": _PROPERTIES,
}
"""The OpenAPI description of a stream: each of its events in the form of its readers."""
WATCH_SCHEMA: Mapping[str, object] = {
    **EVENT_SCHEMA,
    "properties": {
        **_PROPERTIES,
        "event": {
            "type": "string",
            "enum": ["CREATED", "UPDATED", "STATUS_UPDATED", "DELETED", "BOOKMARK"],
        },
    },
}
"""The same of a watch."""
LAST_NUMBER = 2**63 - 1
"""The largest number an entry can have, in a run and in the feed."""


def last_seen(last_event_id: str | None, after: int) -> int:
    """The header wins: a client that reconnects repeats its first URL."""
    text = (last_event_id or "").strip()
    if not (text.isascii() and text.isdigit()):
        return after
    return min(int(text[:20]), LAST_NUMBER)


async def opened(
    place: AbstractContextManager[None], frames: AsyncGenerator[FrameBatch, None]
) -> AsyncIterator[bytes]:
    """The stream, when there is a place for another one.

    Raises:
        ProblemError: 429, too many are open.
    """
    stream = _events(place, frames)
    first = await anext(stream)

    async def all_events() -> AsyncIterator[bytes]:
        async with aclosing(stream):
            yield first
            async for piece in stream:
                yield piece

    return all_events()


async def _events(
    place: AbstractContextManager[None], frames: AsyncGenerator[FrameBatch, None]
) -> AsyncGenerator[bytes, None]:
    with place:
        yield RETRY
        async with aclosing(frames):
            async for batch in frames:
                yield b"".join(one.as_sse() for one in batch) or PING


class LiveResponse(StreamingResponse):
    """Frames as they are sent; the stream ends when a reader takes nothing for too long."""

    def __init__(self, events: AsyncIterator[bytes], *, patience: timedelta) -> None:
        # proxies must not buffer frames
        headers = {"X-Accel-Buffering": "no"}
        super().__init__(events, media_type=MEDIA_TYPE, headers=headers)
        self._patience_s = patience.total_seconds()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def patiently(message: Message) -> None:
            async with asyncio.timeout(self._patience_s):
                await send(message)

        with suppress(TimeoutError):
            await super().__call__(scope, receive, patiently)


class Due:
    """Whether an interval has passed since the start or the last True; used on the event loop."""

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
