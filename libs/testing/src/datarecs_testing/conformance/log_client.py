"""Conformance suite of `LogClient`: earliest start, order per key, offsets, pause, outcomes.

An adapter's test subclasses `LogClientConformance` and provides two fixtures: `log_client`, and
`topic`, the name of an empty topic of three partitions that this client may write and read in
groups that start with the topic's name.
"""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from datarecs_application.ports.messaging import (
    LogClient,
    LogConsumer,
    LogProducer,
    LogRecord,
    NotSent,
    Partition,
    Sent,
    Unreadable,
)
from datarecs_core.errors.messaging import LogAccessDeniedError

SHORT = timedelta(milliseconds=200)
ACK = timedelta(seconds=35)
POLLS = 60


def read(consumer: LogConsumer, count: int) -> list[LogRecord]:
    """Poll until `count` records have arrived, at most 60 times 200 ms."""
    records: list[LogRecord | Unreadable] = []
    for _ in range(POLLS):
        for batch in consumer.poll(SHORT, max_records=100).values():
            records.extend(batch)
        if len(records) >= count:
            break
    return [record for record in records if isinstance(record, LogRecord)]


def joined(consumer: LogConsumer) -> frozenset[Partition]:
    """Poll with everything paused until partitions are assigned."""
    for _ in range(POLLS):
        consumer.poll(SHORT, max_records=1)
        if consumer.assignment():
            break
    return consumer.assignment()


def write(producer: LogProducer, topic: str, *values: bytes, key: bytes = b"k") -> Sent:
    """Send values under one key, each after the ack of the one before."""
    last: object = None
    for value in values:
        last = producer.send(topic, key=key, value=value, headers=()).wait(ACK)
    assert isinstance(last, Sent), last
    return last


