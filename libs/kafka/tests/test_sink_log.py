"""The sink's log on a real broker: the conformance suite, egress, and the watchdog."""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid5

import pytest
from kafka import (
    ConsumerGroupMetadata,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from kafka.admin import KafkaAdminClient, MemberToRemove

from datarecs_application.ports.messaging import LogRecord
from datarecs_application.ports.sinking import (
    ControlReader,
    DeadLetter,
    SinkProducer,
    SourceMember,
    VoteRefusedError,
)
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.resources.connection import KafkaConfig, KafkaMechanism, KafkaSecurity
from datarecs_core.sink.control import (
    ControlHeaders,
    DataWritten,
    FileEntry,
    Outgoing,
    SourcePartition,
)
from datarecs_kafka.access import BrokerAccess
from datarecs_kafka.checked_sockets import (
    AddressGuard,
    AddressInfo,
    Resolver,
    system_resolver,
)
from datarecs_kafka.client import record_of
from datarecs_kafka.cluster_access import ClusterAccess
from datarecs_kafka.control_codec import Event, encode_event
from datarecs_kafka.control_headers import encode_headers
from datarecs_kafka.sink_log import KafkaSinkLog
from datarecs_kafka.sink_producer import (
    MIB,
    MOST_MESSAGE_BYTES,
    TRANSACTION_TIMEOUT_MS,
    KafkaSinkProducer,
)
from datarecs_kafka.watchdog import CALL_LIMIT, EXIT_BROKER_TIMEOUT
from datarecs_runtime.clock import SystemClock, UuidV7Ids
from datarecs_testing.clock import NOON, FixedIds
from datarecs_testing.conformance.sink_log import SinkLogConformance
from datarecs_testing.conformance.sink_log_house import (
    TABLE,
    EndTransaction,
    read_to_end,
    settle,
    start_commit,
)
from datarecs_testing.stack import KafkaBroker, ServerProcess

pytestmark = pytest.mark.integration
LOCAL = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)


def access_to(broker: BrokerAccess, policy: Policy = LOCAL) -> ClusterAccess:
    config = KafkaConfig(
        brokers=(broker.bootstrap,),
        security=KafkaSecurity.SASL_PLAINTEXT,
        mechanism=KafkaMechanism.SCRAM_SHA_512,
        user=broker.username,
    )
    return ClusterAccess.declared(config, password=broker.password, policy=policy)


class House:
    """A sink on the session's broker; what it opened is closed at the end."""

    def __init__(self, access: BrokerAccess, administration: KafkaAdminClient, topic: str) -> None:
        self.topic, self._administration, self._access = topic, administration, access
        self.log = Log(
            access=access_to(access),
            uid=uuid5(FixedIds.nth(1), topic),
            topics=(topic,),
            has_dead_letters=True,
            clock=SystemClock(),
            ids=UuidV7Ids(),
        )
        self.group = f"datarecs.sink.{self.log.uid}"
        self._producer = KafkaProducer(**access.settings(), acks="all", metrics_enabled=False)

    def task(self, *topics: str) -> KafkaSinkLog:
        return replace(self.log, topics=topics or (self.topic,))

    def write(self, value: bytes, *, partition: int = 0, time: datetime | None = None) -> int:
        stamp = None if time is None else int(time.timestamp() * 1000)
        sent = self._producer.send(self.topic, value, partition=partition, timestamp_ms=stamp)
        return int(sent.get(30).offset)

    def open_write(self, value: bytes, *, partition: int = 0) -> EndTransaction:
        producer = KafkaProducer(
            **self._access.settings(), transactional_id=secrets.token_hex(8), metrics_enabled=False
        )
        opened.append(producer)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(self.topic, value, partition=partition).get(30)
        return partial(_end, producer)

    def expire(self, partition: SourcePartition, *, before: int) -> None:
        self._administration.delete_records({TopicPartition(*partition): before})

    def recreate_topic(self) -> None:
        self._administration.delete_topics([self.topic])
        create_topic(self._administration, self.topic)

    def remove_member(self, member: SourceMember) -> None:
        gone = MemberToRemove(member_id=member.stamp().member_id, reason="a test")
        self._administration.remove_group_members(self.group, [gone])

    def leave_open(self, producer: SinkProducer, message: Outgoing) -> None:
        assert isinstance(producer, KafkaSinkProducer)
        inner = producer._inner  # noqa: SLF001 - a call that does not end
        assert inner is not None
        inner.begin_transaction()
        event = Event(id=FixedIds.nth(9), group=self.group, time=NOON, message=message.message)
        headers = encode_headers(message.message, message.headers)
        inner.send(
            self.group, encode_event(event), key=bytes(16), headers=headers, partition=0
        ).get(30)
        # The next call goes on inside the transaction, as a process that slept does.
        inner.begin_transaction = lambda: None  # type: ignore[method-assign]  # see above

    def damage(self, *, group: str) -> None:
        message = start_commit()
        event = Event(id=FixedIds.nth(9), group=group, time=NOON, message=message.message)
        self._producer.send(self.group, encode_event(event)[:-3], partition=0).get(30)

    def dead_letters(self) -> Sequence[LogRecord]:
        topic = TopicPartition(f"{self.group}.dlq", 0)
        with KafkaConsumer(
            **self._access.settings(),
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            metrics_enabled=False,
        ) as consumer:
            consumer.assign([topic])
            end = consumer.end_offsets([topic])[topic]
            letters: list[LogRecord] = []
            while consumer.position(topic) < end:
                batches: dict[TopicPartition, list[Any]] = consumer.poll(200)
                letters += [record_of(raw) for batch in batches.values() for raw in batch]
        return letters

    def close(self) -> None:
        self._producer.close(5)


