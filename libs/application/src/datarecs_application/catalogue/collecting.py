"""Remove blobs that nothing names any more, and never one that is reachable.

Owner by owner, since the key of a blob names the owner that alone can reach it: read what is
reachable, announce the removal of old other blobs by fences, read again, then delete. A writer that
stored one of these blobs meanwhile has read an older fence, so its batch is rejected and it stores
the blob again (ADR 0161).
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from uuid import UUID

from datarecs_application.catalogue.account import (
    PAGE,
    CatalogueAccount,
    deleting_until,
    fence,
    require_blob,
)
from datarecs_application.catalogue.ended import (
    EndedGeneration,
    ended_generations,
    pinned_manifest,
    remove_generation,
)
from datarecs_application.catalogue.indexes import sidecar_of
from datarecs_application.catalogue.planned_files import SUFFIX, list_of
from datarecs_application.catalogue.tables import TableRoots
from datarecs_application.ports.outside import BlobInfo
from datarecs_core.catalog import layout
from datarecs_core.catalog.pointers import Applied, Pointer, Upsert
from datarecs_core.catalog.records import TableRoot
from datarecs_core.errors.base import DatarecsError
from datarecs_core.values import TenantId

MIN_AGE = timedelta(hours=1)
"""Younger blobs may belong to a writer that has not moved its pointers yet."""
DELETE_WITHIN = timedelta(seconds=10)
"""After an announcement; a slower process stops."""
ANNOUNCED_FOR = timedelta(seconds=60)
"""From then on another process may take over."""
REMOVED_AT_ONCE = 100
"""Blobs of one announcement: an object store takes tens of milliseconds for each."""
REMEMBERED_FOR = timedelta(hours=24)
"""How long a fence outlives the removal; longer than any writer takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What a pass did."""

    scanned: int = 0
    deleted: int = 0
    rescued: int = 0
    """Became reachable between the two readings."""
    generations: int = 0
    """Ended generations of statistics whose records were removed."""
    failed_owners: tuple[str, ...] = ()
    """Prefixes whose pointers or records cannot be read completely; nothing was deleted there."""

    def __add__(self, other: "Collected") -> "Collected":
        return Collected(
            scanned=self.scanned + other.scanned,
            deleted=self.deleted + other.deleted,
            rescued=self.rescued + other.rescued,
            generations=self.generations + other.generations,
            failed_owners=self.failed_owners + other.failed_owners,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a pass would do."""

    scanned: int
    unreachable: tuple[str, ...]
    """Keys of blobs that would be deleted."""
    failed_owners: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owner:
    """Who can reach the blobs below a prefix."""

    prefix: str
    reachable: Callable[[], frozenset[str]]
    ended: Callable[[], Sequence[EndedGeneration]] = tuple
    """Generations whose records are removed first; `reachable` counts only what they leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """Collects in one account; a second process at the same time is harmless."""

    account: CatalogueAccount
    is_live_job: Callable[[UUID], bool] | None = None
    """Whether a work item of captures has not been removed; None: their blobs are not collected."""

    def collect(self) -> Collected:
        """One pass over the blobs of the catalogue, its fences and its expired pointers."""
        while self.account.pointers.delete_expired(limit=PAGE) == PAGE:
            pass
        self._take_over()
        total = Collected()
        for owner, blobs in self._owners():
            try:
                total += self._collect_owner(owner, blobs)
            except DatarecsError:
                total += Collected(scanned=len(blobs), failed_owners=(owner.prefix,))
        return total

    def report(self) -> Report:
        """What `collect` would delete now; nothing is changed."""
        scanned, unreachable, failed = 0, [], []
        for owner, blobs in self._owners(removes_ended=False):
            scanned += len(blobs)
            try:
                unreachable += self._old(blobs, owner.reachable())
            except DatarecsError:
                failed.append(owner.prefix)
        return Report(scanned=scanned, unreachable=tuple(unreachable), failed_owners=tuple(failed))

    def _owners(self, *, removes_ended: bool = True) -> Iterator[tuple[_Owner, list[BlobInfo]]]:
        """Every owner with its blobs. Runs have an owner elsewhere."""
        prefix = layout.account_prefix(self.account.tenant)
        account = layout.account_pointer(self.account.tenant)
        blobs = list(self.account.blobs.list(f"{prefix}account/"))
        yield self._owner(f"{prefix}account/", account), blobs
        for family, by_id in _BY_ID.items():
            listed = self.account.blobs.list(f"{prefix}{family}/")
            for segment, group in groupby(listed, _owner_id):
                owner = self._owner(
                    f"{prefix}{family}/{segment}/", by_id(self.account.tenant, UUID(segment))
                )
                if family == "tables":
                    owner = self._table(UUID(segment), removes_ended=removes_ended)
                yield owner, list(group)
        if self.is_live_job is not None:
            listed = self.account.blobs.list(layout.capture_jobs(self.account.tenant))
            for segment, group in groupby(listed, _job_id):
                blobs = list(group)
                yield self._job(UUID(segment), self.is_live_job, blobs), blobs

    def _owner(self, prefix: str, by_id: str) -> _Owner:
        """An owner with one record."""

        def reachable() -> frozenset[str]:
            pointer = self.account.pointers.get(by_id)
            return frozenset() if pointer is None else frozenset({require_blob(pointer)})

        return _Owner(prefix=prefix, reachable=reachable)

    def _job(self, job: UUID, is_live: Callable[[UUID], bool], blobs: Sequence[BlobInfo]) -> _Owner:
        """A work item: as long as it is live, all of its blobs are."""
        keys = frozenset(info.key for info in blobs)
        return _Owner(
            prefix=layout.capture_job_blobs(self.account.tenant, job),
            reachable=lambda: keys if is_live(job) else frozenset(),
        )

    def _table(self, table_id: UUID, *, removes_ended: bool) -> _Owner:
        tenant = self.account.tenant
        below = layout.table_pointers(tenant, table_id)
        by_id = layout.table_by_id(tenant, table_id)
        pins = layout.pins(tenant, table_id)

        def is_gone() -> bool:
            exists = self.account.pointers.get(by_id) is not None
            return not exists and not self.account.pointers.count(pins, cap=1)

        def ended() -> Sequence[EndedGeneration]:
            pointers = list(self.account.pages(below))
            return ended_generations(table_id, pointers, now=self.account.clock.now())

        def reachable() -> frozenset[str]:
            if is_gone():
                # A deleted table without a pin: nothing can be added below it any more.
                if removes_ended:
                    self.account.remove_below(below)
                return frozenset()
            table = self.account.pointers.get(by_id)
            pointers = [*self.account.pages(below), *([] if table is None else [table])]
            if not removes_ended:
                past = ended_generations(table_id, pointers, now=self.account.clock.now())
                pointers = [one for one in pointers if not any(end.has(one) for end in past)]
            return frozenset(_named(pointers)).union(
                *(self._root_blobs(key) for key in _roots(pointers, (pins, f"{below}root/")))
            )

        return _Owner(
            prefix=layout.table_blobs(tenant, table_id),
            reachable=reachable,
            ended=ended if removes_ended else tuple,
        )

    def _root_blobs(self, blob_key: str) -> frozenset[str]:
        """Everything that a root names."""
        root = self.account.read(TableRoot, blob_key)
        named = {root.table_blob}
        for page_key, page in TableRoots(account=self.account).manifests(root):
            named |= {page_key, *(entry.blob_key for entry in page.entries)}
        return frozenset(named)

    def _collect_owner(self, owner: _Owner, blobs: Sequence[BlobInfo]) -> Collected:
        ended = owner.ended()
        for generation in ended:
            remove_generation(self.account, generation)
        old = self._old(blobs, owner.reachable())
        total = Collected(scanned=len(blobs), generations=len(ended))
        for start in range(0, len(old), REMOVED_AT_ONCE):
            deleted, rescued = self._remove(owner, old[start : start + REMOVED_AT_ONCE])
            total += Collected(deleted=deleted, rescued=rescued)
        return total

    def _old(self, blobs: Sequence[BlobInfo], reachable: frozenset[str]) -> list[str]:
        """The blobs that nothing names and that no writer may still be about to name."""
        oldest = self.account.clock.now() - MIN_AGE
        return [
            info.key for info in blobs if info.last_modified < oldest and info.key not in reachable
        ]

    def _remove(self, owner: _Owner, blob_keys: Sequence[str]) -> tuple[int, int]:
        """Announce, read again, delete, close: the number of deleted and of rescued blobs."""
        began = self.account.clock.monotonic()
        until = self.account.clock.now() + ANNOUNCED_FOR
        fences = self._announce(blob_keys, until)
        if fences is None:
            return 0, 0
        reachable = owner.reachable()
        dead = [key for key in blob_keys if key not in reachable]
        deleted = 0
        for key in dead:
            if self.account.clock.monotonic() - began > DELETE_WITHIN.total_seconds():
                break  # the fences stay until another pass takes over
            self.account.blobs.delete(key)
            deleted += 1
        else:
            self._close(fences)
        return deleted, len(blob_keys) - len(dead)

    def _announce(self, blob_keys: Sequence[str], until: datetime) -> list[Pointer] | None:
        """Fences of the blobs; None if another process removes one of them."""
        keys = {layout.blob_deletion(self.account.tenant, key): key for key in blob_keys}
        present = self.account.pointers.get_many(keys)
        ops = [
            Upsert(
                next=fence(key, blob_key=blob_key, until=until),
                expected=present[key].version if key in present else 0,
            )
            for key, blob_key in keys.items()
        ]
        if any(deleting_until(one) is not None for one in present.values()):
            return None
        outcome = self.account.pointers.batch(ops)
        if not isinstance(outcome, Applied):
            return None
        return [replace(op.next, version=outcome.versions[op.key]) for op in ops]

    def _close(self, fences: Sequence[Pointer]) -> None:
        """End the removal: writers that have read the announced version start again."""
        forgotten_at = self.account.clock.now() + REMEMBERED_FOR
        ops = [
            Upsert(
                next=replace(
                    fence(one.key, blob_key=_blob_of(one), until=None), expires_at=forgotten_at
                ),
                expected=one.version,
            )
            for one in fences
        ]
        self.account.pointers.batch(ops)

    def _take_over(self) -> None:
        """Close the fences of a process that has ended or is too slow to delete."""
        now = self.account.clock.now()
        late = [
            one
            for one in self.account.pages(layout.blob_deletions(self.account.tenant))
            if (until := deleting_until(one)) is not None and until < now
        ]
        for start in range(0, len(late), PAGE):
            self._close(late[start : start + PAGE])


_BY_ID: Mapping[str, Callable[[TenantId, UUID], str]] = {
    "catalogs": layout.catalog_by_id,
    "connectors": layout.connector_by_id,
    "namespaces": layout.namespace_by_id,
    "tables": layout.table_by_id,
    "views": layout.view_by_id,
}
"""The pointer of an owner, by the folder of its blobs."""


def _owner_id(info: BlobInfo) -> str:
    """`accounts/<account>/<family>/<owner>/…`."""
    return info.key.split("/")[3]


def _job_id(info: BlobInfo) -> str:
    """`accounts/<account>/capture/jobs/<job>/…`."""
    return info.key.split("/")[4]


def _named(pointers: Sequence[Pointer]) -> Iterator[str]:
    """Every blob that pointers of a table name, in a field or in a payload."""
    for pointer in pointers:
        if pointer.blob_key is not None:
            yield pointer.blob_key
        if "/index-artifacts/" in pointer.key and (sidecar := sidecar_of(pointer)) is not None:
            yield sidecar
        if pointer.key.endswith(SUFFIX):
            yield list_of(pointer)
        if "/pins/" in pointer.key and (manifest := pinned_manifest(pointer)) is not None:
            yield manifest


def _roots(pointers: Sequence[Pointer], prefixes: tuple[str, ...]) -> set[str]:
    return {
        one.blob_key
        for one in pointers
        if one.blob_key is not None and one.key.startswith(prefixes)
    }


def _blob_of(pointer: Pointer) -> str:
    return str(json.loads(pointer.payload or b"{}")["blob"])
