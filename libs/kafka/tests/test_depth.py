"""Dead letters that wait, counted without getting in the way of the re-drive."""

import secrets
from datetime import timedelta

import pytest
from kafka.admin import KafkaAdminClient

from datarecs_kafka.access import BrokerAccess
from datarecs_kafka.client import KafkaLogClient
from datarecs_kafka.depth import dead_letters_waiting, report_depth
from datarecs_testing.metrics import RecordedMetrics

pytestmark = pytest.mark.integration


@pytest.fixture
def group(administration: KafkaAdminClient) -> str:
    """A group with an empty topic for its dead letters."""
    name = f"g-{secrets.token_hex(6)}"
    administration.create_topics(
        {f"{name}.dlq": {"num_partitions": 3, "replication_factor": 1}}, wait_for_metadata=True
    )
    return name


def test_what_the_redrive_has_not_come_to_waits(
    log_client: KafkaLogClient, access: BrokerAccess, group: str
) -> None:
    topic = f"{group}.dlq"
    assert dead_letters_waiting(access, group) == 0
    producer = log_client.producer()
    for number in range(5):
        sent = producer.send(topic, key=b"%d" % number, value=b"x", headers=(), partition=0)
        sent.wait(timedelta(seconds=35))
    producer.close()
    metrics = RecordedMetrics()
    report_depth(access, group, metrics)
    assert metrics.last("dlq_depth", group=group) == 5
    redrive = log_client.consumer(group=f"{group}.redrive", topics=[topic])
    while not redrive.assignment():
        redrive.poll(timedelta(milliseconds=200), max_records=1)
    (part,) = (one for one in redrive.assignment() if one.number == 0)
    assert dead_letters_waiting(access, group) == 5
    redrive.commit({part: 2})
    assert len(redrive.assignment()) == 3
    redrive.close()
    assert dead_letters_waiting(access, group) == 3


def test_a_topic_that_is_not_there_is_no_reason_to_fail(access: BrokerAccess) -> None:
    metrics = RecordedMetrics()
    report_depth(access, "nobody", metrics)
    assert metrics.last("dlq_depth", group="nobody") is None
