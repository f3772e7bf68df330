"""Relay and consumer on a real broker, each under its principal; the database is the twin."""

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from uuid import UUID

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import ACLPermissionType, KafkaAdminClient

from datarecs_application.loops import Loop
from datarecs_application.ports.messaging import LogRecord, Partition
from datarecs_application.ports.state import OutboxRow, Transaction
from datarecs_core.errors.messaging import LogAccessDeniedError
from datarecs_core.runs.events import RunCompleted
from datarecs_core.runs.model import RunResult
from datarecs_core.values import EventId, JobId, RunId
from datarecs_events.catalogue import Topic
from datarecs_events.codec import EncodedEvent, Received, Stamp, encode
from datarecs_kafka import steps, topics
from datarecs_kafka.access import BrokerAccess
from datarecs_kafka.backoff import Backoff
from datarecs_kafka.client import KafkaLogClient
from datarecs_kafka.consumer import Consumer
from datarecs_kafka.dead_letter import DeadLetter, DeadLetters, letter_of
from datarecs_kafka.handling import Handling, Subscription
from datarecs_kafka.poison import PoisonGauge
from datarecs_kafka.relay import Relay
from datarecs_kafka.session import ConsumerLimits, Session
from datarecs_kafka.topics import Right, acl_of
from datarecs_memory.outbox_reader import MemoryOutboxReader
from datarecs_memory.store import MemoryStore, Queued
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids
from datarecs_testing.metrics import RecordedMetrics
from datarecs_testing.signals import Signals
from datarecs_testing.stack import PASSWORDS, KafkaBroker

pytestmark = pytest.mark.integration

GROUP = "run-controller"
INFRA = str(Topic.RUN_INFRA)
DLQ = f"{GROUP}.dlq"
SHORT = timedelta(milliseconds=200)


class RawName(str):
    """A header name of bytes that are no UTF-8."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        del encoding, errors
        return b"\xff"


@dataclass
class Platform:
    """One tenant's outbox and the two loops over the session's broker."""

    access: BrokerAccess
    metrics: RecordedMetrics = field(default_factory=RecordedMetrics)
    signals: Signals = field(default_factory=Signals)
    clock: SystemClock = field(default_factory=SystemClock)
    ids: UuidV7Ids = field(default_factory=UuidV7Ids)
    handled: list[UUID] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = MemoryStore(self.clock, self.ids)
        self.tenant = self.store.create_tenant()

    def client(self, principal: str) -> KafkaLogClient:
        return KafkaLogClient(
            replace(self.access, username=principal, password=PASSWORDS[principal])
        )

    def relay(self, *, delivery: timedelta = timedelta(seconds=30)) -> Relay:
        return Relay(
            replace(self.client("relay"), delivery=delivery),
            MemoryOutboxReader(self.store),
            owner="this-test",
            metrics=self.metrics,
            clock=self.clock,
            wake=threading.Event(),
            signals=self.signals,
        )

    def consumer(self) -> Consumer:
        return Consumer(
            self.client(GROUP),
            MemoryUnitOfWork(self.store),
            group=GROUP,
            subscriptions=(Subscription(INFRA, (RunCompleted,), self.remember),),
            metrics=self.metrics,
            clock=self.clock,
            signals=self.signals,
        )

    def session(self) -> Session:
        """One membership of the consumer's group, turned by the test."""
        handling = Handling(
            MemoryUnitOfWork(self.store),
            group=GROUP,
            subscriptions=(Subscription(INFRA, (RunCompleted,), self.remember),),
            metrics=self.metrics,
            clock=self.clock,
        )
        client = self.client(GROUP)
        return Session(
            client.consumer(group=GROUP, topics=[INFRA]),
            handling,
            letters=DeadLetters(client=client, group=GROUP, clock=self.clock),
            gauge=PoisonGauge(),
            limits=ConsumerLimits(),
            backoff=Backoff(),
        )

    def remember(self, tx: Transaction, received: Received) -> None:
        del tx
        self.handled.append(received.envelope.id)

    def event(self) -> EncodedEvent:
        completed = RunCompleted(
            run_id=RunId(self.ids.new()),
            job_id=JobId(self.ids.new()),
            tenant_id=self.tenant,
            workflow_name="recon",
            result=RunResult.MATCHED,
        )
        stamp = Stamp(event_id=EventId(self.ids.new()), time=self.clock.now(), sequence=1)
        return encode(completed, stamp)

    def write(self, keys: list[str], *, data: bytes | None = None) -> list[UUID]:
        """Commit one outbox row per key, in one transaction; their ids."""
        written: list[UUID] = []
        with self.store.writing(self.tenant) as state:
            for key in keys:
                event = self.event()
                row = OutboxRow(
                    position=self.store.next_position(),
                    event_id=EventId(UUID(event.attributes["id"])),
                    topic=INFRA,
                    partition_key=key,
                    headers=event.headers,
                    data=data or event.data,
                    type=event.type,
                    created_at=self.clock.now(),
                )
                state.outbox[row.event_id] = Queued(row=row, shard=sum(key.encode()) % 16)
                written.append(row.event_id)
        return written

    def wait_for_effects(self, count: int) -> None:
        """Until so many events took effect; repetitions of the wire do not count."""
        for _ in range(600):
            if len(self.handled) >= count:
                return
            self.clock.wait(timedelta(milliseconds=100))
        raise AssertionError(f"{len(self.handled)} of {count} effects after a minute")

    def row(self, event_id: UUID) -> Queued:
        return self.store.committed(self.tenant).outbox[EventId(event_id)]


