"""What a declared sink needs, and what is stored of it for its status.

Pure. The resource-controller decides from a declaration and this state (see
`resources.sink_conditions`), the service iceberg-sink carries the wish out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from datarecs_core.sink.checkpoint import SinkState, TableCommit, TaskReport, TaskWish


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkWish:
    """What a declaration and its verbs need of the tasks."""

    tasks: int
    """How many run, numbered from 0; 0: none may run, because the declaration cannot be used."""
    wish: TaskWish
    revision: str
    """Of everything that a task reads at its start: the declaration and its connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """One task as it is stored."""

    number: int
    is_held: bool
    """Whether a process has its lease now, by database time."""
    report: TaskReport | None = None
    """The last one of the task's last session; None before the first report.

    After `retry`, a reset or a decision about a table it has nothing but the ends.
    """
    reported_at: datetime | None = None
    is_resting: bool = False
    """It has ended because the sink pauses: what it read is committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """A completed cycle as it is stored."""

    commit_id: UUID
    epoch: int
    completed_at: datetime
    """Database time."""
    is_partial: bool
    control_offset: int
    valid_through: datetime | None
    records: int
    snapshots: Sequence[TableCommit] = ()
    """Those that the cycle added, in the order in which they were stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkStatus:
    """Everything that is stored of one sink, at one moment."""

    wished: SinkWish | None = None
    """The last `want`; None: the sink was never wanted and has no rows."""
    state: SinkState = field(default_factory=SinkState)
    tasks: tuple[TaskStatus, ...] = ()
    """By number; one entry per wished task."""
    last_commit: CommitRecord | None = None
    """The newest completed cycle, without snapshots."""
    last_written: CommitRecord | None = None
    """The newest of those that added a snapshot, alike."""
    fenced_at: datetime | None = None
    """When a report last counted a refused vote that the report before it did not."""
    dead_letters: int = 0
    """Of all sessions of all tasks, since the sink began."""