class LogClientConformance:
    """Subclass it, and give the fixtures `log_client` and `topic`."""

    @pytest.fixture
    def producer(self, log_client: LogClient) -> Iterator[LogProducer]:
        producer = log_client.producer()
        yield producer
        producer.close()

    @pytest.mark.case("L14")
    def test_a_new_group_starts_with_the_first_record(
        self, log_client: LogClient, topic: str, producer: LogProducer
    ) -> None:
        write(producer, topic, b"before")
        consumer = log_client.consumer(group=f"{topic}-late", topics=[topic])
        try:
            assert [record.value for record in read(consumer, 1)] == [b"before"]
        finally:
            consumer.close()

    def test_key_value_and_headers_come_back_byte_for_byte(
        self, log_client: LogClient, topic: str, producer: LogProducer
    ) -> None:
        headers = [("ce_id", b"1"), ("ce_id", b"2"), ("x", b"\xff\x00"), ("empty", b"")]
        outcome = producer.send(topic, key=b"\x00k", value=b"", headers=headers).wait(ACK)
        consumer = log_client.consumer(group=f"{topic}-bytes", topics=[topic])
        try:
            (record,) = read(consumer, 1)
        finally:
            consumer.close()
        assert (record.key, record.value, record.headers) == (b"\x00k", b"", tuple(headers))
        assert outcome == Sent(record.partition, record.offset)

    def test_a_null_value_stays_null(
        self, log_client: LogClient, topic: str, producer: LogProducer
    ) -> None:
        producer.send(topic, key=b"k", value=None, headers=()).wait(ACK)
        consumer = log_client.consumer(group=f"{topic}-null", topics=[topic])
        try:
            assert [record.value for record in read(consumer, 1)] == [None]
        finally:
            consumer.close()

    def test_records_of_a_key_share_a_partition_in_their_order(
        self, log_client: LogClient, topic: str, producer: LogProducer
    ) -> None:
        """Placement is murmur2 of the key: it never changes and is the same in every client."""
        values = [str(n).encode() for n in range(20)]
        assert write(producer, topic, *values, key=b"key-a").partition == 0
        assert write(producer, topic, *values, key=b"key-b").partition == 1
        consumer = log_client.consumer(group=f"{topic}-order", topics=[topic])
        try:
            records = read(consumer, 40)
        finally:
            consumer.close()
        for key in (b"key-a", b"key-b"):
            assert [record.value for record in records if record.key == key] == values

    def test_a_named_partition_is_obeyed(self, topic: str, producer: LogProducer) -> None:
        outcome = producer.send(topic, key=b"key-a", value=b"v", headers=(), partition=2).wait(ACK)
        assert outcome == Sent(2, 0)

    def test_only_committed_offsets_move_a_group(
        self, log_client: LogClient, topic: str, producer: LogProducer
    ) -> None:
        write(producer, topic, b"1", b"2", b"3")
        first = log_client.consumer(group=f"{topic}-commit", topics=[topic])
        try:
            records = read(first, 3)
            where = Partition(topic, records[0].partition)
            assert first.committed(where) is None
            assert first.commit({where: records[0].offset + 1})
            assert first.committed(where) == 1
        finally:
            first.close()
        second = log_client.consumer(group=f"{topic}-commit", topics=[topic])
        try:
            assert [record.value for record in read(second, 2)] == [b"2", b"3"]
        finally:
            second.close()

    def test_groups_do_not_see_each_others_offsets(
        self, log_client: LogClient, topic: str, producer: LogProducer
    ) -> None:
        write(producer, topic, b"1")
        for group in ("one", "two"):
            consumer = log_client.consumer(group=f"{topic}-{group}", topics=[topic])
            try:
                (record,) = read(consumer, 1)
                assert consumer.commit({Partition(topic, record.partition): 1})
            finally:
                consumer.close()

    def test_a_seek_reads_again(
        self, log_client: LogClient, topic: str, producer: LogProducer
    ) -> None:
        write(producer, topic, b"1", b"2")
        consumer = log_client.consumer(group=f"{topic}-seek", topics=[topic])
        try:
            records = read(consumer, 2)
            consumer.seek(Partition(topic, records[1].partition), records[1].offset)
            assert [record.value for record in read(consumer, 1)] == [b"2"]
        finally:
            consumer.close()

    def test_a_paused_partition_is_silent_until_resumed(
        self, log_client: LogClient, topic: str, producer: LogProducer
    ) -> None:
        consumer = log_client.consumer(group=f"{topic}-pause", topics=[topic])
        try:
            partitions = joined(consumer)
            consumer.pause(*partitions)
            write(producer, topic, b"1")
            assert not consumer.poll(SHORT, max_records=10)
            consumer.resume(*partitions)
            assert [record.value for record in read(consumer, 1)] == [b"1"]
        finally:
            consumer.close()

    def test_the_bounds_of_a_partition_are_known(
        self, log_client: LogClient, topic: str, producer: LogProducer
    ) -> None:
        sent = write(producer, topic, b"1", b"2")
        consumer = log_client.consumer(group=f"{topic}-bounds", topics=[topic])
        try:
            where = Partition(topic, sent.partition)
            assert (consumer.begin_offset(where), consumer.end_offset(where)) == (0, 2)
        finally:
            consumer.close()

    def test_members_of_a_group_share_the_partitions(
        self, log_client: LogClient, topic: str
    ) -> None:
        first = log_client.consumer(group=f"{topic}-share", topics=[topic])
        second = log_client.consumer(group=f"{topic}-share", topics=[topic])
        try:
            for _ in range(POLLS):
                first.poll(SHORT, max_records=1)
                second.poll(SHORT, max_records=1)
                if len(first.assignment()) + len(second.assignment()) == 3 and (
                    first.assignment() and second.assignment()
                ):
                    break
            assert not first.assignment() & second.assignment()
            assert len(first.assignment() | second.assignment()) == 3
        finally:
            first.close()
            second.close()

    def test_an_unknown_topic_is_refused_when_joining(self, log_client: LogClient) -> None:
        with pytest.raises(LogAccessDeniedError):
            log_client.consumer(group="nobody", topics=["datarecs.no-such-topic"])

    def test_a_record_too_large_can_never_be_taken(self, topic: str, producer: LogProducer) -> None:
        outcome = producer.send(topic, key=b"k", value=b"x" * 1_100_000, headers=()).wait(ACK)
        assert isinstance(outcome, NotSent)
        assert outcome.permanent

    def test_a_producer_goes_on_after_a_refused_record(
        self, topic: str, producer: LogProducer
    ) -> None:
        producer.send(topic, key=b"k", value=b"x" * 1_100_000, headers=()).wait(ACK)
        assert write(producer, topic, b"fine").offset == 0

    def test_closing_twice_is_harmless(self, log_client: LogClient, topic: str) -> None:
        consumer = log_client.consumer(group=f"{topic}-close", topics=[topic])
        consumer.close()
        consumer.close()
