"""Connections of type kafka and sources of kind kafka, as they are declared."""

import json

import pytest

from datarecs_core.jobs.definition import EARLIEST, LATEST, ReconciliationJob, TopicBound
from datarecs_core.resources.connection import Connection, KafkaConfig, KafkaMechanism
from datarecs_core.resources.resource import Kind
from datarecs_specs.documents import Decoded, decode_json, job_of
from datarecs_specs.kinds import canonical_spec

CONFIG = {"brokers": ["b1.example.com:9093"], "user": "reader"}
AUTH = {"password": "env:KAFKA"}
LOGIN = {"url": "https://registry.example.com", "username": "reader"}
REGISTRY_AUTH = {**AUTH, "registry_password": "env:REGISTRY"}


def connection(config: object, auth: object = None) -> Decoded:
    spec: dict[str, object] = {"type": "kafka", "config": config}
    if auth is not None:
        spec["auth"] = auth
    return decode_json(
        {
            "apiVersion": "datarecs.io/v1",
            "kind": "Connection",
            "metadata": {"name": "k"},
            "spec": spec,
        }
    )


def faults_of(decoded: Decoded) -> list[str]:
    return [f"{one.code.docs_id} {one.pointer.removeprefix('/spec')}" for one in decoded.faults]


def test_a_connection_is_read_with_a_verified_login() -> None:
    _, read = connection({**CONFIG, "mechanism": "SCRAM-SHA-256"}, AUTH).require()
    assert isinstance(read, Connection)
    assert read.config == KafkaConfig(
        brokers=("b1.example.com:9093",), mechanism=KafkaMechanism.SCRAM_SHA_256, user="reader"
    )
    assert isinstance(read.config, KafkaConfig)
    assert (read.config.security.has_login, read.config.security.is_encrypted) == (True, True)


@pytest.mark.parametrize(
    ("config", "auth", "faults"),
    [
        ({}, None, ["DR1010 /config/user", "DR1010 /config/brokers"]),
        ({**CONFIG, "brokers": []}, AUTH, ["DR1014 /config/brokers"]),
        ({**CONFIG, "brokers": ["b1"]}, AUTH, ["DR1017 /config/brokers/0"]),
        ({**CONFIG, "brokers": ["b1:22"]}, AUTH, ["DR1017 /config/brokers/0"]),
        ({**CONFIG, "password": "x"}, AUTH, ["DR1019 /config/password"]),
        (CONFIG, None, ["DR1010 /auth/password"]),
        ({"brokers": ["b1:9093"]}, AUTH, ["DR1010 /config/user"]),
        ({**CONFIG, "security": "SSL"}, None, ["DR1009 /config/user"]),
        ({"brokers": ["b1:9093"], "security": "SSL"}, AUTH, ["DR1009 /auth/password"]),
        (
            {"brokers": ["b1:9092"], "security": "PLAINTEXT", "mechanism": "PLAIN"},
            None,
            ["DR1009 /config/mechanism", "DR1080 /config/security"],
        ),
        ({**CONFIG, "security": "SASL_PLAINTEXT"}, AUTH, ["DR1080 /config/security"]),
        (CONFIG, {"token": "env:KAFKA"}, ["DR1004 /auth/token", "DR1010 /auth/password"]),
        ({**CONFIG, "registry": {}}, AUTH, ["DR1010 /config/registry/url"]),
        (
            {**CONFIG, "registry": {"url": "https://r.example.com:22"}},
            AUTH,
            ["DR1017 /config/registry/url"],
        ),
        (
            {**CONFIG, "registry": {"url": "https://u:p@r.example.com"}},
            AUTH,
            ["DR1017 /config/registry/url"],
        ),
        ({**CONFIG, "registry": LOGIN}, AUTH, ["DR1010 /auth/registry_password"]),
        (
            {**CONFIG, "registry": {**LOGIN, "password": "x"}},
            REGISTRY_AUTH,
            ["DR1019 /config/registry/password"],
        ),
        (CONFIG, REGISTRY_AUTH, ["DR1009 /auth/registry_password"]),
    ],
)
def test_faults_of_a_connection(config: object, auth: object, faults: list[str]) -> None:
    assert faults_of(connection(config, auth)) == faults


def test_a_loopback_and_an_accepted_transport_need_no_encryption() -> None:
    plain = {"security": "PLAINTEXT"}
    assert not faults_of(connection({"brokers": ["localhost:9092", "[::1]:9092"], **plain}))
    accepted = {"transport": "unencrypted-accepted", **plain}
    assert not faults_of(connection({"brokers": ["b1:9092"], **accepted}))


@pytest.mark.parametrize(
    ("config", "auth"),
    [
        ({"brokers": ["localhost:9092"], "security": "PLAINTEXT"}, None),
        ({"brokers": ["b1:9093"], "security": "SSL"}, None),
        (CONFIG, AUTH),
        ({**CONFIG, "registry": LOGIN}, REGISTRY_AUTH),
    ],
)
def test_a_connection_is_accepted_as_it_is_stored(config: object, auth: object) -> None:
    declared, read = connection(config, auth).require()
    written = declared.spec["config"]
    assert isinstance(written, dict)
    assert ("mechanism" in written) == (auth is not None)
    again, same = connection(written, auth).require()
    assert (same, again.spec_hash) == (read, declared.spec_hash)


