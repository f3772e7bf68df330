"""What a connection of type kafka sends to the client: every field, and no password in a text."""

from dataclasses import replace
from ssl import SSLContext

import pytest

from datarecs_connectors.kafka.cluster import Cluster
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.errors.base import DatarecsError
from datarecs_core.resources.connection import (
    KafkaConfig,
    KafkaMechanism,
    KafkaSecurity,
    Transport,
)
from datarecs_kafka.cluster_access import ClusterAccess
from datarecs_testing.certificates import an_authority

SERVER = Policy(purpose=Purpose.CONNECTION, profile=Profile.SERVER)
LOCAL = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)
PASSWORD = "word"
CONFIG = KafkaConfig(brokers=("b1.example.com:9093", "[::1]:9094"), user="reader")


def settings(config: KafkaConfig, password: str = PASSWORD) -> dict[str, object]:
    return ClusterAccess.declared(config, password=password, policy=LOCAL).settings()


def test_brokers_user_mechanism_and_password_reach_the_client() -> None:
    config = replace(CONFIG, mechanism=KafkaMechanism.PLAIN)
    made = settings(config, "other")
    assert made["bootstrap_servers"] == ["b1.example.com:9093", "[::1]:9094"]
    assert made["security_protocol"] == "SASL_SSL"
    assert (made["sasl_mechanism"], made["sasl_plain_username"]) == ("PLAIN", "reader")
    assert made["sasl_plain_password"] == "other"


def test_a_security_without_login_sends_none_and_without_tls_has_no_context() -> None:
    assert "sasl_plain_password" not in settings(replace(CONFIG, security=KafkaSecurity.SSL))
    assert "ssl_context" in settings(replace(CONFIG, security=KafkaSecurity.SSL))
    assert "ssl_context" not in settings(replace(CONFIG, security=KafkaSecurity.PLAINTEXT))


@pytest.mark.integration
@pytest.mark.case("X54")
def test_an_inner_address_is_refused_before_it_is_dialled() -> None:
    config = replace(CONFIG, brokers=("127.0.0.1:9092",))
    cluster = Cluster(source="s", config=config, password="word", policy=SERVER)
    for read in (cluster.check_addresses, lambda: cluster.identity("t")):
        with pytest.raises(DatarecsError) as caught:
            read()
        assert caught.value.code.name == "CONNECTION_FAILED"
        assert "not allowed" in str(caught.value)
    assert "word" not in repr(cluster)


def test_the_authority_of_the_connection_is_the_only_one_trusted() -> None:
    authority = an_authority()
    context = settings(replace(CONFIG, ca=authority.pem))["ssl_context"]
    assert isinstance(context, SSLContext)
    assert len(context.get_ca_certs()) == 1
    with pytest.raises(DatarecsError, match="certificates"):
        settings(replace(CONFIG, ca="-----BEGIN CERTIFICATE-----"))


def test_ports_of_system_services_are_refused() -> None:
    config = replace(CONFIG, brokers=("127.0.0.1:22",))
    cluster = Cluster(source="s", config=config, password="", policy=LOCAL)
    with pytest.raises(DatarecsError) as caught:
        cluster.check_addresses()
    assert "port 22 is not allowed" in str(caught.value)


def test_a_transport_without_encryption_is_accepted_on_purpose() -> None:
    plain = replace(CONFIG, security=KafkaSecurity.PLAINTEXT)
    assert plain.transport is Transport.ENCRYPTED
    accepted = replace(plain, transport=Transport.UNENCRYPTED_ACCEPTED)
    closed, opened = (
        ClusterAccess.declared(config, password="", policy=LOCAL) for config in (plain, accepted)
    )
    assert closed.guard is not opened.guard
