"""To which addresses connections are allowed: one table as data, one function that applies it.

A separate module because webhooks, connections and everything else that leaves the platform must
agree on which addresses are internal. The standard library's `is_global` is not used: it calls
NAT64, multicast, 192.0.0.192 and fec0:: global. Source: spec security 8.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from datarecs_core.errors.security import AddressBlockedError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Profile(StrEnum):
    """Which defaults hold: `server` is everything; `local` is one machine bound to loopback."""

    SERVER = "server"
    LOCAL = "local"


class Purpose(StrEnum):
    WEBHOOK = "webhook"
    """Webhooks and every other HTTP call to a place a tenant names."""
    CONNECTION = "connection"
    """Source databases, object stores, catalogues, brokers."""


class AddressClass(StrEnum):
    """The class of a blocked address, shown to the tenant; also a metric label."""

    UNSPECIFIED = "unspecified"
    LOOPBACK = "loopback"
    LINK_LOCAL = "link_local"
    METADATA = "metadata"
    PLATFORM = "platform"
    PRIVATE = "private"
    SHARED = "shared"
    BENCHMARKING = "benchmarking"
    PROTOCOL = "protocol"
    DOCUMENTATION = "documentation"
    RESERVED = "reserved"
    NAT64 = "nat64"
    EMBEDDED = "embedded_ipv4"
    DEPRECATED = "deprecated"
    GLOBAL = "global"
    UNREADABLE = "unreadable"


class Opener(StrEnum):
    """Who may open a class that is closed by default."""

    NEVER = "never"
    LOCAL = "profile local"
    CIDR = "allowed_cidrs"


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ip_network(text) for text in texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One class of the table. The first row with a network of the address is its row."""

    address_class: AddressClass
    networks: tuple[Network, ...]
    opener: Opener = Opener.NEVER
    open_to: frozenset[Purpose] = frozenset()
    """Purposes for which the class is open by default."""


