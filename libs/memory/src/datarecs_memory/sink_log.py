"""`SinkLog` over the cluster in process: the twin of the sink's log on Kafka.

Every task of a sink gets one with the same cluster and names; a task that died is a log that is
not used any more, plus `MemoryCluster.remove_member`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from datarecs_application.ports.messaging import LogRecord
from datarecs_application.ports.outside import Ids
from datarecs_application.ports.sinking import (
    DeadLetter,
    MemberStamp,
    Polled,
    VoteRefusedError,
)
from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.checkpoint import Lineage
from datarecs_core.sink.control import Envelope, Outgoing, SourcePartition
from datarecs_memory.sink_cluster import (
    WHERE,
    DamagedMessage,
    Interruption,
    MemoryCluster,
    Transaction,
)

MOST_MESSAGES = 500
"""Of one poll of the control topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySinkLog:
    """The cluster of one sink."""

    cluster: MemoryCluster
    ids: Ids
    name: str
    """`datarecs.sink.<uid>`: of the group and of the control topic."""
    topics: tuple[str, ...]

    def prepare(self) -> Lineage:
        self.cluster.require_up()
        for topic in self.topics:
            if not self.cluster.partitions(topic) or topic in self.cluster.refused_topics:
                message = f"the topic {topic} does not exist or may not be read"
                raise SinkError(SinkCode.TOPIC_REFUSED, message)
        self.cluster.create_topic(self.name)
        topic_id = self.cluster.topic_id(self.name) or ""
        return Lineage(cluster_id=self.cluster.cluster_id, topic_id=topic_id, group=self.name)

    def partitions(self) -> frozenset[SourcePartition]:
        self.cluster.require_up()
        return frozenset(self.cluster.partitions(*self.topics))

    def topic_ids(self) -> Mapping[str, str]:
        self.cluster.require_up()
        ids = {topic: self.cluster.topic_id(topic) for topic in self.topics}
        missing = [topic for topic, topic_id in ids.items() if topic_id is None]
        if missing:
            raise SinkError(SinkCode.TOPIC_REFUSED, f"the topic {missing[0]} does not exist")
        return {topic: topic_id for topic, topic_id in ids.items() if topic_id}

    def member(self) -> "MemoryMember":
        return MemoryMember(self)

    def reader(self, offset: int | None) -> "MemoryReader":
        return MemoryReader(self, offset)

    def producer(self, role: str) -> "MemorySinkProducer":
        return MemorySinkProducer(self, role)

    def remove_topics(self) -> None:
        self.cluster.require_up()
        letters = f"{self.name}.dlq"
        if all(self._is_empty(partition) for partition in self.cluster.partitions(letters)):
            self.cluster.delete_topic(letters)
        self.cluster.delete_topic(self.name)

    def _is_empty(self, partition: SourcePartition) -> bool:
        """Also without a record of a transaction that is open."""
        return self.cluster.bounds(partition)[0] == self.cluster.next_offset(partition)


class MemoryMember:
    def __init__(self, log: MemorySinkLog) -> None:
        self._log, self._cluster = log, log.cluster
        self._stamp = MemberStamp(generation=-1, member_id="", assignment=frozenset())
        self._positions: dict[SourcePartition, int] = {}
        self._paused: frozenset[SourcePartition] = frozenset()

    def poll(self, timeout: timedelta, *, max_records: int) -> Polled:
        with self._cluster.lock:
            self._join()
            records = self._read(max_records)
        if not records:
            self._cluster.clock.wait(timeout)
        return Polled(stamp=self._stamp, records=records)

    def _join(self) -> None:
        log = self._log
        member_id = self._cluster.join(log.name, self._stamp.member_id, log.topics)
        self._stamp = self._cluster.stamp(log.name, member_id)
        for lost in self._positions.keys() - self._stamp.assignment:
            del self._positions[lost]
        for gained in sorted(self._stamp.assignment - self._positions.keys()):
            begin, _ = self._cluster.bounds(gained)
            offset = self.committed(gained)
            self._positions[gained] = begin if offset is None else offset

    def _read(self, limit: int) -> dict[SourcePartition, list[LogRecord]]:
        records: dict[SourcePartition, list[LogRecord]] = {}
        for partition in sorted(self._positions.keys() - self._paused):
            position = self._positions[partition]
            begin, _ = self._cluster.bounds(partition)
            if position < begin:
                message = (
                    f"{partition.topic} {partition.number}: records {position} to {begin - 1} "
                    "were removed before they were read"
                )
                raise SinkError(SinkCode.SOURCE_GAP, message)
            batch, self._positions[partition] = self._cluster.read(partition, position, limit)
            if batch:
                records[partition] = [one for one in batch if isinstance(one, LogRecord)]
                limit -= len(batch)
        return records

    def stamp(self) -> MemberStamp:
        return self._stamp

    def committed(self, partition: SourcePartition) -> int | None:
        self._cluster.require_up()
        return self._cluster.group(self._log.name).offsets.get(partition)

    def bounds(self, partition: SourcePartition) -> tuple[int, int]:
        return self._cluster.bounds(partition)

    def position(self, partition: SourcePartition) -> int:
        return self._positions[partition]

    def offset_at(self, partition: SourcePartition, time: datetime) -> int:
        begin, end = self._cluster.bounds(partition)
        earliest = int(time.timestamp() * 1000)
        for record in self._cluster.read(partition, begin, end)[0]:
            if isinstance(record, LogRecord) and record.timestamp_ms >= earliest:
                return record.offset
        return end

    def seek(self, partition: SourcePartition, offset: int) -> None:
        if partition not in self._positions:
            raise ValueError(f"{partition} is not assigned")
        self._positions[partition] = offset

    def pause(self, partitions: frozenset[SourcePartition]) -> None:
        self._paused = partitions

    def close(self) -> None:
        self._cluster.remove_member(self._log.name, self._stamp.member_id)
        self._positions.clear()


