"""`SinkLog` on a Kafka cluster: topics, group, control topic and transactions of one sink."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.errors import (
    KafkaError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)

from datarecs_application.ports.outside import Clock, Ids
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.checkpoint import Lineage
from datarecs_core.sink.control import SourcePartition
from datarecs_kafka.access import connecting
from datarecs_kafka.cluster_access import ClusterAccess
from datarecs_kafka.control_reader import KafkaControlReader
from datarecs_kafka.sink_failures import translated
from datarecs_kafka.sink_names import SinkNames
from datarecs_kafka.sink_producer import MIB, MOST_LETTER_BYTES, KafkaSinkProducer, Surroundings
from datarecs_kafka.source_member import KafkaSourceMember
from datarecs_kafka.watchdog import Watchdog

CONTROL_RETENTION = timedelta(days=7)
LETTER_RETENTION = timedelta(days=30)
REQUEST_TIMEOUT_MS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSinkLog:
    """The cluster of one sink."""

    access: ClusterAccess
    uid: UUID
    """Of the SinkTable."""
    topics: tuple[str, ...]
    has_dead_letters: bool
    clock: Clock
    ids: Ids
    watchdog: Watchdog = field(default_factory=Watchdog)
    session_ms: int | None = None
    """Until a member that stopped is removed from the group; None: 10 s."""

    def prepare(self) -> Lineage:
        names = self._names
        with self._administration() as admin:
            self._described(admin, self.topics)
            wanted = {names.control: _settings(CONTROL_RETENTION, MIB)}
            if self.has_dead_letters:
                wanted[names.dead_letters] = _settings(LETTER_RETENTION, MOST_LETTER_BYTES + MIB)
            for name, settings in wanted.items():
                _create(admin, name, settings)
            (control,) = self._described(admin, (names.control,))
            if len(control["partitions"]) != 1:
                count = len(control["partitions"])
                text = f"the control topic {names.control} has {count} partitions, and not one"
                raise SinkError(SinkCode.TOPIC_REFUSED, text)
            cluster = admin.describe_cluster()
        return Lineage(
            cluster_id=str(cluster["cluster_id"]),
            topic_id=str(control["topic_id"]),
            group=names.group,
        )

    def partitions(self) -> frozenset[SourcePartition]:
        with self._administration() as admin:
            described = self._described(admin, self.topics)
        return frozenset(
            SourcePartition(topic["name"], partition["partition_index"])
            for topic in described
            for partition in topic["partitions"]
        )

    def topic_ids(self) -> Mapping[str, str]:
        with self._administration() as admin:
            described = self._described(admin, self.topics)
        return {
            topic["name"]: str(topic["topic_id"])
            for topic in described
            if topic.get("topic_id") not in (None, UUID(int=0))
        }

    def member(self) -> KafkaSourceMember:
        return KafkaSourceMember(self._surroundings, self.topics, session_ms=self.session_ms)

    def reader(self, offset: int | None) -> KafkaControlReader:
        return KafkaControlReader(self._surroundings, offset)

    def producer(self, role: str) -> KafkaSinkProducer:
        return KafkaSinkProducer(self._surroundings, role)

    def remove_topics(self) -> None:
        with self._administration() as admin:
            if _is_empty(admin, self._names.dead_letters):
                _delete(admin, self._names.dead_letters)
            _delete(admin, self._names.control)

    @property
    def _names(self) -> SinkNames:
        return SinkNames(self.uid)

    @property
    def _surroundings(self) -> Surroundings:
        return Surroundings(
            access=self.access,
            names=self._names,
            clock=self.clock,
            ids=self.ids,
            watchdog=self.watchdog,
        )

    @contextmanager
    def _administration(self) -> Iterator[KafkaAdminClient]:
        settings = self.access.settings()
        with connecting(self.access) as network:
            admin = KafkaAdminClient(
                kafka_client=network, request_timeout_ms=REQUEST_TIMEOUT_MS, **settings
            )
        try:
            yield admin
        except KafkaError as cause:
            raise translated(cause, self.access) from cause
        finally:
            admin.close()

    def _described(
        self, admin: KafkaAdminClient, names: tuple[str, ...]
    ) -> list[Mapping[str, Any]]:
        """Raises SinkError TOPIC_REFUSED for a topic that does not exist or may not be seen."""
        described: list[Mapping[str, Any]] = admin.describe_topics(list(names))
        for topic in described:
            error = for_code(topic.get("error_code", 0))
            if issubclass(error, UnknownTopicOrPartitionError):
                text = f"the topic {topic['name']} does not exist"
                raise SinkError(SinkCode.TOPIC_REFUSED, text)
            if topic.get("error_code", 0) != 0:
                text = f"the login {self.access.username} has no access to the topic"
                raise SinkError(SinkCode.TOPIC_REFUSED, f"{text} {topic['name']}: {error.__name__}")
        return described


def _settings(retention: timedelta, most_bytes: int) -> dict[str, str]:
    return {
        "cleanup.policy": "delete",
        "retention.ms": str(int(retention.total_seconds() * 1000)),
        "max.message.bytes": str(most_bytes),
    }


def _is_empty(admin: KafkaAdminClient, name: str) -> bool:
    """Whether the topic is there and has no record, also none of a transaction that is open."""
    (described,) = admin.describe_topics([name])
    if described["error_code"] != 0:
        return False
    places = [TopicPartition(name, one["partition_index"]) for one in described["partitions"]]
    begins = admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.EARLIEST))
    ends = admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
    return all(begins[place].offset == ends[place].offset for place in places)


def _delete(admin: KafkaAdminClient, name: str) -> None:
    """Nothing happens if it is gone."""
    with suppress(UnknownTopicOrPartitionError):
        admin.delete_topics([name])


def _create(admin: KafkaAdminClient, name: str, settings: Mapping[str, str]) -> None:
    """Replicated as the cluster does by default. Nothing happens if the topic is there."""
    (present,) = admin.describe_topics([name])
    if present["error_code"] == 0:
        return
    topic = {"num_partitions": 1, "replication_factor": -1, "configs": dict(settings)}
    try:
        admin.create_topics({name: topic}, wait_for_metadata=True)
    except TopicAlreadyExistsError:
        admin.wait_for_topics([name])
