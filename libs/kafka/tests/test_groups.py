from datetime import timedelta
from time import monotonic

import pytest

from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_kafka.access import BrokerAccess
from datarecs_kafka.client import KafkaLogClient
from datarecs_kafka.groups import remove_members
from datarecs_testing.stack import KafkaBroker, free_test_port

GROUP = "run-controller"
TOPIC = "datarecs.run.platform"
POLL = timedelta(milliseconds=200)


@pytest.mark.integration
@pytest.mark.case("K17")
@pytest.mark.case("K18")
def test_the_successor_of_a_killed_member_does_not_wait_for_its_session(
    kafka_broker: KafkaBroker,
) -> None:
    admin = {"username": kafka_broker.username, "password": kafka_broker.password}
    passwords = kafka_broker.apply_catalogue()
    client = KafkaLogClient(
        BrokerAccess(bootstrap=kafka_broker.bootstrap, username=GROUP, password=passwords[GROUP])
    )
    silent = client.consumer(group=GROUP, topics=[TOPIC])
    while not silent.assignment():
        silent.poll(POLL, max_records=1)
    assert remove_members(kafka_broker.bootstrap, **admin, group=GROUP) == 1
    began = monotonic()
    successor = client.consumer(group=GROUP, topics=[TOPIC])
    while len(successor.assignment()) < 3:
        successor.poll(POLL, max_records=1)
    assert monotonic() - began < 20
    successor.close()
    silent.close()


@pytest.mark.integration
def test_a_group_that_nobody_joined_has_no_members(kafka_broker: KafkaBroker) -> None:
    admin = {"username": kafka_broker.username, "password": kafka_broker.password}
    assert remove_members(kafka_broker.bootstrap, **admin, group="nobody") == 0


@pytest.mark.integration
def test_a_missing_broker_is_said_and_not_waited_for() -> None:
    with pytest.raises(LogUnavailableError):
        remove_members(f"127.0.0.1:{free_test_port()}", username="stack", password="x", group=GROUP)
