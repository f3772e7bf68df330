"""The sink's ports: its log, its group member, its tables, and what it remembers.

A task process has no login of the platform's database: `SinkMemory` is answered by the service
that started it. Everything else reaches only what the tenant's own connections name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol
from uuid import UUID

from datarecs_application.ports.messaging import LogRecord
from datarecs_core.sink.checkpoint import (
    Checkpoint,
    Lineage,
    SinkCommit,
    SinkState,
    TableCommit,
    TaskReport,
)
from datarecs_core.sink.control import (
    Envelope,
    FileEntry,
    KeyFile,
    Outgoing,
    SourcePartition,
    TableReference,
)
from datarecs_core.sink.definition import RowChange, SinkTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStamp:
    """Membership of the consumer group at one moment, as a transaction must state it."""

    generation: int
    member_id: str
    assignment: frozenset[SourcePartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """One poll of the source topics."""

    stamp: MemberStamp
    """After the poll; if it differs from the one before, the group has changed."""
    records: Mapping[SourcePartition, Sequence[LogRecord]]
    """In offset order; only of assigned partitions."""


class SourceMember(Protocol):
    """One member of the sink's consumer group, reading committed records only.

    Nothing is committed by itself. Positions are set by `seek`; without it a partition begins at
    the group's offset, or at its first record. Methods raise LogUnavailableError and SinkError
    TOPIC_REFUSED.
    """

    def poll(self, timeout: timedelta, *, max_records: int) -> Polled:
        """Wait at least 200 ms: kafka-python loses joins in shorter polls.

        Raises SinkError SOURCE_GAP, or BAD_RECORD for a record that the client cannot parse;
        positions may have moved then.
        """

    def stamp(self) -> MemberStamp: ...

    def committed(self, partition: SourcePartition) -> int | None:
        """Next offset of the group; None without one."""

    def bounds(self, partition: SourcePartition) -> tuple[int, int]:
        """First offset that is still there, and one past the last readable record or marker."""

    def position(self, partition: SourcePartition) -> int:
        """Next to read; markers and aborted records that a poll passed over are behind it."""

    def offset_at(self, partition: SourcePartition, time: datetime) -> int:
        """Of the first record with this timestamp or a later one; the end without one."""

    def seek(self, partition: SourcePartition, offset: int) -> None: ...

    def pause(self, partitions: frozenset[SourcePartition]) -> None:
        """Exactly these are paused from now on; heartbeats go on."""

    def close(self) -> None:
        """Leave the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    record: LogRecord
    reason: str
    path: str


class VoteRefusedError(Exception):
    """The broker did not take a vote: the group has moved on or the producer was replaced.

    Nothing of the vote is visible to readers of committed records.
    """


class SinkProducer(Protocol):
    """Writes to the control topic; each call is one transaction, all of it or none.

    A call that the broker does not answer ends the process after 30 s (DR7019).
    """

    def vote(
        self,
        messages: Sequence[Outgoing],
        offsets: Mapping[SourcePartition, int],
        stamp: MemberStamp,
        dead_letters: Sequence[DeadLetter],
    ) -> None:
        """Messages, dead letters and the group's source offsets, of every assigned partition.

        Without offsets the broker does not check the membership.

        Raises VoteRefusedError, or LogUnavailableError when the outcome is not known: read again
        from the offsets of the group.
        """

    def announce(self, messages: Sequence[Outgoing]) -> None:
        """Messages of the coordinator. Raises VoteRefusedError if a newer one has taken over."""

    def close(self) -> None: ...


class ControlReader(Protocol):
    """Reads the control topic of this sink; messages of other groups are left out.

    Raises SinkError CONTROL_DAMAGED for a message of this group that cannot be read, CONTROL_GAP
    and LINEAGE_MISMATCH.
    """

    def poll(self, timeout: timedelta) -> Sequence[Envelope]:
        """In offset order; empty after the timeout."""

    def position(self) -> int:
        """Next offset to read."""

    def begin(self) -> int:
        """First offset that is still there."""

    def end(self) -> int:
        """One past the last message that a reader of committed records can read now."""

    def close(self) -> None: ...


