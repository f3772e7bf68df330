"""Groups go back to a time and never forward; the records of the topics since then are read."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from kafka.admin import KafkaAdminClient

from datarecs_application.ports.messaging import LogRecord, Partition
from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_core.errors.store import ServicesRunningError
from datarecs_kafka.access import BrokerAccess
from datarecs_kafka.client import KafkaLogClient
from datarecs_kafka.rewinding import records_since, refuse_members, rewind
from datarecs_runtime.clock import SystemClock
from datarecs_testing.stack import KafkaBroker, free_test_port

pytestmark = [pytest.mark.integration, pytest.mark.case("K47")]

GROUP = "email-notifier"
TOPIC = "datarecs.run.platform"
WAIT = timedelta(seconds=35)


@pytest.fixture
def broker(kafka_broker: KafkaBroker) -> Iterator[KafkaBroker]:
    """With the catalogue's topics, and the group at their ends."""
    kafka_broker.apply_catalogue()
    kafka_broker.skip_backlog(GROUP)
    yield kafka_broker
    kafka_broker.skip_backlog(GROUP)


def send(log_client: KafkaLogClient, count: int) -> None:
    producer = log_client.producer()
    for number in range(count):
        text = b"%d" % number
        producer.send(TOPIC, key=text, value=text, headers=(), partition=0).wait(WAIT)
    producer.close()


def committed(administration: KafkaAdminClient) -> dict[Partition, int]:
    offsets = administration.list_group_offsets({GROUP: None})[GROUP]
    return {
        Partition(*where): int(entry.offset)
        for where, entry in offsets.items()
        if where.topic == TOPIC
    }


def a_moment_later() -> datetime:
    """A time that no earlier record has; timestamps of records are milliseconds."""
    clock = SystemClock()
    began = clock.now()
    while clock.now() - began < timedelta(milliseconds=5):
        pass
    return clock.now()


def test_what_was_read_since_a_time_is_read_again(
    broker: KafkaBroker, log_client: KafkaLogClient, administration: KafkaAdminClient
) -> None:
    start = committed(administration)
    send(log_client, 3)
    since = a_moment_later()
    send(log_client, 2)
    broker.skip_backlog(GROUP)
    part = Partition(TOPIC, 0)
    (would,) = rewind(broker.access, {GROUP: since}, dry_run=True)
    assert committed(administration)[part] == start[part] + 5
    (done,) = rewind(broker.access, {GROUP: since}, dry_run=False)
    assert would == done
    assert (done.partitions, done.records) == (1, 2)
    assert committed(administration) == {**start, part: start[part] + 3}
    (again,) = rewind(broker.access, {GROUP: since}, dry_run=False)
    assert (again.partitions, again.records) == (0, 0)


def test_a_group_that_is_behind_stays_behind(
    broker: KafkaBroker, log_client: KafkaLogClient, administration: KafkaAdminClient
) -> None:
    start = committed(administration)
    send(log_client, 3)
    (done,) = rewind(broker.access, {GROUP: a_moment_later()}, dry_run=False)
    assert done.partitions == 0
    assert committed(administration) == start


def test_the_records_since_a_time_are_read_to_the_present_end(
    broker: KafkaBroker, log_client: KafkaLogClient
) -> None:
    send(log_client, 2)
    since = a_moment_later()
    assert list(records_since(broker.access, since)) == []
    send(log_client, 1_200)
    records = list(records_since(broker.access, since))
    values = [one.value for one in records if isinstance(one, LogRecord)]
    assert values == [b"%d" % number for number in range(1_200)]


def test_a_group_with_a_member_is_refused_with_its_name(
    broker: KafkaBroker, log_client: KafkaLogClient
) -> None:
    refuse_members(broker.access, purpose="recovering")
    member = log_client.consumer(group=GROUP, topics=[TOPIC])
    while not member.assignment():
        member.poll(timedelta(milliseconds=200), max_records=1)
    with pytest.raises(ServicesRunningError, match=r"group email-notifier \(members: 1;"):
        refuse_members(broker.access, purpose="recovering")
    member.close()


@pytest.mark.usefixtures("careless_sockets")
def test_a_broker_that_does_not_answer_is_named() -> None:
    address = f"127.0.0.1:{free_test_port()}"
    nobody = BrokerAccess(bootstrap=address, username="stack", password="x")
    with pytest.raises(LogUnavailableError, match=address):
        refuse_members(nobody, purpose="recovering")
