"""How frames travel as server-sent events, and when a reader is let go.

Apart from `live` and `tenant_live`, which say what is told, and from `sockets`, the other way.
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
EVENT_SCHEMA: Mapping[str, object] = {
    "type": "object",
    "description": "One server-sent event of the stream.",
    "properties": {
        "event": {"type": "string", "enum": ["event", "run", "end", "reset"]},
        "id": {"type": "string", "description": "From where one goes on."},
        "data": {"type": "string", "contentMediaType": "application/json"},
        "retry": {"type": "integer"},
    },
}
"""What the OpenAPI document says of a stream: each of its events, as their readers see them."""
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
    """Frames on their way; a reader that takes nothing for too long is let go."""

    def __init__(self, events: AsyncIterator[bytes], *, patience: timedelta) -> None:
        # proxies are told not to wait for more before they pass a frame on
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
    """Whether some time has passed since it began or last came; used on the event loop."""

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
