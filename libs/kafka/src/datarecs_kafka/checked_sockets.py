"""Sockets of the Kafka client to checked addresses only: of the first connection and of each later.

The client dials what the brokers advertise, so that a foreign broker could send it anywhere. Its
extension point for proxies is used: each dial resolves the name once here, all its addresses are
judged, and the socket connects to one of them. The name stays in the certificate check.
"""

import socket
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from kafka.errors import KafkaConnectionError
from kafka.net import KafkaNetSocket

from datarecs_core.egress.addresses import Policy, admit
from datarecs_core.egress.urls import check_source_port
from datarecs_core.errors.messaging import ClusterUnavailableError
from datarecs_core.errors.security import AddressBlockedError, UrlRefusedError

_SCHEME = "datarecs-checked"
AddressInfo = tuple[Any, Any, int, str, Any]
"""As `socket.getaddrinfo` answers."""
Resolver = Callable[[str, int], Sequence[AddressInfo]]
_GUARDS: "WeakValueDictionary[str, AddressGuard]" = WeakValueDictionary()


def system_resolver(host: str, port: int) -> Sequence[AddressInfo]:
    return socket.getaddrinfo(host, port, socket.AF_UNSPEC, socket.SOCK_STREAM)


class AddressGuard:
    """Judges the addresses that the clients of one cluster dial. Safe from several threads."""

    def __init__(
        self,
        policy: Policy,
        *,
        must_be_loopback: bool = False,
        resolve: Resolver = system_resolver,
    ) -> None:
        """`must_be_loopback`: records and passwords would travel unencrypted elsewhere."""
        self._policy, self._must_be_loopback, self._resolve = policy, must_be_loopback, resolve
        self._refusal: str | None = None
        self._key = token_hex(8)
        _GUARDS[self._key] = self

    @property
    def url(self) -> str:
        """The client's `proxy_url`. Valid as long as the guard is referenced."""
        return f"{_SCHEME}://{self._key}"

    def admitted(self, host: str, port: int) -> Sequence[AddressInfo]:
        """Addresses to connect to, all checked.

        Raises:
            KafkaConnectionError: the name has no address, or it may not be dialled.
        """
        try:
            check_source_port(port)
            answers = self._resolve(host, port)
            addresses = admit([str(answer[4][0]) for answer in answers], self._policy)
            if self._must_be_loopback and not all(address.is_loopback for address in addresses):
                reason = (
                    "the connection is not encrypted; use a security with TLS, or accept it with "
                    "transport: unencrypted-accepted"
                )
                raise UrlRefusedError(reason=reason)  # noqa: TRY301 - one place refuses
        except (AddressBlockedError, UrlRefusedError) as cause:
            self._refusal = f"{_shown(host)}:{port} is not dialled: {cause}"
            raise KafkaConnectionError(self._refusal) from cause
        except (OSError, UnicodeError) as cause:
            raise KafkaConnectionError(f"{host}:{port} has no address: {cause}") from cause
        return answers

    def require_none_refused(self, where: str) -> None:
        """Raises ClusterUnavailableError with the address that was refused since the last call.

        The client repeats the connection silently, so that nothing else reports it.
        """
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise ClusterUnavailableError(where=where, cause=refusal)


def _shown(host: str) -> str:
    try:
        return f"[{host}]" if ip_address(host).version == 6 else host  # noqa: PLR2004 - of IP
    except ValueError:
        return host


class CheckedSocket(KafkaNetSocket):
    """What the client uses for each connection with a guard's `proxy_url`."""

    SCHEMES = (_SCHEME,)

    def __init__(self, proxy_url: str) -> None:
        self._guard = _GUARDS.get(str(urlsplit(proxy_url).hostname))

    def dns_lookup(self, host: str, port: int, raise_error: bool = False) -> Sequence[AddressInfo]:  # noqa: FBT001, FBT002 - the library's signature
        del raise_error
        if self._guard is None:
            raise KafkaConnectionError("the check of addresses has ended")
        return self._guard.admitted(host, port)
