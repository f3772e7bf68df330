"""The broker's data for the ledger: every record once, by position, and the progress of groups.

Read with the client library without a group, so that the reader has no membership, and reading
continues at its position after a broker was killed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient

from datarecs_application.ports.messaging import LogRecord
from datarecs_core.values import TenantId
from datarecs_events.catalogue import DEAD_LETTER_TOPICS, TOPICS
from datarecs_kafka.access import connecting
from datarecs_kafka.dead_letter import letter_of
from datarecs_testing.stack import KafkaBroker, topics_of

EVENT_TOPICS = tuple(str(topic.name) for topic in TOPICS)
LETTER_TOPICS = tuple(str(topic.name) for topic in DEAD_LETTER_TOPICS)
_PATIENCE_MS = 10_000


@dataclass(slots=True)
class Wire:
    """Every record of the tenant and every dead letter since `start`."""

    broker: KafkaBroker
    tenant: TenantId
    groups: tuple[str, ...]
    """Consumers with observed progress."""
    poison: set[str] = field(default_factory=set)
    """Ids of records that the test itself wrote."""
    _records: dict[tuple[str, int, int], LogRecord] = field(default_factory=dict)
    _next: dict[TopicPartition, int] = field(default_factory=dict)

    def start(self) -> None:
        """Ignore the records that are on the topics now."""
        with self._reader() as reader:
            self._next = dict(reader.end_offsets(list(self._next), timeout_ms=_PATIENCE_MS))

    def catch_up(self) -> int:
        """Read to the current ends; return the number of records its groups have not read."""
        with self._reader() as reader:
            ends = reader.end_offsets(list(self._next), timeout_ms=_PATIENCE_MS)
            for where, offset in self._next.items():
                reader.seek(where, offset)
            while any(self._next[where] < end for where, end in ends.items()):
                for where, records in reader.poll(timeout_ms=500, max_records=1000).items():
                    for record in records:
                        self._store_record(record)
                    self._next[where] = records[-1].offset + 1
        return self._lag(ends)

    def events(self) -> Iterator[LogRecord]:
        """Of our tenant, in the order of each partition."""
        for at in sorted(self._records):
            record = self._records[at]
            if record.topic in EVENT_TOPICS and self._is_ours(record):
                yield record

    def letters(self) -> Iterator[tuple[str, LogRecord]]:
        """(group, original record) of dead letters of this tenant or of the test's poison."""
        for record in self._records.values():
            if record.topic in LETTER_TOPICS:
                original = letter_of(record).record
                if self._is_ours(original) or header(original, "ce_id") in self.poison:
                    yield record.topic.removesuffix(".dlq"), original

    def _is_ours(self, record: LogRecord) -> bool:
        ours = header(record, "ce_tenantid") == str(self.tenant)
        return ours and header(record, "ce_id") not in self.poison

    def _lag(self, ends: Mapping[TopicPartition, int]) -> int:
        topics_by_group = {group: topics_of(group) for group in self.groups}
        with connecting(self.broker.access), self._admin() as admin:
            offsets = admin.list_group_offsets(list(self.groups))
        behind = 0
        for group, topics in topics_by_group.items():
            for where, end in ends.items():
                if where.topic in topics:
                    position = offsets[group].get(where)
                    behind += end - max(position.offset if position else 0, 0)
        return behind

    def _reader(self) -> KafkaConsumer:
        reader = KafkaConsumer(
            group_id=None,
            enable_auto_commit=False,
            isolation_level="read_committed",
            **self.broker.access.settings(),
        )
        if not self._next:
            for topic in (*EVENT_TOPICS, *LETTER_TOPICS):
                for number in reader.partitions_for_topic(topic) or ():
                    self._next[TopicPartition(topic, number)] = 0
        reader.assign(list(self._next))
        return reader

    def _admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(**self.broker.access.settings())

    def _store_record(self, record: Any) -> None:  # noqa: ANN401  the library has few types
        entry = LogRecord(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            timestamp_ms=record.timestamp,
            key=record.key,
            value=record.value,
            headers=tuple(record.headers),
        )
        self._records[entry.topic, entry.partition, entry.offset] = entry


def header(record: LogRecord, name: str) -> str:
    """Empty where there is none."""
    value = dict(record.headers).get(name)
    return "" if value is None else value.decode(errors="replace")
