"""The events that took effect: the mark commits with the effect, so a redelivery has no effect."""

from collections.abc import Sequence

from sqlalchemy import ARRAY, Text, Uuid, bindparam, cast, func, select
from sqlalchemy.dialects.postgresql import insert

from datarecs_core.values import EventId
from datarecs_postgres.session import Session
from datarecs_postgres.tables.delivery import INBOX

_EVENTS = (
    func.unnest(
        cast(bindparam("sources", type_=ARRAY(Text)), ARRAY(Text)),
        cast(bindparam("ids", type_=ARRAY(Uuid)), ARRAY(Uuid)),
    )
    .table_valued("source", "event_id")
    .render_derived()
)
# Its parameters must not have names of columns, or it would set these columns.
_MARK = (
    insert(INBOX)
    .from_select(
        ["tenant_id", "consumer", "source", "event_id"],
        select(
            cast(bindparam("tenant", type_=Uuid()), Uuid),
            cast(bindparam("group", type_=Text()), Text),
            _EVENTS.c.source,
            _EVENTS.c.event_id,
        ),
    )
    .on_conflict_do_nothing()
    .returning(INBOX.c.source, INBOX.c.event_id)
)


class PostgresInbox:
    """Port Inbox."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def first_time(self, consumer: str, source: str, event_id: EventId) -> bool:
        return bool(self.first_of(consumer, [(source, event_id)]))

    def first_of(
        self, consumer: str, events: Sequence[tuple[str, EventId]]
    ) -> set[tuple[str, EventId]]:
        marks = {
            "tenant": self._session.tenant_id,
            "group": consumer,
            "sources": [source for source, _ in events],
            "ids": [event_id for _, event_id in events],
        }
        rows = self._session.answer(_MARK, marks)
        return {(source, EventId(event_id)) for source, event_id in rows}
