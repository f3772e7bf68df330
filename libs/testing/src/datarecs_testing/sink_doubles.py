"""Doubles of a sink's memory and tables: what a test needs to count each record.

Files and snapshots are lists of rows. A commit obeys the rule of a real one: messages below the
control offset that the table states are skipped.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from datarecs_application.ports.outside import Ids
from datarecs_application.ports.sinking import (
    CommitRequest,
    SinkMemory,
    SinkRecord,
    TableAcceptance,
    TableStanding,
    TableWriter,
)
from datarecs_core.errors.sink import BadRecordError, SinkCode, SinkError
from datarecs_core.sink.checkpoint import (
    Checkpoint,
    Lineage,
    SinkCommit,
    SinkState,
    TableCommit,
    TaskReport,
    TaskWish,
    replaced_table,
)
from datarecs_core.sink.control import FileEntry, KeyFile, SourcePartition, TableReference
from datarecs_core.sink.declared import SinkStatus, SinkWish
from datarecs_core.sink.definition import RowChange, SinkTarget
from datarecs_core.values import ResourceUid
from datarecs_memory.sink_leases import MemorySinkLeases
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_testing.clock import FixedIds, ManualClock

Place = tuple[SourcePartition, int]
"""Partition and offset of a record."""


class RecordedSinkMemory:
    """The stored state of one sink, everything that was stored about it, and faults on demand."""

    def __init__(
        self, stored: SinkState | None = None, *, faults: Sequence[Exception] = ()
    ) -> None:
        """Create a sink with one task in a store of its own.

        Args:
            stored: its state; None: that of a new sink.
            faults: raised by the next calls, first to last.
        """
        store = MemoryStore(ManualClock(), FixedIds(30_000_000))
        self.faults = list(faults)
        self.commits: list[SinkCommit] = []
        self.table_commits: list[TableCommit] = []
        self.reports: list[TaskReport] = []
        self._unit, self._uid = MemoryUnitOfWork(store), ResourceUid(store.ids.new())
        self._tenant = store.create_tenant()
        self.wish(TaskWish.RUN)
        leases = MemorySinkLeases(store)
        (lease,) = leases.claim("one", limit=1)
        self._memory: SinkMemory = leases.memory(lease, store.ids.new())
        if stored is not None:
            self.stored = stored

    @property
    def stored(self) -> SinkState:
        return self._memory.state()

    @stored.setter
    def stored(self, state: SinkState) -> None:
        with self._unit.begin(self._tenant) as tx:
            before = tx.sinks.status(self._uid)
            tx.sinks.set_status(self._uid, replace(before, state=state))

    def wish(self, wish: TaskWish) -> None:
        with self._unit.begin(self._tenant) as tx:
            tx.sinks.want(self._uid, SinkWish(tasks=1, wish=wish, revision="1"))

    def status(self) -> SinkStatus:
        """As the controller of the sink reads it; its task is always held."""
        with self._unit.begin(self._tenant, read_only=True) as tx:
            status = tx.sinks.status(self._uid)
        return replace(status, tasks=tuple(replace(one, is_held=True) for one in status.tasks))

    def newest_commits(self) -> Sequence[TableCommit]:
        """As the API reads them."""
        with self._unit.begin(self._tenant) as tx:
            return tx.sinks.newest_commits(self._uid)

    def request_commit(self) -> None:
        with self._unit.begin(self._tenant) as tx:
            tx.sinks.request_commit(self._uid)

    def state(self) -> SinkState:
        self._fail()
        return self._memory.state()

    def begin_epoch(self) -> int:
        self._fail()
        return self._memory.begin_epoch()

    def begin_lineage(self, checkpoint: Checkpoint) -> None:
        self._fail()
        self._memory.begin_lineage(checkpoint)

    def committed_table(self, commit: TableCommit) -> None:
        self._fail()
        self._memory.committed_table(commit)
        known = {(one.table, one.snapshot_id) for one in self.table_commits}
        if (commit.table, commit.snapshot_id) not in known:
            self.table_commits.append(commit)

    def committed(self, commit: SinkCommit) -> None:
        self._fail()
        self._memory.committed(commit)
        if commit.commit_id not in {one.commit_id for one in self.commits}:
            self.commits.append(commit)

    def decided(self, epoch: int, checkpoint: Checkpoint) -> bool:
        self._fail()
        return self._memory.decided(epoch, checkpoint)

    def drained(self) -> None:
        self._fail()
        self._memory.drained()

    def report(self, report: TaskReport) -> None:
        self._fail()
        self._memory.report(report)
        self.reports.append(report)

    def _fail(self) -> None:
        if self.faults:
            raise self.faults.pop(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySnapshot:
    commit: TableCommit
    epoch: int
    paths: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class MemoryTable:
    uuid: UUID
    snapshots: list[MemorySnapshot] = field(default_factory=list)
    faults: list[Exception] = field(default_factory=list)
    """Raised by the next commits, before anything is added."""
    late_faults: list[Exception] = field(default_factory=list)
    """Raised by the next commits that add something, after it was added."""
    commits: int = 0
    """Calls."""
    rolled_back: list[MemorySnapshot] = field(default_factory=list)
    """Snapshots that are there, and are not in the history of the head."""
    is_rolled_back: bool = False
    """Since the last commit or acceptance."""
    stated: int = 0
    """Control offset in the property of the table."""
    since: int = 0
    """Smallest epoch that may commit."""

    @property
    def control_offset(self) -> int:
        newest = self.snapshots[-1].commit.control_offset if self.snapshots else 0
        return max(newest, self.stated)

    def roll_back(self, count: int = 1) -> None:
        """Over so many snapshots; with none of them left the table is empty."""
        at = len(self.snapshots) - count
        self.snapshots, self.rolled_back = self.snapshots[:at], self.snapshots[at:]
        self.is_rolled_back = True

    def roll_forward(self) -> None:
        self.snapshots += self.rolled_back
        self.rolled_back, self.is_rolled_back = [], False


@dataclass(slots=True, kw_only=True)
class MemorySinkTables:
    """The tables that a sink names."""

    ids: Ids
    has_auto_create: bool = False
    row_bytes: int = 100
    refuses: Callable[[SinkTarget, SinkRecord], str | None] = lambda _target, _record: None
    """Why a table cannot hold a record."""
    tables: dict[str, MemoryTable] = field(default_factory=dict)
    """By the text of the target."""
    files: dict[str, tuple[SinkRecord, ...]] = field(default_factory=dict)
    """By path; removed ones are gone."""
    flushes: int = 0
    misfit: str = ""
    """Why files of one table do not fit another one."""

    def create(self, target: SinkTarget) -> MemoryTable:
        """Or replace it."""
        table = self.tables[str(target)] = MemoryTable(uuid=self.ids.new())
        return table

    def drop(self, target: SinkTarget) -> None:
        del self.tables[str(target)]

    def table(self, target: SinkTarget) -> MemoryTable:
        return self.tables[str(target)]

    def rows(self, target: SinkTarget) -> list[SinkRecord]:
        """Of all snapshots."""
        return [
            row
            for snapshot in self.table(target).snapshots
            for path in snapshot.paths
            for row in self.files[path]
        ]

    def counts(self, target: SinkTarget) -> Counter[Place]:
        """How often each record is in the table."""
        return Counter(
            (SourcePartition(row.record.topic, row.record.partition), row.record.offset)
            for row in self.rows(target)
        )

    def orphans(self) -> set[str]:
        """Files that no snapshot has."""
        used = {
            path
            for table in self.tables.values()
            for snapshot in table.snapshots
            for path in snapshot.paths
        }
        return self.files.keys() - used

    def reference(self, target: SinkTarget) -> TableReference | None:
        """The table now; None if it does not exist."""
        table = self.tables.get(str(target))
        if table is None:
            return None
        return TableReference(
            catalog=target.catalog, namespace=target.namespace, name=target.name, uuid=table.uuid
        )

    def writer(self, target: SinkTarget, *, known: UUID | None = None) -> TableWriter:
        return MemoryTableWriter(self, target, known)

    def commit(self, target: SinkTarget, request: CommitRequest) -> Sequence[TableCommit]:
        table = self.tables.get(str(target))
        if table is None or table.uuid != request.table.uuid:
            raise replaced_table(str(target))
        table.commits += 1
        if table.faults:
            raise table.faults.pop(0)
        if table.is_rolled_back:
            raise SinkError(SinkCode.TABLE_ROLLED_BACK, f"the table {target} was rolled back")
        if request.epoch < table.since:
            raise SinkError(SinkCode.COMMIT_FAILED, f"epoch {request.epoch} is too old")
        pending = [part for part in request.pending if part.offset >= table.control_offset]
        if self.misfit and any(part.is_moved for part in pending):
            raise SinkError(SinkCode.TABLE_LOST, self.misfit)
        entries = [entry for part in pending for entry in part.data_files]
        history = [replace(one.commit, table=request.table) for one in table.snapshots]
        stated = [one for one in history if one.control_offset > request.stored_offset]
        if not entries:
            return stated or history[-1:]
        number = len(table.snapshots) + len(table.rolled_back) + 1
        snapshot = self._snapshot(request, entries, number=number)
        table.snapshots.append(snapshot)
        table.stated = request.control_offset
        if table.late_faults:
            raise table.late_faults.pop(0)
        return [*stated, snapshot.commit]

    def standing(self, target: SinkTarget, lineage: Lineage) -> TableStanding | None:  # noqa: ARG002  one sink writes
        table = self.tables.get(str(target))
        if table is None:
            return None
        newest = table.snapshots[-1].commit if table.snapshots else None
        return TableStanding(
            uuid=table.uuid,
            is_rolled_back=table.is_rolled_back,
            offset=table.control_offset,
            head=None if newest is None else newest.snapshot_id,
            remaining=None if newest is None else newest.control_offset,
            ends=None if newest is None else newest.source_ends,
        )

    def accept(self, target: SinkTarget, acceptance: TableAcceptance) -> None:
        table = self.table(target)
        table.stated, table.since = acceptance.offset, acceptance.epoch
        table.is_rolled_back = False

    def missing_file(self, target: SinkTarget, files: Sequence[FileEntry]) -> str | None:  # noqa: ARG002  paths say the table
        return next((entry.path for entry in files if entry.path not in self.files), None)

    def _snapshot(
        self, request: CommitRequest, entries: Sequence[FileEntry], *, number: int
    ) -> MemorySnapshot:
        paths = tuple(entry.path for entry in entries)
        assert len(set(paths)) == len(paths)
        return MemorySnapshot(
            epoch=request.epoch,
            paths=paths,
            commit=TableCommit(
                commit_id=request.commit_id,
                table=request.table,
                snapshot_id=number,
                control_offset=request.control_offset,
                valid_through=request.valid_through,
                records=sum(entry.record_count for entry in entries),
                files=len(entries),
                source_ends=request.source_ends,
            ),
        )


class MemoryTableWriter:
    """Buffers rows; a flush is one file."""

    def __init__(self, tables: MemorySinkTables, target: SinkTarget, known: UUID | None) -> None:
        self._tables, self._target, self._known = tables, target, known
        self._rows: list[SinkRecord] = []
        self._paths: list[str] = []
        self._table: TableReference | None = None
        if known is None and tables.reference(target) is None and not tables.has_auto_create:
            raise SinkError(SinkCode.TABLE_LOST, f"the table {target} does not exist")

    @property
    def dropped_fields(self) -> int:
        """Every field is a column."""
        return 0

    def reference(self) -> TableReference:
        assert self._table is not None
        return self._table

    def add(self, records: Sequence[SinkRecord]) -> int:
        passed = self._needless(records)
        self._added(records[passed:])
        return passed

    def _needless(self, records: Sequence[SinkRecord]) -> int:
        if self._known is not None or self._tables.reference(self._target) is not None:
            return 0
        rows = (at for at, one in enumerate(records) if one.change is not RowChange.DELETE)
        return next(rows, len(records))

    def _added(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        for index, record in enumerate(records):
            reason = self._tables.refuses(self._target, record)
            if reason is not None:
                raise BadRecordError(path="amount", reason=reason, at=index)
        self._table = self._table or self._loaded()
        self._rows += records

    def _loaded(self) -> TableReference:
        reference = self._tables.reference(self._target)
        if self._known is not None and (reference is None or reference.uuid != self._known):
            raise replaced_table(str(self._target))
        if self._tables.has_auto_create and reference is None:
            self._tables.create(self._target)
            reference = self._tables.reference(self._target)
        if reference is None:
            raise SinkError(SinkCode.TABLE_LOST, f"the table {self._target} was dropped")
        return reference

    def size(self) -> int:
        return len(self._rows) * self._tables.row_bytes

    def flush(self) -> None:
        if not self._rows:
            return
        path = f"{self._target}/{self._tables.ids.new()}.parquet"
        self._tables.files[path] = tuple(self._rows)
        self._tables.flushes += 1
        self._paths.append(path)
        self._rows = []

    def finish(self) -> tuple[FileEntry, ...]:
        self.flush()
        paths, self._paths = self._paths, []
        return tuple(
            FileEntry(
                path=path,
                spec_id=0,
                record_count=len(self._tables.files[path]),
                size=len(self._tables.files[path]) * self._tables.row_bytes,
            )
            for path in paths
        )

    def key_file(self) -> KeyFile | None:
        """None: rows are only appended."""
        return None

    def discard(self) -> None:
        self._rows = []
        for path in self._paths:
            del self._tables.files[path]
        self._paths = []


def exactly_once(counts: Mapping[Place, int], expected: Mapping[SourcePartition, set[int]]) -> str:
    """Which records are lost or doubled; empty: none."""
    wanted = {(partition, offset) for partition, offsets in expected.items() for offset in offsets}
    lost = sorted(wanted - counts.keys())
    doubled = sorted(place for place, count in counts.items() if count > 1)
    foreign = sorted(counts.keys() - wanted)
    parts = {"lost": lost, "doubled": doubled, "foreign": foreign}
    return "; ".join(f"{name}: {places[:5]}" for name, places in parts.items() if places)