opened: list[Any] = []
"""Clients of the test that runs."""


class Log(KafkaSinkLog):
    """Remembers what it opens."""

    __slots__ = ()

    def member(self) -> Any:  # noqa: ANN401 - the client
        return _remembered(super().member())

    def reader(self, offset: int | None) -> Any:  # noqa: ANN401 - the client
        return _remembered(super().reader(offset))

    def producer(self, role: str) -> Any:  # noqa: ANN401 - the client
        return _remembered(super().producer(role))


def _remembered(client: SourceMember | ControlReader | SinkProducer) -> Any:  # noqa: ANN401 - the client
    opened.append(client)
    return client


def _end(producer: KafkaProducer, *, commit: bool) -> None:
    if commit:
        producer.commit_transaction()
    else:
        producer.abort_transaction()


def create_topic(administration: KafkaAdminClient, name: str) -> None:
    settings = {"num_partitions": 2, "replication_factor": 1}
    administration.create_topics({name: settings}, wait_for_metadata=True)


@pytest.fixture
def topic(administration: KafkaAdminClient) -> str:
    name = f"t-{secrets.token_hex(6)}"
    create_topic(administration, name)
    return name


@pytest.fixture
def house(access: BrokerAccess, administration: KafkaAdminClient, topic: str) -> Iterator[House]:
    house = House(access, administration, topic)
    yield house
    while opened:
        opened.pop().close()
    house.close()


class TestKafkaSinkLog(SinkLogConformance):
    """No further tests: the suite covers it."""


@pytest.mark.case("I10")
def test_a_coordinator_that_slept_does_not_fence_one_that_is_inside_a_transaction(
    house: House,
) -> None:
    """The library alone answers the refusal with a new epoch, which fences the newer one."""
    log = house.task()
    log.prepare()
    older = log.producer("coordinator")
    house.leave_open(older, start_commit(601))
    newer = log.producer("coordinator")
    house.leave_open(newer, start_commit(602))
    with pytest.raises(VoteRefusedError):
        older.announce([start_commit(603)])
    newer.announce([start_commit(604)])
    ids = [envelope.message.commit_id for envelope in read_to_end(log.reader(0))]
    assert ids == [FixedIds.nth(602), FixedIds.nth(604)]


def test_a_message_that_its_topic_does_not_take_is_refused_and_the_next_one_is_sent(
    house: House,
) -> None:
    log = house.task()
    log.prepare()
    entry = FileEntry(path="x" * MOST_MESSAGE_BYTES, spec_id=0, record_count=1, size=1)
    message = DataWritten(commit_id=FixedIds.nth(1), table=TABLE, data_files=(entry,))
    large = Outgoing(message=message, headers=ControlHeaders(epoch=1))
    producer = log.producer("session")
    with pytest.raises(SinkError, match="the topic takes"):
        producer.announce([start_commit(601), large])
    producer.announce([start_commit(602)])
    ids = [envelope.message.commit_id for envelope in read_to_end(log.reader(0))]
    assert ids == [FixedIds.nth(602)]


