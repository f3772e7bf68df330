"""HTTP/1.1 for unknown clients: bounded in time, rate and number, strict in its framing.

A separate module because only it builds on uvicorn's protocol, which limits only the idle time
between two requests. A request that two servers could read in two ways is refused (RFC 9112):
Content-Length beside Transfer-Encoding, Transfer-Encoding in HTTP/1.0, folded header lines;
differing Content-Lengths h11 refuses itself.
"""

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from datarecs_application.ports.outside import Metrics
from datarecs_core.errors.api import ApiCode
from datarecs_core_api.peers import Peers
from datarecs_core_api.problems import MEDIA_TYPE, STATUS
from datarecs_runtime.api_sections import Api

MAX_HEAD_BYTES = 32 * 1024
"""Of a request line with its headers, and of the framing of a chunk."""
_FOLD = re.compile(rb"\n[ \t]")
_HEAD_END = re.compile(rb"\n\r?\n")
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\n"
    b"Content-Length: 0\r\n\r\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What one client gets."""

    settings: Api
    metrics: Metrics
    body_window_s: float = 10
    """The rate of a body is judged over this time."""
    linger_s: float = 5
    """How long the rest of a body is read after the response, so that the client receives it."""


class BoundedConfig(uvicorn.Config):
    """uvicorn's configuration, passed to each connection, with the limits of core-api."""

    def __init__(self, app: Any, *, bounds: Bounds, **options: Any) -> None:  # noqa: ANN401  uvicorn's
        super().__init__(app, h11_max_incomplete_event_size=MAX_HEAD_BYTES, **options)
        self.bounds = bounds
        self.peers = Peers(bounds.settings.trusted_proxies)

    def get_loop_factory(self) -> Callable[[], asyncio.AbstractEventLoop]:
        """A loop that limits TLS handshakes like headers; asyncio's limit is a minute."""
        make = super().get_loop_factory() or asyncio.new_event_loop

        def loop_with_limit() -> asyncio.AbstractEventLoop:
            loop = make()
            if self.is_ssl:
                limit_s = self.bounds.settings.header_timeout.total_seconds()
                create = partial(loop.create_server, ssl_handshake_timeout=limit_s)
                loop.create_server = create  # type: ignore[method-assign]  # uvicorn has no option
            return loop

        return loop_with_limit


class StrictConnection(h11.Connection):
    """h11 without what two readers may read differently."""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Raises h11.RemoteProtocolError for a request of ambiguous length or folded lines."""
        if self.their_state is h11.IDLE:
            _refuse_folded(self.trailing_data[0])
        event = super().next_event()
        if isinstance(event, h11.Request):
            _refuse_ambiguous(event)
        return event


class BoundedHttp(H11Protocol):
    """One connection, closed when the client is too slow."""

    config: BoundedConfig

    def __init__(self, config: BoundedConfig, **parts: Any) -> None:  # noqa: ANN401  uvicorn's
        super().__init__(config, **parts)
        self.conn = StrictConnection(h11.SERVER, MAX_HEAD_BYTES)
        self._bounds = config.bounds
        self._reading: asyncio.TimerHandle | None = None
        """What ends the head or the body that is being read."""
        self._is_reading_head = False
        self._writing: asyncio.TimerHandle | None = None
        self._body_bytes = 0
        """Since the window began."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's
        super().connection_made(transport)
        if self._are_too_many():
            self._count("too_many")
            transport.write(_BUSY)
            transport.close()
            return
        self._read_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_reading()
        self._stop_writing()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._body_bytes += len(data)
        super().data_received(data)
        self._watch()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._stop_reading()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
            self._stop_reading()
            self._reading = self.loop.call_later(self._bounds.linger_s, self._let_go, "body")

    def pause_writing(self) -> None:
        super().pause_writing()
        after = self._bounds.settings.write_timeout.total_seconds()
        self._writing = self.loop.call_later(after, self._let_go, "write")

    def resume_writing(self) -> None:
        self._stop_writing()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """A problem, unless a response has begun; the connection ends either way."""
        del msg
        self._count("malformed")
        if self.cycle is not None:
            self.cycle.disconnected = True
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            for part in _malformed():
                self.transport.write(self.conn.send(part) or b"")
        self.transport.close()

    def _watch(self) -> None:
        """Bound what the client is sending now."""
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            return
        state = self.conn.their_state
        if state is h11.IDLE:
            if not self._is_reading_head:
                self._read_head()
        elif state is not h11.SEND_BODY:
            self._stop_reading()
        elif self._is_reading_head or self._reading is None:
            self._read_body()

    def _read_head(self) -> None:
        self._stop_reading()
        self._is_reading_head = True
        after = self._bounds.settings.header_timeout.total_seconds()
        self._reading = self.loop.call_later(after, self._let_go, "head")

    def _read_body(self) -> None:
        self._stop_reading()
        self._body_bytes = 0
        self._reading = self.loop.call_later(self._bounds.body_window_s, self._check_body)

    def _check_body(self) -> None:
        """A window in which the server paused reading is not counted."""
        waits = self.flow.read_paused or self.conn.they_are_waiting_for_100_continue
        least = self._bounds.settings.min_body_rate * self._bounds.body_window_s
        if not waits and self._body_bytes < least:
            self._let_go("body")
        else:
            self._read_body()

    def _let_go(self, reason: str) -> None:
        """At once: what is not sent yet a slow client would not read either."""
        self._count(reason)
        self.transport.abort()

    def _are_too_many(self) -> bool:
        """Sockets are among the connections."""
        settings, host = self._bounds.settings, self.client[0] if self.client else ""
        if len(self.connections) > settings.max_connections:
            return True
        if self.config.peers.trusts(host):
            return False
        clients = [getattr(one, "client", None) for one in self.connections]
        same = [client for client in clients if client is not None and client[0] == host]
        return len(same) > settings.connections_per_address

    def _count(self, reason: str) -> None:
        self._bounds.metrics.count("http_connections_dropped_total", reason=reason)

    def _stop_reading(self) -> None:
        self._is_reading_head = False
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _stop_writing(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None


def _refuse_folded(waiting: bytes) -> None:
    end = _HEAD_END.search(waiting)
    if end is not None and _FOLD.search(waiting, 0, end.end()):
        raise h11.RemoteProtocolError("a header line is folded")


def _refuse_ambiguous(request: h11.Request) -> None:
    names = {name for name, _ in request.headers}
    if b"transfer-encoding" not in names:
        return
    if b"content-length" in names or request.http_version < b"1.1":
        raise h11.RemoteProtocolError("the length of the body is ambiguous")


def _malformed() -> list[h11.Event]:
    code = ApiCode.MALFORMED_REQUEST
    body = json.dumps(
        {
            "type": f"urn:datarecs:error:{code.docs_id}",
            "title": code.entry.meaning,
            "status": STATUS[code],
            "detail": "this is not one HTTP/1.1 request of unambiguous length",
            "code": code.docs_id,
            "reason": code.name,
        }
    ).encode()
    headers = {
        "Content-Type": MEDIA_TYPE,
        "Content-Length": str(len(body)),
        "Connection": "close",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    head = h11.Response(status_code=STATUS[code], headers=list(headers.items()))
    return [head, h11.Data(data=body), h11.EndOfMessage()]