class MemorySinkProducer:
    def __init__(self, log: MemorySinkLog, role: str) -> None:
        self._log, self._cluster = log, log.cluster
        self._sender = log.ids.new()
        self._id = f"{log.name}.{role}"
        self._epoch = self._cluster.init_producer(self._id)

    def vote(
        self,
        messages: Sequence[Outgoing],
        offsets: Mapping[SourcePartition, int],
        stamp: MemberStamp,
        dead_letters: Sequence[DeadLetter],
    ) -> None:
        transaction = self._begin(messages)
        self._write_dead_letters(dead_letters, transaction)
        if not self._cluster.is_current(self._log.name, stamp):
            self._cluster.end(transaction, commit=False)
            raise VoteRefusedError(f"generation {stamp.generation} of {stamp.member_id} is old")
        transaction.group, transaction.offsets = self._log.name, dict(offsets)
        self._end(transaction)

    def announce(self, messages: Sequence[Outgoing]) -> None:
        self._end(self._begin(messages))

    def _begin(self, messages: Sequence[Outgoing]) -> Transaction:
        """A transaction with the messages."""
        cluster, topic = self._cluster, self._log.name
        cluster.require_up()
        if cluster.interruptions[:1] == [Interruption.NOTHING_SENT]:
            cluster.interruptions.pop(0)
            raise LogUnavailableError(where=WHERE, cause="a test simulates an outage")
        if not cluster.is_newest(self._id, self._epoch):
            raise VoteRefusedError(f"a newer producer has replaced {self._id}")
        transaction = cluster.begin()
        for outgoing in messages:
            envelope = Envelope(
                offset=cluster.next_offset(SourcePartition(topic, 0)),
                sender=self._sender,
                sent_at=cluster.clock.now(),
                headers=outgoing.headers,
                message=outgoing.message,
            )
            cluster.append_control(topic, envelope, transaction)
        return transaction

    def _write_dead_letters(self, letters: Sequence[DeadLetter], transaction: Transaction) -> None:
        topic = f"{self._log.name}.dlq"
        if letters:
            self._cluster.create_topic(topic)
        for letter in letters:
            record = letter.record
            facts = {
                "datarecs-dlq-topic": record.topic,
                "datarecs-dlq-partition": str(record.partition),
                "datarecs-dlq-offset": str(record.offset),
                "datarecs-dlq-path": letter.path,
                "datarecs-dlq-reason": letter.reason,
            }
            self._cluster.append(
                topic,
                record.value,
                key=record.key,
                headers=(*record.headers, *((name, text.encode()) for name, text in facts.items())),
                transaction=transaction,
            )

    def _end(self, transaction: Transaction) -> None:
        cluster = self._cluster
        match cluster.interruptions.pop(0) if cluster.interruptions else None:
            case Interruption.LEFT_OPEN:
                cluster.leave_open(self._id, transaction)
                raise LogUnavailableError(where=WHERE, cause="the transaction was left open")
            case Interruption.ABORTED:
                cluster.end(transaction, commit=False)
                raise VoteRefusedError("the transaction was aborted")
            case Interruption.ANSWER_LOST:
                cluster.end(transaction, commit=True)
                raise LogUnavailableError(where=WHERE, cause="the answer was lost")
        cluster.end(transaction, commit=True)

    def close(self) -> None:
        """Nothing is open between two calls."""


class MemoryReader:
    def __init__(self, log: MemorySinkLog, offset: int | None) -> None:
        self._log, self._cluster = log, log.cluster
        self._topic_id = self._cluster.topic_id(log.name)
        self._partition = SourcePartition(log.name, 0)
        self._position = self.end() if offset is None else offset

    def poll(self, timeout: timedelta) -> Sequence[Envelope]:
        begin = self.begin()
        if self._position < begin:
            message = f"control messages {self._position} to {begin - 1} were removed"
            raise SinkError(SinkCode.CONTROL_GAP, message)
        batch, position = self._cluster.read(self._partition, self._position, MOST_MESSAGES)
        envelopes = []
        for entry in batch:
            if isinstance(entry, DamagedMessage) and entry.group == self._log.name:
                text = f"message {entry.offset} of {self._log.name} cannot be read"
                raise SinkError(SinkCode.CONTROL_DAMAGED, text)
            if isinstance(entry, Envelope):
                envelopes.append(entry)
        self._position = position
        if not envelopes:
            self._cluster.clock.wait(timeout)
        return envelopes

    def position(self) -> int:
        return self._position

    def begin(self) -> int:
        return self._bounds()[0]

    def end(self) -> int:
        return self._bounds()[1]

    def _bounds(self) -> tuple[int, int]:
        if self._cluster.topic_id(self._log.name) != self._topic_id:
            raise LogUnavailableError(where=WHERE, cause=f"{self._log.name} was removed")
        return self._cluster.bounds(self._partition)

    def close(self) -> None:
        """Nothing is open."""
