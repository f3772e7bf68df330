"""Snapshots of tables: ingested once, listed newest first, pinned by runs, removed by retention.

Spec catalogue-storage 8.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from datarecs_application.catalogue.account import (
    PAGE,
    CatalogueAccount,
    NewRecord,
    Staged,
    require_blob,
    texts,
)
from datarecs_application.catalogue.tables import CurrentRoot, TableRoots
from datarecs_core.catalog import layout
from datarecs_core.catalog.generations import ActiveGeneration, active_generation
from datarecs_core.catalog.pointers import (
    Applied,
    Check,
    CheckPresent,
    Delete,
    Op,
    Pointer,
    Upsert,
    token_after,
)
from datarecs_core.catalog.records import ManifestEntry, Snapshot, Table, TableRoot
from datarecs_core.errors.catalogue import (
    CatalogueNotFoundError,
    CataloguePreconditionError,
    ContentConflictError,
)
from datarecs_core.hashing import canonical_json
from datarecs_core.values import RunId, instant_text

MOST_TURNS = 200
"""Rollbacks and returns that a snapshot remembers; of more of them the oldest pair is forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedTable:
    """A table as it was when it was pinned."""

    table: Table
    snapshots: tuple[Snapshot, ...]
    """The newest commit first."""
    current_snapshot_id: int | None
    statistics: ActiveGeneration | None
    """Of the pinned snapshot, as they were published."""