class SinkLog(Protocol):
    """The cluster of one sink: its topics, its group, its control topic."""

    def prepare(self) -> Lineage:
        """Create the control topic if it is missing; one partition, 7 days.

        Raises SinkError TOPIC_REFUSED, LogUnavailableError.
        """

    def partitions(self) -> frozenset[SourcePartition]:
        """Of all source topics now."""

    def topic_ids(self) -> Mapping[str, str]:
        """The broker's id of each source topic now: another one once it was created again.

        A topic is left out where broker or client have no ids. Raises SinkError TOPIC_REFUSED.
        """

    def member(self) -> SourceMember: ...

    def reader(self, offset: int | None) -> ControlReader:
        """From an offset; None: from the end."""

    def producer(self, role: str) -> SinkProducer:
        """`coordinator`, or the name of a task. A new one replaces every older one of its role."""

    def remove_topics(self) -> None:
        """The control topic, and that of dead letters if no record is in it.

        Nothing happens if they are gone.
        """


class SinkMemory(Protocol):
    """What is stored of one sink; used by two threads.

    Every call may raise StoreUnavailableError, StoreBusyError, and LeaseLostError when the task
    belongs to another process.
    """

    def state(self) -> SinkState: ...

    def begin_epoch(self) -> int:
        """Draw the epoch of a new coordinator; greater than every earlier one."""

    def begin_lineage(self, checkpoint: Checkpoint) -> None:
        """Store which control topic the sink uses and from where, unless one is stored already."""

    def committed_table(self, commit: TableCommit) -> None:
        """Store a snapshot once, and its event `sink.table.committed`; a repetition is nothing."""

    def committed(self, commit: SinkCommit) -> None:
        """Move the checkpoint, with the event `sink.commit.completed`; a repetition is nothing.

        The stored control offset never goes back.
        """

    def decided(self, epoch: int, checkpoint: Checkpoint) -> bool:
        """Replace the checkpoint, whose control offset may go back, after a decision of a person.

        False: a coordinator with a greater epoch has begun, and nothing is stored.
        """

    def drained(self) -> None:
        """The last commit is made and the control topic removed."""

    def report(self, report: TaskReport) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRecord:
    """A record with its decoded value."""

    record: LogRecord
    value: Mapping[str, object]
    """JSON: numbers with a fraction are Decimal, integers int. Of a delete: at least the key."""
    change: RowChange = RowChange.INSERT
    schema: object = None
    """That the producer wrote it by, as the tables know it; None: the value alone has types."""


class DecodedValue(NamedTuple):
    members: Mapping[str, object]
    schema: object = None
    """As of a SinkRecord."""


class ValueDecoder(Protocol):
    """Makes fields of the value of a record."""

    def __call__(self, value: bytes) -> DecodedValue:
        """Raises BadRecordError and RecordTooLargeError, also errors of connectors.

        An error of a connector says nothing about the record, which is read again.
        """


