"""Access to a socket: a ticket of 32 random bytes, valid once and for 30 s, and a checked Origin.

A browser can send no Authorization header with a WebSocket, and any page may open one, so both are
needed (spec security 13). Separate from `auth`, since a ticket only represents a key that was
presented before.
"""

import hashlib
import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from datarecs_application.ports.state import Transaction, UnitOfWork, WorkFinder
from datarecs_application.ports.tickets import SocketTicket
from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core.errors.security import SecurityCode
from datarecs_core_api.auth import Authenticator
from datarecs_core_api.problems import ProblemError

LIFETIME = timedelta(seconds=30)
TICKET_BYTES = 32
_TICKET = re.compile(r"[A-Za-z0-9_-]{43}")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def issue(tx: Transaction, caller: Principal, secret: bytes) -> tuple[str, SocketTicket]:
    """A new ticket for the caller's key, and its text, which is not stored."""
    if caller.key_id is None:
        raise ValueError("a ticket needs a key")
    text = urlsafe_b64encode(secret).decode().rstrip("=")
    ticket = SocketTicket(
        ticket_sha256=_sha256(text), key_id=caller.key_id, expires_at=tx.now + LIFETIME
    )
    tx.tickets.add(ticket)
    return text, ticket


@dataclass(frozen=True, slots=True, kw_only=True)
class Doorkeeper:
    """Admits a socket, or raises the reason against it."""

    keys: Authenticator
    finder: WorkFinder
    unit: UnitOfWork
    base_url: str | None
    """Of this platform; without one no browser is admitted."""

    def admitted(self, socket: HTTPConnection) -> Principal:
        """The principal of this ticket; the call uses the ticket up.

        Raises:
            ProblemError: 403 for a page of another host or a key that may not read, 401 for every
                other cause, 429 when the address fails too often.
        """
        origin = socket.headers.get("origin")
        if origin is not None and not is_same_origin(origin, self.base_url):
            raise ProblemError(
                code=SecurityCode.FORBIDDEN, detail="the page belongs to another host"
            )
        caller = self._owner(socket.query_params.get("ticket", ""))
        if caller is None or not self._is_also_of(socket, caller):
            detail = "a new ticket is needed: POST /api/v1/ws-tickets"
            raise self.keys.failure(socket, reason="ticket", detail=detail)
        if not caller.may(Permission.READ):
            raise self.keys.refused(socket, caller, Permission.READ)
        return caller

    def _owner(self, text: str) -> Principal | None:
        digest = _sha256(text)
        tenant = self.finder.resolve_session(digest) if _TICKET.fullmatch(text) else None
        if tenant is None:
            return None
        with self.unit.begin(tenant) as tx:
            ticket = tx.tickets.take(digest)
        return None if ticket is None else self.keys.holder(ticket.key_id)

    def _is_also_of(self, socket: HTTPConnection, caller: Principal) -> bool:
        """A caller that also presents a key must be the principal of the ticket."""
        if "authorization" not in socket.headers:
            return True
        shown = self.keys.principal(socket)
        return (shown.tenant_id, shown.subject) == (caller.tenant_id, caller.subject)


def is_same_origin(origin: str, base_url: str | None) -> bool:
    """Scheme, host and port alike; `null` and everything without a host is foreign."""
    expected = _place(base_url or "")
    return expected is not None and _place(origin) == expected


def _place(url: str) -> tuple[str, str, int | None] | None:
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname else None


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
