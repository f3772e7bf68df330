"""Login of a session: only SCRAM, over TLS, unless the connection explicitly declares otherwise.

Separate from the reads because this decides what a server or an attacker on the network can learn
of a password: SCRAM never sends it, and libpq ends the connection before it answers a request for
the password or for its MD5 (`require_auth`, libpq 16 and newer).
"""

import os
import ssl
import tempfile
from functools import cache
from ipaddress import ip_address
from typing import Any

import psycopg
from psycopg import pq

from datarecs_connectors.errors import ConnectionFailedError, LoginRefusedError
from datarecs_core.egress.urls import names_loopback
from datarecs_core.resources.connection import PostgresConfig, SslMode, Transport

CONNECT_TIMEOUT_S = 5
REQUIRE_AUTH_SINCE = 160_000
_VERIFYING = frozenset({SslMode.VERIFY_CA, SslMode.VERIFY_FULL})


def login_parameters(
    source: str, config: PostgresConfig, *, address: str, password: str
) -> dict[str, Any]:
    """The libpq parameters of TLS and authentication.

    Without a password the server must not request one: libpq would use PGPASSWORD or
    ~/.pgpass, which belong to the platform and not to the connection.

    Args:
        source: named in errors.
        config: of the connection.
        address: the checked address to connect to.
        password: empty when the connection has none.

    Raises:
        ConnectionFailedError: rows and password would travel unencrypted outside the loopback, or
            libpq is too old to refuse weaker authentication.
    """
    if pq.version() < REQUIRE_AUTH_SINCE:
        raise ConnectionFailedError(
            source, "libpq is older than 16 and cannot insist on SCRAM; install psycopg[binary]"
        )
    if (
        config.may_be_unencrypted
        and config.transport is not Transport.UNENCRYPTED_ACCEPTED
        and not ip_address(address).is_loopback
    ):
        raise ConnectionFailedError(
            source,
            f"{config.host}:{config.port} would be reached without encryption (sslmode "
            f"{config.sslmode}); write sslmode: verify-full, or accept it with transport: "
            f"{Transport.UNENCRYPTED_ACCEPTED}",
        )
    return {
        "sslmode": config.sslmode,
        "require_auth": "scram-sha-256" if password else "none",
        **({"password": password} if password else {}),
        **_authorities(config),
    }


def _authorities(config: PostgresConfig) -> dict[str, str]:
    """The accepted root certificates; the default of libpq is a file in the home folder."""
    if config.ca is not None:
        return {"sslrootcert": _certificate_file(config.ca)}
    if config.sslmode not in _VERIFYING:
        return {}
    # `system` means the OpenSSL inside the driver's wheel, which uses different folders.
    return {"sslrootcert": ssl.get_default_verify_paths().cafile or "system"}


@cache
def _certificate_file(pem: str) -> str:
    """The path of the certificates for this process; libpq opens it at each connect."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("datarecs-ca")
        path = f"/proc/self/fd/{descriptor}"
    else:
        descriptor, path = tempfile.mkstemp(prefix="datarecs-ca-", suffix=".pem")
    os.write(descriptor, pem.encode())
    return path


_REFUSED_LOGIN = (
    "authentication method requirement",
    "password authentication failed",
    "no pg_hba.conf entry",
)


def login_failure(
    source: str, cause: psycopg.OperationalError, config: PostgresConfig
) -> ConnectionFailedError:
    """The error of a session that was not opened: a refused login, or any other failure."""
    text = str(cause).lower()
    is_refused = any(sign in text for sign in _REFUSED_LOGIN)
    kind = LoginRefusedError if is_refused else ConnectionFailedError
    return kind(source, failure_words(cause, config))


def failure_words(cause: psycopg.OperationalError, config: PostgresConfig) -> str:
    """Host, port and the step that failed; never the connection string."""
    text = str(cause).lower()
    where = f"{config.host}:{config.port}"
    is_here = names_loopback(config.host)
    plain = "; a server on this machine without TLS needs sslmode=disable" if is_here else ""
    known = (
        (
            ('authentication method requirement "none"',),
            f"{where} needs a password for user {config.user}, and the connection has none",
        ),
        (
            ("authentication method requirement",),
            f"{where} does not use scram-sha-256, so no password was sent; see its pg_hba.conf",
        ),
        (
            ("password authentication failed", "no pg_hba.conf entry"),
            f"{where} refused the login of user {config.user}; check its secret",
        ),
        (
            (f'database "{config.database}" does not exist'.lower(),),
            f"{where} has no database {config.database!r}",
        ),
        (
            ("too many connections", "connection slots"),
            f"{where} has no free connection for user {config.user}; lower limits.max_connections",
        ),
        (("ssl", "certificate"), f"{where}: TLS failed for sslmode {config.sslmode}{plain}"),
        (("timeout",), f"{where} did not answer within {CONNECT_TIMEOUT_S} s"),
    )
    for signs, words in known:
        if any(sign in text for sign in signs):
            return words
    return f"{where} cannot be reached; check host, port and whether the server runs"
