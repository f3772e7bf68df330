"""A Kafka cluster in process for sinks: transactions, read committed, groups with generations.

Deterministic when one thread uses it; polls of several members may run in threads. A rebalance is
cooperative and ends when every member has polled; time-outs happen only when a test calls
`remove_member` or `expire_transactions`. A transaction ends with a marker that takes an offset, as
on a broker, so that offsets have gaps.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from threading import RLock

from datarecs_application.ports.messaging import LogRecord
from datarecs_application.ports.outside import Clock
from datarecs_application.ports.sinking import MemberStamp
from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_core.sink.control import Envelope, SourcePartition

WHERE = "memory"


@dataclass(frozen=True, slots=True)
class DamagedMessage:
    """Bytes of the control topic that are no message."""

    offset: int
    group: str
    """As far as it can be read."""


Payload = LogRecord | Envelope | DamagedMessage


class Interruption(StrEnum):
    """What happens to the next transaction; the call raises."""

    NOTHING_SENT = "nothing_sent"
    """The broker is away. LogUnavailableError."""
    LEFT_OPEN = "left_open"
    """The process dies before the end: the messages are written and not committed.
    LogUnavailableError."""
    ABORTED = "aborted"
    """The transaction took too long. VoteRefusedError."""
    ANSWER_LOST = "answer_lost"
    """It is committed, but the answer does not arrive. LogUnavailableError."""


@dataclass(slots=True, eq=False)
class Transaction:
    """Of one transactional id; open until `MemoryCluster.end`."""

    partitions: list["_Partition"] = field(default_factory=list)
    group: str = ""
    offsets: dict[SourcePartition, int] = field(default_factory=dict)
    is_open: bool = True
    is_committed: bool = False


@dataclass(slots=True)
class _Entry:
    payload: Payload | None
    """None: the marker of a transaction."""
    transaction: Transaction | None

    def is_visible(self) -> bool:
        return self.payload is not None and (
            self.transaction is None or self.transaction.is_committed
        )


@dataclass(slots=True, eq=False)
class _Partition:
    entries: list[_Entry] = field(default_factory=list)
    begin: int = 0
    _stable: int = 0
    """Where the last call of `stable_end` stopped: an ended transaction never opens again."""

    def stable_end(self) -> int:
        """One past the last offset below every open transaction."""
        for offset in range(max(self.begin, self._stable), len(self.entries)):
            transaction = self.entries[offset].transaction
            if transaction is not None and transaction.is_open:
                break
        else:
            offset = len(self.entries)
        self._stable = offset
        return offset

    def add(self, payload: Payload | None, transaction: Transaction | None) -> None:
        self.entries.append(_Entry(payload, transaction))
        if transaction is not None and self not in transaction.partitions:
            transaction.partitions.append(self)


@dataclass(slots=True)
class _Group:
    generation: int = 0
    members: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Member id -> topics, in the order of joining."""
    owners: dict[SourcePartition, str] = field(default_factory=dict)
    offsets: dict[SourcePartition, int] = field(default_factory=dict)
    joined: set[str] | None = None
    """Members that polled since the rebalance began; None: no rebalance."""


