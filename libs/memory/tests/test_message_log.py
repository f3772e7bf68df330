"""The event log in process against the suite of every LogClient, and the faults it can order."""

from datetime import timedelta

import pytest

from datarecs_application.ports.messaging import NotSent, Partition, Unreadable
from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_memory.message_log import MessageLog, murmur2
from datarecs_testing.clock import ManualClock
from datarecs_testing.conformance.log_client import LogClientConformance

SHORT = timedelta(milliseconds=200)


@pytest.fixture
def topic() -> str:
    return "t"


@pytest.fixture
def log_client(topic: str) -> MessageLog:
    return MessageLog(ManualClock(by_itself=True), {topic: 3})


class TestMessageLog(LogClientConformance):
    """No further tests: the suite covers it."""


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_the_one_of_every_kafka_client(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected % 2**32


def test_an_outage_reaches_every_call(log_client: MessageLog, topic: str) -> None:
    consumer = log_client.consumer(group="g", topics=[topic])
    log_client.outage(down=True)
    with pytest.raises(LogUnavailableError):
        consumer.poll(SHORT, max_records=1)
    with pytest.raises(LogUnavailableError):
        log_client.producer().send(topic, key=b"k", value=b"v", headers=())


def test_a_refused_topic_answers_as_ordered(log_client: MessageLog, topic: str) -> None:
    refusal = NotSent("full", permanent=False)
    log_client.refuse(topic, refusal)
    producer = log_client.producer()
    assert producer.send(topic, key=b"k", value=b"v", headers=()).wait(SHORT) == refusal


def test_a_spoiled_position_is_read_as_unreadable(log_client: MessageLog, topic: str) -> None:
    log_client.append(topic, key=b"k", value=b"v", partition=0)
    log_client.spoil(Partition(topic, 0), 0)
    consumer = log_client.consumer(group="g", topics=[topic])
    (batch,) = consumer.poll(SHORT, max_records=1).values()
    assert isinstance(batch[0], Unreadable)


def test_what_retention_took_is_not_read(log_client: MessageLog, topic: str) -> None:
    for value in (b"1", b"2"):
        log_client.append(topic, key=b"k", value=value, partition=0)
    log_client.expire(Partition(topic, 0), before=1)
    consumer = log_client.consumer(group="g", topics=[topic])
    (batch,) = consumer.poll(SHORT, max_records=10).values()
    assert [record.offset for record in batch] == [1]
    assert consumer.begin_offset(Partition(topic, 0)) == 1


def test_a_member_that_lost_a_partition_cannot_commit_it(
    log_client: MessageLog, topic: str
) -> None:
    first = log_client.consumer(group="g", topics=[topic])
    first.poll(SHORT, max_records=1)
    log_client.consumer(group="g", topics=[topic])
    assert not first.commit({Partition(topic, 1): 0})
