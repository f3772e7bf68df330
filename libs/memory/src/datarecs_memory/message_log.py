"""The event log in process: topics, partitions by murmur2 of the key, groups, offsets.

A twin of the Kafka client that passes the same conformance suite, so that consumers and relay can
be tested without a broker. It can also simulate failures that a test cannot cause on a real broker:
an outage, a refused topic, an unreadable position, records removed by retention.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from threading import RLock
from types import MappingProxyType

from datarecs_application.ports.messaging import (
    Ack,
    LogRecord,
    NotSent,
    Partition,
    SendOutcome,
    Sent,
    Unreadable,
)
from datarecs_application.ports.outside import Clock
from datarecs_core.errors.messaging import LogAccessDeniedError, LogUnavailableError

MAX_RECORD_BYTES = 1_048_576
_WHERE = "memory"


def murmur2(data: bytes) -> int:
    """Kafka's placement hash (seed 0x9747b28c) as an unsigned 32-bit number."""
    mask, mix = 0xFFFFFFFF, 0x5BD1E995
    value = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for start in range(0, whole, 4):
        block = int.from_bytes(data[start : start + 4], "little") * mix & mask
        block = (block ^ block >> 24) * mix & mask
        value = (value * mix & mask) ^ block
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * mix & mask
    value = (value ^ value >> 13) * mix & mask
    return value ^ value >> 15


@dataclass(slots=True)
class _Line:
    """One partition: its records, and the current start of its log."""

    records: list[LogRecord] = field(default_factory=list)
    start: int = 0
    unreadable: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Group:
    members: list["MemoryConsumer"] = field(default_factory=list)
    offsets: dict[Partition, int] = field(default_factory=dict)
    owners: dict[Partition, "MemoryConsumer"] = field(default_factory=dict)


class MessageLog:
    """A whole broker and its `LogClient`. Topics are created explicitly, as on the real one."""

    def __init__(self, clock: Clock, topics: Mapping[str, int] = MappingProxyType({})) -> None:
        self.clock = clock
        self.lock = RLock()
        self._lines: dict[Partition, _Line] = {}
        self._groups: dict[str, _Group] = {}
        self._down = False
        self.polls = 0
        """Number of polls of all members."""
        self._refusals: dict[str, NotSent] = {}
        for name, partitions in topics.items():
            self.create(name, partitions=partitions)

    # --- the port

    def consumer(self, *, group: str, topics: Sequence[str]) -> "MemoryConsumer":
        self.require_up()
        hidden = tuple(topic for topic in topics if not self.partitions(topic))
        if hidden:
            raise LogAccessDeniedError(principal=_WHERE, names=hidden)
        with self.lock:
            joined = self._groups.setdefault(group, _Group())
            member = MemoryConsumer(self, joined, tuple(topics))
            joined.members.append(member)
            self.share_out(joined)
        return member

    def producer(self) -> "MemoryProducer":
        return MemoryProducer(self)

    # --- simulated failures

    def create(self, topic: str, *, partitions: int = 3) -> None:
        for number in range(partitions):
            self._lines.setdefault(Partition(topic, number), _Line())

    def outage(self, *, down: bool) -> None:
        """Every call raises LogUnavailableError until the broker is back."""
        self._down = down

    def refuse(self, topic: str, refusal: NotSent | None) -> None:
        """Answer every send to the topic with this, or accept records again."""
        if refusal is None:
            self._refusals.pop(topic, None)
        else:
            self._refusals[topic] = refusal

    def spoil(self, partition: Partition, offset: int) -> None:
        """Make one position unreadable for the client."""
        self._lines[partition].unreadable.add(offset)

    def expire(self, partition: Partition, *, before: int) -> None:
        """Remove every record below the offset, as retention does."""
        self._lines[partition].start = max(self._lines[partition].start, before)

    def forget_offsets(self, group: str) -> None:
        """Remove a group's offsets, as a broker does for a group without members for a week."""
        self._groups[group].offsets.clear()

    def records(self, topic: str) -> list[LogRecord]:
        """All records that the topic still has, partition by partition."""
        with self.lock:
            return [
                record
                for where in self.partitions(topic)
                for record in self._lines[where].records[self._lines[where].start :]
            ]

    def committed(self, group: str) -> dict[Partition, int]:
        with self.lock:
            return dict(self._groups[group].offsets) if group in self._groups else {}

    def append(
        self,
        topic: str,
        *,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
    ) -> LogRecord:
        """Write a record as any producer may, also with null headers."""
        with self.lock:
            where = self._placed(topic, key, partition)
            line = self._lines[where]
            record = LogRecord(
                topic=topic,
                partition=where.number,
                offset=len(line.records),
                timestamp_ms=int(self.clock.now().timestamp() * 1000),
                key=key,
                value=value,
                headers=tuple(headers),
            )
            line.records.append(record)
            return record

    # --- inside

    def require_up(self) -> None:
        if self._down:
            raise LogUnavailableError(where=_WHERE, cause="a test simulates an outage")

    def refusal(self, topic: str) -> NotSent | None:
        if not self.partitions(topic):
            return NotSent(f"topic {topic} does not exist", permanent=False)
        return self._refusals.get(topic)

    def partitions(self, topic: str) -> list[Partition]:
        return sorted(where for where in self._lines if where.topic == topic)

    def bounds(self, partition: Partition) -> tuple[int, int]:
        line = self._lines[partition]
        return line.start, len(line.records)

    def read(self, partition: Partition, offset: int, limit: int) -> list[LogRecord | Unreadable]:
        line = self._lines[partition]
        return [
            Unreadable(
                topic=partition.topic,
                partition=partition.number,
                offset=record.offset,
                error="spoiled by the test",
            )
            if record.offset in line.unreadable
            else record
            for record in line.records[max(offset, line.start) :][:limit]
        ]

    def share_out(self, group: _Group) -> None:
        """Assign every subscribed partition to one member, as evenly as topics allow."""
        group.owners.clear()
        wanted = sorted({topic for member in group.members for topic in member.topics})
        everything = [where for topic in wanted for where in self.partitions(topic)]
        for dealt, where in enumerate(everything):
            takers = [member for member in group.members if where.topic in member.topics]
            group.owners[where] = takers[dealt % len(takers)]

    def _placed(self, topic: str, key: bytes | None, partition: int | None) -> Partition:
        lines = self.partitions(topic)
        if partition is not None:
            return Partition(topic, partition)
        if key is not None:
            return lines[(murmur2(key) & 0x7FFFFFFF) % len(lines)]
        return min(lines, key=lambda where: len(self._lines[where].records))