@contextmanager
def running(*loops: Loop) -> Iterator[None]:
    """Each on a separate thread, stopped and joined at the end."""
    stop = threading.Event()
    threads = [threading.Thread(target=loop.run, args=(stop,), name=loop.name) for loop in loops]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive(), f"{thread.name} did not stop"


@pytest.fixture
def platform(access: BrokerAccess, kafka_broker: KafkaBroker) -> Platform:
    """The catalogue's topics stand, and the group has read everything that is there."""
    kafka_broker.apply_catalogue()
    kafka_broker.skip_backlog(GROUP)
    return Platform(access)


def letters(access: BrokerAccess, count: int, *, key: bytes) -> list[DeadLetter]:
    """Dead letters of records with this key, read by the administrator."""
    member = KafkaLogClient(access).consumer(group=f"look-{secrets.token_hex(4)}", topics=[DLQ])
    result: list[DeadLetter] = []
    try:
        for _ in range(50):
            for batch in member.poll(SHORT, max_records=100).values():
                result += [
                    letter_of(one) for one in batch if isinstance(one, LogRecord) and one.key == key
                ]
            if len(result) >= count:
                break
    finally:
        member.close()
    return result


def test_what_is_committed_reaches_its_handler_once_and_in_order(platform: Platform) -> None:
    ids = platform.write([f"run-{number % 10}" for number in range(200)])
    with running(platform.relay(), platform.consumer()):
        platform.signals.wait_for(steps.CONSUME_AFTER_COMMIT, 200, timeout=30)
        platform.signals.wait_for(steps.CONSUME_AFTER_OFFSET, timeout=10)
    assert sorted(platform.handled) == sorted(ids)
    for first in range(10):
        of_key = [one for one in platform.handled if one in ids[first::10]]
        assert of_key == ids[first::10]
    assert all(platform.row(one).sent_at is not None for one in ids)


@pytest.mark.case("L15")
def test_foreign_records_end_as_dead_letters_or_are_passed(
    platform: Platform, access: BrokerAccess
) -> None:
    """Written by the administrator, since no service could."""
    key = secrets.token_hex(6).encode()
    event = platform.event()
    producer = KafkaProducer(**access.settings())
    try:
        for value, headers in (
            (b"not json", list(event.headers)),
            (event.data, [("ce_id", b"\xff")]),
            (event.data, [(RawName("x"), b"1")]),
            (b"x" * 300_000, list(event.headers)),
            (None, list(event.headers)),
            (event.data, list(event.headers)),
        ):
            producer.send(INFRA, key=key, value=value, headers=headers, partition=0).get(10)
    finally:
        producer.close(timeout=5)
    with running(platform.consumer()):
        platform.signals.wait_for(steps.CONSUME_AFTER_COMMIT, timeout=30)
    dead_letters = letters(access, 4, key=key)
    assert [one.reason for one in dead_letters] == [
        "BAD_JSON",
        "BAD_HEADER",
        "TOO_LARGE",
        "NULL_VALUE",
    ]
    assert [one.record.value for one in dead_letters] == [
        b"not json",
        event.data,
        b"x" * 300_000,
        None,
    ]
    assert dead_letters[0].record.headers == event.headers
    assert platform.metrics.total("kafka_unreadable_total", group=GROUP, topic=INFRA) == 1
    assert platform.handled == [UUID(event.attributes["id"])]


