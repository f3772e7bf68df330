"""Hosts, passwords and TLS in the URLs of the platform database, and addresses of hosts.

A separate module, because libpq takes hosts and TLS from more places than the authority of a URL:
from its query, and from PGHOST, PGSSLMODE and other variables.
"""

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import SecretStr

from datarecs_runtime.sections import Database

VERIFYING = frozenset({"verify-ca", "verify-full"})
"""Values of `sslmode` that check the server's certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One host of a database URL."""

    setting: str
    host: str
    """Empty or absolute path: a Unix socket."""
    password: str = field(repr=False)
    is_verified: bool

    @property
    def is_remote(self) -> bool:
        if not self.host or self.host.startswith("/"):
            return False
        addresses = addresses_of(self.host)
        return not addresses or not all(address.is_loopback for address in addresses)


def database_clients(database: Database | None) -> Iterator[Client]:
    """The hosts of the login of a service, then those of its further logins."""
    if database is None:
        return
    urls = {
        "DATARECS_DATABASE__URL": database.url,
        "DATARECS_DATABASE__RELAY__URL": database.relay.url,
        "DATARECS_DATABASE__CAPTURE__URL": database.capture.url,
    }
    for setting, url in urls.items():
        if isinstance(url, SecretStr):
            yield from _clients(setting, url.get_secret_value())


def _clients(setting: str, url: str) -> Iterator[Client]:
    try:
        parts = urlsplit(url)
    except ValueError:  # the driver reports it
        return
    query = parse_qs(parts.query)
    login, _, places = parts.netloc.rpartition("@")
    hosts = ",".join(query.get("host", [])) or places or os.environ.get("PGHOST", "")
    mode = query.get("sslmode", [os.environ.get("PGSSLMODE", "")])[-1]
    for place in hosts.split(","):
        yield Client(
            setting=setting,
            host=_host(place),
            password=unquote(login.partition(":")[2]),
            is_verified=mode in VERIFYING,
        )


def _host(place: str) -> str:
    """Of `host:5432` or `[::1]:5432`."""
    if place.startswith("["):
        return place[1:].partition("]")[0]
    return unquote(place if place.startswith("/") else place.partition(":")[0])


def addresses_of(host: str) -> tuple[IPv4Address | IPv6Address, ...]:
    """Addresses of a host; none for a Unix socket or a name that does not resolve now."""
    if not host or host.startswith("/"):
        return ()
    with contextlib.suppress(ValueError):
        return (ip_address(host),)
    try:
        answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(ip_address(str(answer[4][0])) for answer in answers))
