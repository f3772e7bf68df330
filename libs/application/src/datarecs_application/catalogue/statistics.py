"""Statistics and constraints of snapshots.

Statistics are lenient: a capture writes them before the snapshot exists. Constraints are strict:
they belong to a snapshot that exists (Source 002).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from uuid import UUID

from datarecs_application.catalogue.account import CatalogueAccount, NewRecord, require_blob
from datarecs_application.catalogue.generations import Generations
from datarecs_core.catalog import layout
from datarecs_core.catalog.pointers import Applied, CheckPresent, Op, Pointer, Rejected, Upsert
from datarecs_core.catalog.records import FileStats, SnapshotConstraints, TargetStats
from datarecs_core.errors.catalogue import CataloguePreconditionError, ContentConflictError

S = TypeVar("S", TargetStats, FileStats)
BATCH = 500
"""Records that are stored in one batch."""


class Statistics:
    """The statistics of the tables of one account."""

    def __init__(self, account: CatalogueAccount) -> None:
        self._account, self._tenant = account, account.tenant
        self._generations = Generations(account)

    def put_targets(self, records: Sequence[TargetStats], generation: str = layout.BASE) -> int:
        """Store statistics of targets once; the number of new ones. Safe to repeat.

        Raises:
            CataloguePreconditionError: a table does not exist, or the generation accepts no
                records; earlier batches are stored.
            ContentConflictError: a record exists with other content; the same.
            CatalogueBusyError: other writers were faster in every try.
        """
        return self._put(records, generation, self._new_target)

    def put_files(self, records: Sequence[FileStats], generation: str = layout.BASE) -> int:
        """The same for statistics of files."""
        return self._put(records, generation, self._new_file)

    def targets(
        self, table_id: UUID, snapshot_id: int, generation: str = layout.BASE
    ) -> Iterator[TargetStats]:
        """Everything that is stored, published or not."""
        prefix = layout.targets_of(self._tenant, table_id, snapshot_id, generation)
        for pointer in self._account.pages(prefix):
            yield self._account.read(TargetStats, require_blob(pointer))

    def files(
        self, table_id: UUID, snapshot_id: int, generation: str = layout.BASE
    ) -> Iterator[FileStats]:
        """The same for files."""
        prefix = layout.files_of(self._tenant, table_id, snapshot_id, generation)
        for pointer in self._account.pages(prefix):
            yield self._account.read(FileStats, require_blob(pointer))

    def target(
        self, table_id: UUID, snapshot_id: int, target_id: str, *, generation: str = layout.BASE
    ) -> TargetStats | None:
        prefix = layout.targets_of(self._tenant, table_id, snapshot_id, generation)
        pointer = self._account.pointers.get(f"{prefix}{layout.segment(target_id)}")
        return None if pointer is None else self._account.read(TargetStats, require_blob(pointer))

    def file(
        self, table_id: UUID, snapshot_id: int, path: str, *, generation: str = layout.BASE
    ) -> FileStats | None:
        prefix = layout.files_of(self._tenant, table_id, snapshot_id, generation)
        pointer = self._account.pointers.get(f"{prefix}{layout.segment(path)}")
        return None if pointer is None else self._account.read(FileStats, require_blob(pointer))

    def put_constraints(self, record: SnapshotConstraints) -> None:
        """Store or replace the constraints of a snapshot.

        Raises:
            CataloguePreconditionError: the snapshot does not exist.
            CatalogueBusyError: other writers were faster in every try.
        """
        where = (self._tenant, record.table_id, record.snapshot_id)
        by_snapshot = layout.constraints_by_snapshot(*where)
        of_stats = layout.constraints_of_stats(*where)
        snapshot = layout.snapshot_by_id(*where)

        def attempt() -> bool | None:
            present = self._account.pointers.get_many([by_snapshot, of_stats])
            staged = self._account.stage(
                NewRecord(record=record, key_of=lambda sha: layout.constraints_blob(*where, sha))
            )
            if staged is None:
                return None
            (blob_key,) = staged.blob_keys
            if len(present) == len((by_snapshot, of_stats)) and all(
                one.blob_key == blob_key for one in present.values()
            ):
                return True
            pointers = [
                Pointer(key=key, blob_key=blob_key, resource_id=record.table_id)
                for key in (by_snapshot, of_stats)
            ]
            ops: list[Op] = [
                CheckPresent(key=snapshot),
                *(
                    Upsert(next=one, expected=present[one.key].version if one.key in present else 0)
                    for one in pointers
                ),
                *staged.fences,
            ]
            outcome = self._account.pointers.batch(ops)
            if isinstance(outcome, Rejected) and outcome.key == snapshot:
                raise CataloguePreconditionError(
                    key=by_snapshot, rule=f"snapshot {record.snapshot_id} does not exist"
                )
            return True if isinstance(outcome, Applied) else None

        self._account.repeat(by_snapshot, attempt)

    def constraints(self, table_id: UUID, snapshot_id: int) -> SnapshotConstraints | None:
        key = layout.constraints_by_snapshot(self._tenant, table_id, snapshot_id)
        pointer = self._account.pointers.get(key)
        return (
            None
            if pointer is None
            else self._account.read(SnapshotConstraints, require_blob(pointer))
        )

    def _put(self, records: Sequence[S], generation: str, new: Callable[[S, str], "_New"]) -> int:
        stored = 0
        for start in range(0, len(records), BATCH):
            part = [new(record, generation) for record in records[start : start + BATCH]]
            attempt = partial(self._put_batch, part, generation)
            stored += self._account.repeat(part[0].key, attempt)
        return stored

    def _put_batch(self, new: Sequence["_New"], generation: str) -> int | None:
        snapshots = dict.fromkeys((one.table_id, one.snapshot_id) for one in new)
        guards = [self._generations.writable(*where, generation) for where in snapshots]
        staged = self._account.stage(*(one.record for one in new))
        if staged is None:
            return None
        present = self._account.pointers.get_many([one.key for one in new])
        ops: list[Op] = []
        for one, blob_key in zip(new, staged.blob_keys, strict=True):
            if one.key not in present:
                pointer = Pointer(key=one.key, blob_key=blob_key, resource_id=one.table_id)
                ops.append(Upsert(next=pointer, expected=0))
            elif present[one.key].blob_key != blob_key:
                raise ContentConflictError(key=one.key)
        tables = [
            CheckPresent(key=layout.table_by_id(self._tenant, table_id))
            for table_id in dict.fromkeys(one.table_id for one in new)
        ]
        outcome = self._account.pointers.batch([*ops, *tables, *guards, *staged.fences])
        if isinstance(outcome, Applied):
            return len(ops)
        if outcome.key in {table.key for table in tables}:
            raise CataloguePreconditionError(
                key=new[0].key, rule=f"its table {outcome.key} does not exist"
            )
        return None

    def _new_target(self, record: TargetStats, generation: str) -> "_New":
        table, target = record.table_id, record.target_id
        prefix = layout.targets_of(self._tenant, table, record.snapshot_id, generation)
        return _New(
            table_id=table,
            snapshot_id=record.snapshot_id,
            key=f"{prefix}{layout.segment(target)}",
            record=NewRecord(
                record=record,
                key_of=lambda sha: layout.target_stats_blob(self._tenant, table, target, sha),
            ),
        )

    def _new_file(self, record: FileStats, generation: str) -> "_New":
        table, path = record.table_id, record.path
        prefix = layout.files_of(self._tenant, table, record.snapshot_id, generation)
        return _New(
            table_id=table,
            snapshot_id=record.snapshot_id,
            key=f"{prefix}{layout.segment(path)}",
            record=NewRecord(
                record=record,
                key_of=lambda sha: layout.file_stats_blob(self._tenant, table, path, sha),
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _New:
    """A record, and its pointer."""

    table_id: UUID
    snapshot_id: int
    key: str
    record: NewRecord
