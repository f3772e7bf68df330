"""The declarations of the demo `iceberg-kafka`: two connections and the sink, and its events."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SINK = "demo-events"
CLUSTER_CONNECTION, LAKE_CONNECTION = "demo-cluster", "demo-lake"
LOGIN = "demo-sink"
TOPIC, PARTITIONS = "demo.events", 4
NAMESPACE, TABLE = "demo", "events"
TASKS = 2
PLACE = ("_kafka_topic", "_kafka_partition", "_kafka_offset")
CATALOG = "lake"
LAKE_FOLDER = "lake"
SINK_FILE, PROOF_FILE = "iceberg-kafka.yaml", "iceberg-kafka.proof.yaml"
_FIRST_ACCOUNT, _ACCOUNTS, _LARGEST_CENTS = 4001, 997, 150_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPlaces:
    """Addresses and files of this machine."""

    bootstrap: str
    """`host:port` of the local broker."""
    security: str
    password_file: Path
    """Password of the sink's login, in the tenant's folder of secrets."""
    catalog_file: Path


def sink_text(places: SinkPlaces) -> str:
    """Connections and sink as one YAML file; every value is quoted as JSON."""
    quoted = json.dumps
    return f"""\
# Every event of the topic {TOPIC} becomes one row of the table {NAMESPACE}.{TABLE}.
# `datarecs demo --template iceberg-kafka` writes this file each time.
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: {CLUSTER_CONNECTION}}}
spec:
  type: kafka
  config:
    brokers: [{quoted(places.bootstrap)}]
    security: {places.security}
    user: {LOGIN}
  auth: {{password: {quoted(f"file:{places.password_file}")}}}
---
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: {LAKE_CONNECTION}}}
spec:
  type: iceberg
  config:
    catalog: {{type: sql, name: {CATALOG}, sqlite: {quoted(str(places.catalog_file))}}}
---
apiVersion: datarecs.io/v1
kind: SinkTable
metadata: {{name: {SINK}}}
spec:
  connection: {CLUSTER_CONNECTION}
  topics: [{TOPIC}]
  table: {{catalog: {LAKE_CONNECTION}, namespace: [{NAMESPACE}], name: {TABLE}}}
  auto_create: true
  tasks: {TASKS}
  commit: {{interval: PT2S, timeout: PT2S}}
"""


def events(numbers: range) -> Iterator[bytes]:
    """Payments, each computed from its number, so that every start makes the same ones."""
    for number in numbers:
        value = {
            "event_id": number,
            "account": _FIRST_ACCOUNT + number * 31 % _ACCOUNTS,
            "amount_cents": number * 7_919 % _LARGEST_CENTS,
            "currency": "EUR",
        }
        yield json.dumps(value).encode()
