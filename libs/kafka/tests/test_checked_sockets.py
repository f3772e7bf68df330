"""Which addresses the client of a declared cluster may dial, and with what it connects."""

import socket
import ssl
from collections.abc import Sequence

import pytest
from kafka.errors import KafkaConnectionError
from kafka.net import KafkaNetSocket

from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_core.resources.connection import (
    KafkaConfig,
    KafkaMechanism,
    KafkaSecurity,
    Transport,
)
from datarecs_kafka.checked_sockets import AddressGuard, AddressInfo, Resolver
from datarecs_kafka.cluster_access import ClusterAccess
from datarecs_testing.certificates import an_authority

SERVER = Policy(purpose=Purpose.CONNECTION)
LOCAL = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)


def answering(*addresses: str) -> Resolver:
    def resolve(host: str, port: int) -> Sequence[AddressInfo]:
        del host
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in addresses]

    return resolve


def lookup(guard: AddressGuard, host: str = "kafka.example", port: int = 9092) -> list[str]:
    """As the client of the library does it before it connects."""
    answers = KafkaNetSocket(guard.url).dns_lookup(host, port)
    return [str(answer[4][0]) for answer in answers]


def test_the_checked_addresses_are_the_ones_to_connect_to() -> None:
    guard = AddressGuard(SERVER, resolve=answering("10.1.2.3", "8.8.8.8"))
    assert lookup(guard) == ["10.1.2.3", "8.8.8.8"]


@pytest.mark.case("I68")
@pytest.mark.parametrize(
    ("address", "address_class"),
    [
        ("127.0.0.1", "loopback"),
        ("169.254.169.254", "link_local"),
        ("0.0.0.0", "unspecified"),  # noqa: S104 - an answer, nothing binds to it
        ("::ffff:10.0.0.1", "embedded_ipv4"),
    ],
)
def test_one_closed_address_closes_the_name(address: str, address_class: str) -> None:
    guard = AddressGuard(SERVER, resolve=answering("8.8.8.8", address))
    with pytest.raises(
        KafkaConnectionError, match=r"kafka\.example:9092 is not dialled"
    ) as refusal:
        lookup(guard)
    assert address_class in str(refusal.value)


def test_the_refused_address_is_reported_once() -> None:
    guard = AddressGuard(SERVER, resolve=answering("127.0.0.1"))
    with pytest.raises(KafkaConnectionError):
        lookup(guard)
    with pytest.raises(LogUnavailableError, match="is not dialled"):
        guard.require_none_refused("kafka.example:9092")
    guard.require_none_refused("kafka.example:9092")


@pytest.mark.parametrize("port", [22, 2375, 6443])
def test_ports_of_system_services_are_not_dialled(port: int) -> None:
    guard = AddressGuard(SERVER, resolve=answering("8.8.8.8"))
    with pytest.raises(KafkaConnectionError, match="is not allowed for a source"):
        lookup(guard, port=port)


def test_an_address_of_six_has_its_brackets_in_the_message() -> None:
    guard = AddressGuard(SERVER, resolve=answering("::1"))
    with pytest.raises(KafkaConnectionError, match=r"\[::1\]:9092 is not dialled"):
        lookup(guard, host="::1")


def test_a_name_without_an_address_is_named() -> None:
    def resolve(host: str, port: int) -> Sequence[AddressInfo]:
        del host, port
        raise socket.gaierror(-2, "Name or service not known")

    with pytest.raises(KafkaConnectionError, match=r"kafka\.example:9092 has no address"):
        lookup(AddressGuard(SERVER, resolve=resolve))


def test_nothing_is_dialled_after_the_guard_is_gone() -> None:
    url = AddressGuard(SERVER).url
    with pytest.raises(KafkaConnectionError, match="has ended"):
        KafkaNetSocket(url).dns_lookup("kafka.example", 9092)


# --- the declaration


def declared(address: str = "10.1.2.3", **config: object) -> ClusterAccess:
    facts: dict[str, object] = {"brokers": ("kafka.example:9092",), "user": "sink"} | config
    return ClusterAccess.declared(
        KafkaConfig(**facts),  # type: ignore[arg-type]  # a mixture of types
        password="secret",
        policy=LOCAL,
        resolve=answering(address),
    )


def test_a_login_over_tls_has_its_mechanism_and_its_authority() -> None:
    access = declared(mechanism=KafkaMechanism.PLAIN, ca=an_authority().pem)
    settings = access.settings()
    context = settings["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert len(context.get_ca_certs()) == 1
    assert settings["security_protocol"] == "SASL_SSL"
    assert settings["sasl_mechanism"] == "PLAIN"
    assert settings["sasl_plain_username"] == "sink"
    assert settings["sasl_plain_password"] == "secret"
    assert "secret" not in repr(access)


def test_without_a_login_no_password_is_sent() -> None:
    settings = declared(security=KafkaSecurity.SSL, user=None).settings()
    assert not [name for name in settings if name.startswith("sasl")]


def test_certificates_that_cannot_be_read_are_named() -> None:
    with pytest.raises(LogUnavailableError, match=r"^Kafka cluster at .*certificates of the conn"):
        declared(ca="-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----").settings()


def test_every_client_dials_through_the_guard() -> None:
    access = declared()
    assert access.settings()["proxy_url"] == access.guard.url


def test_without_tls_only_the_loopback_is_dialled_unless_it_is_accepted() -> None:
    plain = {"security": KafkaSecurity.SASL_PLAINTEXT}
    with pytest.raises(KafkaConnectionError, match="not encrypted"):
        lookup(declared("10.1.2.3", **plain).guard)
    assert lookup(declared("127.0.0.1", **plain).guard) == ["127.0.0.1"]
    accepted = declared("10.1.2.3", **plain, transport=Transport.UNENCRYPTED_ACCEPTED)
    assert lookup(accepted.guard) == ["10.1.2.3"]
