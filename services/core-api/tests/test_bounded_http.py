"""Slow, greedy and ambiguous clients on a real socket: each is let go, the others are served."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
import uvicorn

from datarecs_core_api.bounded_http import MAX_HEAD_BYTES, BoundedConfig, BoundedHttp, Bounds
from datarecs_runtime.api_sections import Api
from datarecs_runtime.clock import SystemClock
from datarecs_testing.api import MemoryApiHouse, memory_api

pytestmark = pytest.mark.integration
CLOCK, SECOND = SystemClock(), timedelta(seconds=1)
GET = b"GET /livez HTTP/1.1\r\nHost: api.test\r\n"
POST = b"POST /api/v1/keys HTTP/1.1\r\nHost: api.test\r\nContent-Type: application/json\r\n"


@dataclass(kw_only=True)
class Served:
    """The application with the bounded protocol, on a separate port."""

    house: MemoryApiHouse = field(default_factory=memory_api)
    port: int = 0

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def dropped(self, reason: str) -> float:
        return self.house.metrics.total("http_connections_dropped_total", reason=reason)

    def post_head(self) -> bytes:
        return POST + f"Authorization: Bearer {self.house.key()}\r\n".encode()


@contextmanager
def served(**settings: object) -> Iterator[Served]:
    """Windows are short; `settings` are fields of Api."""
    it = Served()
    bounds = Bounds(
        settings=Api.model_validate(settings),
        metrics=it.house.metrics,
        body_window_s=0.3,
        linger_s=0.3,
    )
    config = BoundedConfig(
        it.house.app,
        bounds=bounds,
        port=0,
        http=BoundedHttp,
        lifespan="off",
        log_config=None,
        timeout_keep_alive=1,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        CLOCK.wait(timedelta(seconds=0.01))  # uvicorn does not signal its start
    it.port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield it
    finally:
        server.should_exit = True
        thread.join()


def answer(client: socket.socket) -> bytes:
    """Everything until the server closes the connection."""
    pieces = []
    try:
        while piece := client.recv(65536):
            pieces.append(piece)
    except ConnectionResetError:
        pass
    return b"".join(pieces)


def first_answer(client: socket.socket) -> bytes:
    """What comes at once."""
    return client.recv(65536)


def whole_answer(client: socket.socket) -> bytes:
    """Head and body of a response with an object as body."""
    pieces = b""
    while not pieces.endswith(b"}") and (piece := client.recv(65536)):
        pieces += piece
    return pieces


class TestASlowClient:
    @pytest.mark.case("X34")
    @pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.1\r\nHost: a\r\n"])
    def test_is_let_go_when_its_headers_are_not_complete(self, sent: bytes) -> None:
        with served(header_timeout=SECOND) as api, api.connect() as client:
            client.sendall(sent)
            assert answer(client) == b""
            assert api.dropped("head") == 1

    @pytest.mark.case("X34")
    def test_is_let_go_although_it_sends_a_header_now_and_then(self) -> None:
        with served(header_timeout=SECOND) as api, api.connect() as client:
            client.sendall(GET)
            client.settimeout(0.2)
            for _ in range(20):
                client.sendall(b"X-More: 1\r\n")
                try:
                    assert client.recv(1) == b""
                    break
                except TimeoutError:
                    continue
                except ConnectionResetError:
                    break
            assert api.dropped("head") == 1

    @pytest.mark.case("X34")
    def test_is_let_go_in_the_head_of_its_second_request(self) -> None:
        with served(header_timeout=SECOND) as api, api.connect() as client:
            client.sendall(GET + b"\r\n")
            assert whole_answer(client).startswith(b"HTTP/1.1 200")
            client.sendall(GET)
            assert answer(client) == b""
            assert api.dropped("head") == 1

    @pytest.mark.case("X34")
    def test_is_let_go_below_the_rate_of_a_body(self) -> None:
        with served() as api, api.connect() as client:
            client.sendall(api.post_head() + b"Content-Length: 100000\r\n\r\n{")
            assert answer(client) == b""
            assert api.dropped("body") == 1

    def test_that_respects_the_rate_is_served(self) -> None:
        with served(min_body_rate=100) as api, api.connect() as client:
            body = json.dumps({"name": "ci"}).encode() + 400 * b" "
            client.sendall(api.post_head() + f"Content-Length: {len(body)}\r\n\r\n".encode())
            for start in range(0, len(body), 50):
                client.sendall(body[start : start + 50])
                CLOCK.wait(timedelta(seconds=0.1))  # a slow client
            assert first_answer(client).startswith(b"HTTP/1.1 201")

    def test_that_waits_for_continue_is_not_blamed_for_the_server(self) -> None:
        with served() as api, api.connect() as client:
            head = b"Content-Length: 14\r\nExpect: 100-continue\r\n\r\n"
            client.sendall(api.post_head() + head)
            assert first_answer(client).startswith(b"HTTP/1.1 100")
            client.sendall(b'{"name": "ci"}')
            assert first_answer(client).startswith(b"HTTP/1.1 201")

    def test_is_let_go_when_it_is_idle_between_two_requests(self) -> None:
        with served() as api, api.connect() as client:
            client.sendall(GET + b"\r\n")
            assert answer(client).startswith(b"HTTP/1.1 200")

    def test_that_reads_nothing_is_cut(self) -> None:
        with served(write_timeout=SECOND) as api:
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(10)
            client.connect(("127.0.0.1", api.port))
            with client:
                request = b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n"
                try:
                    for _ in range(2_000):
                        client.sendall(request)
                except (ConnectionResetError, BrokenPipeError, TimeoutError):
                    pass
                waited = 0
                while not api.dropped("write") and waited < 50:
                    CLOCK.wait(timedelta(seconds=0.1))  # nothing is sent to wait for
                    waited += 1
            assert api.dropped("write") == 1


class TestALargeBody:
    @pytest.mark.case("X22")
    def test_without_a_length_is_refused_before_it_is_buffered(self) -> None:
        chunk = b"10000\r\n" + 65536 * b" " + b"\r\n"
        with served() as api, api.connect() as client:
            client.sendall(api.post_head() + b"Transfer-Encoding: chunked\r\n\r\n" + 17 * chunk)
            assert b"413" in first_answer(client).splitlines()[0]

    @pytest.mark.case("X22")
    def test_that_is_refused_is_not_read_for_ever(self) -> None:
        with served() as api, api.connect() as client:
            client.sendall(api.post_head() + b"Content-Length: 99999999999\r\n\r\n")
            assert b"413" in first_answer(client).splitlines()[0]
            assert answer(client) == b""
            assert api.dropped("body") == 1

    @pytest.mark.case("X22")
    def test_that_is_compressed_is_of_no_type_that_is_taken(self) -> None:
        with served() as api, api.connect() as client:
            head = b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"
            client.sendall(api.post_head() + head)
            assert b"415" in first_answer(client).splitlines()[0]


AMBIGUOUS = {
    "length and chunks": b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a list of lengths": b"Content-Length: 2, 3\r\n\r\n{}",
    "a signed length": b"Content-Length: +2\r\n\r\n{}",
    "two codings": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "an odd coding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a folded line": b"X-Long: a\r\n b\r\nContent-Length: 2\r\n\r\n{}",
    "a folded length": b"Content-Length:\r\n 2\r\n\r\n{}",
    "a fold by tab": b"X-Long: a\n\tb\nContent-Length: 2\n\n{}",
    "a space before the colon": b"Content-Length : 2\r\n\r\n{}",
    "a bare CR": b"X-Long: a\rContent-Length: 2\r\n\r\n{}",
    "a NUL": b"X-Long: a\x00b\r\nContent-Length: 2\r\n\r\n{}",
    "a second host": b"Host: evil.example\r\nContent-Length: 2\r\n\r\n{}",
}


class TestAnAmbiguousRequest:
    @pytest.mark.parametrize("head", AMBIGUOUS.values(), ids=list(AMBIGUOUS))
    def test_is_refused_and_the_connection_closed(self, head: bytes) -> None:
        with served() as api, api.connect() as client:
            client.sendall(api.post_head() + head)
            response, _, body = answer(client).partition(b"\r\n\r\n")
            assert response.startswith(b"HTTP/1.1 400")
            assert b"application/problem+json" in response
            assert json.loads(body)["code"] == "DR4001"
            assert api.dropped("malformed") == 1

    def test_is_refused_behind_a_sound_one(self) -> None:
        with served() as api, api.connect() as client:
            both = AMBIGUOUS["length and chunks"]
            client.sendall(GET + b"\r\n" + api.post_head() + both)
            response = answer(client)
            assert response.count(b"HTTP/1.1 200") == response.count(b"HTTP/1.1 400") == 1

    def test_in_http_1_0_is_one_with_chunks(self) -> None:
        with served() as api, api.connect() as client:
            head = api.post_head().replace(b"HTTP/1.1", b"HTTP/1.0")
            client.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
            assert answer(client).startswith(b"HTTP/1.1 400")

    def test_is_not_one_with_a_body_like_a_folded_line(self) -> None:
        with served() as api, api.connect() as client:
            body = b'{\n  "name":\n\t"ci"\n}'
            head = f"Content-Length: {len(body)}\r\n\r\n".encode()
            client.sendall(api.post_head() + head + body)
            assert first_answer(client).startswith(b"HTTP/1.1 201")

    def test_breaks_off_in_a_bad_chunk(self, caplog: pytest.LogCaptureFixture) -> None:
        with served() as api, api.connect() as client:
            client.sendall(api.post_head() + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n")
            assert answer(client).startswith(b"HTTP/1.1 400")
        assert "Traceback" not in caplog.text

    def test_with_an_endless_head_is_refused(self) -> None:
        with served() as api, api.connect() as client:
            with suppress(ConnectionResetError, BrokenPipeError):
                client.sendall(GET + (2 * MAX_HEAD_BYTES) * b"x")
            assert answer(client).startswith((b"HTTP/1.1 400", b""))
            assert api.dropped("malformed") == 1


PATHS = (
    "/api/v1//jobs",
    "/api/v1/jobs/../keys",
    "/api/v1/jobs/%2e%2e/keys",
    "/api/v1/jobs/a%2Fb",
    "/api/v1/jobs/%00",
    "/api/v1/jobs/%ff%fe",
    "/api/v1/runs/%0d%0aX-Evil:1",
    "/api/v1/runs?cursor=%00%ff",
    "/api/v1/runs?since=9999-12-31T23:59:59-14:00",
    "/api/v1/events/stream?after=%00",
    "/api/v1/ws?ticket=%ff",
    "http://evil.example/api/v1/jobs",
    "//evil.example/api/v1/jobs",
    "*",
)
METHODS = ("GET", "POST", "HEAD", "OPTIONS", "TRACE", "CONNECT", "BREW", "get")
HEADERS = (
    "X-Request-Id: \xff",
    "Traceparent: " + 5_000 * "x",
    "Idempotency-Key: \xff",
    "If-None-Match: " + 3_000 * '"a",',
    "Accept: \xff",
    "Prefer: wait=99999999999999999999",
    "Content-Type: application/json; charset=\xff",
    "Last-Event-ID: \xff",
    "Upgrade: websocket\r\nConnection: Upgrade",
    "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings",
    "X-Forwarded-For: " + 5_000 * ",",
)


class TestAnOddRequest:
    """Refused or answered; never a failure of the server, and never a stack in its log."""

    @pytest.mark.case("X88")
    @pytest.mark.parametrize("method", METHODS)
    def test_for_a_path(self, method: str, caplog: pytest.LogCaptureFixture) -> None:
        heads = [f"{method} {path} HTTP/1.1\r\nHost: a\r\n" for path in PATHS]
        assert max(statuses(heads)) < 500
        assert "Traceback" not in caplog.text

    @pytest.mark.case("X85", "X88")
    @pytest.mark.parametrize("host", ["", "a b", "[::1", "a:b:c", "\xe9", "evil.example/.."])
    def test_for_a_host(self, host: str, caplog: pytest.LogCaptureFixture) -> None:
        assert max(statuses([f"GET /api/v1/whoami HTTP/1.1\r\nHost: {host}\r\n"])) < 500
        assert "Traceback" not in caplog.text

    @pytest.mark.case("X88")
    @pytest.mark.parametrize("header", HEADERS)
    def test_with_a_header(self, header: str, caplog: pytest.LogCaptureFixture) -> None:
        lines = ("GET /api/v1/jobs", "POST /api/v1/keys", "GET /api/v1/ws?ticket=x")
        heads = [f"{line} HTTP/1.1\r\nHost: a\r\n{header}\r\n" for line in lines]
        assert max(statuses(heads)) < 500
        assert "Traceback" not in caplog.text


def statuses(heads: list[str]) -> list[int]:
    """Of each request, with a good key and without a body."""
    codes = []
    with served() as api:
        for head in heads:
            key = f"Authorization: Bearer {api.house.key()}\r\n"
            with api.connect() as client:
                client.sendall(f"{head}{key}Connection: close\r\n\r\n".encode("latin-1"))
                codes.append(int(first_answer(client).split()[1]))
    return codes


class TestManyConnections:
    @pytest.mark.case("X34")
    def test_of_one_address_are_capped(self) -> None:
        with served(connections_per_address=3) as api:
            clients = [api.connect() for _ in range(3)]
            with api.connect() as fourth:
                assert answer(fourth).startswith(b"HTTP/1.1 503")
            for client in clients:
                client.sendall(GET + b"\r\n")
                assert first_answer(client).startswith(b"HTTP/1.1 200")
                client.close()
            assert api.dropped("too_many") == 1

    def test_of_a_trusted_proxy_are_its_clients(self) -> None:
        with served(connections_per_address=3, trusted_proxies="127.0.0.0/8") as api:
            clients = [api.connect() for _ in range(5)]
            for client in clients:
                client.sendall(GET + b"\r\n")
                assert first_answer(client).startswith(b"HTTP/1.1 200")
                client.close()

    def test_of_all_are_capped(self) -> None:
        with served(max_connections=10, trusted_proxies="127.0.0.0/8") as api:
            clients = [api.connect() for _ in range(10)]
            with api.connect() as one_more:
                assert answer(one_more).startswith(b"HTTP/1.1 503")
            for client in clients:
                client.close()