@pytest.mark.case("I04")
def test_a_new_process_of_a_task_waits_for_no_vote_that_the_last_one_left_open(
    house: House,
) -> None:
    """By itself the broker ends it after 15 to 25 s, and has no offset of the group before."""
    log = house.task()
    log.prepare()
    member, producer = log.member(), log.producer("task")
    (stamp,) = settle(member)
    house.leave_open(producer, start_commit(601))
    partitions = [SourcePartition(house.topic, number) for number in range(2)]
    inner = producer._inner  # noqa: SLF001 - a call that does not end
    assert inner is not None
    inner.send_offsets_to_transaction(
        {TopicPartition(*where): OffsetAndMetadata(5, "", -1) for where in partitions},
        ConsumerGroupMetadata(house.group, stamp.generation, stamp.member_id, None),
    )
    member.close()
    begun = time.monotonic()
    log.producer("task")
    successor = log.member()
    settle(successor)
    assert [successor.committed(where) for where in partitions] == [None, None]
    assert time.monotonic() - begun < TRANSACTION_TIMEOUT_MS / 1000


def a_letter(topic: str, size: int) -> DeadLetter:
    record = LogRecord(
        topic=topic,
        partition=1,
        offset=7,
        timestamp_ms=0,
        key=b"k",
        value=secrets.token_bytes(size),
        headers=(("name", b"x"),),
    )
    return DeadLetter(record=record, reason="the value is not JSON at character 0", path="")


def voting(house: House) -> Callable[..., None]:
    """Votes with dead letters, of a member that is in the group."""
    log = house.task()
    log.prepare()
    member, producer = log.member(), log.producer("session")
    (stamp,) = settle(member)
    offsets = {SourcePartition(house.topic, 0): 0}
    return lambda *letters: producer.vote([start_commit(603)], offsets, stamp, letters)


@pytest.mark.case("I54")
@pytest.mark.parametrize("size", [3 * MIB, 16 * MIB])
def test_a_large_bad_record_is_a_dead_letter(house: House, size: int) -> None:
    letter = a_letter(house.topic, size)
    voting(house)(letter)
    (stored,) = house.dead_letters()
    assert (stored.key, stored.value) == (b"k", letter.record.value)
    assert dict(stored.headers)["datarecs-dlq-offset"] == b"7"


@pytest.mark.parametrize("size", [3 * MIB, 20 * MIB])
def test_a_dead_letter_that_its_topic_does_not_take_is_named_and_the_next_one_is_sent(
    house: House, administration: KafkaAdminClient, size: int
) -> None:
    """By the broker, or by the client, which sends at most 17 MiB."""
    administration.create_topics(
        {f"{house.group}.dlq": {"num_partitions": 1, "replication_factor": 1}},
        wait_for_metadata=True,
    )
    vote = voting(house)
    with pytest.raises(SinkError, match=f"^{house.topic} 1, offset 7: .*takes no dead") as refused:
        vote(a_letter(house.topic, 10), a_letter(house.topic, size))
    assert refused.value.code is SinkCode.RECORD_TOO_LARGE
    vote(a_letter(house.topic, 10))
    (stored,) = house.dead_letters()
    assert stored.value is not None
    assert len(stored.value) == 10