class MemoryConsumer:
    """One member. A rebalance reaches it at its next poll, as with Kafka."""

    def __init__(self, log: MessageLog, group: _Group, topics: tuple[str, ...]) -> None:
        self._log, self._group, self.topics = log, group, topics
        self._positions: dict[Partition, int] = {}
        self._paused: set[Partition] = set()

    def poll(
        self, timeout: timedelta, *, max_records: int
    ) -> Mapping[Partition, Sequence[LogRecord | Unreadable]]:
        self._log.polls += 1
        self._log.require_up()
        records = self._take(max_records)
        if not records:
            self._log.clock.wait(timeout)
            records = self._take(max_records)
        return records

    def _take(self, limit: int) -> dict[Partition, list[LogRecord | Unreadable]]:
        with self._log.lock:
            self._follow_assignment()
            records: dict[Partition, list[LogRecord | Unreadable]] = {}
            for where, position in list(self._positions.items()):
                if where in self._paused or limit <= 0:
                    continue
                batch = self._log.read(where, position, limit)
                if batch:
                    records[where] = batch
                    self._positions[where] = batch[-1].offset + 1
                    limit -= len(batch)
            return records

    def _follow_assignment(self) -> None:
        mine = {where for where, owner in self._group.owners.items() if owner is self}
        for lost in self._positions.keys() - mine:
            del self._positions[lost]
            self._paused.discard(lost)
        for gained in sorted(mine - self._positions.keys()):
            start = self._log.bounds(gained)[0]
            self._positions[gained] = max(self._group.offsets.get(gained, start), start)

    def assignment(self) -> frozenset[Partition]:
        return frozenset(self._positions)

    def seek(self, partition: Partition, offset: int) -> None:
        if partition not in self._positions:
            raise ValueError(f"{partition} is not assigned")
        self._positions[partition] = offset

    def pause(self, *partitions: Partition) -> None:
        self._paused.update(partitions)

    def resume(self, *partitions: Partition) -> None:
        self._paused.difference_update(partitions)

    def commit(self, offsets: Mapping[Partition, int]) -> bool:
        self._log.require_up()
        with self._log.lock:
            if any(self._group.owners.get(where) is not self for where in offsets):
                return False
            self._group.offsets.update(offsets)
            return True

    def committed(self, partition: Partition) -> int | None:
        self._log.require_up()
        return self._group.offsets.get(partition)

    def begin_offset(self, partition: Partition) -> int:
        self._log.require_up()
        return self._log.bounds(partition)[0]

    def end_offset(self, partition: Partition) -> int:
        self._log.require_up()
        return self._log.bounds(partition)[1]

    def close(self) -> None:
        with self._log.lock:
            if self in self._group.members:
                self._group.members.remove(self)
                self._log.share_out(self._group)
        self._positions.clear()


@dataclass(frozen=True, slots=True)
class _Known:
    outcome: SendOutcome

    def done(self) -> bool:
        return True

    def wait(self, timeout: timedelta) -> SendOutcome:
        del timeout
        return self.outcome


@dataclass(frozen=True, slots=True)
class MemoryProducer:
    """Every outcome is known when `send` returns."""

    log: MessageLog

    def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes]],
        partition: int | None = None,
    ) -> Ack:
        self.log.require_up()
        refusal = self.log.refusal(topic)
        size = sum(len(part) for part in (key or b"", value or b""))
        size += sum(len(name) + len(content) for name, content in headers)
        if size > MAX_RECORD_BYTES:
            refusal = NotSent(f"{size} bytes are more than {MAX_RECORD_BYTES}", permanent=True)
        if key is None and value is None:
            refusal = NotSent("a record needs a key or a value", permanent=True)
        if refusal is not None:
            return _Known(refusal)
        written = self.log.append(topic, key=key, value=value, headers=headers, partition=partition)
        return _Known(Sent(written.partition, written.offset))

    def close(self) -> None:
        """Nothing is buffered, so nothing is flushed."""
