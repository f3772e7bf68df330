"""What one worker has read since its last vote: a range for each assigned partition.

Separate from the reading itself, because the rules of exactly once are here: a range begins where
the last vote ended, and whatever invalidates buffered rows goes back to that place.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from datarecs_core.sink.control import Position, SourcePartition, SourceRange

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def first_offset(*, group: int | None, accepted: int | None) -> int | None:
    """Where a partition begins that is new to a worker; None: as the sink's `start` says.

    The group's offset is that of the last vote, which the checkpoint may not have yet; it expires,
    and the accepted position does not.
    """
    offsets = [offset for offset in (group, accepted) if offset is not None]
    return max(offsets, default=None)


def record_time(timestamp_ms: int) -> datetime | None:
    """Of a record; None if it has no timestamp."""
    return None if timestamp_ms < 0 else _EPOCH + timedelta(milliseconds=timestamp_ms)


@dataclass(slots=True)
class ReadRanges:
    """Starts and ends of all assigned partitions."""

    _starts: dict[SourcePartition, int] = field(default_factory=dict)
    _ends: dict[SourcePartition, int] = field(default_factory=dict)
    _largest_ms: dict[SourcePartition, int] = field(default_factory=dict)

    def assign(self, starts: Mapping[SourcePartition, int]) -> None:
        """Exactly these partitions from now on; nothing of them is read."""
        self._starts, self._ends, self._largest_ms = dict(starts), dict(starts), {}

    def voted(self) -> None:
        """A vote with these ranges was taken."""
        self.assign(self._ends)

    def advance(self, partition: SourcePartition, end: int, *, largest_ms: int) -> None:
        """Records below `end` are read; `largest_ms` is -1 without a timestamp."""
        self._ends[partition] = end
        known = self._largest_ms.get(partition, -1)
        self._largest_ms[partition] = max(known, largest_ms)

    def starts(self) -> dict[SourcePartition, int]:
        return dict(self._starts)

    def ends(self) -> dict[SourcePartition, int]:
        return dict(self._ends)

    def end(self, partition: SourcePartition) -> int:
        return self._ends[partition]

    @property
    def is_empty(self) -> bool:
        """Nothing was read since the last vote."""
        return self._starts == self._ends

    def mismatched(self, expected: Mapping[SourcePartition, int]) -> dict[SourcePartition, int]:
        """Partitions that must begin elsewhere, with the offset."""
        return {
            partition: offset
            for partition, offset in expected.items()
            if partition in self._starts and self._starts[partition] != offset
        }

    def ranges(self) -> tuple[SourceRange, ...]:
        return tuple(
            SourceRange(partition=partition, start=start, end=self._ends[partition])
            for partition, start in sorted(self._starts.items())
        )

    def positions(self, unread: frozenset[SourcePartition]) -> tuple[Position, ...]:
        """`unread`: partitions without any record in their log."""
        return tuple(
            Position(
                partition=partition,
                offset=None if partition in unread else end,
                timestamp=record_time(self._largest_ms.get(partition, -1)),
            )
            for partition, end in sorted(self._ends.items())
        )