def test_a_topic_without_an_id_is_left_out(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """As brokers before 2.8 answer."""
    nothing = [{"name": house.topic, "topic_id": UUID(int=0), "error_code": 0, "partitions": []}]
    monkeypatch.setattr(KafkaAdminClient, "describe_topics", lambda *_: nothing)
    assert house.task().topic_ids() == {}


# --- egress


def addresses(**by_host: str) -> Resolver:
    """A resolver that knows these names."""
    return lambda host, port: system_resolver(by_host[host.replace(".", "_")], port)


@pytest.mark.case("I68")
def test_a_listener_that_the_broker_advertises_in_a_closed_range_is_not_dialled(
    house: House,
) -> None:
    """The first connection is allowed; the broker then names 127.0.0.1, here a closed address."""
    port = house.log.access.bootstrap.rpartition(":")[2]
    resolver = addresses(kafka_example="127.0.0.1", **{"127_0_0_1": "169.254.169.254"})
    access = ClusterAccess(
        config=replace(house.log.access.config, brokers=(f"kafka.example:{port}",)),
        password=house.log.access.password,
        guard=AddressGuard(LOCAL, resolve=resolver),
    )
    with pytest.raises(LogUnavailableError, match=f"127.0.0.1:{port} is not dialled") as refusal:
        settle(replace(house.log, access=access).member())
    assert "link_local" in str(refusal.value)


@pytest.mark.case("I68")
def test_a_name_is_resolved_and_judged_at_each_connection(house: House) -> None:
    """After a change of its DNS a name of the connection leads nowhere else."""
    port = house.log.access.bootstrap.rpartition(":")[2]
    before = ["127.0.0.1"]

    def resolve(host: str, port: int) -> Sequence[AddressInfo]:
        if host != "kafka.example":
            return system_resolver(host, port)
        return system_resolver(before.pop() if before else "169.254.169.254", port)

    access = ClusterAccess(
        config=replace(house.log.access.config, brokers=(f"kafka.example:{port}",)),
        password=house.log.access.password,
        guard=AddressGuard(LOCAL, resolve=resolve),
    )
    log = replace(house.log, access=access)
    log.prepare()
    with pytest.raises(LogUnavailableError, match=r"kafka\.example:\d+ is not dialled"):
        log.prepare()


@pytest.mark.case("I68")
def test_a_first_address_in_a_closed_range_is_not_dialled(house: House) -> None:
    closed = Policy(purpose=Purpose.CONNECTION, profile=Profile.SERVER)
    access = replace(house.log.access, guard=AddressGuard(closed))
    with pytest.raises(LogUnavailableError, match="is not dialled") as refusal:
        replace(house.log, access=access).prepare()
    assert "loopback" in str(refusal.value)


def test_a_wrong_password_is_named(house: House) -> None:
    access = replace(house.log.access, password="wrong")
    with pytest.raises(LogUnavailableError, match=r"(?i)authentication"):
        replace(house.log, access=access).prepare()


# --- watchdog


PROGRAM = """
import sys
from datetime import timedelta
from uuid import UUID
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.resources.connection import KafkaConfig, KafkaMechanism, KafkaSecurity
from datarecs_kafka.cluster_access import ClusterAccess
from datarecs_kafka.sink_log import KafkaSinkLog
from datarecs_kafka.watchdog import Watchdog
from datarecs_runtime.clock import SystemClock, UuidV7Ids
from datarecs_testing.conformance.sink_log_house import start_commit

bootstrap, user, uid, topic = sys.argv[1:]
access = ClusterAccess.declared(
    KafkaConfig(
        brokers=(bootstrap,),
        security=KafkaSecurity.SASL_PLAINTEXT,
        mechanism=KafkaMechanism.SCRAM_SHA_512,
        user=user,
    ),
    password=sys.stdin.readline().strip(),
    policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL),
)
log = KafkaSinkLog(
    access=access,
    uid=UUID(uid),
    topics=(topic,),
    has_dead_letters=False,
    clock=SystemClock(),
    ids=UuidV7Ids(),
    watchdog=Watchdog(limit=timedelta(seconds=3)),
)
log.prepare()
producer = log.producer("coordinator")
producer.announce([start_commit(601)])
print("ready", flush=True)
sys.stdin.readline()
producer.announce([start_commit(602)])
print("committed", flush=True)
"""


@pytest.mark.case("I71")
def test_a_broker_that_stops_answering_ends_the_process(
    house: House, kafka_broker: KafkaBroker
) -> None:
    """The limit is 3 s here instead of 30; nothing of the transaction is read afterwards."""
    assert timedelta(seconds=35) > CALL_LIMIT
    process = kafka_broker.jvm
    if not isinstance(process, ServerProcess):
        pytest.skip("the broker is not a process of this test")
    words = (kafka_broker.bootstrap, kafka_broker.username, str(house.log.uid), house.topic)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(f"{kafka_broker.password}\n")
        child.stdin.flush()
        assert child.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGSTOP)
        try:
            child.stdin.write("go\n")
            child.stdin.flush()
            assert child.wait(8) == EXIT_BROKER_TIMEOUT
        finally:
            os.kill(process.pid, signal.SIGCONT)
        assert "DR7019" in child.stdout.read()
    log = house.task()
    log.producer("coordinator").announce([start_commit(603)])
    ids = [envelope.message.commit_id for envelope in read_to_end(log.reader(0))]
    assert ids == [FixedIds.nth(601), FixedIds.nth(603)]