def test_one_record_that_is_too_large_parks_itself_and_nobody_else(platform: Platform) -> None:
    """The broker's refusal kills the library's producer: the others must not inherit it."""
    before = platform.write([f"run-{number}" for number in range(20)])
    (large,) = platform.write(["large"], data=b"x" * (topics.MAX_EVENT_BYTES + 1))
    after = platform.write(["large", *[f"run-{number}" for number in range(20)]])
    with running(platform.relay(), platform.consumer()):
        platform.wait_for_effects(41)
    assert sorted(platform.handled) == sorted([*before, *after])
    assert platform.row(large).parked_at is not None
    assert [one for one in (*before, *after) if platform.row(one).parked_at is not None] == []


@contextmanager
def refused(admin: KafkaAdminClient, principal: str) -> Iterator[None]:
    """The broker refuses the principal its group for as long as the block lasts."""
    right = Right(principal=principal, operation="READ", resource="GROUP", name=principal)
    denial = acl_of(right)
    denial.permission_type = ACLPermissionType.DENY
    assert not admin.create_acls([denial])["failed"]
    try:
        yield
    finally:
        admin.delete_acls([denial])


def turn_often(session: Session) -> None:
    for _ in range(50):
        session.turn(Latch())


def test_what_could_not_be_committed_is_committed_by_a_stop(
    platform: Platform, administration: KafkaAdminClient
) -> None:
    """Handled, with a refused offset, and stopped before its next turn."""
    event = platform.event()
    with KafkaProducer(**platform.access.settings()) as producer:
        sent = producer.send(
            INFRA, key=b"k", value=event.data, headers=list(event.headers), partition=0
        ).get(10)
    where, session = Partition(INFRA, 0), platform.session()
    while where not in session.member.assignment():
        session.member.poll(SHORT, max_records=1)
    session.member.seek(where, sent.offset)
    with refused(administration, GROUP), pytest.raises(LogAccessDeniedError):
        turn_often(session)
    assert platform.handled == [UUID(event.attributes["id"])]
    assert session.member.committed(where) == sent.offset
    session.close()
    offsets = administration.list_group_offsets({GROUP: None})[GROUP]
    assert offsets[TopicPartition(*where)].offset == sent.offset + 1


@pytest.mark.usefixtures("careless_sockets")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_killed_broker_delays_and_loses_nothing(
    platform: Platform, kafka_broker: KafkaBroker
) -> None:
    """Killed under load and started again: every event takes effect once."""
    if kafka_broker.jvm is None:
        pytest.skip("the broker is not ours to kill")
    with running(platform.relay(), platform.consumer()):
        ids = platform.write([f"run-{number % 20}" for number in range(100)])
        platform.wait_for_effects(10)
        kafka_broker.jvm.kill()
        ids += platform.write([f"run-{number % 20}" for number in range(100)])
        kafka_broker.jvm.restart()
        platform.wait_for_effects(200)
    assert sorted(platform.handled) == sorted(ids)


@pytest.mark.case("L12")
@pytest.mark.usefixtures("careless_sockets")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_an_outage_beyond_the_time_of_delivery_loses_nothing_and_ends_with_the_broker(
    platform: Platform, kafka_broker: KafkaBroker
) -> None:
    """What expired on its way must not stop what comes after it: the library's producer does."""
    if kafka_broker.jvm is None:
        pytest.skip("the broker is not ours to kill")
    keys = [f"run-{number % 20}" for number in range(100)]
    relay = platform.relay(delivery=timedelta(seconds=5))
    with running(relay, platform.consumer()):
        ids = platform.write(keys)
        platform.wait_for_effects(10)
        kafka_broker.jvm.kill()
        ids += platform.write(keys)
        for _ in range(600):
            if platform.metrics.total("outbox_published_total", topic=INFRA, outcome="failed"):
                break
            platform.clock.wait(timedelta(milliseconds=50))
        ids += platform.write(keys)
        kafka_broker.jvm.restart()
        platform.wait_for_effects(len(ids))
    assert sorted(platform.handled) == sorted(ids)
    for first in range(20):
        of_key = ids[first::20]
        assert [one for one in platform.handled if one in of_key] == of_key


def test_the_relay_carries_thousands_a_second(platform: Platform) -> None:
    """The target is 2,000 a second on an idle machine; a tenth of it says that nothing waits."""
    count = 4_000
    platform.write([f"run-{number % 400}" for number in range(count)])
    started = platform.clock.monotonic()
    with running(platform.relay()):
        platform.signals.wait_for(steps.RELAY_AFTER_ACK, count, timeout=count / 200)
        rate = count / (platform.clock.monotonic() - started)
    assert rate > 200