class Snapshots:
    """The snapshots of the tables of one account."""

    def __init__(self, account: CatalogueAccount) -> None:
        self._account, self._tenant = account, account.tenant
        self._roots = TableRoots(account=account)

    def ingest(self, snapshot: Snapshot, *, is_current: bool) -> bool:
        """Add a snapshot to its table; False: it is known.

        Args:
            snapshot: in any order of commits.
            is_current: readers of the newest snapshot may see it; else `make_current` follows when
                its capture has ended.

        Raises:
            CataloguePreconditionError: the table does not exist.
            ContentConflictError: the id belongs to another snapshot of the source.
            CatalogueBusyError: other writers were faster in every try.
        """
        key = layout.snapshot_by_id(self._tenant, snapshot.table_id, snapshot.snapshot_id)

        def attempt() -> bool | None:
            known = self.get(snapshot.table_id, snapshot.snapshot_id)
            if known is not None and known.native_id != snapshot.native_id:
                raise ContentConflictError(key=key)
            if known is not None:
                return False
            current = self._roots.current(snapshot.table_id)
            ops = self._ingestion(snapshot, current, is_current=is_current)
            return True if ops and self._is_applied(ops) else None

        return self._account.repeat(key, attempt)

    def record_present(
        self, table_id: UUID, order: tuple[datetime, int, int], *, at: datetime
    ) -> None:
        """Record which snapshot the source has: newer ones of the catalogue were rolled back.

        A snapshot that was rolled back does not become current, and `as_of` leaves it out from
        this time on, until the source has it again. Safe to repeat.

        Args:
            table_id: of the table.
            order: of the snapshot, which the catalogue need not have.
            at: when a capture listed the source.

        Raises:
            CatalogueBusyError: other writers were faster in every try.
        """
        prefix = layout.snapshots_by_time(self._tenant, table_id)

        def attempt() -> bool | None:
            ops = list(self._turns(prefix, order, at))
            parts = [ops[start : start + PAGE] for start in range(0, len(ops), PAGE)]
            return True if all(map(self._is_applied, parts)) else None

        self._account.repeat(prefix, attempt)

    def make_current(self, table_id: UUID, snapshot_id: int) -> bool:
        """Make a snapshot the newest one for readers.

        False: the current one is newer or the same, or the source has rolled this one back.

        Raises:
            CatalogueNotFoundError: there is no such snapshot.
            CataloguePreconditionError: the table does not exist.
            CatalogueBusyError: other writers were faster in every try.
        """
        key = layout.snapshot_by_id(self._tenant, table_id, snapshot_id)

        def attempt() -> bool | None:
            snapshot = self.get(table_id, snapshot_id)
            if snapshot is None:
                raise CatalogueNotFoundError(key=key)
            current = self._roots.current(table_id)
            # Read before the turns are judged: a rollback that is recorded meanwhile is not missed.
            listed = self._account.pointers.get(self._keys(snapshot)[1])
            ops = self._current_move(snapshot)
            if not ops:
                return False
            moved = self._roots.move(
                current, replace(current.root, current_snapshot_id=snapshot_id)
            )
            unchanged = _unchanged(key, self._keys(snapshot)[1], listed)
            batch = None if moved is None else [*ops, *moved, *unchanged]
            return True if batch and self._is_applied(batch) else None

        return self._account.repeat(key, attempt)

    def get(self, table_id: UUID, snapshot_id: int) -> Snapshot | None:
        key = layout.snapshot_by_id(self._tenant, table_id, snapshot_id)
        pointer = self._account.pointers.get(key)
        return None if pointer is None else self._read(pointer)

    def current(self, table_id: UUID) -> Snapshot | None:
        """The newest snapshot that readers may see."""
        pointer = self._account.pointers.get(layout.current_snapshot(self._tenant, table_id))
        return None if pointer is None else self._read(pointer)

    def newest_first(self, table_id: UUID) -> Iterator[Snapshot]:
        """By time of commit, then by id."""
        prefix = layout.snapshots_by_time(self._tenant, table_id)
        return map(self._read, self._account.pages(prefix))

    def as_of(self, table_id: UUID, at: datetime) -> Snapshot | None:
        """The newest commit that is not after a time and was not rolled back by then."""
        prefix = layout.snapshots_by_time(self._tenant, table_id)
        first = layout.snapshot_by_time(self._tenant, table_id, at, layout.MAX_NUMBER)
        # Before every snapshot of the same millisecond: their keys are longer.
        token: str | None = token_after(prefix, first.rpartition("-")[0])
        while token is not None:
            page = self._account.pointers.list(prefix, limit=PAGE, token=token)
            for pointer in page.pointers:
                snapshot = self._read(pointer)
                if snapshot.committed_at <= at and not _is_rolled_back(pointer, at):
                    return snapshot
            token = page.token
        return None

    def pin(self, table_id: UUID, run_id: RunId, snapshot_id: int, *, until: datetime) -> None:
        """Protect the current state of a table, with a snapshot of it, for a run.

        Raises:
            CataloguePreconditionError: the table or the snapshot does not exist.
            CatalogueBusyError: other writers were faster in every try.
        """
        key = layout.pin(self._tenant, table_id, run_id)
        by_id = layout.snapshot_by_id(self._tenant, table_id, snapshot_id)

        def attempt() -> bool | None:
            active = layout.active_targets(self._tenant, table_id, snapshot_id)
            present = self._account.pointers.get_many([key, by_id, active])
            if key in present:
                return True
            if by_id not in present:
                raise CataloguePreconditionError(key=key, rule=f"{by_id} does not exist")
            root = self._roots.current(table_id).pointer
            pin = Pointer(
                key=key,
                blob_key=root.blob_key,
                payload=_pin_payload(snapshot_id, present.get(active)),
                resource_id=table_id,
                expires_at=until,
            )
            ops: list[Op] = [
                Upsert(next=pin, expected=0),
                # The same root at the next version: a removal that has read no pin starts again.
                Upsert(next=root, expected=root.version),
                CheckPresent(key=by_id),
                # A generation that is pinned has not been removed meanwhile.
                Check(key=active, expected=present[active].version if active in present else 0),
            ]
            return True if self._is_applied(ops) else None

        self._account.repeat(key, attempt)

    def unpin(self, table_id: UUID, run_id: RunId) -> None:
        """End a pin before its time; a missing one is success."""
        key = layout.pin(self._tenant, table_id, run_id)
        pointer = self._account.pointers.get(key)
        if pointer is not None:
            self._account.pointers.batch([Delete(key=key, expected=pointer.version)])

    def pinned(self, table_id: UUID, run_id: RunId) -> PinnedTable:
        """The table as the run pinned it, whatever has changed since.

        Raises:
            CatalogueNotFoundError: there is no such pin.
        """
        key = layout.pin(self._tenant, table_id, run_id)
        pointer = self._account.pointers.get(key)
        if pointer is None:
            raise CatalogueNotFoundError(key=key)
        root = self._account.read(TableRoot, require_blob(pointer))
        entries = sorted(self._roots.entries(root), key=_order, reverse=True)
        return PinnedTable(
            table=self._account.read(Table, root.table_blob),
            snapshots=tuple(self._account.read(Snapshot, one.blob_key) for one in entries),
            current_snapshot_id=root.current_snapshot_id,
            statistics=pinned_statistics(table_id, pointer),
        )

    def remove(self, table_id: UUID, snapshot_id: int) -> bool:
        """Remove a snapshot with its statistics and constraints; False: there was none.

        Raises:
            CataloguePreconditionError: a run has pinned it, or the table does not exist.
            CatalogueBusyError: other writers were faster in every try.
        """
        key = layout.snapshot_by_id(self._tenant, table_id, snapshot_id)

        def attempt() -> bool | None:
            snapshot = self.get(table_id, snapshot_id)
            if snapshot is None:
                return False
            current = self._roots.current(table_id)
            self._refuse_pinned(table_id, snapshot_id)
            ops = self._removal(snapshot, current)
            return True if ops and self._is_applied(ops) else None

        removed = self._account.repeat(key, attempt)
        if removed:
            # Of an unknown snapshot they may belong to a capture that has not ingested it yet.
            where = (self._tenant, table_id, snapshot_id)
            for prefix in (layout.snapshot_stats(*where), layout.indexes(*where)):
                self._account.remove_below(prefix)
            self._forget_latest(table_id, snapshot_id)
        return removed

    def _forget_latest(self, table_id: UUID, snapshot_id: int) -> None:
        """No snapshot is the newest with statistics until the next publication."""
        prefix = layout.latest_prefix(self._tenant, table_id)
        named = [
            one
            for one in self._account.pages(prefix)
            if json.loads(one.payload or b"{}").get("snapshot_id") == str(snapshot_id)
        ]
        for one in named:
            self._account.pointers.batch([Delete(key=one.key, expected=one.version)])

    def _is_applied(self, ops: list[Op]) -> bool:
        return isinstance(self._account.pointers.batch(ops), Applied)

    def _read(self, pointer: Pointer) -> Snapshot:
        return self._account.read(Snapshot, require_blob(pointer))

    def _ingestion(
        self, snapshot: Snapshot, current: CurrentRoot, *, is_current: bool
    ) -> list[Op] | None:
        staged = self._account.stage(self._new(snapshot))
        if staged is None:
            return None
        (blob_key,) = staged.blob_keys
        added = self._roots.add_entry(current.root, snapshot.entry(blob_key))
        if added is None:
            return None
        root, page = added
        current_move = self._current_move(snapshot, blob_key) if is_current else []
        if current_move:
            root = replace(root, current_snapshot_id=snapshot.snapshot_id)
        moved = self._roots.move(current, root)
        if moved is None:
            return None
        fences = _fences(staged, page)
        return [*self._new_pointers(snapshot, blob_key), *current_move, *moved, *fences]

    def _new(self, snapshot: Snapshot) -> NewRecord:
        where = (self._tenant, snapshot.table_id, snapshot.snapshot_id)
        return NewRecord(record=snapshot, key_of=lambda sha: layout.snapshot_blob(*where, sha))

    def _new_pointers(self, snapshot: Snapshot, blob_key: str) -> list[Op]:
        table_id = snapshot.table_id
        keys = self._keys(snapshot)
        return [
            *(
                Upsert(next=Pointer(key=key, blob_key=blob_key, resource_id=table_id), expected=0)
                for key in keys
            ),
            CheckPresent(key=layout.table_by_id(self._tenant, table_id), resource_id=table_id),
        ]

    def _keys(self, snapshot: Snapshot) -> tuple[str, str]:
        where = (self._tenant, snapshot.table_id)
        return (
            layout.snapshot_by_id(*where, snapshot.snapshot_id),
            layout.snapshot_by_time(*where, snapshot.committed_at, snapshot.snapshot_id),
        )

    def _current_move(self, snapshot: Snapshot, blob_key: str | None = None) -> list[Op]:
        """The operation that makes a snapshot the current one; none if the current stays."""
        key = layout.current_snapshot(self._tenant, snapshot.table_id)
        present = self._account.pointers.get(key)
        entry = snapshot.entry("")
        if self._is_gone(snapshot.table_id, entry):
            return []
        before = None if present is None else self._read(present).entry("")
        if before is not None and before.order >= entry.order:
            is_same = before.order == entry.order
            if is_same or not self._is_gone(snapshot.table_id, before):
                return []
        if blob_key is None:
            by_id, _ = self._keys(snapshot)
            stored = self._account.pointers.get(by_id)
            blob_key = None if stored is None else stored.blob_key
        pointer = Pointer(key=key, blob_key=blob_key, resource_id=snapshot.table_id)
        return [Upsert(next=pointer, expected=0 if present is None else present.version)]

    def _is_gone(self, table_id: UUID, entry: ManifestEntry) -> bool:
        """Whether the source has rolled a snapshot back and does not have it again."""
        key = layout.snapshot_by_time(self._tenant, table_id, entry.committed_at, entry.snapshot_id)
        pointer = self._account.pointers.get(key)
        return pointer is not None and _is_rolled_back(pointer, None)

    def _turns(self, prefix: str, order: tuple[datetime, int, int], at: datetime) -> Iterator[Op]:
        """The marks that change when the source has the snapshot of an order."""
        for pointer in self._account.pages(prefix):
            snapshot = self._read(pointer)
            # The list is sorted by milliseconds and id.
            if snapshot.committed_at < order[0] - timedelta(milliseconds=1):
                return
            listed = snapshot.entry("").order
            if listed >= order and (listed > order) is not _is_rolled_back(pointer, None):
                turns = [*texts(pointer, "turns"), instant_text(at)]
                payload = canonical_json({"turns": turns[2 if len(turns) > MOST_TURNS else 0 :]})
                turned = replace(pointer, payload=payload)
                yield Upsert(next=turned, expected=pointer.version)

    def _refuse_pinned(self, table_id: UUID, snapshot_id: int) -> None:
        for pointer in self._account.pages(layout.pins(self._tenant, table_id)):
            content = json.loads(pointer.payload or b"{}")
            if content.get("snapshot_id") == str(snapshot_id):
                raise CataloguePreconditionError(
                    key=layout.snapshot_by_id(self._tenant, table_id, snapshot_id),
                    rule=f"run {pointer.key.rpartition('/')[2]} has pinned it",
                )

    def _removal(self, snapshot: Snapshot, current: CurrentRoot) -> list[Op] | None:
        left = [
            entry
            for entry in self._roots.entries(current.root)
            if entry.snapshot_id != snapshot.snapshot_id
        ]
        rewritten = self._roots.rewrite_entries(current.root, left)
        if rewritten is None:
            return None
        root, fences = rewritten
        current_ops: list[Op] = []
        if root.current_snapshot_id == snapshot.snapshot_id:
            successor = self._successor(snapshot, left)
            root = replace(
                root, current_snapshot_id=None if successor is None else successor.snapshot_id
            )
            current_ops = self._succession(snapshot.table_id, successor)
        moved = self._roots.move(current, root)
        if moved is None:
            return None
        keys = (
            *self._keys(snapshot),
            layout.constraints_by_snapshot(self._tenant, snapshot.table_id, snapshot.snapshot_id),
        )
        present = self._account.pointers.get_many(keys)
        deleted = [Delete(key=key, expected=one.version) for key, one in present.items()]
        return [*deleted, *current_ops, *moved, *fences]

    def _successor(self, snapshot: Snapshot, left: list[ManifestEntry]) -> ManifestEntry | None:
        """The newest one that was current before: a later one may still be captured."""
        older = [one for one in left if one.order < snapshot.entry("").order]
        newest_first = sorted(older, key=_order, reverse=True)
        return next(
            (one for one in newest_first if not self._is_gone(snapshot.table_id, one)), None
        )

    def _succession(self, table_id: UUID, successor: ManifestEntry | None) -> list[Op]:
        key = layout.current_snapshot(self._tenant, table_id)
        present = self._account.pointers.get(key)
        if present is None:
            return []
        if successor is None:
            return [Delete(key=key, expected=present.version)]
        pointer = Pointer(key=key, blob_key=successor.blob_key, resource_id=table_id)
        return [Upsert(next=pointer, expected=present.version)]


