"""Secrets of connections: resolved in the worker, and kept out of what a child reports.

Separate from checks and captures, which both start a child without any access to the platform and
must not show what the child was given.
"""

from collections.abc import Collection, Mapping

from datarecs_application.ports.outside import SecretStore
from datarecs_core.errors.base import DatarecsError
from datarecs_core.resources.connection import Connection, secret_uses
from datarecs_core.runs.wording import storable_text
from datarecs_core.values import TenantId

MASK = "***"
_SHORTEST_MASKED = 4
"""Characters; a shorter secret would mask parts of ordinary words."""


def resolved_secrets(
    store: SecretStore, tenant: TenantId, connections: Mapping[str, Connection]
) -> tuple[dict[str, str], dict[str, DatarecsError]]:
    """Values by `<connection>/<field>`, and the failures by connection."""
    secrets: dict[str, str] = {}
    failures: dict[str, DatarecsError] = {}
    for name, connection in connections.items():
        for auth, reference in connection.auth.items():
            uses = secret_uses(connection.config, auth)
            if not uses:
                continue
            try:
                value = store.resolve(reference, tenant=tenant, uses=uses)
            except DatarecsError as error:
                failures.setdefault(name, error)
            else:
                secrets[f"{name}/{auth}"] = value
    return secrets, failures


def masked(text: str, secrets: Collection[str]) -> str:
    """The text without these values: a server may repeat in its error what it was sent.

    Longest first: a secret that begins another one would leave the rest of that one.
    """
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_MASKED:
            text = text.replace(secret, MASK)
    return text


def one_line(text: str, most: int) -> str:
    """One line of printable characters, at most so many."""
    line = " ".join(storable_text(text).split())
    line = "".join(letter if letter.isprintable() else "?" for letter in line)
    return line if len(line) <= most else f"{line[: most - 1]}…"
