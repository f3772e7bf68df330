"""Around every request: trace and request id, headers, HEAD, metrics, the final error response.

Plain ASGI, because a stream or a socket that lasts for hours must pass through unchanged.
"""

from collections.abc import Callable

import structlog
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from datarecs_application.ports.outside import Clock, Metrics
from datarecs_core_api.auth import key_in_url
from datarecs_core_api.failures import problem_of
from datarecs_core_api.limits import headers_of
from datarecs_core_api.peers import Peers
from datarecs_core_api.problems import response

log = structlog.get_logger()
SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
}
TRANSPORT_SECURITY = ("Strict-Transport-Security", "max-age=31536000")
"""Only over https; for this host alone, because others of its domain are not ours."""
MAX_REQUEST_ID = 128
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"})
"""Others are counted as one, since clients can send any method."""
SWITCHING = 101
_STARTS = frozenset({"http.response.start", "websocket.http.response.start"})
"""The second is for a refused upgrade."""


class _HeadDoneError(Exception):
    """Ends an endless response to a HEAD request."""


class Shell:
    """The outermost part of the application."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        traceparent: Callable[[str | None], str],
        peers: Peers,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        """`traceparent` creates a child span, or a new trace."""
        self._app, self._traceparent, self._peers = app, traceparent, peers
        self._metrics, self._clock = metrics, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        request = HTTPConnection(scope, receive)
        self._identify(request)
        method = str(scope.get("method", "GET"))
        outgoing = _Outgoing(send, request, is_head=method == "HEAD")
        # HEAD is GET without the body: a copy, so that the server still has the original request.
        inner = {**scope, "method": "GET"} if method == "HEAD" else scope
        began = self._clock.monotonic()
        try:
            await self._answer(request, inner, receive, outgoing)
        finally:
            self._count(method, inner, outgoing, self._clock.monotonic() - began)

    async def _answer(
        self, request: HTTPConnection, inner: Scope, receive: Receive, outgoing: "_Outgoing"
    ) -> None:
        refusal = key_in_url(request)
        if refusal is not None:
            await response(request, refusal)(inner, receive, outgoing)
            return
        try:
            await self._app(inner, receive, outgoing)
        except (_HeadDoneError, ClientDisconnect):
            pass  # the client no longer reads
        except Exception as error:  # the final handler of a process entry: a 500 without details
            if outgoing.status is not None:
                log.exception("answer_broken_off", path=request.scope["path"])
                raise
            await response(request, problem_of(error))(inner, receive, outgoing)

    def _count(self, method: str, inner: Scope, outgoing: "_Outgoing", seconds: float) -> None:
        """By the route's template; the duration of a stream is not a response time."""
        route = str(getattr(inner.get("route"), "path", "none"))
        self._metrics.count(
            "http_requests_total",
            route=route,
            method=method if method in METHODS else "other",
            status="none" if outgoing.status is None else str(outgoing.status),
        )
        if not outgoing.streams:
            self._metrics.observe("http_request_seconds", seconds, route=route)

    def _identify(self, request: HTTPConnection) -> None:
        state = request.state
        state.address, state.limits = self._peers.address_of(request), ()
        state.is_encrypted = self._peers.is_encrypted(request)
        state.traceparent = self._traceparent(request.headers.get("traceparent"))
        state.trace_id = state.traceparent.split("-")[1]
        request_id = request.headers.get("x-request-id", "")
        safe = request_id.isascii() and all(one.isalnum() or one in "-_." for one in request_id)
        state.request_id = (
            request_id if safe and 0 < len(request_id) <= MAX_REQUEST_ID else state.trace_id
        )
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(trace_id=state.trace_id, request_id=state.request_id)


class _Outgoing:
    """The response before it is sent: headers are added, and HEAD has no body."""

    def __init__(self, send: Send, request: HTTPConnection, *, is_head: bool) -> None:
        self._send, self._request, self._is_head = send, request, is_head
        self.status: int | None = None
        """None until it has begun."""
        self.streams = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "websocket.accept":
            self.status, self.streams = SWITCHING, True
        elif message["type"] in _STARTS:
            self.status = int(message["status"])
            headers = MutableHeaders(scope=message)
            self.streams = headers.get("content-type", "").startswith("text/event-stream")
            headers["X-Request-Id"] = self._request.state.request_id
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            if self._request.state.is_encrypted:
                headers.setdefault(*TRANSPORT_SECURITY)
            headers.update(headers_of(self._request.state.limits))
        elif message["type"] == "http.response.body" and self._is_head:
            endless = message.get("more_body", False)
            await self._send({"type": "http.response.body", "body": b""})
            if endless:
                raise _HeadDoneError
            return
        await self._send(message)
