"""Tables and their roots: a root is the whole state of a table, and `root/current` its newest one.

Every change of a table or of its snapshots moves the current root in the same batch, so that two
changes at once never hide each other and a reader that pins a root reads one table for ever.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from datarecs_application.catalogue.account import (
    CatalogueAccount,
    NewRecord,
    Staged,
    require_blob,
)
from datarecs_application.catalogue.entities import Entities
from datarecs_core.catalog import layout
from datarecs_core.catalog.pointers import Delete, Op, Pointer, Upsert
from datarecs_core.catalog.records import ManifestEntry, SnapshotManifest, Table, TableRoot
from datarecs_core.errors.catalogue import CataloguePreconditionError

ENTRIES = 64
"""Snapshots in a page of a root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentRoot:
    """The root of a table, and the pointer that named it."""

    root: TableRoot
    pointer: Pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRoots:
    """The roots of the tables of one account."""

    account: CatalogueAccount

    def current(self, table_id: UUID) -> CurrentRoot:
        """The newest root.

        Raises:
            CataloguePreconditionError: the table does not exist.
        """
        key = layout.current_root(self.account.tenant, table_id)
        pointer = self.account.pointers.get(key)
        if pointer is None:
            raise CataloguePreconditionError(key=key, rule=f"table {table_id} does not exist")
        root = self.account.read(TableRoot, require_blob(pointer))
        return CurrentRoot(root=root, pointer=pointer)

    def move(self, current: CurrentRoot, root: TableRoot) -> list[Op] | None:
        """Store the next root; the operations that make it the current one."""
        following = replace(root, root_version=current.root.root_version + 1)
        return self._store(following, expected=current.pointer.version)

    def begin(self, table_id: UUID, table_blob: str) -> list[Op] | None:
        """The same for the first root of a table."""
        root = TableRoot(table_id=table_id, root_version=1, table_blob=table_blob)
        return self._store(root, expected=0)

    def entries(self, root: TableRoot) -> Iterator[ManifestEntry]:
        """The snapshots of a root, the last ingested first."""
        for _, page in self.manifests(root):
            yield from page.entries

    def manifests(self, root: TableRoot) -> Iterator[tuple[str, SnapshotManifest]]:
        """The pages of a root with their blobs, the newest first."""
        blob_key = root.manifest
        while blob_key is not None:
            page = self.account.read(SnapshotManifest, blob_key)
            yield blob_key, page
            blob_key = page.older

    def add_entry(self, root: TableRoot, entry: ManifestEntry) -> tuple[TableRoot, Staged] | None:
        """Store the newest page with one more snapshot, and name it in a root."""
        page = SnapshotManifest(entries=())
        if root.manifest is not None:
            page = self.account.read(SnapshotManifest, root.manifest)
        if len(page.entries) >= ENTRIES:
            page = SnapshotManifest(entries=(), older=root.manifest)
        longer = replace(page, entries=(entry, *page.entries))
        staged = self.account.stage(NewRecord(record=longer, key_of=self._page(root.table_id)))
        if staged is None:
            return None
        count = root.snapshot_count + 1
        return replace(root, manifest=staged.blob_keys[0], snapshot_count=count), staged

    def rewrite_entries(
        self, root: TableRoot, entries: Sequence[ManifestEntry]
    ) -> tuple[TableRoot, list[Op]] | None:
        """Store all pages again, the oldest first, and name them in a root."""
        older: str | None = None
        fences: list[Op] = []
        oldest_first = list(_cut(entries))[::-1]
        for page in oldest_first:
            record = SnapshotManifest(entries=tuple(page), older=older)
            staged = self.account.stage(NewRecord(record=record, key_of=self._page(root.table_id)))
            if staged is None:
                return None
            (older,) = staged.blob_keys
            fences += staged.fences
        return replace(root, manifest=older, snapshot_count=len(entries)), fences

    def _page(self, table_id: UUID) -> Callable[[str], str]:
        return lambda sha: layout.root_manifest_blob(self.account.tenant, table_id, sha)

    def _store(self, root: TableRoot, *, expected: int) -> list[Op] | None:
        tenant = self.account.tenant
        staged = self.account.stage(
            NewRecord(record=root, key_of=lambda sha: layout.root_blob(tenant, root.table_id, sha))
        )
        if staged is None:
            return None
        pointer = Pointer(
            key=layout.current_root(tenant, root.table_id),
            blob_key=staged.blob_keys[0],
            resource_id=root.table_id,
        )
        return [Upsert(next=pointer, expected=expected), *staged.fences]


class Tables(Entities[Table]):
    """The tables of one account, each with its root."""

    def __init__(self, account: CatalogueAccount) -> None:
        super().__init__(account, Table)
        self._roots = TableRoots(account=account)

    def _create_companions(self, record: Table, staged: Staged) -> list[Op] | None:
        return self._roots.begin(record.id, staged.blob_keys[0])

    def _update_companions(self, record: Table, staged: Staged) -> list[Op] | None:
        current = self._roots.current(record.id)
        return self._roots.move(current, replace(current.root, table_blob=staged.blob_keys[0]))

    def _delete_companions(self, resource_id: UUID) -> list[Op]:
        """What is left below the table goes with the next collection, after the last pin."""
        tenant = self._account.tenant
        keys = [
            layout.current_root(tenant, resource_id),
            layout.current_snapshot(tenant, resource_id),
        ]
        present = self._account.pointers.get_many(keys)
        return [Delete(key=key, expected=one.version) for key, one in present.items()]


def _cut(entries: Sequence[ManifestEntry]) -> Iterable[Sequence[ManifestEntry]]:
    """Full pages from the oldest on; only the newest page may be shorter."""
    first = len(entries) % ENTRIES
    if first:
        yield entries[:first]
    for start in range(first, len(entries), ENTRIES):
        yield entries[start : start + ENTRIES]
