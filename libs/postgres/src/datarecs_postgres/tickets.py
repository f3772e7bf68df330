"""The rows of `ws_ticket` of one tenant; `work_finder` finds the tenant of a ticket first."""

from sqlalchemy import delete, func, insert

from datarecs_application.ports.tickets import SocketTicket
from datarecs_core.values import aware
from datarecs_postgres.session import Session
from datarecs_postgres.tables.access import WS_TICKET


class PostgresSocketTickets:
    """Port SocketTickets."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, ticket: SocketTicket) -> None:
        self._session.execute(
            delete(WS_TICKET).where(
                self._session.tenant_rows(WS_TICKET),
                WS_TICKET.c.expires_at <= func.clock_timestamp(),
            )
        )
        self._session.execute(
            insert(WS_TICKET)
            .values(
                tenant_id=self._session.tenant_id,
                ticket_sha256=ticket.ticket_sha256,
                key_id=ticket.key_id,
                expires_at=ticket.expires_at,
            )
            .inline()
        )

    def take(self, ticket_sha256: bytes) -> SocketTicket | None:
        row = self._session.execute(
            delete(WS_TICKET)
            .where(self._session.tenant_rows(WS_TICKET), WS_TICKET.c.ticket_sha256 == ticket_sha256)
            .returning(
                WS_TICKET.c.key_id,
                WS_TICKET.c.expires_at,
                (WS_TICKET.c.expires_at > func.clock_timestamp()).label("good"),
            )
        ).one_or_none()
        if row is None or not row.good:
            return None
        return SocketTicket(
            ticket_sha256=ticket_sha256, key_id=row.key_id, expires_at=aware(row.expires_at)
        )
