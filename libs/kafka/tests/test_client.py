"""The Kafka client on a real broker: the conformance suite, and the library's traps by name."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.protocol.producer import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from datarecs_application.ports.messaging import LogRecord, NotSent, Partition, Sent, Unreadable
from datarecs_core.errors.messaging import LogAccessDeniedError, LogUnavailableError
from datarecs_kafka.access import BrokerAccess
from datarecs_kafka.client import (
    CONSUMER_SETTINGS,
    PRODUCER_SETTINGS,
    KafkaLogClient,
    KafkaLogConsumer,
)
from datarecs_testing.conformance.log_client import LogClientConformance, read, write
from datarecs_testing.stack import KafkaBroker

ACK = timedelta(seconds=35)
pytestmark = pytest.mark.integration


class TestKafkaLogClient(LogClientConformance):
    """No further tests: the suite covers it."""


class BadName(str):
    """A header name that is no UTF-8 on the wire, as only a foreign client can write it."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        del encoding, errors
        return b"\xff\xfe"


@pytest.fixture
def foreign(access: BrokerAccess) -> Iterator[KafkaProducer]:
    """A producer without our care: what a stranger may write."""
    producer = KafkaProducer(**access.settings(), linger_ms=50)
    yield producer
    producer.close(timeout=5)


def everything(consumer: KafkaLogConsumer, count: int) -> list[LogRecord | Unreadable]:
    records: list[LogRecord | Unreadable] = []
    for _ in range(40):
        for batch in consumer.poll(timedelta(milliseconds=200), max_records=100).values():
            records.extend(batch)
        if len(records) >= count:
            break
    return records


@pytest.mark.case("L15")
def test_a_record_the_library_cannot_parse_is_named_and_passed(
    log_client: KafkaLogClient, topic: str, foreign: KafkaProducer
) -> None:
    """A header name that is no UTF-8: the library raises, and would spin for ever on the batch."""
    foreign.send(topic, key=b"k", value=b"before", partition=0).get(10)
    foreign.send(topic, key=b"k", value=b"bad", headers=[(BadName("x"), b"1")], partition=0).get(10)
    foreign.send(topic, key=b"k", value=b"after", partition=0).get(10)
    consumer = log_client.consumer(group=f"{topic}-bad", topics=[topic])
    try:
        records = everything(consumer, 3)
    finally:
        consumer.close()
    assert [one.offset for one in records] == [0, 1, 2]
    assert [type(one) for one in records] == [LogRecord, Unreadable, LogRecord]


@pytest.mark.case("L15")
def test_what_stands_behind_it_in_the_same_batch_is_named_too(
    log_client: KafkaLogClient, topic: str, foreign: KafkaProducer
) -> None:
    headers = [[], [(BadName("x"), b"1")], []]
    for number, header in enumerate(headers):
        foreign.send(topic, key=b"k", value=str(number).encode(), headers=header, partition=0)
    foreign.flush(10)
    foreign.send(topic, key=b"k", value=b"next batch", partition=0).get(10)
    consumer = log_client.consumer(group=f"{topic}-batch", topics=[topic])
    try:
        records = everything(consumer, 4)
    finally:
        consumer.close()
    assert [one.offset for one in records] == [0, 1, 2, 3]
    assert [type(one) for one in records] == [LogRecord, Unreadable, Unreadable, LogRecord]


def test_a_wrong_password_is_named_though_the_library_says_timeout(access: BrokerAccess) -> None:
    wrong = replace(access, password="wrong")
    threads = set(threading.enumerate())
    with pytest.raises(LogUnavailableError, match=r"(?i)authentication"):
        KafkaLogClient(wrong).consumer(group="g", topics=["t"])
    assert set(threading.enumerate()) <= threads, "the library's network thread must end too"


def test_a_refusal_stands_in_the_future_alone_and_spoils_nothing_after_it(
    administration: KafkaAdminClient, log_client: KafkaLogClient, topic: str
) -> None:
    """The broker's limit is lower than the client's: the library's producer is dead after that."""
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
    producer = log_client.producer()
    try:
        refused = producer.send(small, key=b"k", value=b"x" * 5_000, headers=()).wait(ACK)
        taken = producer.send(topic, key=b"k", value=b"fine", headers=()).wait(ACK)
    finally:
        producer.close()
    assert isinstance(refused, NotSent)
    assert refused.permanent
    assert isinstance(taken, Sent)


