"""The rows of one sink: what is stored of it, its leases, and its commits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from datarecs_core.sink.checkpoint import TableCommit, TaskWish
from datarecs_core.sink.declared import CommitRecord, SinkStatus, TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLease:
    """The newest lease of a task, and the counters of the session that last reported."""

    epoch: int
    until: datetime | None
    """None: it was ended."""
    ends: bool = False
    """Its process shall stop, and release it."""
    is_resting: bool = False
    """It has ended because its sink pauses."""
    session: UUID | None = None
    letters: int = 0
    fenced: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRow:
    """Tables `sink_state`, `sink_task`, `sink_commit` and `sink_table_commit` of one sink."""

    status: SinkStatus = field(default_factory=SinkStatus)
    """Whether a task is held follows from `leases`."""
    leases: Mapping[int, TaskLease] = field(default_factory=dict)
    """By the number of the task."""
    commits: tuple[CommitRecord, ...] = ()
    """Oldest first, without snapshots."""
    snapshots: tuple[TableCommit, ...] = ()
    """Of all commits, oldest first."""
    reset_snapshots: int = 0
    """How many of them there were at the last reset."""

    def is_resting(self, number: int) -> bool:
        """Whether a task has ended because the sink pauses, which it still does."""
        lease = self.leases.get(number)
        is_paused = self.status.state.wish is TaskWish.PAUSE
        return is_paused and lease is not None and lease.is_resting


def is_halted(task: TaskStatus) -> bool:
    return task.report is not None and task.report.is_halted
