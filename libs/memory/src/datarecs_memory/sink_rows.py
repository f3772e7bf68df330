"""The rows of one sink: what is stored of it, its leases, and its commits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from datarecs_core.sink.checkpoint import TableCommit
from datarecs_core.sink.declared import CommitRecord, SinkStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLease:
    """The newest lease of a task, and the counters of the session that last reported."""

    epoch: int
    until: datetime | None
    """None: it was ended."""
    ends: bool = False
    """Its process shall stop, and release it."""
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