@pytest.mark.parametrize("broker", ["169.254.169.254:9093", "b1:22", "b1"])
def test_the_fix_of_a_broker_is_about_brokers(broker: str) -> None:
    (fault,) = connection({**CONFIG, "brokers": [broker]}, AUTH).faults
    assert fault.fix.startswith("write `host:port` of a broker")


@pytest.mark.parametrize(
    ("security", "user", "better"),
    [("PLAINTEXT", {}, "SSL"), ("SASL_PLAINTEXT", {"user": "reader"}, "SASL_SSL")],
)
def test_the_fix_of_an_open_transport_is_about_security(
    security: str, user: dict[str, str], better: str
) -> None:
    config = {"brokers": ["b1:9092"], "security": security, **user}
    (fault,) = connection(config, AUTH if user else None).faults
    assert fault.fix == f"write `security: {better}`, with `ca` for a private authority"


def job(**fields: object) -> Decoded:
    topic = {"name": "a", "kind": "kafka", "connection": "k", "topic": "orders", **fields}
    other = {"name": "b", "kind": "csv", "connection": "c", "path": "b.csv"}
    return decode_json(
        {
            "apiVersion": "datarecs.io/v1",
            "kind": "ReconciliationJob",
            "metadata": {"name": "j"},
            "spec": {
                "sources": [topic, other],
                "stages": [{"name": "n", "type": "counts"}],
            },
        }
    )


def test_a_topic_is_read_whole_by_default() -> None:
    whole = {"from": "earliest", "to": "latest"}
    _, read = job(options={"decode": "json"}, snapshot=whole).require()
    assert isinstance(read, ReconciliationJob)
    source = read.sources[0]
    assert (source.topic, source.options) == ("orders", {})
    assert (source.snapshot.start, source.snapshot.end) == (EARLIEST, LATEST)


def test_bounds_are_written_as_they_are_read() -> None:
    snapshot = {
        "from": {"timestamp": "2026-01-31T12:00:00Z"},
        "to": {"offsets": {"0": 7, "12": 2**53 + 1}},
    }
    _, read = job(snapshot=snapshot).require()
    assert isinstance(read, ReconciliationJob)
    pinned = read.sources[0].snapshot
    assert pinned.start == TopicBound(timestamp="2026-01-31T12:00:00Z")
    assert pinned.end == TopicBound(offsets={"0": 7, "12": 2**53 + 1})
    written = json.loads(json.dumps(canonical_spec(Kind.RECONCILIATION_JOB, read)))
    assert written["sources"][0]["snapshot"] == {
        "from": {"timestamp": "2026-01-31T12:00:00Z"},
        "to": {"offsets": {"0": 7, "12": str(2**53 + 1)}},
    }
    assert job_of("j", written) == read


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"snapshot": {"from": "latest"}}, "DR1012 /sources/0/snapshot/from"),
        ({"snapshot": {"to": {}}}, "DR1010 /sources/0/snapshot/to/timestamp"),
        (
            {"snapshot": {"to": {"timestamp": "2026-01-31T12:00:00Z", "offsets": {"0": 1}}}},
            "DR1005 /sources/0/snapshot/to/timestamp",
        ),
        ({"snapshot": {"to": {"offsets": {"x": 1}}}}, "DR1034 /sources/0/snapshot/to/offsets/x"),
        ({"snapshot": {"as_of": "x"}}, "DR1006 /sources/0/snapshot/as_of"),
        ({"topic": "a b"}, "DR1013 /sources/0/topic"),
        ({"topic": ".."}, "DR1013 /sources/0/topic"),
        ({"relation": "x"}, "DR1006 /sources/0/relation"),
        ({"options": {"decode": "protobuf"}}, "DR1012 /sources/0/options/decode"),
        ({"options": {"decode": "avro", "infer": "strict"}}, "DR1009 /sources/0/options/infer"),
        ({"options": {"decode": "bytes", "infer": "strict"}}, "DR1009 /sources/0/options/infer"),
        ({"options": {"delimiter": ","}}, "DR1006 /sources/0/options/delimiter"),
        ({"partition": "id"}, "DR1006 /sources/0/partition"),
    ],
)
def test_faults_of_a_topic(fields: dict[str, object], fault: str) -> None:
    assert fault in faults_of(job(**fields))


@pytest.mark.parametrize(
    "topic",
    [
        "__consumer_offsets",
        "datarecs.run.platform",
        "datarecs.sink.0198a1b2-0000-7000-8000-000000000001",
        "datarecs.sink.0198a1b2-0000-7000-8000-000000000001.dlq",
    ],
)
def test_a_source_reads_topics_of_records_alone_as_a_sink_does(topic: str) -> None:
    """Tenants share clusters, so a name there does not say that its records are of this tenant."""
    (fault,) = job(topic=topic).faults
    sink = {"connection": "k", "topics": [topic], "table": "lake:a.b"}
    faults = decode_json(
        {
            "apiVersion": "datarecs.io/v1",
            "kind": "SinkTable",
            "metadata": {"name": "s"},
            "spec": sink,
        }
    ).faults
    (same,) = (one for one in faults if one.pointer == "/spec/topics/0")
    assert (fault.code, fault.message, fault.fix) == (same.code, same.message, same.fix)