class MemoryCluster:
    """Topics, groups and transactional producers of one cluster."""

    def __init__(self, clock: Clock, *, cluster_id: str = "memory-cluster") -> None:
        self.clock, self.cluster_id = clock, cluster_id
        self.lock = RLock()
        self.accepts_stale_generations = False
        """As a broker that does not fence: votes of removed members are taken."""
        self.has_no_ids = False
        """As brokers before 2.8."""
        self.is_down = False
        self.refused_topics: set[str] = set()
        """Topics without rights."""
        self.interruptions: list[Interruption] = []
        """For the next transactions, first to last."""
        self._topics: dict[str, list[_Partition]] = {}
        self._topic_ids: dict[str, str] = {}
        self._groups: dict[str, _Group] = {}
        self._epochs: dict[str, int] = {}
        self._open: dict[str, Transaction] = {}
        self._numbers = iter(range(1, 1_000_000))

    # --- topics

    def create_topic(self, name: str, *, partitions: int = 1) -> None:
        """Or add partitions to it. Nothing happens if it has them."""
        lines = self._topics.setdefault(name, [])
        self._topic_ids.setdefault(name, f"topic-{next(self._numbers)}")
        if len(lines) < partitions:
            lines.extend(_Partition() for _ in range(partitions - len(lines)))
            for group in self._groups.values():
                if any(name in topics for topics in group.members.values()):
                    group.joined = set()

    def delete_topic(self, name: str) -> None:
        """With the offsets of groups, as a broker does."""
        self._topics.pop(name, None)
        self._topic_ids.pop(name, None)
        for group in self._groups.values():
            for partition in [one for one in group.offsets if one.topic == name]:
                del group.offsets[partition]

    def topic_id(self, name: str) -> str | None:
        """None without the topic; empty while the cluster has no ids."""
        if self.has_no_ids:
            return "" if name in self._topics else None
        return self._topic_ids.get(name)

    def partitions(self, *topics: str) -> tuple[SourcePartition, ...]:
        return tuple(
            SourcePartition(topic, number)
            for topic in topics
            for number in range(len(self._topics.get(topic, ())))
        )

    def append(  # noqa: PLR0913 - the parts of a record
        self,
        topic: str,
        value: bytes | None,
        *,
        partition: int = 0,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        time: datetime | None = None,
        transaction: Transaction | None = None,
    ) -> int:
        """Write a record as any producer may; its offset. `time` is now without one."""
        line = self._partition(SourcePartition(topic, partition))
        offset = len(line.entries)
        stamp = time or self.clock.now()
        record = LogRecord(
            topic=topic,
            partition=partition,
            offset=offset,
            timestamp_ms=int(stamp.timestamp() * 1000),
            key=key,
            value=value,
            headers=tuple(headers),
        )
        line.add(record, transaction)
        return offset

    def append_damaged(self, topic: str, *, group: str) -> int:
        """Write bytes to a control topic that cannot be decoded."""
        line = self._partition(SourcePartition(topic, 0))
        line.add(DamagedMessage(len(line.entries), group), None)
        return len(line.entries) - 1

    def append_control(self, topic: str, envelope: Envelope, transaction: Transaction) -> None:
        self._partition(SourcePartition(topic, 0)).add(envelope, transaction)

    def expire(self, partition: SourcePartition, *, before: int) -> None:
        """Remove what is below the offset, as retention does."""
        line = self._partition(partition)
        line.begin = max(line.begin, before)

    def bounds(self, partition: SourcePartition) -> tuple[int, int]:
        """First offset, and the last stable one."""
        line = self._partition(partition)
        return line.begin, line.stable_end()

    def next_offset(self, partition: SourcePartition) -> int:
        """Of the next write, visible or not."""
        return len(self._partition(partition).entries)

    def read(
        self, partition: SourcePartition, offset: int, limit: int
    ) -> tuple[list[Payload], int]:
        """Committed payloads from the offset on, and the position after them."""
        line = self._partition(partition)
        payloads: list[Payload] = []
        for position in range(max(offset, line.begin), line.stable_end()):
            if len(payloads) == limit:
                return payloads, position
            entry = line.entries[position]
            if entry.payload is not None and entry.is_visible():
                payloads.append(entry.payload)
        return payloads, max(offset, line.stable_end())

    def records(self, topic: str) -> list[Payload]:
        """Everything committed that a topic still has, partition by partition."""
        return [
            payload
            for partition in self.partitions(topic)
            for payload in self.read(partition, 0, 1_000_000)[0]
        ]

    def _partition(self, partition: SourcePartition) -> _Partition:
        self.require_up()
        lines = self._topics.get(partition.topic, [])
        if partition.number >= len(lines):
            raise LogUnavailableError(where=WHERE, cause=f"{partition} does not exist")
        return lines[partition.number]

    def require_up(self) -> None:
        if self.is_down:
            raise LogUnavailableError(where=WHERE, cause="a test simulates an outage")

    # --- transactions

    def begin(self) -> Transaction:
        """Of a foreign producer, for `append`."""
        return Transaction()

    def end(self, transaction: Transaction, *, commit: bool) -> None:
        """Write the markers, and the group's offsets if it is committed."""
        if not transaction.is_open:
            return
        transaction.is_open, transaction.is_committed = False, commit
        for line in transaction.partitions:
            line.add(None, None)
        if commit and transaction.offsets:
            self.group(transaction.group).offsets.update(transaction.offsets)

    def init_producer(self, transactional_id: str) -> int:
        """Fence every older producer of the id and abort what it left open; the new epoch."""
        self.require_up()
        self._epochs[transactional_id] = self._epochs.get(transactional_id, -1) + 1
        if transactional_id in self._open:
            self.end(self._open.pop(transactional_id), commit=False)
        return self._epochs[transactional_id]

    def is_newest(self, transactional_id: str, epoch: int) -> bool:
        return self._epochs[transactional_id] == epoch

    def leave_open(self, transactional_id: str, transaction: Transaction) -> None:
        self._open[transactional_id] = transaction

    def expire_transactions(self) -> None:
        """Abort everything that is open, as the broker does after the transaction's timeout."""
        for transactional_id in list(self._open):
            self.end(self._open.pop(transactional_id), commit=False)
            self._epochs[transactional_id] += 1

    # --- groups

    def group(self, name: str) -> _Group:
        return self._groups.setdefault(name, _Group())

    def group_offsets(self, name: str) -> dict[SourcePartition, int]:
        return dict(self.group(name).offsets)

    def delete_group_offsets(self, name: str) -> None:
        """As a broker does for a group without members after a while."""
        self.group(name).offsets.clear()

    def members(self, name: str) -> tuple[str, ...]:
        return tuple(self.group(name).members)

    def remove_member(self, name: str, member_id: str) -> None:
        """A session timeout, or a member that leaves."""
        group = self.group(name)
        if group.members.pop(member_id, None) is not None:
            group.joined = set()

    def join(self, name: str, member_id: str, topics: tuple[str, ...]) -> str:
        """Take part in a rebalance, as a member with this id or as a new one; its id."""
        self.require_up()
        group = self.group(name)
        if member_id not in group.members:
            member_id = f"member-{next(self._numbers)}"
            group.members[member_id] = topics
            group.joined = set()
        if group.joined is not None:
            group.joined.add(member_id)
            if group.joined >= group.members.keys():
                self._rebalance(group)
        return member_id

    def stamp(self, name: str, member_id: str) -> MemberStamp:
        group = self.group(name)
        mine = frozenset(where for where, owner in group.owners.items() if owner == member_id)
        return MemberStamp(generation=group.generation, member_id=member_id, assignment=mine)

    def is_current(self, name: str, stamp: MemberStamp) -> bool:
        group = self.group(name)
        if self.accepts_stale_generations:
            return True
        return stamp.member_id in group.members and stamp.generation == group.generation

    def _rebalance(self, group: _Group) -> None:
        """A partition that moves has no owner until the second rebalance after this one."""
        owners = {p: owner for p, owner in group.owners.items() if owner in group.members}
        targets = dict(self._targets(group, owners))
        group.owners = {p: to for p, to in targets.items() if owners.get(p, to) == to}
        group.generation += 1
        group.joined = set() if len(group.owners) < len(targets) else None

    def _targets(
        self, group: _Group, owners: dict[SourcePartition, str]
    ) -> Iterator[tuple[SourcePartition, str]]:
        """Evenly, with as few moves as possible."""
        topics = sorted({topic for names in group.members.values() for topic in names})
        partitions = self.partitions(*topics)
        if not group.members:
            return
        least, larger = divmod(len(partitions), len(group.members))
        counts = dict.fromkeys(group.members, 0)
        unassigned = []
        for partition in partitions:
            owner = owners.get(partition)
            if owner is not None and counts[owner] < least + (larger > 0):
                larger -= counts[owner] == least
                counts[owner] += 1
                yield partition, owner
            else:
                unassigned.append(partition)
        for partition in unassigned:
            owner = min(counts, key=lambda member: counts[member])
            counts[owner] += 1
            yield partition, owner