class TableWriter(Protocol):
    """Buffers rows of one table and writes them to Parquet files. Not safe for threads."""

    @property
    def dropped_fields(self) -> int:
        """Values of fields without a column, since the writer was made."""

    def add(self, records: Sequence[SinkRecord]) -> int:
        """All of them or none. Raises BadRecordError with `at` of the first that does not fit.

        Returns:
            How many at the begin were passed over: deletes while the table does not exist yet.
        """

    def reference(self) -> TableReference:
        """The table of the rows and files since the last finish; call after an add of some.

        With the uuid that was loaded: a table that was created again meanwhile is another one.
        """

    def size(self) -> int:
        """Bytes in memory, estimated."""

    def flush(self) -> None:
        """Write what is in memory to files."""

    def finish(self) -> tuple[FileEntry, ...]:
        """Every file since the last finish, complete and readable."""

    def key_file(self) -> KeyFile | None:
        """Of the last finish; None for a table that is only appended to, and without a record."""

    def discard(self) -> None:
        """Forget rows and files since the last finish, and remove the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingFiles:
    """Files of one message, with its offset in the control topic."""

    offset: int
    data_files: tuple[FileEntry, ...]
    delete_files: tuple[FileEntry, ...] = ()
    keys: KeyFile | None = None
    is_moved: bool = False
    """They were written for a table that this one has replaced, and must fit this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStanding:
    """What a table states of a sink, for a decision about it."""

    uuid: UUID
    is_rolled_back: bool
    offset: int
    """It states every message below this control offset."""
    head: int | None
    """Its newest snapshot; None: it is empty."""
    remaining: int | None
    """Control offset of the newest snapshot of the lineage in the history of the head."""
    ends: Mapping[SourcePartition, int] | None
    """Accepted positions of that snapshot; None: it does not state them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAcceptance:
    """That a table which was rolled back is right as it is."""

    uuid: UUID
    head: int | None
    """As it was when this was decided."""
    lineage: Lineage
    offset: int
    """Messages at or above it are added from now on."""
    epoch: int
    """Coordinators with a smaller one commit nothing any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """What a table shall hold after the commit."""

    commit_id: UUID
    table: TableReference
    """Files are of this table; another uuid is TABLE_LOST."""
    control_offset: int
    """The snapshot holds every admitted file of a message below it."""
    valid_through: datetime | None
    source_ends: Mapping[SourcePartition, int]
    lineage: Lineage
    epoch: int
    pending: Sequence[PendingFiles]
    """Every admitted file of the table since the checkpoint; what the table holds is skipped."""
    stored_offset: int
    """The memory has every snapshot of the table that states at most this control offset."""


class SinkTables(Protocol):
    """Tables of the catalogs that a sink names. Raise SinkError and the errors of connectors.

    Used by the threads of the worker and of the coordinator, and by those of its commits.
    """

    def writer(self, target: SinkTarget, *, known: UUID | None = None) -> TableWriter:
        """Create the table at the first record, where the sink declares `auto_create`.

        Args:
            target: the table.
            known: uuid of the table that holds commits of the sink. It is not created again, and
                another one is TABLE_LOST, here or at the first record.

        Raises SinkError TABLE_LOST, FORMAT_VERSION_UNSUPPORTED, FILE_FORMAT_UNSUPPORTED,
        FILE_LOCATION_REFUSED, PARTITION_TERM_INVALID, CATALOG_UNSUPPORTED.
        """

    def commit(self, target: SinkTarget, request: CommitRequest) -> Sequence[TableCommit]:
        """Add the files that the table does not hold yet, in one snapshot, exactly once.

        The newest snapshot of this lineage states its control offset; messages below are skipped.
        The head of the table is compared when the catalog takes the commit, so that two
        coordinators cannot both add a file; a foreign commit between is kept and ours repeated.
        An unknown outcome is resolved by looking.
        With key files, only the newest row of each key stays: rows of the table and of the files
        that are replaced or deleted get position deletes in the same snapshot. The key files are
        removed once the table states their messages.

        Returns:
            Snapshots of this lineage in the history of the head, oldest first: those that state
            more than `stored_offset`, added now or before, of more than 1,000 the newest. Without
            such a snapshot the newest one alone; empty without any. Expired ones are not there.

        Raises:
            SinkError: TABLE_LOST, TABLE_ROLLED_BACK, COMMIT_FAILED (retryable), and with key
                files SCAN_LIMIT_EXCEEDED, FORMAT_VERSION_UNSUPPORTED, IDENTIFIER_MISSING.
        """

    def standing(self, target: SinkTarget, lineage: Lineage) -> TableStanding | None:
        """The table as it is now; None: there is none."""

    def accept(self, target: SinkTarget, acceptance: TableAcceptance) -> None:
        """State the offset of a table that was rolled back, at its present head, in one commit.

        Raises SinkError COMMIT_FAILED (retryable) if the table has changed, or nobody knows.
        """

    def missing_file(self, target: SinkTarget, files: Sequence[FileEntry]) -> str | None:
        """The path of the first file that is not there; None: all of them are."""
