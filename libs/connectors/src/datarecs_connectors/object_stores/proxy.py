"""A proxy on the loopback through which a store is reached: only checked addresses.

obstore resolves names and follows redirects by itself, so a check before its requests would not
hold. With this proxy every connection is made here: to the one server of the connection, at an
address that the egress policy allows. TLS is between obstore and that server.
"""

import selectors
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address
from threading import Thread
from urllib.parse import urlsplit

from datarecs_core.egress.addresses import Address, Policy, admit
from datarecs_core.errors.security import AddressBlockedError

_CONNECT_TIMEOUT_S, _IDLE_S = 5, 120
_HEAD_BYTES, _CHUNK_BYTES = 64 * 1024, 256 * 1024
_END = b"\r\n\r\n"
READING = frozenset({"GET", "HEAD"})
WRITING = READING | {"PUT", "POST", "DELETE"}
OF_PLATFORM = "the bucket belongs to the platform; no source reads it"
Server = tuple[str, int]
"""Host in lower case, and port."""


class RefusedError(Exception):
    """The server may not be reached; the text is for people and names no address."""


def checked_address(server: Server, policy: Policy, closed_host: str | None = None) -> str:
    """The address to connect to.

    Args:
        server: to connect to.
        policy: addresses that are allowed.
        closed_host: a server that may not be reached under any name.

    Raises:
        RefusedError: the name has no address, or one that is not allowed.
    """
    host, _ = server
    try:
        address = admit(_addresses_of(host), policy)[0]
    except OSError:
        raise RefusedError(f"{host}: the name has no address") from None
    except AddressBlockedError as cause:
        raise RefusedError(
            f"{host}: it has an address of class {cause.address_class}: not allowed"
        ) from None
    if closed_host is not None and _is_at(address, closed_host):
        raise RefusedError(OF_PLATFORM)
    return str(address)


def _addresses_of(host: str) -> list[str]:
    answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(answer[4][0]) for answer in answers]


def _is_at(address: Address, host: str) -> bool:
    """Whether a host has an address; this machine has several. True if it cannot be resolved."""
    try:
        others = [ip_address(other) for other in _addresses_of(host)]
    except OSError:
        return True
    return address in others or (_is_this_machine(address) and any(map(_is_this_machine, others)))


def _is_this_machine(address: Address) -> bool:
    if address.is_loopback:
        return True
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    target: str
    head: bytes
    """Lines after the first, with the empty line at their end."""
    body: bytes
    """What came after the head."""


class GuardedProxy:
    """Serves one source until it is closed."""

    def __init__(
        self,
        allowed: frozenset[Server],
        policy: Policy,
        closed_host: str | None = None,
        methods: frozenset[str] = READING,
    ) -> None:
        """Listen.

        Args:
            allowed: servers to connect to.
            policy: addresses that are allowed.
            closed_host: a server that may not be reached under any name.
            methods: of requests without TLS; those inside a tunnel are not seen.
        """
        self._allowed, self._policy, self._closed_host = allowed, policy, closed_host
        self._methods = methods
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.refusal: str | None = None
        """Why the last connection was refused."""
        Thread(target=self._accept, name="store-proxy", daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        """No further connections; safe to repeat."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            Thread(target=self._serve, args=(client,), name="store-proxy", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            client.settimeout(_IDLE_S)
            request = _received(client)
            if request is None:
                return
            try:
                with self._connected(request) as server:
                    if request.method == "CONNECT":
                        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                        server.sendall(request.body)
                    else:
                        server.sendall(_forwarded(request))
                    _relay(client, server)
            except RefusedError as refused:
                self.refusal = str(refused)
                client.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    @contextmanager
    def _connected(self, request: _Request) -> Iterator[socket.socket]:
        server = _server_of(request, self._methods)
        if server not in self._allowed:
            raise RefusedError("the store leads to another server, which is not allowed")
        address = checked_address(server, self._policy, self._closed_host)
        with socket.create_connection((address, server[1]), _CONNECT_TIMEOUT_S) as opened:
            opened.settimeout(_IDLE_S)
            yield opened


def _received(client: socket.socket) -> _Request | None:
    """The head of a request; None if the client ends or sends something else."""
    data = b""
    while _END not in data:
        chunk = client.recv(_HEAD_BYTES)
        if not chunk or len(data) > _HEAD_BYTES:
            return None
        data += chunk
    head, _, body = data.partition(_END)
    first, _, rest = head.partition(b"\r\n")
    words = first.decode("latin-1").split(" ")
    if len(words) != 3:  # noqa: PLR2004  method, target, version
        return None
    return _Request(words[0], words[1], rest + _END, body)


def _server_of(request: _Request, methods: frozenset[str]) -> Server:
    """Raises RefusedError for anything but a tunnel, or a plain request of an allowed method."""
    try:
        if request.method == "CONNECT":
            parts = urlsplit(f"//{request.target}")
            return (parts.hostname or "").lower(), parts.port or 443
        parts = urlsplit(request.target)
        if request.method not in methods or parts.scheme != "http":
            raise RefusedError(f"only requests of {', '.join(sorted(methods))} are allowed")
        return (parts.hostname or "").lower(), parts.port or 80
    except ValueError:
        raise RefusedError("the address of the store cannot be read") from None


def _forwarded(request: _Request) -> bytes:
    """The request as its server expects it; one request per connection."""
    parts = urlsplit(request.target)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [
        line
        for line in request.head.split(b"\r\n")
        if line and not line.lower().startswith((b"connection:", b"proxy-"))
    ]
    first = f"{request.method} {path} HTTP/1.1".encode("latin-1")
    return b"\r\n".join([first, *lines, b"Connection: close"]) + _END + request.body


def _relay(client: socket.socket, server: socket.socket) -> None:
    """Copy both directions until one side ends or both are idle."""
    other: dict[socket.socket, socket.socket] = {client: server, server: client}
    with selectors.DefaultSelector() as selector:
        for side in other:
            selector.register(side, selectors.EVENT_READ)
        while events := selector.select(_IDLE_S):
            for key, _ in events:
                readable = key.fileobj
                if not isinstance(readable, socket.socket):
                    raise TypeError("only sockets are registered")
                chunk = readable.recv(_CHUNK_BYTES)
                if not chunk:
                    return
                other[readable].sendall(chunk)
