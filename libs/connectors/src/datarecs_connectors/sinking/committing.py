"""Add the files of a commit to a table exactly once.

The table itself states up to which control offset it holds the files. That is read before every
attempt, and the catalog takes the snapshot only on top of the head that was read, so two
coordinators cannot both add a file. If an answer is lost, the table is read instead.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock

from pyiceberg.manifest import DataFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
)

from datarecs_application.ports.sinking import CommitRequest, PendingFiles, TableAcceptance
from datarecs_application.stopping import Stopping
from datarecs_connectors.errors import SourceError
from datarecs_connectors.iceberg.catalogs import CurrentTable, TableName
from datarecs_connectors.locations import Places
from datarecs_connectors.sinking.catalog_changes import (
    ConflictError,
    OutcomeUnknownError,
    TableChange,
    WritableCatalog,
)
from datarecs_connectors.sinking.entries import data_file_of
from datarecs_connectors.sinking.files import SinkFiles, check_locations
from datarecs_connectors.sinking.moved_files import check_fits
from datarecs_connectors.sinking.position_deletes import PositionDeleteWriter
from datarecs_connectors.sinking.resolving import ChangeResolver
from datarecs_connectors.sinking.row_keys import check_deletable
from datarecs_connectors.sinking.snapshots import SnapshotFiles
from datarecs_connectors.sinking.watermarks import (
    Watermark,
    accepted_property,
    stated_above,
    summary_facts,
    table_commit,
    table_property,
    watermark_of,
)
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.checkpoint import TableCommit, replaced_table

_RETRIES, _DEFAULT_RETRIES, _MOST_RETRIES = "commit.retry.num-retries", 4, 100
_WAIT, _DEFAULT_WAIT_MS, _LONGEST_WAIT_MS = "commit.retry.min-wait-ms", 100, 5_000
_COLLISIONS = "datarecs.sink.key-collisions"
"""In a snapshot: how many keys were changed in several source partitions."""
_CHECKS, _CHECK_WAIT_MS = 3, 1_000
"""How often the table is read for a snapshot of unknown outcome, and the first pause between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommitter:
    """Commits to the tables of one catalog."""

    catalog: WritableCatalog
    places: Places
    task: str
    """Named in snapshots."""
    now: Callable[[], datetime]
    stop: Stopping
    note: Callable[[TableMetadata], None]
    """Called with each state of a table that is loaded for a commit."""
    search: Lock
    """Of all tables of the process: a search for replaced rows needs up to 512 MiB and more."""

    def commit(self, name: TableName, request: CommitRequest) -> Sequence[TableCommit]:
        """As `SinkTables.commit` says."""
        retries, attempt = _DEFAULT_RETRIES, 0
        while True:
            current = self._loaded(name, request)
            mark = self._checked(name, current, request)
            pending = _missing(request, mark)
            stated = stated_above(request.stored_offset, current.metadata, request.lineage)
            if not pending:
                newest = [] if mark.snapshot is None else [mark.snapshot]
                return _commits(stated or newest, request)
            self._check_moved(name, current, pending)
            retries = _number(current, _RETRIES, _DEFAULT_RETRIES, _MOST_RETRIES)
            snapshot = self._attempt(name, current, request, mark, pending)
            if snapshot is not None:
                self._remove_key_files(pending)
                return _commits([*stated, snapshot], request)
            if attempt >= retries:
                raise SinkError(
                    SinkCode.COMMIT_FAILED,
                    f"table {name} was changed by others, or its catalog gave no answer, in "
                    f"{attempt + 1} attempts in a row; the next commit repeats its files",
                )
            wait = _number(current, _WAIT, _DEFAULT_WAIT_MS, _LONGEST_WAIT_MS)
            self._pause(min(wait * 2**attempt, _LONGEST_WAIT_MS))
            attempt += 1

    def accept(self, name: TableName, acceptance: TableAcceptance) -> None:
        """As `SinkTables.accept` says."""
        current = self.catalog.find(name)
        is_same = current is not None and current.metadata.table_uuid == acceptance.uuid
        if current is None or not is_same or _head(current) != acceptance.head:
            raise _changed(name)
        update = SetPropertiesUpdate(updates=accepted_property(acceptance))
        change = TableChange(requirements=_requirements(current), updates=(update,))
        try:
            self.catalog.commit(name, current, change)
        except (ConflictError, OutcomeUnknownError) as cause:
            raise _changed(name) from cause

    def _check_moved(
        self, name: TableName, current: CurrentTable, pending: Sequence[PendingFiles]
    ) -> None:
        """Files that were written for a table which this one has replaced."""
        moved = [entry for one in pending if one.is_moved for entry in one.data_files]
        if moved:
            check_fits(str(name), current.metadata, SinkFiles(self.places), moved)

    def _loaded(self, name: TableName, request: CommitRequest) -> CurrentTable:
        current = self.catalog.find(name)
        if current is None or current.metadata.table_uuid != request.table.uuid:
            raise replaced_table(str(name))
        self.note(current.metadata)
        return current

    def _checked(self, name: TableName, current: CurrentTable, request: CommitRequest) -> Watermark:
        mark = watermark_of(current.metadata, request.lineage)
        if mark.is_rolled_back:
            raise SinkError(
                SinkCode.TABLE_ROLLED_BACK,
                f"table {name} was rolled back to a state before the last commit of the sink; roll "
                "it forward, or decide with `accept-table` how to go on",
            )
        is_older = mark.epoch > request.epoch and mark.offset > request.control_offset
        if is_older or mark.since > request.epoch:
            raise SinkError(
                SinkCode.COMMIT_FAILED,
                f"a newer coordinator (epoch {mark.epoch}) has committed to table {name}; this "
                f"one has epoch {request.epoch}",
            )
        return mark

    def _attempt(
        self,
        name: TableName,
        current: CurrentTable,
        request: CommitRequest,
        mark: Watermark,
        pending: Sequence[PendingFiles],
    ) -> Snapshot | None:
        """The stored snapshot; None if the table has changed, or the outcome stays unknown."""
        metadata = current.metadata
        check_locations(metadata, self.places)
        offset = max(mark.offset, request.control_offset)
        files = SnapshotFiles(
            metadata=metadata,
            files=SinkFiles(self.places),
            snapshot_id=metadata.new_snapshot_id(),
        )
        facts = summary_facts(request, offset, task=self.task)
        properties = table_property(request, mark, offset, files.snapshot_id)
        snapshot = None
        try:
            deleted = self._deletes(name, files, pending, facts)
            snapshot = files.append([*_data_files(pending), *deleted], facts, now=self.now())
            self.catalog.commit(name, current, _change(current, snapshot, properties))
        except ConflictError:
            files.remove()
            return None
        except OutcomeUnknownError:
            return snapshot if self._is_stored(name, files.snapshot_id) else None
        except (DatarecsError, OSError) as cause:
            files.remove()
            if isinstance(cause, DatarecsError):
                raise
            raise SinkError(
                SinkCode.COMMIT_FAILED,
                f"a file of a snapshot of table {name} cannot be written: {cause.strerror}",
            ) from cause
        return snapshot

    def _deletes(
        self,
        name: TableName,
        files: SnapshotFiles,
        pending: Sequence[PendingFiles],
        facts: dict[str, str],
    ) -> Sequence[DataFile]:
        """Files with the rows that are replaced; removed with the others of a refused attempt."""
        if all(one.keys is None for one in pending):
            return ()
        check_deletable(str(name), files.metadata)
        with self.search:
            return self._searched(name, files, pending, facts)

    def _searched(
        self,
        name: TableName,
        files: SnapshotFiles,
        pending: Sequence[PendingFiles],
        facts: dict[str, str],
    ) -> Sequence[DataFile]:
        resolver = ChangeResolver(
            table=str(name),
            source=self.places.source,
            metadata=files.metadata,
            files=files.files,
            stop=self.stop,
        )
        replaced = resolver.replaced(pending)
        if replaced.collisions:
            facts[_COLLISIONS] = str(replaced.collisions)
        writer = PositionDeleteWriter(
            metadata=files.metadata, files=files.files, token=files.token, written=files.written
        )
        return writer.write(replaced.rows)

    def _remove_key_files(self, pending: Sequence[PendingFiles]) -> None:
        """The table states that it has them: no commit reads them again."""
        files = SinkFiles(self.places)
        for one in pending:
            if one.keys is not None:
                files.delete(one.keys.path)

    def _is_stored(self, name: TableName, snapshot_id: int) -> bool:
        """Whether the table has the snapshot; read several times, as it may appear late.

        A snapshot that appears even later is no danger: it is on top of the old head, so either
        it or the next attempt is refused.
        """
        unanswered: SourceError | None = None
        for check in range(_CHECKS):
            try:
                current = self.catalog.find(name)
                unanswered = None
            except SourceError as cause:
                unanswered = cause
            else:
                if current is not None and current.metadata.snapshot_by_id(snapshot_id):
                    return True
            self._pause(_CHECK_WAIT_MS * 2**check if check + 1 < _CHECKS else 0)
        if unanswered is not None:
            raise SinkError(
                SinkCode.COMMIT_FAILED,
                f"the catalog of table {name} does not answer; the next commit checks whether "
                "this one was stored",
            ) from unanswered
        return False

    def _pause(self, milliseconds: float) -> None:
        self.stop.wait(milliseconds / 1000)
        self.stop.check()


