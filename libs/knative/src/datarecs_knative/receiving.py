"""`POST /ce`: a loop that receives events from Triggers and answers after the commit.

The answer tells the Broker what to do: 204, the event is done; 400, it can never be handled and
goes to the dead-letter sink; 503, send it again. The inbox makes repetitions harmless.
"""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol, TypeVar, cast

import structlog

from datarecs_application.ports.messaging import Delivery
from datarecs_application.ports.outside import Wake
from datarecs_knative.http_headers import log_headers

log = structlog.get_logger()

PATH = "/ce"
MAX_BODY_BYTES = 256 * 1024
AT_ONCE = 8
"""Events handled at the same time; below the connections of the database's pool."""
DISCARDING_S = 2.0
"""How long a refused body is still read."""
NOT_LISTENING = "the port of events is not open yet"
Headers = tuple[tuple[str, bytes | None], ...]
Take = Callable[[bytes, Headers], Delivery]
"""Handles one event, in one transaction; never raises for a bad one."""


class Taking(Protocol):
    """Handles the same events from a log and from requests."""

    def take(self, value: bytes, headers: Headers, /) -> Delivery: ...


C = TypeVar("C", bound=Taking)
_STATUS = {Delivery.DONE: 204, Delivery.NEVER: 400, Delivery.LATER: 503}


class EventReceiver:
    """A loop in place of a consumer of Kafka."""

    def __init__(self, take: Take, *, host: str, port: int) -> None:
        self._take, self._address = take, (host, port)
        self._server: _Server | None = None

    @property
    def name(self) -> str:
        return "receiver"

    @property
    def port(self) -> int:
        """The actual port if 0 was configured; 0 while it is closed."""
        return 0 if self._server is None else int(self._server.server_address[1])

    def ready(self) -> str | None:
        """None while the port is open, else the reason; for `Process.ready_when`."""
        return NOT_LISTENING if self._server is None else None

    def run(self, stop: Wake) -> None:
        """Receive until `stop`; requests that have begun are answered."""
        server = _Server(self._address, _Handler)
        server.take, server.slots = self._take, threading.BoundedSemaphore(AT_ONCE)
        self._server = server
        serving = threading.Thread(target=server.serve_forever, args=(0.1,), name="ce")
        serving.start()
        stop.wait()
        self._server = None
        server.shutdown()
        serving.join()
        server.server_close()  # waits for the threads of requests


def inlet_of(consumer: C, *, mode: str, host: str, port: int) -> C | EventReceiver:
    """What brings events: Kafka's consumer, or in mode `knative` the port that a Broker calls."""
    return EventReceiver(consumer.take, host=host, port=port) if mode == "knative" else consumer


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    take: Take
    slots: threading.BoundedSemaphore


class _Handler(BaseHTTPRequestHandler):
    timeout = 10  # seconds for a peer that connects and sends nothing
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:  # the name is the base class's
        if self.path != PATH:
            return self._refuse(404, f"events are received at {PATH}")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            return self._refuse(411, "Content-Length is missing")
        if int(length) > MAX_BODY_BYTES:
            return self._refuse(413, f"an event has at most {MAX_BODY_BYTES} bytes")
        body = self.rfile.read(int(length))
        server = cast("_Server", self.server)
        with server.slots:
            try:
                delivery = server.take(body, log_headers(self.headers.items()))
            except Exception:  # a defect here is not the event's fault: the Broker repeats it
                log.exception("event_failed")
                delivery = Delivery.LATER
        self.send_response(_STATUS[delivery])
        self.send_header("Content-Length", "0")
        self.end_headers()
        return None

    def _refuse(self, status: int, text: str) -> None:
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Connection", "close")  # else the peer may send its next event here
        self.end_headers()
        self.wfile.write(text.encode())
        self._discard_body()

    def _discard_body(self) -> None:
        """A peer that is still sending would lose the answer to a reset of its connection."""
        left = 4 * MAX_BODY_BYTES
        with suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(DISCARDING_S)
            while left > 0 and (chunk := self.connection.recv(MAX_BODY_BYTES)):
                left -= len(chunk)

    def log_message(self, *_: object) -> None:
        """The handling of an event logs what matters."""
