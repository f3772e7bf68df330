"""The load of both sinks: one topic of JSON records, and an equal empty table for each side.

A module of its own, because neither side may get other records, another schema or another catalog.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from kafka.admin import KafkaAdminClient
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestamptzType

from datarecs_kafka.access import connecting
from datarecs_postgres.urls import conninfo
from datarecs_testing.stack import KafkaBroker, PostgresServer

TOPIC, PARTITIONS, TASKS = "orders", 4, 2
INTERVAL_S, TIMEOUT_S = 10, 10
RECORD_BYTES = 200
CATALOG, NAMESPACE = "iceberg", "bench"
FLUSH_LIMIT_S = 300
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "account", StringType(), required=False),
    NestedField(3, "kind", StringType(), required=False),
    NestedField(4, "amount", DoubleType(), required=False),
    NestedField(5, "at", TimestamptzType(), required=False),
    NestedField(6, "note", StringType(), required=False),
)
_KINDS = ("card", "transfer", "cash", "fee")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The running broker, the catalog's database, and what lies in the topic."""

    broker: KafkaBroker
    postgres: PostgresServer
    database: str = field(repr=False)
    """URL of the catalog's database with its superuser, in SQLAlchemy's form."""
    folder: Path
    records: int

    @property
    def warehouse(self) -> str:
        return (self.folder / "warehouse").as_uri()

    @property
    def conninfo(self) -> str:
        return conninfo(self.database)

    def catalog(self) -> Catalog:
        return load_catalog(
            CATALOG, type="sql", uri=self.database, warehouse=self.warehouse, pool_pre_ping="true"
        )

    def table(self, name: str) -> Table:
        """An empty table in format 2, with Zstandard as both sides write by default."""
        return self.catalog().create_table(
            f"{NAMESPACE}.{name}", SCHEMA, properties={"format-version": "2"}
        )


def prepare(broker: KafkaBroker, postgres: PostgresServer, folder: Path, records: int) -> Load:
    """Create topic and namespace, and write every record; the topic is the same for both sides."""
    (folder / "warehouse").mkdir()
    load = Load(
        broker=broker,
        postgres=postgres,
        database=postgres.fresh_database(),
        folder=folder,
        records=records,
    )
    create_topic(broker, TOPIC, PARTITIONS)
    load.catalog().create_namespace(NAMESPACE)
    _warm_broker(broker)
    _produce(load)
    return load


def create_topic(broker: KafkaBroker, name: str, partitions: int) -> None:
    access = broker.access
    with connecting(access), KafkaAdminClient(**access.settings()) as admin:
        topic = {"num_partitions": partitions, "replication_factor": 1}
        admin.create_topics({name: topic}, wait_for_metadata=True)


def record(number: int) -> bytes:
    """Record `number` as JSON of RECORD_BYTES bytes, with times of one second apart."""
    body = {
        "id": number,
        "account": f"account-{number % 10_000:05d}",
        "kind": _KINDS[number % len(_KINDS)],
        "amount": number % 100_000 / 100,
        "at": f"2026-03-{number // 86_400 % 28 + 1:02d}T"
        f"{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}+00:00",
        "note": "",
    }
    text = json.dumps(body)
    body["note"] = f"{number * 2_654_435_761 % 2**64:016x}" * 8
    note = str(body["note"])[: RECORD_BYTES - len(text)]
    return f'{text[:-2]}{note}"}}'.encode()


def _login(broker: KafkaBroker) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": broker.username,
        "sasl.password": broker.password,
        "log_level": 3,
    }


def _warm_broker(broker: KafkaBroker) -> None:
    """One transaction with offsets: the broker makes its topics for both before the first side."""
    create_topic(broker, "warm", 1)
    consumer = Consumer(_login(broker) | {"group.id": "warm", "enable.auto.commit": False})
    producer = Producer(_login(broker) | {"transactional.id": "warm"})
    consumer.subscribe(["warm"])
    while not consumer.assignment():
        consumer.poll(0.2)
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("warm", b"")
    offsets = [TopicPartition("warm", 0, 0)]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
    producer.commit_transaction()
    consumer.close()


def _produce(load: Load) -> None:
    """With librdkafka, since the time of loading is no part of a figure."""
    producer = Producer(
        _login(load.broker)
        | {"linger.ms": 50, "batch.size": 256 * 1024, "queue.buffering.max.messages": 500_000}
    )
    for number in range(load.records):
        while True:
            try:
                producer.produce(TOPIC, record(number), partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    if producer.flush(FLUSH_LIMIT_S):
        raise RuntimeError(f"the broker did not take every record in {FLUSH_LIMIT_S} s")
