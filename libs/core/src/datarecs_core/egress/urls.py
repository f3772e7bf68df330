"""Which URLs and hosts are well formed for a call that leaves the platform.

A separate module because the same check runs when an endpoint is written, for an early message, and
again at send. Names stay names here: `addresses` judges what they resolve to at every connection.
"""

import re
import unicodedata
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import quote, urlsplit

from datarecs_core.egress.addresses import Address, Policy, Profile, judge
from datarecs_core.errors.security import UrlRefusedError

MAX_URL_CHARACTERS = 2048
HTTPS_PORTS = frozenset({443, 8443})
CLOSED_PORTS = frozenset({2375, 2376, 2379, 2380, 6443, 10250, 10255})
"""Container and cluster control ports, which no source listens on."""

_PORT_BY_SCHEME = {"https": 443, "http": 80}
_LOCAL_NAMES = frozenset({"localhost"})
_INTERNAL_SUFFIXES = (
    ".localhost",
    ".local",
    ".internal",
    ".home.arpa",
    ".svc",
    ".cluster.local",
)
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DEVIATIONS = frozenset("ßς\u200c\u200d")
"""Letters that the two standards for international names spell differently."""
_SAFE_IN_PATHS = "".join(chr(code) for code in range(0x21, 0x7F))


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlRules:
    """What the operator allows beyond the defaults."""

    policy: Policy
    allowed_ports: frozenset[int] = frozenset()
    allowed_hosts: frozenset[str] = frozenset()
    """Single-label and internal names that may be used, lower case."""

    @property
    def local(self) -> bool:
        return self.policy.profile is Profile.LOCAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A checked URL in its parts; `url` is the exact text to request."""

    scheme: str
    host: str
    """Lower-case A-label, dotted quad, or IPv6 address without brackets."""
    port: int
    path: str
    """Path and query as written, from the first slash on, all ASCII."""

    @property
    def authority(self) -> str:
        """Host and port as the Host header spells them; a default port is left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORT_BY_SCHEME[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def check_url(text: str, rules: UrlRules) -> Target:
    """The parts of a URL that may be called.

    Raises:
        UrlRefusedError: the rule that is broken, without the text.
    """
    if len(text) > MAX_URL_CHARACTERS:
        raise UrlRefusedError(reason=f"more than {MAX_URL_CHARACTERS} characters")
    if "\\" in text or any(unicodedata.category(letter)[0] in "CZ" for letter in text):
        raise UrlRefusedError(reason="spaces, backslashes and control characters are not allowed")
    if "#" in text:
        raise UrlRefusedError(reason="a fragment is not allowed")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as cause:
        raise UrlRefusedError(reason="host or port cannot be read") from cause
    scheme = parts.scheme
    if scheme != "https" and not (scheme == "http" and rules.local):
        raise UrlRefusedError(reason="the scheme must be https")
    if "@" in parts.netloc:
        raise UrlRefusedError(reason="user information is not allowed")
    return Target(
        scheme=scheme,
        host=_checked_host(parts.hostname or "", rules),
        port=_checked_port(_PORT_BY_SCHEME[scheme] if port is None else port, rules),
        path=quote(parts.path or "/", safe=_SAFE_IN_PATHS)
        + (f"?{quote(parts.query, safe=_SAFE_IN_PATHS)}" if parts.query else ""),
    )


def check_endpoint(host: str, port: int, rules: UrlRules) -> str:
    """The host to resolve for a connection (database, broker), lower case.

    Unlike for URLs, single-label and internal names are allowed here: sources are often internal.

    Raises:
        UrlRefusedError: with the broken rule.
    """
    check_source_port(port)
    return _ascii_host(host, rules)


def check_source_port(port: int) -> None:
    """Refuse ports of system services and of container and cluster control.

    Raises:
        UrlRefusedError: the port is below 1024 and not 443, or one of CLOSED_PORTS.
    """
    if (port != HTTPS_PORT and not 1024 <= port <= 65535) or port in CLOSED_PORTS:  # noqa: PLR2004  first and last unprivileged port
        raise UrlRefusedError(
            reason=f"port {port} is not allowed for a source; use 443 or 1024 to 65535, except "
            f"{', '.join(str(closed) for closed in sorted(CLOSED_PORTS))}"
        )


HTTPS_PORT = 443


def names_loopback(host: str) -> bool:
    """Whether the host, by its text alone, is this machine: `localhost` or a loopback address."""
    plain = host.removesuffix(".").lower()
    if plain in _LOCAL_NAMES:
        return True
    try:
        return ip_address(plain).is_loopback
    except ValueError:
        return False


def _checked_port(port: int, rules: UrlRules) -> int:
    if rules.local or port in HTTPS_PORTS or port in rules.allowed_ports:
        return port
    raise UrlRefusedError(reason=f"port {port} is not allowed; use 443 or 8443")


def _checked_host(raw: str, rules: UrlRules) -> str:
    host = _ascii_host(raw, rules)
    if _is_literal(host) or host in rules.allowed_hosts:
        return host
    if rules.local and host in _LOCAL_NAMES:
        return host
    if "." not in host or host.endswith(_INTERNAL_SUFFIXES):
        raise UrlRefusedError(reason="a name of this machine or network is not allowed")
    return host


def _ascii_host(raw: str, rules: UrlRules) -> str:
    """Lower-case ASCII, without brackets and trailing dot; a literal address is judged at once."""
    host = _a_label(raw.removesuffix("."))
    literal = _literal(host)
    if literal is not None:
        if not judge(literal, rules.policy).allowed:
            raise UrlRefusedError(reason="connections to this address are not allowed")
        return str(literal)
    labels = host.split(".")
    if _NUMERIC_LABEL.fullmatch(labels[-1]):
        raise UrlRefusedError(reason="a number as host must be an address of four parts")
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise UrlRefusedError(reason="the host is not a valid name")
    return host


def _a_label(host: str) -> str:
    if not host:
        raise UrlRefusedError(reason="the host is missing")
    if host.isascii():
        return host.lower()
    if not _DEVIATIONS.isdisjoint(host):
        raise UrlRefusedError(reason="write this international name in its xn-- form")
    try:
        return host.encode("idna").decode().lower()
    except UnicodeError as cause:
        raise UrlRefusedError(reason="the host is not a valid international name") from cause


def _literal(host: str) -> Address | None:
    """An address written out, strictly: four decimal parts, or IPv6; None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        if ":" in host:
            raise UrlRefusedError(reason="the IPv6 address cannot be read") from None
        return None


def _is_literal(host: str) -> bool:
    return isinstance(_literal(host), IPv4Address | IPv6Address)
