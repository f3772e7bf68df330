"""From a name to a connected socket: resolved once, every answer checked, a checked one dialled.

Its own module because it is the only way to a socket for outgoing HTTP: httpcore asks this backend,
and nothing below it sees a name again. The name lives on in Host, SNI and the certificate check.
"""

import asyncio
import base64
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any
from urllib.parse import unquote, urlsplit

import httpcore

from datarecs_core.egress.addresses import Address, Policy, admit
from datarecs_core.errors.security import AddressBlockedError

CONNECT_TIMEOUT = timedelta(seconds=5)
"""For connecting to one address, and for the TLS handshake."""
MAX_ADDRESSES_TRIED = 2
_RESOLVING_THREADS = 32
"""Names that hang in the resolver hold a thread each; the default executor has a handful."""
_MAX_PROXY_ANSWER = 16_384

Resolver = Callable[[str, int], Sequence[str]]
"""(name, port) -> addresses as text, blocking; raises OSError when there is none."""


def system_resolver(host: str, port: int) -> Sequence[str]:
    """All A and AAAA answers of the system, in its order."""
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(address[0]) for *_, address in answers]


class Failure(StrEnum):
    """Why there is no answer; spelled like the outcomes of an attempt."""

    TIMEOUT = "TIMEOUT"
    DNS_FAILED = "DNS_FAILED"
    CONNECT_FAILED = "CONNECT_FAILED"
    TLS_FAILED = "TLS_FAILED"
    PROTOCOL_ERROR = "PROTOCOL_ERROR"
    BLOCKED_ADDRESS = "BLOCKED_ADDRESS"


class NotDialledError(Exception):
    """Carries a failure up through httpcore; a value again before it leaves this package."""

    def __init__(self, failure: Failure, *, error: str, address_class: str | None = None) -> None:
        super().__init__(error)
        self.failure, self.error, self.address_class = failure, error, address_class


class Stopwatch:
    """Which phase a call is in, and how long the earlier ones took."""

    def __init__(self) -> None:
        self._begun = self._phase_begun = time.monotonic()
        self._milliseconds: dict[str, int] = {}
        self.phase = "first_byte"
        """What a call on a connection that stands already waits for first."""

    def enter(self, phase: str) -> None:
        now = time.monotonic()
        if phase != "dns":  # the first phase of a new connection: nothing ended before it
            self._milliseconds[self.phase] = round((now - self._phase_begun) * 1000)
        self.phase, self._phase_begun = phase, now

    def phases(self) -> dict[str, int]:
        """Milliseconds by phase, the current one included, and in all."""
        now = time.monotonic()
        current = {self.phase: round((now - self._phase_begun) * 1000)}
        return self._milliseconds | current | {"total": round((now - self._begun) * 1000)}


WATCH: ContextVar[Stopwatch] = ContextVar("WATCH")
"""The stopwatch of the call that is under way in this task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialling:
    """How connections are made."""

    policy: Policy
    proxy_url: str | None = None
    """The operator's proxy, `http://[user:password@]host:port`; it is dialled unchecked and asked
    to CONNECT to the checked address."""
    resolve: Resolver = system_resolver


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """The network of httpcore, with the guard inside."""

    def __init__(self, dialling: Dialling) -> None:
        self._dialling = dialling
        self._network = httpcore.AnyIOBackend()
        self._resolving = ThreadPoolExecutor(_RESOLVING_THREADS, thread_name_prefix="resolve")

    def close(self) -> None:
        self._resolving.shutdown(wait=False, cancel_futures=True)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  httpcore's signature
        local_address: str | None = None,  # noqa: ARG002  httpcore's signature
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002  httpcore's signature
    ) -> httpcore.AsyncNetworkStream:
        WATCH.get().enter("dns")
        addresses = await self._checked(host, port)
        WATCH.get().enter("connect")
        limit = CONNECT_TIMEOUT.total_seconds() if timeout is None else timeout
        stream = await self._first_that_answers(addresses[:MAX_ADDRESSES_TRIED], port, limit)
        WATCH.get().enter("first_byte")
        return GuardedStream(stream)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _checked(self, host: str, port: int) -> tuple[Address, ...]:
        loop = asyncio.get_running_loop()
        try:
            answers = await loop.run_in_executor(
                self._resolving, self._dialling.resolve, host, port
            )
            return admit(answers, self._dialling.policy)
        except AddressBlockedError as cause:
            raise NotDialledError(
                Failure.BLOCKED_ADDRESS,
                error=f"the address class {cause.address_class} is not allowed",
                address_class=cause.address_class,
            ) from cause
        except (OSError, UnicodeError) as cause:
            error = cause.strerror if isinstance(cause, OSError) else "not a valid name"
            raise NotDialledError(Failure.DNS_FAILED, error=str(error)) from cause

    async def _first_that_answers(
        self, addresses: Sequence[Address], port: int, limit: float
    ) -> httpcore.AsyncNetworkStream:
        failure = NotDialledError(Failure.CONNECT_FAILED, error="no address")
        for address in addresses:
            try:
                return await self._connected(address, port, limit)
            except httpcore.ConnectTimeout:
                failure = NotDialledError(Failure.TIMEOUT, error="no connection in time")
            except (httpcore.NetworkError, httpcore.TimeoutException) as cause:
                failure = NotDialledError(Failure.CONNECT_FAILED, error=_reason(cause))
        raise failure

    async def _connected(
        self, address: Address, port: int, limit: float
    ) -> httpcore.AsyncNetworkStream:
        if self._dialling.proxy_url is None:
            return await self._network.connect_tcp(str(address), port, timeout=limit)
        proxy = urlsplit(self._dialling.proxy_url)
        stream = await self._network.connect_tcp(
            str(proxy.hostname), proxy.port or 80, timeout=limit
        )
        place = f"[{address}]:{port}" if ":" in str(address) else f"{address}:{port}"
        lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
        if proxy.username:
            login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
            lines.append(f"Proxy-Authorization: Basic {base64.b64encode(login.encode()).decode()}")
        await stream.write("\r\n".join([*lines, "", ""]).encode(), timeout=limit)
        answer = b""
        while b"\r\n\r\n" not in answer and len(answer) < _MAX_PROXY_ANSWER:
            received = await stream.read(_MAX_PROXY_ANSWER, timeout=limit)
            if not received:
                break
            answer += received
        if answer.split(b" ", 2)[1:2] != [b"200"]:
            await stream.aclose()
            raise httpcore.ConnectError("the egress proxy refused")
        return stream


class GuardedStream(httpcore.AsyncNetworkStream):
    """A connected stream that tells a failed handshake from a failed connection."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109  httpcore's signature
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109  httpcore's signature
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  httpcore's signature
    ) -> httpcore.AsyncNetworkStream:
        WATCH.get().enter("tls")
        try:
            stream = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except httpcore.ConnectTimeout as cause:
            raise NotDialledError(Failure.TIMEOUT, error="no handshake in time") from cause
        except (httpcore.NetworkError, OSError) as cause:
            raise NotDialledError(Failure.TLS_FAILED, error=_reason(cause)) from cause
        WATCH.get().enter("first_byte")
        return stream

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401  httpcore's signature
        return self._stream.get_extra_info(info)


def _reason(error: BaseException) -> str:
    """What to tell a tenant: the reason without any address."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    if isinstance(root, ssl.SSLCertVerificationError):
        return root.verify_message
    if isinstance(root, ssl.SSLError):
        return root.reason or "the handshake failed"
    if isinstance(root, OSError) and root.strerror and root.errno is not None:
        return root.strerror.partition(" (")[0]
    return "the connection was lost"