def _commits(snapshots: Sequence[Snapshot], request: CommitRequest) -> list[TableCommit]:
    return [table_commit(one, request.lineage, request.table) for one in snapshots]


def _missing(request: CommitRequest, mark: Watermark) -> list[PendingFiles]:
    """Messages that the table does not hold, and that would change it."""
    return [
        pending
        for pending in request.pending
        if mark.offset <= pending.offset < request.control_offset
        and (pending.keys is not None or any(one.record_count for one in pending.data_files))
    ]


def _data_files(pending: Sequence[PendingFiles]) -> list[DataFile]:
    """A repeated location counts once."""
    entries = {
        entry.path: entry
        for message in pending
        for entry in message.data_files
        if entry.record_count > 0
    }
    return [data_file_of(entry) for entry in entries.values()]


def _change(current: CurrentTable, snapshot: Snapshot, properties: dict[str, str]) -> TableChange:
    """Snapshot, branch and property in one."""
    return TableChange(
        requirements=_requirements(current),
        updates=(
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate.model_validate(
                {
                    "ref-name": MAIN_BRANCH,
                    "type": SnapshotRefType.BRANCH,
                    "snapshot-id": snapshot.snapshot_id,
                }
            ),
            SetPropertiesUpdate(updates=properties),
        ),
    )


def _requirements(current: CurrentTable) -> tuple[TableRequirement, ...]:
    """It is the same table, with the same head."""
    return (
        AssertTableUUID(uuid=current.metadata.table_uuid),
        AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": _head(current)}),
    )


def _head(current: CurrentTable) -> int | None:
    head = current.metadata.refs.get(MAIN_BRANCH)
    return None if head is None else head.snapshot_id


def _changed(name: TableName) -> SinkError:
    return SinkError(
        SinkCode.COMMIT_FAILED,
        f"table {name} was changed by others while a decision about it was carried out, or its "
        "catalog gave no answer; the sink tries again",
    )


def _number(current: CurrentTable, name: str, default: int, most: int) -> int:
    text = current.metadata.properties.get(name, "")
    return min(int(text), most) if text.isdigit() else default