def _pin_payload(snapshot_id: int, active: Pointer | None) -> bytes:
    statistics = None
    if active is not None:
        payload = (active.payload or b"{}").decode()
        statistics = {"publication": payload, "manifest": require_blob(active)}
    return canonical_json({"snapshot_id": str(snapshot_id), "statistics": statistics})


def pinned_statistics(table_id: UUID, pin: Pointer) -> ActiveGeneration | None:
    """The statistics that a pin protects."""
    content = json.loads(pin.payload or b"{}")
    statistics = content.get("statistics")
    if statistics is None:
        return None
    return active_generation(
        table_id,
        int(content["snapshot_id"]),
        statistics["publication"].encode(),
        statistics["manifest"],
    )


def _is_rolled_back(pointer: Pointer, at: datetime | None) -> bool:
    """Of an entry of the list by time: whether the source did not have the snapshot at a time.

    Args:
        pointer: with the times at which captures saw it rolled back, and seen again, by turns.
        at: the time; None: now.
    """
    turns = [datetime.fromisoformat(one) for one in texts(pointer, "turns")]
    return sum(at is None or one <= at for one in turns) % 2 == 1


def _unchanged(by_id: str, by_time: str, listed: Pointer | None) -> list[Op]:
    """The snapshot still exists, and no capture has seen it rolled back since it was read."""
    version = 0 if listed is None else listed.version
    return [CheckPresent(key=by_id), Check(key=by_time, expected=version)]


def _order(entry: ManifestEntry) -> tuple[datetime, int, int]:
    return entry.order


def _fences(*staged: Staged) -> list[Op]:
    return [fence for one in staged for fence in one.fences]
