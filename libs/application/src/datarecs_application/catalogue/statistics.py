"""Statistics and constraints of snapshots.

Statistics are lenient: a capture writes them before the snapshot exists. Constraints are strict:
they belong to a snapshot that exists (Source 002).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar
from uuid import UUID

from datarecs_application.catalogue.account import CatalogueAccount, NewRecord, require_blob
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

    def put_targets(self, records: Sequence[TargetStats]) -> int:
        """Store statistics of targets once; the number of new ones. Safe to repeat.

        Raises:
            CataloguePreconditionError: a table does not exist; earlier batches are stored.
            ContentConflictError: a record exists with other content; the same.
            CatalogueBusyError: other writers were faster in every try.
        """
        return self._put(records, self._new_target)

    def put_files(self, records: Sequence[FileStats]) -> int:
        """The same for statistics of files."""
        return self._put(records, self._new_file)

    def target(self, table_id: UUID, snapshot_id: int, target_id: str) -> TargetStats | None:
        key = layout.target_stats(self._tenant, table_id, snapshot_id, target_id)
        pointer = self._account.pointers.get(key)
        return None if pointer is None else self._account.read(TargetStats, require_blob(pointer))

    def file(self, table_id: UUID, snapshot_id: int, path: str) -> FileStats | None:
        key = layout.file_stats(self._tenant, table_id, snapshot_id, path)
        pointer = self._account.pointers.get(key)
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

    def _put(
        self,
        records: Sequence[S],
        new: Callable[[S], tuple[str, NewRecord]],
    ) -> int:
        stored = 0
        for start in range(0, len(records), BATCH):
            part = records[start : start + BATCH]
            pairs = [_of_table(record.table_id, new(record)) for record in part]
            stored += self._account.repeat(pairs[0][1], partial(self._put_batch, pairs))
        return stored

    def _put_batch(self, pairs: Sequence[tuple[UUID, str, NewRecord]]) -> int | None:
        staged = self._account.stage(*(record for _, _, record in pairs))
        if staged is None:
            return None
        keys = [key for _, key, _ in pairs]
        present = self._account.pointers.get_many(keys)
        ops: list[Op] = []
        for (table_id, key, _), blob_key in zip(pairs, staged.blob_keys, strict=True):
            if key not in present:
                pointer = Pointer(key=key, blob_key=blob_key, resource_id=table_id)
                ops.append(Upsert(next=pointer, expected=0))
            elif present[key].blob_key != blob_key:
                raise ContentConflictError(key=key)
        tables = [
            CheckPresent(key=layout.table_by_id(self._tenant, table_id))
            for table_id in dict.fromkeys(table_id for table_id, _, _ in pairs)
        ]
        outcome = self._account.pointers.batch([*ops, *tables, *staged.fences])
        if isinstance(outcome, Applied):
            return len(ops)
        if outcome.key in {table.key for table in tables}:
            raise CataloguePreconditionError(
                key=keys[0], rule=f"its table {outcome.key} does not exist"
            )
        return None

    def _new_target(self, record: TargetStats) -> tuple[str, NewRecord]:
        table, target = record.table_id, record.target_id
        key = layout.target_stats(self._tenant, table, record.snapshot_id, target)
        return key, NewRecord(
            record=record,
            key_of=lambda sha: layout.target_stats_blob(self._tenant, table, target, sha),
        )

    def _new_file(self, record: FileStats) -> tuple[str, NewRecord]:
        table, path = record.table_id, record.path
        key = layout.file_stats(self._tenant, table, record.snapshot_id, path)
        return key, NewRecord(
            record=record, key_of=lambda sha: layout.file_stats_blob(self._tenant, table, path, sha)
        )


def _of_table(table_id: UUID, new: tuple[str, NewRecord]) -> tuple[UUID, str, NewRecord]:
    return (table_id, *new)
