"""Topics in memory with the rows of the tiny sources, for the real connector of Kafka."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from datarecs_application.ports.comparing import Connector
from datarecs_connectors.kafka.cluster import Cluster
from datarecs_connectors.kafka.connector import KafkaConnector
from datarecs_connectors.kafka.options import TopicOptions
from datarecs_connectors.querying import QueriedFiles
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.jobs.definition import Source
from datarecs_core.resources.connection import Connection, KafkaConfig
from datarecs_kafka.topic_reader import TopicIdentity, TopicRecord

FIRST_MS = 1_767_225_600_000
"""2026-01-01; each record is a day later than the one before."""
_DAY_MS = 86_400_000
FILES: Mapping[str, str] = {
    "orders": "one.json",
    "other": "other/one.json",
    "big": "big.json",
    "schema": "schema.json",
    "second/orders": "more/one.json",
}
"""By topic, those of the second cluster with a prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyCluster(Cluster):
    """Two partitions a topic; the second one is empty. The last record is a tombstone."""

    folder: Path

    def check_addresses(self) -> str:
        return "in memory"

    def topics(self) -> tuple[str, ...]:
        return tuple(FILES)

    def identity(self, topic: str) -> TopicIdentity:
        return TopicIdentity(cluster_id="tiny", topic_id=topic, partitions=(0, 1))

    def earliest(self, topic: str, partitions: Sequence[int]) -> Mapping[int, int]:
        del topic
        return dict.fromkeys(partitions, 0)

    def ends(self, topic: str, partitions: Sequence[int]) -> Mapping[int, int]:
        return {partition: len(self._all(topic, partition)) for partition in partitions}

    def at_time(self, topic: str, partitions: Sequence[int], moment_ms: int) -> Mapping[int, int]:
        return {
            partition: later[0].offset
            for partition in partitions
            if (later := [r for r in self._all(topic, partition) if r.timestamp_ms >= moment_ms])
        }

    def records(
        self, topic: str, partition: int, bounds: tuple[int, int], check: Callable[[], None]
    ) -> Iterator[Sequence[TopicRecord]]:
        check()
        yield self._all(topic, partition)[slice(*bounds)]

    def _all(self, topic: str, partition: int) -> list[TopicRecord]:
        if partition:
            return []
        is_second = self.config.brokers[0].startswith("localhost")
        name = FILES.get(f"second/{topic}" if is_second else topic, "one.json")
        lines = (self.folder / name).read_bytes().splitlines()
        made = [
            TopicRecord(0, at, FIRST_MS + at * _DAY_MS, _key(line), line)
            for at, line in enumerate(lines)
        ]
        last = TopicRecord(0, len(made), FIRST_MS + len(made) * _DAY_MS, b"gone", None)
        return [*made, last]


def _key(line: bytes) -> bytes:
    return str(json.loads(line)["id"]).encode()


def open_tiny_topic(
    source: Source, connection: Connection | None, folder: Path, now: Callable[[], datetime]
) -> Connector:
    """The connector of a topic of these."""
    assert connection is not None
    assert isinstance(connection.config, KafkaConfig)
    cluster = TinyCluster(
        source=source.name,
        config=connection.config,
        password="",
        policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL),
        folder=folder,
    )
    options = TopicOptions.model_validate(dict(source.options))
    return QueriedFiles(KafkaConnector(cluster=cluster, options=options, now=now))
