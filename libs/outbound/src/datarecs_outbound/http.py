"""One outgoing HTTP call: with limits in time and bytes, without redirects, its end is a value.

Webhooks, handshakes and all other calls to addresses of tenants share one set of limits. Core
decides what a status means for a delivery.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import httpcore
import httpx

from datarecs_core.egress.urls import Target
from datarecs_outbound.dialling import (
    CONNECT_TIMEOUT,
    WATCH,
    Dialling,
    Failure,
    GuardedBackend,
    NotDialledError,
    Stopwatch,
)

MAX_BODY_BYTES = 65_536
"""Most bytes of an answer's body; further bytes are not read."""
IDLE_S = 30.0
"""Time that a connection may wait for the next call; then its address is checked again."""
_GOODBYE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """One complete request. Only Host and Content-Length are added."""

    method: str
    target: Target
    """Checked by `datarecs_core.egress.urls.check_url` just before."""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    timeout: timedelta = timedelta(seconds=15)
    """Total time limit: name, connection, handshake, request, answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A status line and headers arrived, with any status; 3xx and 401 are as final as 200."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = field(repr=False)
    truncated: bool
    """The body was longer than the limit, or did not end in time."""
    phases: Mapping[str, int]
    """Milliseconds: dns, connect, tls (of a new connection), first_byte, body, total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotAnswered:
    failure: Failure
    phase: str
    """The phase of the failure: dns, connect, tls, first_byte."""
    error: str
    """For people, without resolved addresses."""
    phases: Mapping[str, int]
    address_class: str | None = None


class GuardedTransport(httpx.AsyncBaseTransport):
    """httpx with httpcore and the checked network backend. Raises the errors of httpcore.

    No redirects, no proxy of the environment, no HTTP/2, no retries.
    """

    def __init__(
        self, dialling: Dialling, *, tls: ssl.SSLContext | None = None, max_connections: int = 256
    ) -> None:
        self._backend = GuardedBackend(dialling)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls or ssl.create_default_context(),
            max_connections=max_connections,
            keepalive_expiry=IDLE_S,
            network_backend=self._backend,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self._pool.handle_async_request(
            httpcore.Request(
                method=request.method,
                url=httpcore.URL(
                    scheme=request.url.raw_scheme,
                    host=request.url.raw_host,
                    port=request.url.port,
                    target=request.url.raw_path,
                ),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(answer.status, headers=answer.headers, stream=_Body(answer))

    async def aclose(self) -> None:
        await self._pool.aclose()
        self._backend.close()


class _Body(httpx.AsyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._answer.aiter_stream():
            yield part

    async def aclose(self) -> None:
        await self._answer.aclose()


class GuardedHttp:
    """Makes concurrent calls on one event loop."""

    def __init__(self, transport: GuardedTransport) -> None:
        self._transport = transport

    async def call(self, call: HttpCall) -> Answered | NotAnswered:
        """Make the call; every kind of end is a value."""
        watch = Stopwatch()
        WATCH.set(watch)
        answer: httpx.Response | None = None
        body = bytearray()
        truncated = True
        try:
            async with asyncio.timeout(call.timeout.total_seconds()):
                answer = await self._transport.handle_async_request(_request(call))
                watch.enter("body")
                truncated = await _read(answer, body)
        except (NotDialledError, httpcore.NetworkError, httpcore.ProtocolError) as cause:
            if answer is None:
                return _failed(cause, watch)
        except (TimeoutError, httpcore.TimeoutException):
            if answer is None:
                return NotAnswered(
                    failure=Failure.TIMEOUT,
                    phase=watch.phase,
                    error=f"no answer within {call.timeout.total_seconds():g} s",
                    phases=watch.phases(),
                )
        finally:
            await _closed(answer)
        return Answered(
            status=answer.status_code,
            headers=tuple(answer.headers.multi_items()),
            body=bytes(body),
            truncated=truncated,
            phases=watch.phases(),
        )

    async def aclose(self) -> None:
        """Close idle connections, because the policy may have changed."""
        await self._transport.aclose()


def _request(call: HttpCall) -> httpx.Request:
    limit = CONNECT_TIMEOUT.total_seconds()
    return httpx.Request(
        call.method,
        call.target.url,
        headers=list(call.headers),
        content=call.body or None,
        # The path is sent as written: httpx would encode some characters differently.
        extensions={"timeout": {"connect": limit}, "target": call.target.path.encode()},
    )


async def _read(answer: httpx.Response, into: bytearray) -> bool:
    """Read up to the limit; True if there is more."""
    async for part in answer.stream:  # type: ignore[union-attr]  # always asynchronous here
        into += part[: MAX_BODY_BYTES - len(into) + 1]
        if len(into) > MAX_BODY_BYTES:
            del into[MAX_BODY_BYTES:]
            return True
    return False


async def _closed(answer: httpx.Response | None) -> None:
    if answer is not None:
        with contextlib.suppress(TimeoutError, httpcore.NetworkError, httpcore.ProtocolError):
            async with asyncio.timeout(_GOODBYE_S):
                await answer.aclose()


def _failed(cause: Exception, watch: Stopwatch) -> NotAnswered:
    if isinstance(cause, NotDialledError):
        failure, error, address_class = cause.failure, cause.error, cause.address_class
    else:
        failure, address_class = Failure.PROTOCOL_ERROR, None
        error = "the answer is not HTTP, or the connection was cut before its status line"
    return NotAnswered(
        failure=failure,
        phase=watch.phase,
        error=error,
        phases=watch.phases(),
        address_class=address_class,
    )
