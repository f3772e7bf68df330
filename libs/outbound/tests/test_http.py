import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.egress.urls import Target
from datarecs_outbound.dialling import Dialling, Failure, Resolver, system_resolver
from datarecs_outbound.http import (
    MAX_BODY_BYTES,
    Answered,
    GuardedHttp,
    GuardedTransport,
    HttpCall,
    NotAnswered,
)
from datarecs_testing.certificates import an_authority

HOST = "hooks.example.com"
SERVER = Policy(purpose=Purpose.WEBHOOK)
LOCAL = Policy(purpose=Purpose.WEBHOOK, profile=Profile.LOCAL)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Receiver:
    """A server of a test: what reached it, and what it answers."""

    def __init__(self, answer: bytes = OK) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self._answer = answer

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while head := await request_head(reader):
            length = next(
                (int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Len")),
                0,
            )
            self.requests.append(head + await reader.readexactly(length))
            writer.write(self._answer)
            await writer.drain()
        writer.close()


async def request_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


@asynccontextmanager
async def served(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server on the loopback for as long as the block lasts; returns its port."""

    async def quiet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    handling: set[asyncio.Task[None]] = set()

    async def tracked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(quiet(reader, writer))
        handling.add(task)
        await task

    server = await asyncio.start_server(tracked, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in handling:
            task.cancel()
        await asyncio.gather(*handling, return_exceptions=True)


def always(*addresses: str) -> Resolver:
    return lambda _host, _port: addresses


LOOPBACK = always("127.0.0.1")


def a_call(
    port: int = 443, *, scheme: str = "http", seconds: float = 5, path: str = "/"
) -> HttpCall:
    target = Target(scheme=scheme, host=HOST, port=port, path=path)
    return HttpCall(
        method="POST", target=target, body=b'{"v":0.010}', timeout=timedelta(seconds=seconds)
    )


def guarded(
    resolve: Resolver = LOOPBACK,
    *,
    policy: Policy = LOCAL,
    proxy_url: str | None = None,
    tls: ssl.SSLContext | None = None,
    max_connections: int = 8,
) -> GuardedHttp:
    dialling = Dialling(policy=policy, resolve=resolve, proxy_url=proxy_url)
    return GuardedHttp(GuardedTransport(dialling, tls=tls, max_connections=max_connections))


async def called(http: GuardedHttp, call: HttpCall) -> Answered | NotAnswered:
    try:
        return await http.call(call)
    finally:
        await http.aclose()


def send(http: GuardedHttp, call: HttpCall) -> Answered | NotAnswered:
    return asyncio.run(called(http, call))


def answer_of(end: Answered | NotAnswered) -> Answered:
    assert isinstance(end, Answered), end
    return end


def failure_of(end: Answered | NotAnswered) -> NotAnswered:
    assert isinstance(end, NotAnswered), end
    return end


@pytest.mark.case("W18")
@pytest.mark.case("X45")
def test_a_name_with_one_private_answer_is_blocked_and_no_socket_is_opened() -> None:
    # The socket guard of the test run would turn any dial into another error.
    end = failure_of(send(guarded(always("93.184.216.34", "10.0.0.1"), policy=SERVER), a_call()))
    assert (end.failure, end.phase, end.address_class) == (
        Failure.BLOCKED_ADDRESS,
        "dns",
        "private",
    )
    assert "10.0.0.1" not in str(end)


@pytest.mark.integration
@pytest.mark.case("X44")
@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "017700000001", "127.1", "0"])
def test_a_number_that_means_this_machine_is_blocked_when_it_is_sent_to(host: str) -> None:
    target = Target(scheme="https", host=host, port=443, path="/")
    end = send(guarded(system_resolver, policy=SERVER), HttpCall(method="POST", target=target))
    assert failure_of(end).failure is Failure.BLOCKED_ADDRESS


def test_a_name_that_does_not_resolve_is_reported_as_such() -> None:
    def unknown(_host: str, _port: int) -> Sequence[str]:
        raise OSError(-2, "Name or service not known")

    end = failure_of(send(guarded(unknown), a_call()))
    assert (end.failure, end.error) == (Failure.DNS_FAILED, "Name or service not known")


def test_a_resolver_that_hangs_ends_with_the_deadline() -> None:
    def hanging(_host: str, _port: int) -> Sequence[str]:
        time.sleep(0.3)  # noqa: TID251  a resolver that blocks its thread, which nothing else does
        return ["127.0.0.1"]

    end = failure_of(send(guarded(hanging), a_call(seconds=0.05)))
    assert (end.failure, end.phase) == (Failure.TIMEOUT, "dns")


@pytest.mark.integration
def test_the_request_goes_out_as_written_with_host_and_length_and_nothing_else() -> None:
    receiver = Receiver()

    async def scenario() -> Answered | NotAnswered:
        async with served(receiver) as port:
            call = a_call(port, path="/a//b|{c}?q=%20'\"")
            headers = (("webhook-id", "1"), ("User-Agent", "datarecs-webhook/1"))
            call = HttpCall(method="POST", target=call.target, headers=headers, body=call.body)
            end = await called(guarded(), call)
            expected = f"POST /a//b|{{c}}?q=%20'\" HTTP/1.1\r\nHost: {HOST}:{port}\r\n"
            assert receiver.requests[0].decode().startswith(expected)
            return end

    end = answer_of(asyncio.run(scenario()))
    head, body = receiver.requests[0].split(b"\r\n\r\n")
    assert [line.split(b":")[0] for line in head.split(b"\r\n")[1:]] == [
        b"Host",
        b"webhook-id",
        b"User-Agent",
        b"Content-Length",
    ]
    assert body == b'{"v":0.010}'
    assert (end.status, end.body, end.truncated) == (200, b"ok", False)
    assert set(end.phases) == {"dns", "connect", "first_byte", "body", "total"}


@pytest.mark.integration
def test_a_connection_that_stands_is_used_again_and_has_no_connecting_phases() -> None:
    receiver = Receiver()

    async def scenario() -> Answered | NotAnswered:
        async with served(receiver) as port:
            http = guarded()
            await http.call(a_call(port))
            return await called(http, a_call(port))

    end = answer_of(asyncio.run(scenario()))
    assert receiver.connections == 1
    assert set(end.phases) == {"first_byte", "body", "total"}


@pytest.mark.integration
@pytest.mark.case("W19")
@pytest.mark.case("X45")
def test_a_name_that_changes_after_the_check_is_resolved_once_and_dialled_where_checked() -> None:
    receiver, resolutions = Receiver(), list[str]()

    def rebinding(host: str, _port: int) -> Sequence[str]:
        resolutions.append(host)
        return ["127.0.0.1"] if len(resolutions) == 1 else ["127.0.0.99"]

    async def scenario() -> Answered | NotAnswered:
        async with served(receiver) as port:
            return await called(guarded(rebinding), a_call(port))

    assert answer_of(asyncio.run(scenario())).status == 200
    assert (resolutions, receiver.connections) == ([HOST], 1)


@pytest.mark.integration
@pytest.mark.case("W20")
@pytest.mark.case("X49")
def test_proxies_of_the_environment_are_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    proxy, receiver = Receiver(), Receiver()
    (tmp_path / ".netrc").write_text(f"machine {HOST} login u password Zebra77Quagga\n")
    monkeypatch.setenv("HOME", str(tmp_path))

    async def scenario() -> Answered | NotAnswered:
        async with served(proxy) as proxy_port, served(receiver) as port:
            for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"):
                monkeypatch.setenv(name, f"http://127.0.0.1:{proxy_port}")
            return await called(guarded(), a_call(port))

    assert answer_of(asyncio.run(scenario())).status == 200
    assert (proxy.connections, receiver.connections) == (0, 1)
    assert b"Zebra77Quagga" not in receiver.requests[0]
    assert b"uthorization" not in receiver.requests[0]


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(4096):
        writer.write(data)
        await writer.drain()
    writer.close()


@pytest.mark.integration
@pytest.mark.case("X49")
def test_the_operators_proxy_receives_the_checked_address() -> None:
    heads: list[bytes] = []
    receiver = Receiver()

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await request_head(reader))
        host, port = heads[-1].split(b" ")[1].decode().split(":")
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(pump(reader, there_writer), pump(there_reader, writer))
        there_writer.close()

    async def scenario() -> tuple[int, Answered | NotAnswered]:
        async with served(proxy) as proxy_port, served(receiver) as port:
            url = f"http://op:p%40ss@127.0.0.1:{proxy_port}"
            return port, await called(guarded(proxy_url=url), a_call(port))

    port, end = asyncio.run(scenario())
    assert answer_of(end).status == 200
    assert heads == [
        f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        "Proxy-Authorization: Basic b3A6cEBzcw==\r\n\r\n".encode()
    ]


@pytest.mark.integration
@pytest.mark.parametrize("reply", [b"HTTP/1.1 407 No\r\n\r\n", b"", b"x" * 20_000])
def test_a_proxy_that_refuses_is_a_failed_connection(reply: bytes) -> None:
    async def refusing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_head(reader)
        writer.write(reply)

    async def scenario() -> Answered | NotAnswered:
        async with served(refusing) as proxy_port:
            url = f"http://127.0.0.1:{proxy_port}"
            return await called(guarded(proxy_url=url), a_call(1))

    assert failure_of(asyncio.run(scenario())).failure is Failure.CONNECT_FAILED


@pytest.mark.case("X52")
@pytest.mark.integration
@pytest.mark.case("W21")
@pytest.mark.parametrize("fault", ["expired", "other host", "self-signed", "no TLS"])
def test_without_a_valid_certificate_nothing_is_sent(tmp_path: Path, fault: str) -> None:
    known, unknown = an_authority(), an_authority()
    contexts = {
        "expired": known.server(tmp_path, valid=timedelta(days=1)),
        "other host": known.server(tmp_path, host="other.example.com"),
        "self-signed": unknown.server(tmp_path),
        "no TLS": None,
    }
    received: list[bytes] = []

    async def receiver(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        received.append(await reader.read(100_000))

    async def scenario() -> Answered | NotAnswered:
        async with served(receiver, contexts[fault]) as port:
            call = a_call(port, scheme="https")
            return await called(guarded(tls=known.trusted()), call)

    end = failure_of(asyncio.run(scenario()))
    assert (end.failure, end.phase) == (Failure.TLS_FAILED, "tls")
    assert b"POST" not in b"".join(received)
    assert "127.0.0.1" not in end.error


@pytest.mark.integration
def test_a_valid_certificate_of_the_name_is_accepted_although_an_address_is_dialled(
    tmp_path: Path,
) -> None:
    authority = an_authority()
    receiver = Receiver()

    async def scenario() -> Answered | NotAnswered:
        async with served(receiver, authority.server(tmp_path)) as port:
            http = guarded(tls=authority.trusted())
            return await called(http, a_call(port, scheme="https"))

    end = answer_of(asyncio.run(scenario()))
    assert end.status == 200
    assert f"Host: {HOST}".encode() in receiver.requests[0]
    assert "tls" in end.phases


@pytest.mark.integration
@pytest.mark.case("W22")
@pytest.mark.case("X51")
def test_a_header_that_drips_ends_at_the_deadline() -> None:
    async def dripping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_head(reader)
        for byte in OK * 9:
            writer.write(bytes((byte,)))
            await writer.drain()
            await asyncio.sleep(0.07)

    async def scenario() -> tuple[float, Answered | NotAnswered]:
        async with served(dripping) as port:
            loop = asyncio.get_running_loop()
            begun = loop.time()
            end = await called(guarded(), a_call(port, seconds=0.7))
            return loop.time() - begun, end

    took, end = asyncio.run(scenario())
    assert (failure_of(end).failure, failure_of(end).phase) == (Failure.TIMEOUT, "first_byte")
    assert 0.7 <= took <= 1.2


@pytest.mark.integration
@pytest.mark.case("W22")
@pytest.mark.case("X51")
@pytest.mark.parametrize("pause", [0.0, 10.0], ids=["endless", "one byte per 10 s"])
def test_a_body_without_end_is_cut_and_the_slot_is_free_again(pause: float) -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await request_head(reader)
        if b" /short " in head:
            writer.write(OK)
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n")
        while True:
            writer.write(b"x" * (1 if pause else 4096))
            await writer.drain()
            await asyncio.sleep(pause)

    async def scenario() -> list[Answered | NotAnswered]:
        async with served(endless) as port:
            http = guarded(max_connections=1)
            first = await http.call(a_call(port, seconds=0.5))
            return [first, await called(http, a_call(port, path="/short"))]

    cut, short = map(answer_of, asyncio.run(scenario()))
    assert (cut.status, cut.truncated) == (200, True)
    assert len(cut.body) == (1 if pause else MAX_BODY_BYTES)
    assert (short.body, short.truncated) == (b"ok", False)


@pytest.mark.integration
def test_a_body_of_exactly_the_cap_is_whole() -> None:
    whole = b"HTTP/1.1 500 No\r\nContent-Length: 65536\r\n\r\n" + b"x" * MAX_BODY_BYTES

    async def scenario() -> Answered | NotAnswered:
        async with served(Receiver(whole)) as port:
            return await called(guarded(), a_call(port))

    end = answer_of(asyncio.run(scenario()))
    assert (end.status, len(end.body), end.truncated) == (500, MAX_BODY_BYTES, False)


@pytest.mark.integration
@pytest.mark.case("X51")
def test_headers_of_many_megabytes_are_not_read_to_their_end() -> None:
    sent = 0

    async def shouting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await request_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n")
        for _ in range(100_000):
            writer.write(b"X-More: " + b"x" * 1000 + b"\r\n")
            await writer.drain()
            sent += 1000

    async def scenario() -> Answered | NotAnswered:
        async with served(shouting) as port:
            return await called(guarded(), a_call(port))

    assert failure_of(asyncio.run(scenario())).failure is Failure.PROTOCOL_ERROR
    assert sent < 20_000_000


@pytest.mark.integration
@pytest.mark.case("X47")
@pytest.mark.case("W15")
@pytest.mark.parametrize(
    "head",
    [
        b"302 Found\r\nLocation: http://169.254.169.254/latest",
        b"307 Temporary Redirect\r\nLocation: /again",
        b'401 Unauthorized\r\nWWW-Authenticate: Basic realm="x"',
        b"200 OK\r\nRefresh: 0; url=http://127.0.0.1/",
    ],
)
def test_redirects_challenges_and_refreshes_are_answers_and_not_followed(head: bytes) -> None:
    receiver, names = Receiver(b"HTTP/1.1 " + head + b"\r\nContent-Length: 0\r\n\r\n"), []

    def watched(host: str, _port: int) -> Sequence[str]:
        names.append(host)
        return ["127.0.0.1"]

    async def scenario() -> Answered | NotAnswered:
        async with served(receiver) as port:
            return await called(guarded(watched), a_call(port))

    assert answer_of(asyncio.run(scenario())).status == int(head[:3])
    assert (len(receiver.requests), names) == (1, [HOST])


@pytest.mark.integration
@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 20", b"SSH-2.0-OpenSSH_9\r\n", b"\x00" * 50])
def test_an_answer_that_is_no_http_is_a_protocol_error(reply: bytes) -> None:
    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_head(reader)
        writer.write(reply)

    async def scenario() -> Answered | NotAnswered:
        async with served(other) as port:
            return await called(guarded(), a_call(port))

    assert failure_of(asyncio.run(scenario())).failure is Failure.PROTOCOL_ERROR


@pytest.mark.integration
def test_a_body_that_breaks_off_leaves_the_status_as_the_answer() -> None:
    async def breaking(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_head(reader)
        writer.write(OK[:-1])

    async def scenario() -> Answered | NotAnswered:
        async with served(breaking) as port:
            return await called(guarded(), a_call(port))

    end = answer_of(asyncio.run(scenario()))
    assert (end.status, end.body, end.truncated) == (200, b"o", True)


@pytest.mark.integration
def test_a_port_where_nobody_listens_is_a_failed_connection() -> None:
    async def scenario() -> Answered | NotAnswered:
        async with served(Receiver()) as port:
            pass
        return await called(guarded(), a_call(port))

    end = failure_of(asyncio.run(scenario()))
    assert (end.failure, end.phase) == (Failure.CONNECT_FAILED, "connect")
    assert "127.0.0.1" not in end.error


@pytest.mark.integration
def test_the_second_checked_address_is_tried_when_the_first_does_not_answer() -> None:
    receiver = Receiver()

    async def scenario() -> Answered | NotAnswered:
        async with served(receiver) as port:
            return await called(guarded(always("::1", "127.0.0.1", "127.0.0.3")), a_call(port))

    assert answer_of(asyncio.run(scenario())).status == 200
