"""A webhook receiver of a test: a real HTTP server on the loopback that answers from a script.

Synchronous, on separate threads, so that tests of loops and services need no event loop.
"""

import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Answer = bytes | Callable[[socketserver.StreamRequestHandler], None]
"""Bytes to send as they are, or a way to misbehave; the connection is closed after it."""


def status(code: int, **headers: str) -> bytes:
    """An empty answer; header names with underscores for hyphens."""
    lines = [f"HTTP/1.1 {code} x", "Content-Length: 0"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join([*lines, "", ""])).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it arrived."""

    line: str
    headers: tuple[tuple[str, str], ...]
    """In order, names as sent."""
    body: bytes

    @property
    def by_name(self) -> Mapping[str, str]:
        return {name.lower(): value for name, value in self.headers}


@dataclass(slots=True)
class Receiver:
    """A running receiver: its received requests, and its next answers."""

    port: int = 0
    answers: list[Answer] = field(default_factory=list)
    """Used up one per request; then `OK`."""
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    _arrived: threading.Condition = field(default_factory=threading.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def took(self, request: Request) -> Answer:
        with self._arrived:
            self.requests.append(request)
            answer = self.answers.pop(0) if self.answers else OK
            self._arrived.notify_all()
            return answer

    def wait_for(self, count: int, *, timeout: float = 10.0) -> Sequence[Request]:
        """The first `count` requests, as soon as they have arrived."""
        with self._arrived:
            arrived = self._arrived.wait_for(lambda: len(self.requests) >= count, timeout)
            assert arrived, f"{len(self.requests)} of {count} requests arrived"
            return list(self.requests)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128
    receiver: Receiver


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Server)
        receiver = self.server.receiver
        receiver.connections += 1
        while (request := self._read()) is not None:
            answer = receiver.took(request)
            if not isinstance(answer, bytes):
                answer(self)
                return
            self.wfile.write(answer)

    def _read(self) -> Request | None:
        try:
            line = self.rfile.readline().decode().rstrip("\r\n")
            headers = tuple(self._headers())
        except ConnectionError:
            return None
        if not line:
            return None
        length = next((int(v) for name, v in headers if name.lower() == "content-length"), 0)
        return Request(line=line, headers=headers, body=self.rfile.read(length))

    def _headers(self) -> Iterator[tuple[str, str]]:
        while line := self.rfile.readline().decode().rstrip("\r\n"):
            name, _, value = line.partition(":")
            yield name, value.strip()


@contextmanager
def webhook_receiver(*answers: Answer) -> Iterator[Receiver]:
    """A receiver for as long as the block lasts."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        receiver = server.receiver = Receiver(port=server.server_address[1], answers=list(answers))
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


def cut(handler: socketserver.StreamRequestHandler) -> None:
    """Close the connection without an answer."""
    handler.connection.close()


def endless(handler: socketserver.StreamRequestHandler) -> None:
    """200 with a body that never ends."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunk = b"4000\r\n" + b"x" * 0x4000 + b"\r\n"
    try:
        while True:
            handler.wfile.write(chunk)
    except OSError:
        return


def dripping(handler: socketserver.StreamRequestHandler) -> None:
    """A header that comes a byte at a time and never ends."""
    waiting = threading.Event()
    try:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Drip: ")
        while not waiting.wait(0.2):
            handler.wfile.write(b"x")
    except OSError:
        return
