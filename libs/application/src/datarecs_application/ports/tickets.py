"""Tickets for sockets: a browser cannot send an Authorization header with a WebSocket.

Apart from `state`, which is long; a ticket carries a principal from one request to the next.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketTicket:
    """Lets one WebSocket in, once, as the holder of a key. The ticket itself is not kept."""

    ticket_sha256: bytes
    key_id: str
    """The key that asked for it, by its public id; it must be good when the ticket is used."""
    expires_at: datetime


class SocketTickets(Protocol):
    """The rows of `ws_ticket`, inside a tenant."""

    def add(self, ticket: SocketTicket) -> None:
        """Keep a new ticket; the tenant's expired ones go."""

    def take(self, ticket_sha256: bytes) -> SocketTicket | None:
        """Remove the ticket and return it; None when it is unknown, used or expired.

        Of two at once one gets it: the other waits for the end of that transaction.
        """
