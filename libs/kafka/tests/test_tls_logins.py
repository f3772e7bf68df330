"""Encrypted listeners of a real broker: every login that a connection can declare, and refusals."""

import gc
import logging
import secrets
import warnings
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from uuid import uuid5

import pytest
from kafka.admin import KafkaAdminClient, ScramMechanism, UserScramCredentialUpsertion

from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.errors.messaging import ClusterUnavailableError
from datarecs_core.resources.connection import KafkaConfig, KafkaMechanism, KafkaSecurity
from datarecs_kafka.cluster_access import ClusterAccess
from datarecs_kafka.sink_log import KafkaSinkLog
from datarecs_kafka.topic_reader import TopicFault, TopicReader, TopicReadError
from datarecs_runtime.clock import SystemClock, UuidV7Ids
from datarecs_runtime.environment import process_environment
from datarecs_testing.certificates import an_authority
from datarecs_testing.clock import FixedIds
from datarecs_testing.conformance.sink_log_house import start_commit
from datarecs_testing.stack import SHORT_LIVED, BrokerPrograms
from datarecs_testing.tls_kafka import (
    ELSEWHERE,
    EXPIRED,
    MUTUAL,
    OPEN,
    VALID,
    TlsBroker,
    start_tls_kafka,
)

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("careless_sockets")]
LOCAL = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)


@pytest.fixture
def careless_sockets() -> Iterator[None]:
    """As that of all tests here, but what the library logs is read: it has the causes."""
    library = logging.getLogger("kafka")
    library.propagate = False
    yield
    library.propagate = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def tls(
    broker_programs: BrokerPrograms, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TlsBroker]:
    folder = tmp_path_factory.mktemp("tls")
    started = start_tls_kafka(folder, process_environment(), broker_programs, SHORT_LIVED)
    yield started
    assert started.broker.jvm is not None
    started.broker.jvm.stop()


@pytest.fixture(scope="module")
def topic(tls: TlsBroker) -> str:
    """With one partition; the administrator has a password for each mechanism."""
    name = f"t-{secrets.token_hex(6)}"
    login = UserScramCredentialUpsertion(
        tls.broker.username, ScramMechanism.SCRAM_SHA_256, tls.broker.password
    )
    with KafkaAdminClient(**tls.broker.access.settings()) as admin:
        admin.create_topics(
            {name: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True
        )
        admin.alter_user_scram_credentials([login])
        while ScramMechanism.SCRAM_SHA_256.name not in str(admin.describe_user_scram_credentials()):
            pass
    return name


@pytest.fixture
def config(tls: TlsBroker) -> KafkaConfig:
    return KafkaConfig(
        brokers=(tls.address(VALID),), ca=tls.authority.pem, user=tls.broker.username
    )


def access_to(config: KafkaConfig, password: str) -> ClusterAccess:
    return ClusterAccess.declared(config, password=password, policy=LOCAL)


def log_of(access: ClusterAccess, topic: str) -> KafkaSinkLog:
    return KafkaSinkLog(
        access=access,
        uid=uuid5(FixedIds.nth(1), f"{topic}-{access.config.mechanism}"),
        topics=(topic,),
        has_dead_letters=False,
        clock=SystemClock(),
        ids=UuidV7Ids(),
    )


@pytest.mark.parametrize("mechanism", list(KafkaMechanism))
def test_a_sink_and_a_source_use_each_login_over_tls(
    tls: TlsBroker, config: KafkaConfig, topic: str, mechanism: KafkaMechanism
) -> None:
    access = access_to(replace(config, mechanism=mechanism), tls.broker.password)
    log = log_of(access, topic)
    lineage = log.prepare()
    assert TopicReader(access).identity(topic).cluster_id == lineage.cluster_id
    member, reader, producer = log.member(), log.reader(None), log.producer("coordinator")
    try:
        while not member.poll(timedelta(milliseconds=200), max_records=1).stamp.assignment:
            pass
        producer.announce([start_commit()])
        while not reader.poll(timedelta(milliseconds=200)):
            pass
    finally:
        for client in (member, reader, producer):
            client.close()


def refusal_of(access: ClusterAccess, topic: str) -> str:
    """What a sink says; it ends, and has no password in it."""
    with pytest.raises(ClusterUnavailableError) as caught:
        log_of(access, topic).prepare()
    text = str(caught.value)
    assert not access.password or access.password not in text
    return text


@pytest.mark.parametrize("mechanism", list(KafkaMechanism))
def test_a_wrong_password_names_the_fields_of_the_login(
    config: KafkaConfig, topic: str, mechanism: KafkaMechanism
) -> None:
    access = access_to(replace(config, mechanism=mechanism), "wrong-4711")
    assert "correct the connection's fields user, password" in refusal_of(access, topic)
    with pytest.raises(TopicReadError) as caught:
        TopicReader(access).identity(topic)
    assert caught.value.fault is TopicFault.LOGIN_REFUSED


def test_a_certificate_of_an_unknown_authority_names_the_field_ca(
    tls: TlsBroker, config: KafkaConfig, topic: str
) -> None:
    unknown = access_to(replace(config, ca=an_authority().pem), tls.broker.password)
    of_system = access_to(replace(config, ca=None), tls.broker.password)
    for access in (unknown, of_system):
        assert "set the connection's field ca" in refusal_of(access, topic)
    with pytest.raises(TopicReadError, match="field ca") as caught:
        TopicReader(unknown).identity(topic)
    assert caught.value.fault is TopicFault.UNREACHABLE


def test_an_expired_certificate_is_to_be_renewed(
    tls: TlsBroker, config: KafkaConfig, topic: str
) -> None:
    expired = replace(config, brokers=(tls.address(EXPIRED),))
    text = refusal_of(access_to(expired, tls.broker.password), topic)
    assert "certificate has expired" in text
    assert "renew the certificate" in text


def test_a_certificate_of_another_host_names_the_field_brokers(
    tls: TlsBroker, config: KafkaConfig, topic: str
) -> None:
    elsewhere = replace(config, brokers=(tls.address(ELSEWHERE),))
    text = refusal_of(access_to(elsewhere, tls.broker.password), topic)
    assert "not valid for 'localhost'" in text
    assert "field brokers" in text


def test_a_listener_with_another_security_names_the_field_security(
    tls: TlsBroker, config: KafkaConfig, topic: str
) -> None:
    unencrypted = replace(config, brokers=(tls.broker.bootstrap,))
    assert "field security" in refusal_of(access_to(unencrypted, tls.broker.password), topic)


def test_tls_without_login_works_where_no_certificate_of_the_client_is_required(
    tls: TlsBroker, config: KafkaConfig, topic: str
) -> None:
    no_login = replace(config, security=KafkaSecurity.SSL, user=None)
    opened = access_to(replace(no_login, brokers=(tls.address(OPEN),)), "")
    # The listener lets it in, and the cluster gives nobody without a name a right.
    with pytest.raises(TopicReadError) as caught:
        TopicReader(opened).identity(topic)
    assert caught.value.fault in (TopicFault.FORBIDDEN, TopicFault.MISSING)
    mutual = access_to(replace(no_login, brokers=(tls.address(MUTUAL),)), "")
    assert "field" in refusal_of(mutual, topic)
