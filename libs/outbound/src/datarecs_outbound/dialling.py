"""Resolves a name once, checks every address, and connects a socket to a checked address.

Outgoing HTTP opens sockets only here: httpcore calls this backend, and no code below it uses the
name again. The name stays in Host, SNI and the certificate check.
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
"""Time limit to connect to one address, and for the TLS handshake."""
MAX_ADDRESSES_TRIED = 2
_RESOLVING_THREADS = 32
"""A slow lookup blocks one thread each; the default executor has only a few threads."""
_MAX_PROXY_ANSWER = 16_384

Resolver = Callable[[str, int], Sequence[str]]
"""(name, port) -> addresses as text, blocking; raises OSError if there are none."""


def system_resolver(host: str, port: int) -> Sequence[str]:
    """All A and AAAA answers of the system's resolver, in its order."""
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(address[0]) for *_, address in answers]


class Failure(StrEnum):
    """Why there is no answer; with the same words as the outcomes of an attempt."""

    TIMEOUT = "TIMEOUT"
    DNS_FAILED = "DNS_FAILED"
    CONNECT_FAILED = "CONNECT_FAILED"
    TLS_FAILED = "TLS_FAILED"
    PROTOCOL_ERROR = "PROTOCOL_ERROR"
    BLOCKED_ADDRESS = "BLOCKED_ADDRESS"


class NotDialledError(Exception):
    """Carries a failure through httpcore; this package turns it back into a value."""

    def __init__(self, failure: Failure, *, error: str, address_class: str | None = None) -> None:
        super().__init__(error)
        self.failure, self.error, self.address_class = failure, error, address_class


class Stopwatch:
    """The current phase of a call, and the durations of the earlier phases."""

    def __init__(self) -> None:
        self._begun = self._phase_begun = time.monotonic()
        self._milliseconds: dict[str, int] = {}
        self.phase = "first_byte"
        """The first phase of a call on an open connection."""

    def enter(self, phase: str) -> None:
        now = time.monotonic()
        if phase != "dns":  # the first phase of a new connection: no phase ended before it
            self._milliseconds[self.phase] = round((now - self._phase_begun) * 1000)
        self.phase, self._phase_begun = phase, now

    def phases(self) -> dict[str, int]:
        """Milliseconds by phase, including the current one, and in total."""
        now = time.monotonic()
        current = {self.phase: round((now - self._phase_begun) * 1000)}
        return self._milliseconds | current | {"total": round((now - self._begun) * 1000)}


WATCH: ContextVar[Stopwatch] = ContextVar("WATCH")
"""The stopwatch of the current call in this task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialling:
    """The settings of connections."""

    policy: Policy
    proxy_url: str | None = None
    """The operator's proxy, `http://[user:password@]host:port`; its address is not checked, and it
    gets CONNECT requests for the checked address."""
    resolve: Resolver = system_resolver


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """The network backend of httpcore, with the check of addresses."""

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
    """A connected stream that distinguishes a failed handshake from a failed connection."""

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
    """The reason for a tenant, without addresses."""
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
