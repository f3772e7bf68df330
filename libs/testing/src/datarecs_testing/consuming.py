"""A broker, a database and a consumer of one service in memory, on a clock that moves by itself.

For tests of handlers and of the loop: events are published, the real consumer runs for some seconds
of the manual clock, and a test reads the results.
"""

from dataclasses import dataclass, field
from uuid import UUID

from datarecs_application.loops import Silent, StepSignals
from datarecs_application.ports.messaging import EventArchive, LogRecord, Partition
from datarecs_application.ports.outside import Clock
from datarecs_application.ports.state import OutboxRow, Transaction, UnitOfWork
from datarecs_core.runs.events import RunCompleted, RunErrored
from datarecs_core.runs.model import RunResult
from datarecs_core.values import EventId, JobId, RunId
from datarecs_events.catalogue import Topic
from datarecs_events.codec import EncodedEvent, Received, Stamp, encode
from datarecs_kafka.backoff import Backoff
from datarecs_kafka.consumer import Consumer
from datarecs_kafka.dead_letter import letter_of
from datarecs_kafka.handling import Handler, Subscription
from datarecs_memory.event_archive import MemoryEventArchive
from datarecs_memory.message_log import MessageLog
from datarecs_memory.store import MemoryStore, Queued
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_testing.builders import a_run
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.metrics import RecordedMetrics

GROUP = "run-controller"
DLQ = f"{GROUP}.dlq"
INFRA = Topic.RUN_INFRA


class Killed(BaseException):
    """Raised by a test instead of kill -9: no `except Exception` may catch it."""


@dataclass
class KillAt:
    step: str

    def reached(self, step: str) -> None:
        if step == self.step:
            raise Killed


@dataclass
class Until:
    """A stop after a time of the manual clock."""

    clock: Clock
    seconds: float
    _is_set: bool = False

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set or self.clock.monotonic() >= self.seconds

    def wait(self, timeout: float | None = None) -> bool:
        del timeout
        return self.is_set()


@dataclass
class World:
    """A broker, a database and the handled events of one service."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(by_itself=True))
    metrics: RecordedMetrics = field(default_factory=RecordedMetrics)
    ids: FixedIds = field(default_factory=lambda: FixedIds(1_000))
    handled: list[UUID] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = MessageLog(self.clock, {INFRA: 3, Topic.RUN_PLATFORM: 3, DLQ: 3})
        self.store = MemoryStore(self.clock, FixedIds())
        self.tenant = self.store.create_tenant()
        self.unit_of_work: UnitOfWork = MemoryUnitOfWork(self.store)
        self.archive: EventArchive = MemoryEventArchive(self.store)

    def completed(self) -> RunCompleted:
        """The end of some run of the tenant."""
        return RunCompleted(
            run_id=RunId(self.ids.new()),
            job_id=JobId(self.ids.new()),
            tenant_id=self.tenant,
            workflow_name="recon",
            result=RunResult.MATCHED,
        )

    def encoded(self, event: object | None = None, *, event_id: UUID | None = None) -> EncodedEvent:
        chosen = EventId(event_id or self.ids.new())
        stamp = Stamp(event_id=chosen, time=self.clock.now(), sequence=1)
        return encode(event or self.completed(), stamp)

    def publish(
        self, event: object | None = None, *, event_id: UUID | None = None, partition: int = 0
    ) -> UUID:
        """Write an event of the platform, as the relay does; return its id."""
        encoded = self.encoded(event, event_id=event_id)
        self._store_row(encoded)
        self.log.append(
            str(encoded.topic),
            key=encoded.key_bytes,
            value=encoded.data,
            headers=encoded.headers,
            partition=partition,
        )
        return UUID(encoded.attributes["id"])

    def _store_row(self, encoded: EncodedEvent) -> None:
        """The row of the outbox that was sent."""
        event_id = EventId(UUID(encoded.attributes["id"]))
        row = OutboxRow(
            position=self.store.next_position(),
            event_id=event_id,
            topic=str(encoded.topic),
            partition_key=encoded.key,
            headers=encoded.headers,
            data=encoded.data,
            type=encoded.type,
            created_at=self.clock.now(),
        )
        with self.store.writing(self.tenant) as state:
            state.outbox[event_id] = Queued(row=row, shard=0, sent_at=self.clock.now())

    def remember(self, tx: Transaction, received: Received) -> None:
        """The usual handler: it detects an effect that happens twice."""
        event = received.event
        assert isinstance(event, RunCompleted)
        tx.runs.add(a_run(tenant_id=tx.tenant_id, run_id=event.run_id))
        self.handled.append(received.envelope.id)

    def consumer(
        self,
        handler: Handler | None = None,
        *,
        signals: StepSignals | None = None,
        together: int = 1,
    ) -> Consumer:
        return Consumer(
            self.log,
            self.unit_of_work,
            group=GROUP,
            subscriptions=(
                Subscription(
                    INFRA,
                    (RunCompleted, RunErrored),
                    handler or self.remember,
                    together=together,
                ),
            ),
            metrics=self.metrics,
            clock=self.clock,
            backoff=Backoff(draw=lambda: 1.0),
            signals=signals or Silent(),
            archive=self.archive,
        )

    def consume(self, handler: Handler | None = None, *, seconds: float = 5) -> Consumer:
        """Run a consumer for a time of the manual clock."""
        consumer = self.consumer(handler)
        consumer.run(self.after(seconds))
        return consumer

    def after(self, seconds: float) -> Until:
        return Until(self.clock, self.clock.monotonic() + seconds)

    def letters(self) -> list[LogRecord]:
        return sorted(self.log.records(DLQ), key=lambda record: record.timestamp_ms)

    def reasons(self) -> list[str]:
        return [letter_of(record).reason for record in self.letters()]

    def committed(self, partition: int = 0) -> int:
        return self.log.committed(GROUP).get(Partition(INFRA, partition), 0)
