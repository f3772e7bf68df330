"""The DynamoDB of moto over HTTP, with what moto lacks: tokens of transactions, and lost answers.

Requests are carried out one after the other, because moto's transactions do not exclude each other.
"""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import NamedTuple

from moto.core.request import Request
from moto.dynamodb import responses

_TRANSACTION = "DynamoDB_20120810.TransactWriteItems"
_MAX_READS = 100
"""Of DynamoDB since 2022; moto has the limit before, 25."""


class _Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class DynamoServer:
    """A running emulator."""

    def __init__(self) -> None:
        self.lost_answers = 0
        """So many answers of transactions are lost, after the transaction."""
        self.tokens: list[str] = []
        """Of every transaction that arrived."""
        self._answers: dict[str, _Answer] = {}
        self._one_by_one = Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, request: Request) -> _Answer | None:
        """The answer; None if it is lost."""
        with self._one_by_one:
            if request.headers["X-Amz-Target"] != _TRANSACTION:
                return _carried_out(request)
            token = json.loads(request.data)["ClientRequestToken"]
            self.tokens.append(token)
            if token not in self._answers:
                self._answers[token] = _carried_out(request)
            if self.lost_answers:
                self.lost_answers -= 1
                return None
            return self._answers[token]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        emulator = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version, wbufsize = "HTTP/1.1", -1  # an answer in one packet

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers, url = dict(self.headers), f"{emulator.endpoint}/"
                answer = emulator.answer(Request.from_primitives("POST", url, headers, body))
                if answer is None:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *_: object) -> None: ...

        return Handler


def _carried_out(request: Request) -> _Answer:
    status, headers, body = responses.DynamoHandler.dispatch(request)
    text = body if isinstance(body, bytes) else str(body).encode()
    return _Answer(status, {name: str(value) for name, value in headers.items()}, text)


@contextmanager
def start_dynamo_server() -> Iterator[DynamoServer]:
    """Serve until the block ends."""
    responses.TRANSACTION_MAX_ITEMS = _MAX_READS
    made = DynamoServer()
    thread = Thread(target=made.server.serve_forever, name="dynamo-server")
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        thread.join()
        made.server.server_close()
