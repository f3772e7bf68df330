"""The traps of the client library, each pinned on a real broker: spec run-lifecycle 14."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from kafka import (
    ConsumerRebalanceListener,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from kafka.admin import KafkaAdminClient
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import KafkaTimeoutError, ProducerFencedError

from datarecs_application.ports.messaging import NotSent, Partition, Sent
from datarecs_kafka.access import BrokerAccess
from datarecs_kafka.client import (
    CONSUMER_SETTINGS,
    PRODUCER_SETTINGS,
    KafkaLogClient,
    KafkaLogConsumer,
    KafkaLogProducer,
)
from datarecs_testing.conformance.log_client import joined, read, write
from datarecs_testing.stack import KafkaBroker

ACK = timedelta(seconds=35)
SHORT = timedelta(milliseconds=200)
pytestmark = pytest.mark.integration


@contextmanager
def member(client: KafkaLogClient, group: str, topic: str) -> Iterator[KafkaLogConsumer]:
    consumer = client.consumer(group=group, topics=[topic])
    try:
        yield consumer
    finally:
        consumer.close()


def until(holds: Callable[[], bool], *polling: KafkaLogConsumer, seconds: int = 60) -> None:
    """Let members poll, each on a thread as in a service, until something holds.

    Records they get are dropped, not committed. Taking turns would not do: the library forgets the
    join that ended between two polls and starts another, so that two members in turns never agree.
    """
    with ThreadPoolExecutor(len(polling)) as threads:
        for _ in range(seconds * 5):
            list(threads.map(lambda one: one.poll(SHORT, max_records=100), polling))
            if holds():
                return
    raise AssertionError(f"not within {seconds} s")


def filled(client: KafkaLogClient, topic: str) -> None:
    """Two records in each partition."""
    producer = client.producer()
    try:
        for number in range(3):
            for value in (b"1", b"2"):
                outcome = producer.send(topic, key=b"k", value=value, headers=(), partition=number)
                assert isinstance(outcome.wait(ACK), Sent)
    finally:
        producer.close()


def shared(one: frozenset[Partition], other: frozenset[Partition]) -> bool:
    """Each partition has one reader; a released partition has no reader for a moment."""
    return not one & other and len(one | other) == 3


@pytest.mark.case("L13")
def test_a_member_that_stalls_loses_its_partitions_to_the_others(
    log_client: KafkaLogClient, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The library leaves the group by itself; what was read and not committed is read again."""
    filled(log_client, topic)
    impatient = replace(log_client, poll_interval=timedelta(seconds=3))
    group = f"{topic}-stall"
    with member(impatient, group, topic) as stalled, member(log_client, group, topic) as other:
        until(lambda: bool(stalled.assignment()) and bool(other.assignment()), stalled, other)
        until(lambda: len(other.assignment()) == 3, other)
        assert not stalled.commit({Partition(topic, 0): 1}), "the group has moved on"
        assert other.committed(Partition(topic, 0)) is None
        until(lambda: len(other.assignment()) < 3, stalled, other)
        until(lambda: shared(stalled.assignment(), other.assignment()), stalled, other)
    assert "assigned to multiple consumers" not in caplog.text, "it claims nothing that it lost"


@pytest.mark.case("L13")
def test_a_rebalance_in_the_middle_of_a_batch_refuses_its_commit_and_repeats_it(
    log_client: KafkaLogClient, topic: str
) -> None:
    filled(log_client, topic)
    group = f"{topic}-middle"
    with member(log_client, group, topic) as first:
        assert len(read(first, 6)) == 6
        with member(log_client, group, topic) as second:
            until(lambda: bool(second.assignment()), second, first)
            moved = next(iter(second.assignment()))
            assert not first.commit({moved: 2}), "another member owns it now"
            second.seek(moved, 0)
            again = [one.offset for one in read(second, 2) if one.partition == moved.number]
    assert again == [0, 1]


def test_assignment_is_followed_without_a_listener(log_client: KafkaLogClient, topic: str) -> None:
    """Only what moves is revoked, and each partition has one reader at any time."""
    group = f"{topic}-follow"
    with member(log_client, group, topic) as first:
        assert len(joined(first)) == 3
        with member(log_client, group, topic) as second:
            until(lambda: bool(second.assignment()), first, second)
            until(lambda: len(first.assignment() | second.assignment()) == 3, first, second)
            assert not first.assignment() & second.assignment()
            assignment = first.assignment()
            assert assignment, "the sticky assignor leaves most where it was"
        until(lambda: len(first.assignment()) == 3, first)
        assert assignment < first.assignment()


class _Commits(ConsumerRebalanceListener):
    def __init__(self, consumer: KafkaConsumer) -> None:
        self.consumer = consumer
        self.errors: list[BaseException] = []
        self.called = threading.Event()

    def on_partitions_revoked(self, revoked: Any) -> None:  # noqa: ANN401  untyped library
        """Nothing is to be revoked at the first join."""

    def on_partitions_assigned(self, assigned: Any) -> None:  # noqa: ANN401  untyped library
        try:
            self.consumer.commit(dict.fromkeys(assigned, OffsetAndMetadata(0, "", -1)))
        except BaseException as error:  # noqa: BLE001  what the library does is the question
            self.errors.append(error)
        self.called.set()


@pytest.mark.usefixtures("careless_sockets")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_commit_inside_a_listener_is_refused_so_none_is_registered(
    access: BrokerAccess, topic: str
) -> None:
    consumer = KafkaConsumer(
        group_id=f"{topic}-listener",
        **access.settings(),
        **CONSUMER_SETTINGS,
        partition_assignment_strategy=(CooperativeStickyAssignor,),
    )
    listener = _Commits(consumer)
    try:
        consumer.subscribe([topic], listener=listener)
        for _ in range(50):
            consumer.poll(timeout_ms=200)
            if listener.called.is_set():
                break
    finally:
        consumer.close(autocommit=False, timeout_ms=5_000)
    assert [type(error) for error in listener.errors] == [RuntimeError]