TABLE = (
    Row(address_class=AddressClass.UNSPECIFIED, networks=_networks("0.0.0.0/8", "::/128")),
    Row(
        address_class=AddressClass.LOOPBACK,
        networks=_networks("127.0.0.0/8", "::1/128"),
        opener=Opener.LOCAL,
    ),
    Row(address_class=AddressClass.LINK_LOCAL, networks=_networks("169.254.0.0/16", "fe80::/10")),
    Row(
        address_class=AddressClass.METADATA,
        networks=_networks(
            "100.100.100.200/32",
            "192.0.0.192/32",
            "168.63.129.16/32",
            "fd00:ec2::254/128",
            "fd20:ce::254/128",
        ),
    ),
    Row(
        address_class=AddressClass.PRIVATE,
        networks=_networks("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
        opener=Opener.CIDR,
        open_to=frozenset({Purpose.CONNECTION}),
    ),
    Row(
        address_class=AddressClass.SHARED,
        networks=_networks("100.64.0.0/10"),
        opener=Opener.CIDR,
        open_to=frozenset({Purpose.CONNECTION}),
    ),
    Row(
        address_class=AddressClass.BENCHMARKING,
        networks=_networks("198.18.0.0/15"),
        opener=Opener.CIDR,
    ),
    Row(
        address_class=AddressClass.PROTOCOL,
        networks=_networks(
            "192.0.0.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.175.48.0/24",
            "192.88.99.0/24",
            "2001::/23",
            "2620:4f:8000::/48",
        ),
    ),
    Row(
        address_class=AddressClass.DOCUMENTATION,
        networks=_networks(
            "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"
        ),
    ),
    Row(
        address_class=AddressClass.RESERVED,
        networks=_networks("224.0.0.0/4", "240.0.0.0/4", "ff00::/8"),
    ),
    Row(address_class=AddressClass.NAT64, networks=_networks("64:ff9b::/96", "64:ff9b:1::/48")),
    Row(
        address_class=AddressClass.EMBEDDED,
        networks=_networks("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "2002::/16"),
    ),
    Row(
        address_class=AddressClass.DEPRECATED,
        networks=_networks("fec0::/10", "3ffe::/16", "100::/64", "5f00::/16"),
    ),
    Row(
        address_class=AddressClass.GLOBAL,
        networks=_networks("0.0.0.0/0", "2000::/3"),
        open_to=frozenset(Purpose),
    ),
    # Anything not named above is outside 2000::/3.
    Row(address_class=AddressClass.DEPRECATED, networks=_networks("::/0")),
)

_LINK_LOCAL_ROW = TABLE[2]
_EMBEDDED_ROW = next(row for row in TABLE if row.address_class is AddressClass.EMBEDDED)
_ISATAP_IDS = frozenset({0x00005EFE, 0x02005EFE})
"""Upper half of an interface id with an IPv4 address as lower half (RFC 5214)."""

NAT64_LENGTHS = frozenset({32, 40, 48, 56, 64, 96})
"""Prefix lengths for which RFC 6052 defines the place of the IPv4 address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The operator's part of the judgement."""

    purpose: Purpose
    profile: Profile = Profile.SERVER
    allowed_cidrs: tuple[Network, ...] = ()
    denied_cidrs: tuple[Network, ...] = ()
    """The platform's addresses: database, broker, blob store, cluster networks."""
    nat64_prefixes: tuple[IPv6Network, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    allowed: bool
    address_class: AddressClass


def judge(address: Address, policy: Policy) -> Judgement:
    """Whether connections to the address are allowed.

    Order: NAT64 prefixes of the operator (the IPv4 address inside is judged), classes that cannot
    be allowed, `denied_cidrs`, `allowed_cidrs`, the class's default.
    """
    if isinstance(address, IPv6Address) and not address.scope_id:
        for prefix in policy.nat64_prefixes:
            if address in prefix:
                return judge(_translated(address, prefix), policy)
    row = _row_of(address)
    if _is_shut(row, policy):
        return Judgement(allowed=False, address_class=row.address_class)
    if _is_of_platform(address, policy):
        return Judgement(allowed=False, address_class=AddressClass.PLATFORM)
    return Judgement(allowed=_is_open(row, address, policy), address_class=row.address_class)


def admit(answers: Sequence[str], policy: Policy) -> tuple[Address, ...]:
    """All addresses of a name to connect to, in their order, each once.

    Raises:
        AddressBlockedError: one of them is not allowed, cannot be read, or there is none.
    """
    admitted: dict[Address, None] = {}
    for answer in answers:
        try:
            address = ip_address(answer)
        except ValueError as cause:
            raise AddressBlockedError(address_class=AddressClass.UNREADABLE) from cause
        judgement = judge(address, policy)
        if not judgement.allowed:
            raise AddressBlockedError(address_class=judgement.address_class)
        admitted[address] = None
    if not admitted:
        raise AddressBlockedError(address_class=AddressClass.UNREADABLE)
    return tuple(admitted)


def _row_of(address: Address) -> Row:
    if isinstance(address, IPv6Address):
        if address.scope_id:
            return _LINK_LOCAL_ROW
        if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP_IDS:
            return _EMBEDDED_ROW
    return next(row for row in TABLE if _within(address, row.networks))


def _is_shut(row: Row, policy: Policy) -> bool:
    """Blocked, and no setting of the operator can allow it in this profile."""
    if row.open_to or row.opener is Opener.CIDR:
        return False
    return row.opener is Opener.NEVER or policy.profile is not Profile.LOCAL


def _is_of_platform(address: Address, policy: Policy) -> bool:
    # On one machine the demo's source is the database server of the platform.
    if policy.profile is Profile.LOCAL and policy.purpose is Purpose.CONNECTION:
        return False
    return _within(address, policy.denied_cidrs)


def _is_open(row: Row, address: Address, policy: Policy) -> bool:
    if row.opener is Opener.LOCAL:
        return True
    if row.opener is Opener.CIDR and _within(address, policy.allowed_cidrs):
        return True
    return policy.purpose in row.open_to


def _within(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)


def _translated(address: IPv6Address, prefix: IPv6Network) -> IPv4Address:
    """The IPv4 address inside a NAT64 one; bits 64 to 71 are left out (RFC 6052, 2.2)."""
    if prefix.prefixlen == 96:  # noqa: PLR2004  the only length with the address in one piece
        return IPv4Address(int(address) & 0xFFFFFFFF)
    octets = address.packed[:8] + address.packed[9:]
    start = prefix.prefixlen // 8
    return IPv4Address(octets[start : start + 4])
