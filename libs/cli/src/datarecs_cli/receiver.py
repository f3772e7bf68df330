"""A local receiver of webhooks: takes requests on loopback, verifies and reports each one.

`webhook listen` and `demo` run it. It answers 401 if a signature is not genuine, another 4xx if
the request is not a delivery, and no request can make it fail.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from types import MappingProxyType
from typing import Self

from datarecs_application.ports.outside import Clock
from datarecs_cli.webhook_check import Request, event_of, fault_of

MAX_BODY_BYTES = 1024 * 1024
_LENGTH = re.compile(r"[0-9]{1,12}", re.ASCII)
READ_LIMIT_S = 10
STOP_POLL_S = 0.05
FAILING = 503
"""The answer to the first deliveries under --fail-first."""
_CONSENT = 200
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_LENGTH_REQUIRED, _TOO_LARGE, _REFUSED, _NO_EVENT = 411, 413, 401, 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request and its answer."""

    event: Mapping[str, object]
    fault: str | None
    """Why it is not genuine; None if it is, or if there is no secret to verify it with."""
    verified: bool
    attempt: str
    answered: int
    again: bool
    """Its id was received before; a receiver acts once per id."""

    @property
    def event_type(self) -> str:
        return str(self.event.get("type", "?"))

    @property
    def data(self) -> Mapping[str, object]:
        data = self.event.get("data")
        return data if isinstance(data, Mapping) else {}


@dataclass(slots=True, kw_only=True)
class Receiver:
    """Listens between `open` and `close`, or during a `with` block."""

    keys: Sequence[bytes]
    """Empty: requests are accepted without verification."""
    clock: Clock
    on_received: Callable[[Received], None] = lambda _received: None
    status: int = 200
    fail_first: int = 0
    port: int = 0
    """0 takes a free port; after `open` the actual port."""
    received: list[Received] = field(default_factory=list)
    _ids: set[str] = field(default_factory=set)
    _arrived: Condition = field(default_factory=Condition)
    _server: "_Server | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def open(self) -> None:
        """Listen. Raises OSError when the port is taken."""
        self._server = _Server(("127.0.0.1", self.port), _Handler)
        self._server.receiver = self
        self.port = self._server.server_address[1]
        Thread(
            target=self._server.serve_forever, args=(STOP_POLL_S,), name="receiver", daemon=True
        ).start()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Safe to repeat."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def take(self, request: Request) -> int:
        """Check one request and return the status of its answer."""
        event = event_of(request)
        with self._arrived:
            fault = fault_of(request, self.keys, now_s=self.clock.now().timestamp())
            genuine = bool(self.keys) and fault is None
            received = Received(
                event=event,
                fault=fault if self.keys else None,
                verified=genuine,
                attempt=request.header("datarecs-attempt"),
                answered=self._status(event, refused=bool(self.keys) and not genuine),
                again=genuine and request.header("webhook-id") in self._ids,
            )
            self.received.append(received)
            if genuine:
                self._ids.add(request.header("webhook-id"))
            self.on_received(received)
            self._arrived.notify_all()
        return received.answered

    def wait_for(self, wanted: Callable[[Received], bool], *, limit_s: float) -> Received | None:
        """Wait for the first matching request; None after the limit."""

        def first_match() -> Received | None:
            return next((one for one in self.received if wanted(one)), None)

        with self._arrived:
            self._arrived.wait_for(first_match, limit_s)
            return first_match()

    def _status(self, event: Mapping[str, object], *, refused: bool) -> int:
        if refused:
            return _REFUSED
        if not event:
            return _NO_EVENT
        if self.fail_first > 0:
            self.fail_first -= 1
            return FAILING
        return self.status


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    receiver: Receiver


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = READ_LIMIT_S
    server_version = "datarecs-listen"

    def do_POST(self) -> None:
        assert isinstance(self.server, _Server)  # noqa: S101  the server class is fixed
        length = self.headers.get("content-length", "")
        if not _LENGTH.fullmatch(length):
            self._answer(_LENGTH_REQUIRED)
        elif int(length) > MAX_BODY_BYTES:
            self._answer(_TOO_LARGE)
        else:
            headers = {name.lower(): value for name, value in reversed(self.headers.items())}
            body = self.rfile.read(int(length))
            self._answer(self.server.receiver.take(Request(headers=headers, body=body)))

    def do_OPTIONS(self) -> None:
        """Consent to every sender, so that `validation: handshake` can be tried here."""
        self._answer(_CONSENT, {"WebHook-Allowed-Origin": "*", "WebHook-Allowed-Rate": "*"})

    def _answer(self, status: int, headers: Mapping[str, str] = NO_HEADERS) -> None:
        self.close_connection = True
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()

    def handle(self) -> None:
        """Ignore a client that closes the connection early."""
        try:
            super().handle()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the library's name
        """Log nothing, because the receiver reports every request."""
