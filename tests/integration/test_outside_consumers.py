"""An outside consumer reads events as described in `docs/howto/consume-events.md`, and no others.

The page's commands and its program run unchanged, against a real broker.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import (
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from datarecs_core.errors.messaging import ConsumerRefusedError
from datarecs_events.catalogue import TOPICS
from datarecs_kafka import outsiders, topics
from datarecs_kafka.outsiders import RESERVED, Outsider
from datarecs_runtime.environment import process_environment
from datarecs_testing.stack import PASSWORDS, KafkaBroker

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "howto" / "consume-events.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "events-schema" / "reconciliation.run.finalised" / "examples"
PLATFORM, PROGRESS = "datarecs.run.platform", "datarecs.run.progress"
TENANT = "01900000-0000-7000-8000-00000000000a"
PATIENCE_S = 30


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def broker(kafka_broker: KafkaBroker) -> KafkaBroker:
    """With the topics and rights of the catalogue, and without events of other tests."""
    kafka_broker.apply_catalogue()
    login = settings(kafka_broker, kafka_broker.username, kafka_broker.password)
    admin = AdminClient(login)
    partitions = admin.list_topics(PLATFORM).topics[PLATFORM].partitions
    ends = [TopicPartition(PLATFORM, number, OFFSET_END) for number in partitions]
    for deleted in admin.delete_records(ends).values():
        deleted.result(PATIENCE_S)
    return kafka_broker


def datarecs(broker: KafkaBroker, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of an administrator of this broker."""
    ours = {
        "DATARECS_PROFILE": "local",
        "DATARECS_KAFKA__BOOTSTRAP": broker.bootstrap,
        "DATARECS_KAFKA__USERNAME": broker.username,
        "DATARECS_KAFKA__PASSWORD": broker.password,
    }
    return subprocess.run(
        [sys.executable, "-m", "datarecs_cli", *arguments],
        env=process_environment() | ours,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def secret(broker: KafkaBroker) -> Iterator[str]:
    """Of the consumer that the page makes; its last command deletes it."""
    create, listing, delete = (shlex.split(one)[1:] for one in blocks("sh"))
    made = datarecs(broker, *create)
    assert made.returncode == 0, made.stderr
    assert "every tenant" in made.stderr
    listed = datarecs(broker, *listing)
    assert ["lake", PLATFORM] in [line.split() for line in listed.stdout.splitlines()]
    yield made.stdout.strip()
    assert datarecs(broker, *delete).returncode == 0
    assert "lake" not in datarecs(broker, *listing).stdout


def settings(broker: KafkaBroker, user: str, password: str) -> dict[str, str | int | float | bool]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": password,
    }


def send(broker: KafkaBroker, user: str, password: str, topic: str) -> KafkaError | None:
    """Send one event as this principal; the broker's refusal, if it refuses."""
    outcomes: list[KafkaError | None] = []
    producer = Producer(settings(broker, user, password) | {"message.timeout.ms": 10_000})
    producer.produce(
        topic,
        key="r1",
        value=min(EXAMPLES.glob("*.json")).read_bytes(),
        headers={"ce_type": "io.datarecs.reconciliation.run.finalised", "ce_tenantid": TENANT},
        on_delivery=lambda error, _message: outcomes.append(error),
    )
    producer.flush(PATIENCE_S)
    (outcome,) = outcomes
    return outcome


def refusal_of_reading(broker: KafkaBroker, secret: str, topic: str, group: str) -> int:
    """The code of the error that a reader of this topic in this group gets."""
    consumer = Consumer(settings(broker, "lake", secret) | {"group.id": group})
    consumer.subscribe([topic])
    try:
        record = consumer.poll(PATIENCE_S)
        assert record is not None
        error = record.error()
        assert error is not None
        return int(error.code())
    except KafkaException as refusal:
        return int(refusal.args[0].code())
    finally:
        consumer.close()


def test_the_program_of_the_page_prints_a_run_event(broker: KafkaBroker, secret: str) -> None:
    assert send(broker, "relay", PASSWORDS["relay"], PLATFORM) is None
    (program,) = blocks("python")
    ours = {"BOOTSTRAP": broker.bootstrap, "SECURITY": "SASL_PLAINTEXT", "SECRET": secret}
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=process_environment() | ours,
        stdout=subprocess.PIPE,
        text=True,
    ) as reader:
        assert reader.stdout is not None
        line = reader.stdout.readline()
        reader.terminate()
    tenant, kind, data = line.split(" ", 2)
    assert (tenant, kind.rpartition(".")[0]) == (TENANT, "io.datarecs.reconciliation.run")
    assert "'run_id'" in data


def test_it_reads_no_other_topic(broker: KafkaBroker, secret: str) -> None:
    code = refusal_of_reading(broker, secret, PROGRESS, "lake.loader")
    assert code == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_it_joins_no_other_group(broker: KafkaBroker, secret: str) -> None:
    for group in ("webhook-service", "lake", "lakes.loader"):
        code = refusal_of_reading(broker, secret, PLATFORM, group)
        assert code == KafkaError.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize("topic", [PLATFORM, PROGRESS])
def test_it_writes_nothing(broker: KafkaBroker, secret: str, topic: str) -> None:
    error = send(broker, "lake", secret, topic)
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.usefixtures("secret")
def test_topics_apply_leaves_it_alone(broker: KafkaBroker) -> None:
    access = broker.access
    assert topics.verify(access, local=True) == ()
    broker.apply_catalogue()
    assert Outsider(name="lake", topics=(PLATFORM,)) in outsiders.list_consumers(access)


@pytest.mark.usefixtures("secret")
@pytest.mark.parametrize("name", [*sorted(RESERVED), "stack", "lake", "Lake", "a.b", "-a", ""])
def test_a_name_of_the_platform_or_a_taken_one_is_refused(broker: KafkaBroker, name: str) -> None:
    with pytest.raises(ConsumerRefusedError):
        outsiders.create_consumer(broker.access, name, [PLATFORM], secret="s" * 20)


@pytest.mark.parametrize("wanted", [["datarecs.run.platfrom"], ["run-controller.dlq"], ["*"], []])
def test_other_topics_than_those_of_events_are_refused(
    broker: KafkaBroker, wanted: list[str]
) -> None:
    with pytest.raises(ConsumerRefusedError) as refusal:
        outsiders.create_consumer(broker.access, "fresh", wanted, secret="s" * 20)
    assert refusal.value.code.docs_id == "DR5710"
    assert "fresh" not in {one.name for one in outsiders.list_consumers(broker.access)}


def test_the_command_names_the_nearest_topic(broker: KafkaBroker) -> None:
    arguments = ("admin", "consumer", "create", "fresh", "--topics", "datarecs.run.platfrom")
    ended = datarecs(broker, *arguments, "-o", "json")
    assert ended.returncode == 3
    problem = json.loads(ended.stdout)
    assert problem["docs_id"] == "DR5710"
    assert "did you mean 'datarecs.run.platform'?" in problem["detail"]


def test_a_consumer_may_read_every_event_topic(broker: KafkaBroker) -> None:
    every = [one.name for one in TOPICS]
    made = outsiders.create_consumer(broker.access, "every", every, secret="s" * 20)
    assert made.topics == tuple(sorted(every))
    assert made in outsiders.list_consumers(broker.access)
    outsiders.delete_consumer(broker.access, "every")
    with pytest.raises(ConsumerRefusedError):
        outsiders.delete_consumer(broker.access, "every")
