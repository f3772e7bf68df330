"""What a sink remembers between coordinators, and what a commit is to the outside.

The tables are the truth: each snapshot states the control offset up to which it holds every
admitted file. The checkpoint only says from where the control topic must be read again, and which
source positions were accepted there; everything after it follows from the topic itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.control import SourcePartition, TableReference
from datarecs_core.sink.decisions import ReplacedTable, TableDecision

TablePlace = tuple[str, tuple[str, ...], str]
"""Catalog, namespace and name of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """Identity of a control topic; another one makes every offset meaningless."""

    cluster_id: str
    topic_id: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    accepted: int
    """Next offset after the last admitted vote."""
    largest: datetime | None = None
    """Timestamp, of all records ever admitted of this partition."""
    held: int | None = None
    """What the tables hold, where a reset has set another position and no record was admitted
    since; None: `accepted`."""

    def moved(self, offset: int, *, held: int | None = None) -> "PartitionState":
        """At another accepted position."""
        return replace(self, accepted=offset, held=None if held == offset else held)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Where the next coordinator begins. All tables hold what is admitted below it."""

    lineage: Lineage | None = None
    """None before the first coordinator."""
    control_offset: int = 0
    """Next to read."""
    partitions: Mapping[SourcePartition, PartitionState] = field(default_factory=dict)
    valid_through: datetime | None = None
    commit_requests: int = 0
    """`SinkState.commit_requests` that the last completed cycle served."""
    topics: Mapping[str, str] = field(default_factory=dict)
    """The broker's id of each source topic, by name; offsets of another one mean nothing."""
    tables: tuple[TableReference, ...] = ()
    """Those that hold a commit of this lineage; another one at the same place gets no file."""
    first_offset: int = 0
    """Control offset from which on accepted positions follow from the control topic alone."""
    rewound_from: int = 0
    """Control offset before the last decision that moved it back; below it tables differ."""
    replaced: tuple[ReplacedTable, ...] = ()
    """Lost tables of this lineage about which a person has decided."""
    decision: TableDecision | None = None
    """The newest one; carried out by a coordinator that begins."""
    reset_at: datetime | None = None
    """Of the last reset, database time: commits from before it are of another lineage."""

    def known_topics(self) -> Mapping[str, str]:
        """None after a reset, which goes on with the topics that are there then."""
        return {} if self.lineage is None else self.topics

    def known_tables(self) -> Mapping[TablePlace, UUID]:
        """Uuids of `tables`; none after a reset, which goes on with the tables that are there."""
        tables = () if self.lineage is None else self.tables
        return {(one.catalog, one.namespace, one.name): one.uuid for one in tables}


def replaced_table(name: str) -> SinkError:
    """A table that holds commits is not there any more, or another one is at its place."""
    return SinkError(
        SinkCode.TABLE_LOST,
        f"table {name} was dropped, or is another one than before; restore it, or decide with "
        "`accept-table` how to go on",
    )


class TaskWish(StrEnum):
    """What the declaration and its verbs want of the tasks."""

    RUN = "run"
    PAUSE = "pause"
    """Commit what was read, then hold."""
    DRAIN = "drain"
    """Commit what was read, remove the control topic, and end for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkState:
    """The stored state, as a task reads it every few seconds."""

    epoch: int = 0
    """Of the newest coordinator."""
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    wish: TaskWish = TaskWish.RUN
    commit_requests: int = 0
    """Raised by each `commit-now`."""
    is_drained: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """A snapshot of one table that this sink added, as the snapshot itself states it."""

    commit_id: UUID
    table: TableReference
    snapshot_id: int
    control_offset: int
    """The snapshot holds every admitted file of a message below it."""
    valid_through: datetime | None
    records: int
    files: int
    source_ends: Mapping[SourcePartition, int]
    """Accepted positions that the snapshot contains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCommit:
    """A completed cycle: every table has it."""

    commit_id: UUID
    epoch: int
    checkpoint: Checkpoint
    is_partial: bool
    """Some partition had no vote when the time was up."""
    tables: int
    records: int
    duration: timedelta = timedelta()
    """Since the cycle began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """How a task is doing, for the status of the declaration."""

    positions: Mapping[SourcePartition, int] = field(default_factory=dict)
    """Read so far."""
    ends: Mapping[SourcePartition, int] = field(default_factory=dict)
    """Of the partitions, as last seen."""
    is_coordinator: bool = False
    is_paused: bool = False
    dead_letters: int = 0
    """Since the task began."""
    fenced: int = 0
    """Votes of the task that were refused since it began."""
    unrouted: int = 0
    """Records for no table, since the task began; records that are read again count again."""
    tombstones: int = 0
    """Records without a value that were left out, counted alike."""
    dropped_fields: int = 0
    """Values of fields without a column, counted alike."""
    failed_commits: int = 0
    """Cycles of this coordinator that some table did not take, since the task began."""
    error_code: str = ""
    """DR7 name of what stopped or hinders it; empty: nothing does."""
    error: str = ""
    is_halted: bool = False
    """It needs a person: `retry`, or another declaration."""

    def with_ends_of(self, before: "TaskReport | None") -> "TaskReport":
        """A task that reads nothing yet sees no ends: those that were seen last stay.

        Those of a topic that was created again say nothing about the new one.
        """
        is_other = self.error_code == SinkCode.LINEAGE_MISMATCH.name
        if self.ends or before is None or is_other:
            return self
        return replace(self, ends=before.ends)


def ends_alone(report: TaskReport | None) -> TaskReport | None:
    """What stays of a report when its task begins again; None without ends."""
    return TaskReport(ends=report.ends) if report is not None and report.ends else None
