"""The origin of a request: the peer itself, or the address from a trusted proxy.

A separate module because limits, audit and connection caps use this one address. Of the headers
of proxies, X-Forwarded-For and X-Forwarded-Proto are read, and only from trusted peers.
"""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from starlette.requests import HTTPConnection

Address = IPv4Address | IPv6Address
NETWORK_BITS = 64
"""Of an IPv6 address: the holder of one address of such a network usually holds all of them."""


class Peers:
    """Addresses of clients behind the proxies of this deployment."""

    def __init__(self, trusted_proxies: Sequence[IPv4Network | IPv6Network]) -> None:
        self._trusted = tuple(trusted_proxies)

    def trusts(self, text: str) -> bool:
        """Whether this peer is a proxy of the operator."""
        address = _address(text)
        return address is not None and any(
            address.version == network.version and address in network for network in self._trusted
        )

    def is_encrypted(self, connection: HTTPConnection) -> bool:
        """Whether the client uses https: to this process, or by the word of a trusted proxy."""
        if connection.scope.get("scheme") in {"https", "wss"}:
            return True
        peer = connection.client.host if connection.client else ""
        schemes = connection.headers.getlist("x-forwarded-proto")
        named = [scheme.strip() for entry in schemes for scheme in entry.split(",")]
        return self.trusts(peer) and bool(named) and all(scheme == "https" for scheme in named)

    def address_of(self, connection: HTTPConnection) -> str:
        """The right-most address that is not a trusted proxy; the peer if it is not a proxy.

        A text that is not an address ends the search: anything to its left is not trusted.
        """
        believed = connection.client.host if connection.client else ""
        for text in _forwarded(connection):
            if not self.trusts(believed):
                break
            named = _address(text)
            if named is None:
                break
            believed = str(named)
        return believed


def limited_name(address: str) -> str:
    """The name under which an address is limited: itself, of IPv6 its network."""
    ip = _address(address)
    if isinstance(ip, IPv6Address):
        return str(IPv6Network((ip, NETWORK_BITS), strict=False))
    return address


def _forwarded(connection: HTTPConnection) -> Iterator[str]:
    """Entries of every X-Forwarded-For, from the right."""
    entries = ",".join(connection.headers.getlist("x-forwarded-for"))
    while entries:
        entries, _, entry = entries.rpartition(",")
        yield entry.strip()


def _address(text: str) -> Address | None:
    """Without a port, which some proxies add; an IPv4 address inside an IPv6 one is itself."""
    host = text
    if text.startswith("["):
        host = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        host = text.partition(":")[0]
    try:
        ip = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return mapped or ip
