"""The login of a sink: the rights that the page lists, and no others."""

import re
import secrets
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest

from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.resources.connection import KafkaConfig, KafkaMechanism, KafkaSecurity
from datarecs_core.sink.control import SourcePartition
from datarecs_kafka.access import BrokerAccess
from datarecs_kafka.cluster_access import ClusterAccess
from datarecs_kafka.sink_log import KafkaSinkLog
from datarecs_kafka.sink_logins import (
    PREFIX,
    create_login,
    create_producer,
    create_topic,
    member_count,
    send_values,
    sink_rights,
)
from datarecs_runtime.clock import SystemClock, UuidV7Ids
from datarecs_testing.conformance.sink_log_house import a_letter, a_vote, settle
from datarecs_testing.stack import KafkaBroker

ROWS = {
    "the topics": "TOPIC payments",
    f"topics that begin with `{PREFIX}`": f"TOPIC {PREFIX}*",
    f"groups that begin with `{PREFIX}`": f"GROUP {PREFIX}*",
    f"transactional ids that begin with `{PREFIX}`": f"TRANSACTIONAL_ID {PREFIX}*",
    "the cluster": "CLUSTER kafka-cluster",
}


def test_the_rights_are_those_that_the_page_lists() -> None:
    page = (Path(__file__).parents[3] / "docs/howto/sink.md").read_text(encoding="utf-8")
    table = page.partition("## What the login needs")[2].partition("\n## ")[0]
    listed = {
        (ROWS[place], operation.upper())
        for place, operations in re.findall(
            r"^\| ([^|]+?) \| ([A-Z][^|]+?) \|$", table, re.MULTILINE
        )
        for operation in operations.split(", ")
    }
    granted = {
        (f"{one.resource.name} {one.name}{'*' if one.is_prefix else ''}", one.operation.name)
        for one in sink_rights(["payments"])
    }
    assert granted == listed


@pytest.mark.integration
def test_a_login_of_a_producer_writes_records_and_that_of_a_sink_does_not(
    kafka_broker: KafkaBroker,
) -> None:
    suffix = secrets.token_hex(4)
    topic, name = f"payments-{suffix}", f"landing-{suffix}"
    for _ in range(2):
        create_topic(kafka_broker.access, topic, partitions=2)
        create_login(kafka_broker.access, name, [topic], password="sample-password")
    send_values(kafka_broker.access, topic, [b"{}"] * 3)
    login = BrokerAccess(
        bootstrap=kafka_broker.bootstrap, username=name, password="sample-password"
    )
    with pytest.raises(LogUnavailableError):
        send_values(login, topic, [b"{}"])
    for _ in range(2):
        create_producer(kafka_broker.access, f"till-{suffix}", [topic], password="other-password")
    till = BrokerAccess(
        bootstrap=kafka_broker.bootstrap, username=f"till-{suffix}", password="other-password"
    )
    send_values(till, topic, [b"{}"])
    assert member_count(kafka_broker.access, f"{PREFIX}{suffix}") == 0


def log_of(login: BrokerAccess, topic: str, uid: UUID) -> KafkaSinkLog:
    config = KafkaConfig(
        brokers=(login.bootstrap,),
        security=KafkaSecurity.SASL_PLAINTEXT,
        mechanism=KafkaMechanism.SCRAM_SHA_512,
        user=login.username,
    )
    policy = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)
    return KafkaSinkLog(
        access=ClusterAccess.declared(config, password=login.password, policy=policy),
        uid=uid,
        topics=(topic,),
        has_dead_letters=True,
        clock=SystemClock(),
        ids=UuidV7Ids(),
    )


@pytest.mark.integration
def test_a_login_with_the_names_of_its_sink_alone_sees_no_other_sink(
    kafka_broker: KafkaBroker,
) -> None:
    suffix = secrets.token_hex(4)
    topic, mine, other = f"payments-{suffix}", UuidV7Ids().new(), UuidV7Ids().new()
    create_topic(kafka_broker.access, topic, partitions=2)
    logins = {}
    for uid in (mine, other):
        name = f"landing-{uid}"
        create_login(kafka_broker.access, name, [topic], password="sample", prefix=f"{PREFIX}{uid}")
        logins[uid] = BrokerAccess(
            bootstrap=kafka_broker.bootstrap, username=name, password="sample"
        )
    logs = {uid: log_of(logins[uid], topic, uid) for uid in logins}
    for log in logs.values():
        log.prepare()
        with closing(log.member()) as member, closing(log.producer("session")) as producer:
            (stamp,) = settle(member)
            producer.vote(a_vote(topic), {SourcePartition(topic, 0): 0}, stamp, [a_letter(topic)])
    for name in (f"{PREFIX}{other}", f"{PREFIX}{other}.dlq"):
        with pytest.raises(SinkError, match="has no access") as refusal:
            log_of(logins[mine], name, mine).topic_ids()
        assert refusal.value.code is SinkCode.TOPIC_REFUSED
        with pytest.raises(LogUnavailableError):
            send_values(logins[mine], name, [b"{}"])
    logs[mine].remove_topics()
    assert logs[mine].prepare().group == f"{PREFIX}{mine}"
