"""Tickets for sockets: a browser cannot send an Authorization header with a WebSocket.

Separate from `state`, which is long; a ticket carries a principal from one request to the next.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketTicket:
    """Admits one WebSocket, once, as the holder of a key. The ticket itself is not stored."""

    ticket_sha256: bytes
    key_id: str
    """The key that requested it, by its public id; it must be valid when the ticket is used."""
    expires_at: datetime


class SocketTickets(Protocol):
    """The rows of `ws_ticket`, inside a tenant."""

    def add(self, ticket: SocketTicket) -> None:
        """Store a new ticket and delete the tenant's expired ones."""

    def take(self, ticket_sha256: bytes) -> SocketTicket | None:
        """Remove the ticket and return it; None when it is unknown, used or expired.

        Of two at once one gets it: the other waits for the end of that transaction.
        """