def test_a_producer_that_the_broker_has_fenced_answers_and_is_replaced(
    access: BrokerAccess, topic: str, log_client: KafkaLogClient
) -> None:
    """Another member with its identity: the future has the refusal, the next send works."""
    settings = {**access.settings(), **PRODUCER_SETTINGS, "transactional_id": f"{topic}-tx"}
    old, rival = KafkaProducer(**settings), KafkaProducer(**settings)
    producer = log_client.producer()
    assert isinstance(producer, KafkaLogProducer)
    try:
        old.init_transactions()
        old.begin_transaction()
        rival.init_transactions()
        producer._inner = old  # noqa: SLF001  as it would stand there if ours had a rival
        refused = producer.send(topic, key=b"k", value=b"late", headers=()).wait(ACK)
        taken = producer.send(topic, key=b"k", value=b"fresh", headers=()).wait(ACK)
    finally:
        producer.close()
        rival.close(timeout=5)
    assert isinstance(refused, NotSent)
    assert ProducerFencedError.__name__ in refused.reason
    assert not refused.permanent, "the record is fine, only its sender is not"
    assert isinstance(taken, Sent)
    with member(log_client, f"{topic}-fenced", topic) as reader:
        assert [record.value for record in read(reader, 1)] == [b"fresh"]


def test_send_says_nothing_and_the_future_everything(
    access: BrokerAccess, administration: KafkaAdminClient, topic: str
) -> None:
    small = f"{topic}-small"
    administration.create_topics(
        {
            small: {
                "num_partitions": 1,
                "replication_factor": 1,
                "configs": {"max.message.bytes": "1000"},
            }
        },
        wait_for_metadata=True,
    )
    producer = KafkaLogClient(access).producer()
    try:
        ack = producer.send(small, key=b"k", value=b"x" * 5_000, headers=())
        assert isinstance(ack.wait(ACK), NotSent)
    finally:
        producer.close()


@pytest.mark.parametrize("headers", [[("name", None)], [("name", "text")], [(b"name", b"v")]])
def test_headers_are_text_and_bytes_and_anything_else_is_an_answer(
    log_client: KafkaLogClient, topic: str, headers: list[Any]
) -> None:
    """The library raises from `send`: such a record can never go, the next one can."""
    producer = log_client.producer()
    try:
        refused = producer.send(topic, key=b"k", value=b"v", headers=headers).wait(ACK)
        taken = producer.send(topic, key=b"k", value=b"v", headers=[("name", b"v")]).wait(ACK)
    finally:
        producer.close()
    assert isinstance(refused, NotSent)
    assert refused.permanent
    assert isinstance(taken, Sent)


def test_bytes_pass_as_they_are(log_client: KafkaLogClient, topic: str) -> None:
    """The library applies no serializer, for any bytes."""
    value = json.dumps({"amount": "1.10"}).encode() + b"\x00\xff"
    write(producer := log_client.producer(), topic, value)
    producer.close()
    with member(log_client, f"{topic}-bytes", topic) as reader:
        assert [record.value for record in read(reader, 1)] == [value]


def test_a_poll_comes_back_in_time_because_nothing_can_wake_it(
    log_client: KafkaLogClient, topic: str
) -> None:
    clock = threading.Event()
    with member(log_client, f"{topic}-wake", topic) as consumer:
        joined(consumer)
        ended = threading.Event()

        def poll() -> None:
            consumer.poll(timedelta(milliseconds=500), max_records=10)
            ended.set()

        threading.Thread(target=poll, daemon=True).start()
        assert ended.wait(3)
        clock.set()
    assert not hasattr(KafkaConsumer, "wakeup"), "use it, and poll longer"


@pytest.mark.usefixtures("careless_sockets")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_close_ends_within_its_time_though_the_broker_is_gone(
    access: BrokerAccess, kafka_broker: KafkaBroker, log_client: KafkaLogClient, topic: str
) -> None:
    """The library's close flushes first and lets its timeout escape, with its thread alive."""
    if kafka_broker.jvm is None:
        pytest.skip("the broker is not ours to kill")
    raw = KafkaProducer(**access.settings(), **PRODUCER_SETTINGS)
    producer = log_client.producer()
    write(producer, topic, b"1")
    raw.send(topic, key=b"k", value=b"1").get(10)
    threads = threading.active_count()
    kafka_broker.jvm.kill()
    try:
        raw.send(topic, key=b"k", value=b"2")
        with pytest.raises(KafkaTimeoutError):
            raw.close(timeout=1)
        producer.send(topic, key=b"k", value=b"2", headers=())
        ended = threading.Thread(target=producer.close)
        ended.start()
        ended.join(25)
        assert not ended.is_alive()
    finally:
        kafka_broker.jvm.restart()
        raw._sender.force_close()  # noqa: SLF001  the library dropped it
        raw.close(timeout=5)
    assert threading.active_count() < threads


def test_a_commit_of_nothing_that_is_assigned_is_reported_by_offsets_alone(
    log_client: KafkaLogClient, topic: str
) -> None:
    """The library reports the offset that the broker has stored, not the requested one."""
    with member(log_client, f"{topic}-explicit", topic) as consumer:
        where = min(joined(consumer))
        assert consumer.commit({where: 0})
        assert consumer.committed(where) == 0
        assert TopicPartition(*where) in consumer._inner.assignment()  # noqa: SLF001  as the library sees it
