"""Which events took effect: the mark commits with the effect, so a redelivery changes nothing."""

from sqlalchemy.dialects.postgresql import insert

from datarecs_core.values import EventId
from datarecs_postgres.session import Session
from datarecs_postgres.tables.delivery import INBOX

_MARK = insert(INBOX).on_conflict_do_nothing().inline()


class PostgresInbox:
    """Port Inbox."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def first_time(self, consumer: str, source: str, event_id: EventId) -> bool:
        mark = {
            "tenant_id": self._session.tenant_id,
            "consumer": consumer,
            "source": source,
            "event_id": event_id,
        }
        return self._session.answer(_MARK, mark).rowcount == 1