def test_headers_without_a_value_are_read_as_null(
    log_client: KafkaLogClient, topic: str, administration: KafkaAdminClient, foreign: KafkaProducer
) -> None:
    foreign.send(topic, key=b"k", value=b"the partition has its leader", partition=0).get(10)
    append_raw(administration, topic, headers=[("ce_id", None)])
    consumer = log_client.consumer(group=f"{topic}-null-header", topics=[topic])
    try:
        assert [record.headers for record in read(consumer, 2)] == [(), (("ce_id", None),)]
    finally:
        consumer.close()


def append_raw(
    administration: KafkaAdminClient, topic: str, *, headers: list[tuple[str, bytes | None]]
) -> None:
    """One record in one batch past the producer's checks, as other clients can write it."""
    batch = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 10_000)
    batch.append(0, None, b"k", b"v", headers)
    named = ProduceRequest.TopicProduceData
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=5_000,
        topic_data=[
            named(
                name=topic,
                partition_data=[named.PartitionProduceData(index=0, records=bytes(batch.build()))],
            )
        ],
        max_version=8,
    )
    network = administration._manager  # noqa: SLF001 - no public way to send a raw batch
    answer = network.run(network.send, request)
    assert answer.responses[0].partition_responses[0].error_code == 0


def test_an_ack_is_known_without_waiting(log_client: KafkaLogClient, topic: str) -> None:
    producer = log_client.producer()
    try:
        ack = producer.send(topic, key=b"k", value=b"v", headers=())
        assert ack.wait(ACK) == ack.wait(timedelta(0))
        assert ack.done()
    finally:
        producer.close()


def test_the_settings_that_retain_records_are_set() -> None:
    assert CONSUMER_SETTINGS["auto_offset_reset"] == "earliest"
    assert CONSUMER_SETTINGS["enable_auto_commit"] is False
    assert CONSUMER_SETTINGS["isolation_level"] == "read_committed"
    assert PRODUCER_SETTINGS["acks"] == "all"
    assert PRODUCER_SETTINGS["enable_idempotence"] is True
    for settings in (CONSUMER_SETTINGS, PRODUCER_SETTINGS):
        assert settings["allow_auto_create_topics"] is False


def test_committing_for_a_group_that_has_moved_on_is_an_answer_not_an_error(
    log_client: KafkaLogClient, topic: str
) -> None:
    write(producer := log_client.producer(), topic, b"1")
    producer.close()
    consumer = log_client.consumer(group=f"{topic}-moved", topics=[topic])
    try:
        read(consumer, 1)
        consumer._inner._coordinator.maybe_leave_group()  # noqa: SLF001 - as after a long stall
        assert not consumer.commit({Partition(topic, 0): 1})
    finally:
        consumer.close()


@pytest.mark.usefixtures("careless_sockets")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_an_outage_in_the_middle_is_survived(
    kafka_broker: KafkaBroker, log_client: KafkaLogClient, topic: str
) -> None:
    """Broker killed and started again: the same producer and consumer go on within seconds."""
    if kafka_broker.jvm is None:
        pytest.skip("the broker is not ours to kill")
    producer = log_client.producer()
    consumer = log_client.consumer(group=f"{topic}-outage", topics=[topic])
    try:
        write(producer, topic, b"1")
        assert [record.value for record in read(consumer, 1)] == [b"1"]
        kafka_broker.jvm.kill()
        ack = producer.send(topic, key=b"k", value=b"2", headers=())
        kafka_broker.jvm.restart()
        assert isinstance(ack.wait(ACK), Sent)
        assert [record.value for record in read(consumer, 1)] == [b"2"]
    finally:
        producer.close()
        consumer.close()


def test_a_topic_that_is_not_shown_is_refused(log_client: KafkaLogClient) -> None:
    with pytest.raises(LogAccessDeniedError, match="no-such"):
        log_client.consumer(group="g", topics=["no-such"])
