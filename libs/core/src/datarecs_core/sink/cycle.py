"""When a commit cycle begins and ends, and up to which time its tables are complete.

Times are seconds of a monotonic clock, passed in; the coordinator only obeys.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from datarecs_core.sink.admission import Vote
from datarecs_core.sink.checkpoint import PartitionState, SinkState, TaskWish
from datarecs_core.sink.control import SourcePartition

WISH_DELAY = timedelta(seconds=3)
"""Every task has read the wish after this time, so that nothing is read after the last vote."""


class CycleEnd(StrEnum):
    FULL = "full"
    """Every partition has an admitted vote of the cycle."""
    PARTIAL = "partial"
    """The time is up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """A cycle that waits for its votes."""

    commit_id: UUID
    started: float
    partitions: frozenset[SourcePartition]
    """Of all topics at the start."""
    voted: frozenset[SourcePartition] = frozenset()
    unread: frozenset[SourcePartition] = frozenset()
    """Voted while their log had no record."""

    def with_vote(self, vote: Vote) -> "Cycle":
        """Only an admitted vote of this cycle counts."""
        if vote.refusal is not None or vote.commit_id != self.commit_id:
            return self
        return replace(
            self,
            voted=self.voted | {span.partition for span in vote.ranges},
            unread=self.unread
            | {position.partition for position in vote.positions if position.offset is None},
        )

    def end(self, *, now: float, timeout: timedelta) -> CycleEnd | None:
        """None: it still waits."""
        if self.partitions <= self.voted:
            return CycleEnd.FULL
        if now - self.started >= timeout.total_seconds():
            return CycleEnd.PARTIAL
        return None


def valid_through(
    cycle: Cycle,
    end: CycleEnd,
    states: Mapping[SourcePartition, PartitionState],
    *,
    previous: datetime | None,
) -> datetime | None:
    """The least of the largest record timestamps of all partitions; it never falls.

    A partition that never had a record is left out while its log is empty.

    Returns:
        None when the cycle is partial, or a partition with records has no timestamp, or no
        partition ever had a record.
    """
    if end is CycleEnd.PARTIAL:
        return None
    times = []
    for partition in cycle.partitions:
        state = states.get(partition)
        if state is not None and state.largest is not None:
            times.append(state.largest)
        elif partition not in cycle.unread:
            return None
    if not times:
        return None
    return min(times) if previous is None else max(previous, min(times))


@dataclass(slots=True, kw_only=True)
class Timetable:
    """When the next cycle is due: interval, requests, and the last one before a pause or end."""

    interval: timedelta
    requests: int
    """`commit_requests` that the last cycle serves, or that were served before it."""
    last_start: float
    """The start of the last cycle; before the first one, when the coordinator began."""
    is_urgent: bool = False
    """Votes from before this coordinator wait to be committed."""
    wish: TaskWish = TaskWish.RUN
    is_held: bool = False
    """The last cycle before the pause or the end is complete."""
    _wish_since: float = 0
    _started_for: TaskWish = TaskWish.RUN
    _known_requests: int = field(default=0)

    def note(self, state: SinkState, *, now: float) -> None:
        """Take over what is wished now."""
        if state.wish is not self.wish:
            self.wish, self._wish_since, self.is_held = state.wish, now, False
        self._known_requests = max(self._known_requests, state.commit_requests)

    def is_due(self, now: float) -> bool:
        if self.is_urgent or self._known_requests > self.requests:
            return True
        if self.is_held:
            return False
        if self._is_last_wanted(now) and self._started_for is not self.wish:
            return True
        return now - self.last_start >= self.interval.total_seconds()

    def started(self, now: float) -> None:
        self.requests = max(self.requests, self._known_requests)
        self.last_start, self.is_urgent = now, False
        self._started_for = self.wish if self._is_last_wanted(now) else TaskWish.RUN

    def ended(self, end: CycleEnd, *, is_committed: bool) -> None:
        """A partial last cycle is repeated at once, a failed one after the interval."""
        is_last = self._started_for is self.wish and self.wish is not TaskWish.RUN
        if is_last and is_committed and end is CycleEnd.FULL:
            self.is_held = True
        elif end is CycleEnd.PARTIAL and is_committed:
            self._started_for = TaskWish.RUN

    def _is_last_wanted(self, now: float) -> bool:
        waited = now - self._wish_since >= WISH_DELAY.total_seconds()
        return self.wish is not TaskWish.RUN and waited
