"""Read the input of the ledger: rows as the superuser, records of the wire, mails and requests.

Separate from the ledger because this is only input, and from the house because reading needs no
process.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email import message_from_bytes
from typing import Any, LiteralString

from datarecs_application.ports.messaging import LogRecord
from datarecs_core.values import TenantId
from datarecs_testing.crashes.ledger import Copy, Fact, OutboxEntry, RunSeen, Seen
from datarecs_testing.crashes.wire import Wire, header
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.receiver import Receiver
from datarecs_testing.smtp_server import Script

CAUSE = "ce_causationid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """The places to read."""

    database: PreparedDatabase
    tenant: TenantId
    wire: Wire
    relay: Script
    receivers: Mapping[str, Receiver]
    """By endpoint."""

    def seen(self) -> Seen:
        """All data of the tenant; complete after everything is at rest."""
        return Seen(
            runs=tuple(self._runs()),
            history=tuple(self._history()),
            outbox=tuple(self._outbox()),
            records=tuple(map(_record, self.wire.events())),
            dead_letters=tuple(
                Copy(where=group, identity=header(one, "ce_id"), content=_digest(one))
                for group, one in self.wire.letters()
            ),
            mails=tuple(_mail(who, content) for who, content in self.relay.stored),
            requests=tuple(self._requests()),
        )

    def waiting(self) -> Mapping[str, int]:
        """What is not finished yet, by kind; empty when the database is at rest."""
        rows = self.database.query(
            """
            SELECT 'runs', count(*) FROM datarecs.run WHERE tenant_id = %s AND status
                NOT IN ('COMPLETED', 'ERRORED', 'CANCELLED', 'QUEUE_ERRORED')
            UNION ALL SELECT 'outbox', count(*) FROM datarecs.outbox
                WHERE tenant_id = %s AND sent_at IS NULL
            UNION ALL SELECT 'mails', count(*) FROM datarecs.email_delivery
                WHERE tenant_id = %s AND due_at IS NOT NULL
            UNION ALL SELECT 'webhooks', count(*) FROM datarecs.webhook_delivery
                WHERE tenant_id = %s AND state IN ('PENDING', 'LEASED')
            """,
            [self.tenant] * 4,
        )
        return {str(kind): int(count) for kind, count in rows if count}

    def _runs(self) -> Iterator[RunSeen]:
        for run_id, status, last in self._rows(
            "SELECT run_id::text, status, last_sequence FROM datarecs.run WHERE tenant_id = %s"
        ):
            yield RunSeen(run_id=str(run_id), status=str(status), last_sequence=int(last))

    def _history(self) -> Iterator[Fact]:
        for run_id, sequence, event_id, kind in self._rows(
            "SELECT run_id::text, sequence, event_id::text, type FROM datarecs.run_event"
            " WHERE tenant_id = %s ORDER BY run_id, sequence"
        ):
            yield Fact(
                run_id=str(run_id), sequence=int(sequence), event_id=str(event_id), type=str(kind)
            )

    def _outbox(self) -> Iterator[OutboxEntry]:
        for event_id, kind, sent, headers in self._rows(
            "SELECT event_id::text, type, sent_at IS NOT NULL, headers FROM datarecs.outbox"
            " WHERE tenant_id = %s"
        ):
            cause = dict(headers).get(CAUSE)
            yield OutboxEntry(
                event_id=str(event_id), type=str(kind), sent=bool(sent), caused_by=cause
            )

    def _rows(self, statement: LiteralString) -> Sequence[tuple[Any, ...]]:
        return self.database.query(statement, (self.tenant,))

    def _requests(self) -> Iterator[Copy]:
        for endpoint, receiver in self.receivers.items():
            for request in list(receiver.requests):
                headers = request.by_name
                if len(request.body) == int(headers.get("content-length", "0")):
                    yield Copy(
                        where=endpoint,
                        identity=headers["webhook-id"],
                        content=hashlib.sha256(request.body).hexdigest(),
                    )


def _record(record: LogRecord) -> Copy:
    return Copy(
        where=record.topic,
        identity=header(record, "ce_id"),
        content=_digest(record),
        subject=(record.key or b"").decode(errors="replace"),
        sequence=int(header(record, "ce_runsequence") or 0),
    )


def _mail(recipient: str, content: bytes) -> Copy:
    message = message_from_bytes(content)
    return Copy(
        where=recipient,
        identity=str(message["Message-ID"]),
        content=hashlib.sha256(content).hexdigest(),
        subject=str(message["X-Datarecs-Run"]),
    )


def _digest(record: LogRecord) -> str:
    return hashlib.sha256(repr((record.key, record.value, record.headers)).encode()).hexdigest()
