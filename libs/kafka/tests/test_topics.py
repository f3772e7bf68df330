"""Topics, principals and rights on a real broker: who may do what, and who is turned away."""

from dataclasses import replace
from datetime import timedelta

import pytest
from kafka.admin import KafkaAdminClient

from datarecs_application.ports.messaging import LogConsumer, NotSent, Sent
from datarecs_core.errors.messaging import LogAccessDeniedError
from datarecs_events.catalogue import DEAD_LETTER_TOPICS, TOPICS, Service, Topic
from datarecs_kafka import topics
from datarecs_kafka.access import BrokerAccess
from datarecs_kafka.client import KafkaLogClient
from datarecs_testing.stack import PASSWORDS, KafkaBroker

pytestmark = pytest.mark.integration

ACK = timedelta(seconds=35)
EVENT_TOPICS = [one.name for one in TOPICS]
SERVICES = ["run-controller", "email-notifier", "webhook-service"]


@pytest.fixture(scope="module")
def applied(kafka_broker: KafkaBroker) -> tuple[str, ...]:
    """Apply the catalogue to the broker; return the changes."""
    return topics.apply(kafka_broker.access, principals=PASSWORDS, local=True)


def client_of(access: BrokerAccess, principal: str) -> KafkaLogClient:
    return KafkaLogClient(replace(access, username=principal, password=PASSWORDS[principal]))


def poll_for_a_while(consumer: LogConsumer) -> None:
    for _ in range(20):
        consumer.poll(timedelta(milliseconds=200), max_records=1)


def differences(access: BrokerAccess) -> tuple[str, ...]:
    return topics.verify(access, local=True)


@pytest.mark.usefixtures("applied")
def test_after_apply_nothing_differs(access: BrokerAccess) -> None:
    assert differences(access) == ()


@pytest.mark.usefixtures("applied")
def test_a_second_apply_changes_nothing(access: BrokerAccess) -> None:
    again = topics.apply(access, principals=PASSWORDS, local=True)
    assert again == ()


@pytest.mark.usefixtures("applied")
def test_a_changed_setting_and_a_foreign_right_are_detected_and_undone(
    access: BrokerAccess, administration: KafkaAdminClient
) -> None:
    foreign = topics.Right("email-notifier", "READ", "TOPIC", Topic.RUN_INFRA)
    administration.create_acls([topics.acl_of(foreign)])
    topics.set_configuration(administration, {Topic.RUN_INFRA: {"retention.ms": "1000"}})
    differing = differences(access)
    topics.apply(access, principals={}, local=True)
    assert differing == (
        "topic datarecs.run.infra deviates in retention.ms",
        f"unexpected: {foreign}",
    )
    assert differences(access) == ()


@pytest.mark.case("L02")
@pytest.mark.case("X71")
@pytest.mark.usefixtures("applied")
def test_the_email_notifier_cannot_read_infrastructure_events(access: BrokerAccess) -> None:
    client = client_of(access, "email-notifier")
    with pytest.raises(LogAccessDeniedError, match=r"datarecs\.run\.infra"):
        client.consumer(group="email-notifier", topics=[Topic.RUN_INFRA])
    allowed = client.consumer(group="email-notifier", topics=[Topic.RUN_PLATFORM])
    allowed.close()


@pytest.mark.usefixtures("applied")
def test_a_group_belongs_to_its_service(access: BrokerAccess) -> None:
    stranger = client_of(access, "email-notifier").consumer(
        group="webhook-service", topics=[Topic.RUN_PLATFORM]
    )
    try:
        with pytest.raises(LogAccessDeniedError):
            poll_for_a_while(stranger)
    finally:
        stranger.close()


@pytest.mark.case("L47")
@pytest.mark.case("X70")
@pytest.mark.usefixtures("applied")
@pytest.mark.parametrize("principal", [*SERVICES, "operators"])
def test_no_service_can_write_an_event_topic(access: BrokerAccess, principal: str) -> None:
    producer = client_of(access, principal).producer()
    try:
        for topic in EVENT_TOPICS:
            outcome = producer.send(topic, key=b"k", value=b"forged", headers=()).wait(ACK)
            assert isinstance(outcome, NotSent), topic
            assert "Authorization" in outcome.reason
            assert not outcome.permanent
    finally:
        producer.close()


@pytest.mark.usefixtures("applied")
def test_the_relay_writes_every_event_topic_and_reads_none(access: BrokerAccess) -> None:
    client = client_of(access, "relay")
    producer = client.producer()
    try:
        for topic in EVENT_TOPICS:
            outcome = producer.send(topic, key=b"k", value=b"v", headers=()).wait(ACK)
            assert isinstance(outcome, Sent), topic
    finally:
        producer.close()
    reader = client.consumer(group="relay", topics=[Topic.RUN_INFRA])
    try:
        with pytest.raises(LogAccessDeniedError):
            poll_for_a_while(reader)
    finally:
        reader.close()


@pytest.mark.usefixtures("applied")
@pytest.mark.parametrize("principal", SERVICES)
def test_each_group_writes_its_dead_letters_alone(access: BrokerAccess, principal: str) -> None:
    producer = client_of(access, principal).producer()
    try:
        outcomes = {
            one.name: producer.send(one.name, key=b"k", value=b"v", headers=()).wait(ACK)
            for one in DEAD_LETTER_TOPICS
        }
    finally:
        producer.close()
    taken = {name for name, outcome in outcomes.items() if isinstance(outcome, Sent)}
    assert taken == {f"{principal}.dlq"}


def test_services_without_a_place_in_the_catalogue_have_no_right() -> None:
    """core-api and the worker have no broker principal at all (security 11)."""
    named = {right.principal for right in topics.rights()}
    assert not named & {Service.CORE_API, Service.RECONCILIATION_WORKER}


def test_production_topics_are_replicated_and_wait_for_two() -> None:
    settings = topics.configuration(TOPICS[0], local=False)
    assert settings["min.insync.replicas"] == "2"
    assert settings["unclean.leader.election.enable"] == "false"
