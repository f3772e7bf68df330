"""Which votes of the control topic are admitted: a fold over its messages in their order.

The control topic has one partition, so every coordinator that reads it from the same checkpoint
comes to the same decisions. Nothing else decides about a vote: no clock, no epoch, no commit id.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from datarecs_core.sink.checkpoint import Checkpoint, PartitionState
from datarecs_core.sink.control import (
    DataComplete,
    DataWritten,
    Envelope,
    KeyFile,
    Position,
    SourcePartition,
    SourceRange,
    TableReference,
)


class Refusal(StrEnum):
    """Why a vote is not admitted; its files are never committed."""

    OVERLAP = "overlap"
    """It begins below the accepted position: these records are in another vote already."""
    GAP = "gap"
    """It begins above the accepted position: records before it are in no admitted vote."""
    INCOMPLETE = "incomplete"
    """Messages with its files are missing."""
    INVALID = "invalid"
    """A partition twice, or a range that ends before it begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """A vote and the decision about it."""

    offset: int
    """Of its DataComplete."""
    commit_id: UUID
    sender: UUID
    ranges: tuple[SourceRange, ...]
    positions: tuple[Position, ...]
    refusal: Refusal | None = None
    """None: admitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A message with files, and its offset in the control topic."""

    offset: int
    message: DataWritten
    keys: KeyFile | None = None


@dataclass(slots=True, kw_only=True)
class ControlFold:
    """The state after a prefix of the control topic. Changed by `apply` alone, in offset order."""

    position: int
    """Next offset to apply."""
    partitions: dict[SourcePartition, PartitionState]
    """Of every partition that was ever in a vote."""
    refused: set[SourcePartition] = field(default_factory=set)
    """Partitions whose last vote was refused."""
    _votes: list[int] = field(default_factory=list)
    """Offsets of messages of workers since the last `release`."""
    _open: dict[UUID, list[Part]] = field(default_factory=dict)
    _pending: list[Part] = field(default_factory=list)

    @classmethod
    def at(cls, checkpoint: Checkpoint) -> "ControlFold":
        return cls(position=checkpoint.control_offset, partitions=dict(checkpoint.partitions))

    @property
    def has_open_parts(self) -> bool:
        """Files are waiting for their vote: a commit here would split it."""
        return bool(self._open)

    def pending(self) -> Mapping[TableReference, tuple[Part, ...]]:
        """Admitted files that were not released, by table, in offset order."""
        tables: dict[TableReference, list[Part]] = {}
        for part in sorted(self._pending, key=lambda part: part.offset):
            tables.setdefault(part.message.table, []).append(part)
        return {table: tuple(parts) for table, parts in tables.items()}

    def expected(self) -> dict[SourcePartition, int]:
        """Where workers must begin whose last vote was refused."""
        return {partition: self.partitions[partition].accepted for partition in self.refused}

    def accepted(self) -> dict[SourcePartition, int]:
        return {partition: state.accepted for partition, state in self.partitions.items()}

    def oldest_vote(self, since: int = 0) -> int | None:
        """Offset of the first message of a worker, at or above `since`; None without one."""
        return next((offset for offset in self._votes if offset >= since), None)

    def skip_to(self, position: int) -> None:
        """Nothing of this group is between the last message and `position`."""
        self.position = max(self.position, position)

    def release(self, below: int) -> None:
        """Every table holds the files of messages below this offset."""
        self._pending = [part for part in self._pending if part.offset >= below]
        self._votes = [offset for offset in self._votes if offset >= below]

    def apply(self, envelope: Envelope) -> Vote | None:
        """Take the next message; returns a vote with its decision, None for other messages."""
        if envelope.offset < self.position:
            return None
        self.position = envelope.offset + 1
        match envelope.message:
            case DataWritten() as message:
                self._votes.append(envelope.offset)
                part = Part(offset=envelope.offset, message=message, keys=envelope.headers.keys)
                self._open.setdefault(envelope.sender, []).append(part)
                return None
            case DataComplete() as message:
                self._votes.append(envelope.offset)
                return self._decide(envelope, message)
            case _:
                return None

    def _decide(self, envelope: Envelope, message: DataComplete) -> Vote:
        parts = self._open.pop(envelope.sender, [])
        ranges = envelope.headers.ranges
        refusal = self._refusal(ranges)
        if refusal is None and not _is_complete(parts, envelope.headers.parts, message.commit_id):
            refusal = Refusal.INCOMPLETE
        if refusal is None:
            self._admit(ranges, message.positions)
            self._pending += parts
        else:
            self._refuse(ranges)
        return Vote(
            offset=envelope.offset,
            commit_id=message.commit_id,
            sender=envelope.sender,
            ranges=ranges,
            positions=message.positions,
            refusal=refusal,
        )

    def _refusal(self, ranges: tuple[SourceRange, ...]) -> Refusal | None:
        if len({span.partition for span in ranges}) < len(ranges):
            return Refusal.INVALID
        if any(span.end < span.start for span in ranges):
            return Refusal.INVALID
        known = [(span.start, self.partitions.get(span.partition)) for span in ranges]
        if any(state is not None and start < state.accepted for start, state in known):
            return Refusal.OVERLAP
        if any(state is not None and start > state.accepted for start, state in known):
            return Refusal.GAP
        return None

    def _admit(self, ranges: tuple[SourceRange, ...], positions: tuple[Position, ...]) -> None:
        times = {position.partition: position.timestamp for position in positions}
        for span in ranges:
            before = self.partitions.get(span.partition, PartitionState(accepted=span.start))
            is_read = span.end > span.start
            self.partitions[span.partition] = PartitionState(
                accepted=span.end,
                largest=_latest(before.largest, times.get(span.partition)),
                held=None if is_read else before.held,
            )
            self.refused.discard(span.partition)

    def _refuse(self, ranges: tuple[SourceRange, ...]) -> None:
        for span in ranges:
            # The vote has moved the group's offset. Without a state here the next vote would be
            # taken at its start, and the records of this one would be lost.
            self.partitions.setdefault(span.partition, PartitionState(accepted=span.start))
            self.refused.add(span.partition)


def _is_complete(parts: list[Part], count: int, commit_id: UUID) -> bool:
    return len(parts) == count and all(part.message.commit_id == commit_id for part in parts)


def _latest(first: datetime | None, second: datetime | None) -> datetime | None:
    times = [time for time in (first, second) if time is not None]
    return max(times, default=None)
