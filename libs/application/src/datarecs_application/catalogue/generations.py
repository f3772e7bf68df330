"""Generations of statistics: written as drafts, published at once, read as they were published.

A full rescan writes a draft beside the generation that readers see. One batch makes it visible,
supersedes the generation before and finalises the snapshot: its status is the pointer
`targets-active`. Spec catalogue-storage 9, ADR 0166.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from datarecs_application.catalogue.account import PAGE, CatalogueAccount, NewRecord, require_blob
from datarecs_core.catalog import layout
from datarecs_core.catalog.generations import (
    ActiveGeneration,
    GenerationState,
    Lifecycle,
    active_generation,
    lifecycle_of,
)
from datarecs_core.catalog.pointers import Applied, Check, CheckPresent, Delete, Op, Pointer, Upsert
from datarecs_core.catalog.publication import Captured
from datarecs_core.catalog.records import (
    FileStats,
    PublishedTarget,
    Snapshot,
    StatsManifest,
    TargetStats,
)
from datarecs_core.errors.catalogue import (
    CatalogueInconsistentError,
    CataloguePreconditionError,
)
from datarecs_core.hashing import canonical_json
from datarecs_core.values import instant_text

PUBLISH_WITHIN = timedelta(minutes=30)
"""A publication that did not end by then was interrupted, and another one may follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """The lifecycle of a generation and its pointer; of `base` it may not exist yet."""

    state: Lifecycle | None
    version: int


class Generations:
    """The generations of statistics in one account."""

    def __init__(self, account: CatalogueAccount) -> None:
        self._account, self._tenant = account, account.tenant

    def active(self, table_id: UUID, snapshot_id: int) -> ActiveGeneration | None:
        """The generation that readers see; None: the snapshot is not finalised."""
        pointer = self._account.pointers.get(self._active_key(table_id, snapshot_id))
        return None if pointer is None else _active(table_id, snapshot_id, pointer)

    def published(
        self, table_id: UUID, snapshot_id: int, generation: str
    ) -> ActiveGeneration | None:
        """The last publication of a generation, also of a superseded one that is still stored."""
        stored = self._lifecycle(table_id, snapshot_id, generation)
        return None if stored.state is None else stored.state.publication

    def begin_draft(self, table_id: UUID, snapshot_id: int, generation: str) -> None:
        """Begin a generation that no reader sees; safe to repeat while it is a draft.

        Raises:
            CataloguePreconditionError: the table does not exist, or the generation is no draft any
                more.
            CatalogueBusyError: other writers were faster in every try.
        """
        key = self._lifecycle_key(table_id, snapshot_id, generation)
        if generation == layout.BASE:
            raise CataloguePreconditionError(key=key, rule="`base` needs no draft")
        table = layout.table_by_id(self._tenant, table_id)

        def attempt() -> bool | None:
            stored = self._lifecycle(table_id, snapshot_id, generation)
            if stored.state is not None:
                _require(key, stored.state, GenerationState.DRAFT)
                return True
            draft = Lifecycle(state=GenerationState.DRAFT, since=self._account.clock.now())
            outcome = self._account.pointers.batch(
                [self._move(key, table_id, draft, expected=0), CheckPresent(key=table)]
            )
            if not isinstance(outcome, Applied) and outcome.key == table:
                raise CataloguePreconditionError(key=key, rule=f"table {table_id} does not exist")
            return True if isinstance(outcome, Applied) else None

        self._account.repeat(key, attempt)

    def writable(self, table_id: UUID, snapshot_id: int, generation: str) -> Check:
        """The check of a batch that adds records: the generation must stay as it is now.

        Raises:
            CataloguePreconditionError: it accepts no records.
        """
        key = self._lifecycle_key(table_id, snapshot_id, generation)
        stored = self._lifecycle(table_id, snapshot_id, generation)
        if stored.state is None and generation != layout.BASE:
            raise CataloguePreconditionError(key=key, rule="the generation was never begun")
        if stored.state is not None and not stored.state.state.accepts_records:
            raise CataloguePreconditionError(
                key=key, rule=f"the generation is {stored.state.state} and accepts no records"
            )
        return Check(key=key, expected=stored.version)

    def abandon(self, table_id: UUID, snapshot_id: int, generation: str) -> bool:
        """End a draft without publishing it; False: there is none, or it was abandoned before.

        Raises:
            CataloguePreconditionError: it is or was published, or its publication runs.
            CatalogueBusyError: other writers were faster in every try.
        """
        key = self._lifecycle_key(table_id, snapshot_id, generation)

        def attempt() -> bool | None:
            stored = self._lifecycle(table_id, snapshot_id, generation)
            if stored.state is None or stored.state.state is GenerationState.ABANDONED:
                return False
            if not self._is_interrupted(stored.state):
                _require(key, stored.state, GenerationState.DRAFT)
            if stored.state.publication is not None:
                raise CataloguePreconditionError(key=key, rule="the generation was published")
            ended = Lifecycle(state=GenerationState.ABANDONED, since=self._account.clock.now())
            op = self._move(key, table_id, ended, expected=stored.version)
            return True if isinstance(self._account.pointers.batch([op]), Applied) else None

        return self._account.repeat(key, attempt)

    def publish(self, new: "Publication") -> int:
        """Make a generation the one that readers see; the number of the publication.

        The same publication again is success with the same number, also after an interruption.

        Raises:
            CataloguePreconditionError: the snapshot does not exist, or the generation cannot be
                published.
            CatalogueBusyError: another publication of the generation runs.
        """
        where = (new.table_id, new.snapshot_id)
        key = self._lifecycle_key(*where, new.generation)

        def attempt() -> int | None:
            before = self._account.pointers.get(self._active_key(*where))
            active = None if before is None else _active(*where, before)
            stored = self._lifecycle(*where, new.generation)
            known = None if stored.state is None else stored.state.publication
            for one in (active, known):
                if one is not None and one.is_of(new.generation, new.publication_sha):
                    return one.number
            version = self._freeze(new, stored)
            if version is None:
                return None
            following = 1 if active is None else active.number + 1
            ops = self._publication(new, following, before, version)
            if ops is None or not isinstance(self._account.pointers.batch(ops), Applied):
                return None
            return following

        return self._account.repeat(key, attempt)

    def targets(self, active: ActiveGeneration) -> Iterator[TargetStats]:
        """The statistics of targets, exactly as they were published.

        Raises:
            CatalogueInconsistentError: the manifest or a record is missing.
        """
        for target in self.manifest(active).targets:
            yield self._account.read(TargetStats, target.blob_key)

    def target(self, active: ActiveGeneration, target_id: str) -> TargetStats | None:
        for target in self.manifest(active).targets:
            if target.target_id == target_id:
                return self._account.read(TargetStats, target.blob_key)
        return None

    def files(self, active: ActiveGeneration) -> Iterator[FileStats]:
        """The statistics of files, in the order of their pointers.

        Raises:
            CatalogueInconsistentError: the manifest or a record is missing; after the last file,
                if the files are not those that were published.
        """
        manifest = self.manifest(active)
        seen = _Files()
        for pointer in self._file_pointers(active):
            yield self._account.read(FileStats, seen.add(pointer))
        seen.check(active, manifest)

    def check_files(self, active: ActiveGeneration) -> None:
        """Compare the pointers of files with what was published; no record is read.

        Raises:
            CatalogueInconsistentError: the manifest is missing, or the files are others.
        """
        seen = _Files()
        for pointer in self._file_pointers(active):
            seen.add(pointer)
        seen.check(active, self.manifest(active))

    def drafted_files(
        self, table_id: UUID, snapshot_id: int, generation: str, *, at_once: int = PAGE
    ) -> Iterator[FileStats]:
        """The statistics of files that a draft has so far, in the order of their pointers.

        Args:
            table_id: of the table.
            snapshot_id: of the snapshot.
            generation: the draft.
            at_once: files between two statements. A transaction without a statement for 30 s is
                ended, so work on each file needs a smaller number.
        """
        prefix = layout.files_of(self._tenant, table_id, snapshot_id, generation)
        for pointer in self._account.pages(prefix, at_once=at_once):
            yield self._account.read(FileStats, require_blob(pointer))

    def manifest(self, active: ActiveGeneration) -> StatsManifest:
        """What was published.

        Raises:
            CatalogueInconsistentError: its blob is missing, or of another generation.
        """
        manifest = self._account.read(StatsManifest, active.manifest)
        where = (manifest.table_id, manifest.snapshot_id, manifest.generation)
        if where != (active.table_id, active.snapshot_id, active.generation):
            raise CatalogueInconsistentError(
                key=active.manifest, fault="it is the manifest of another generation"
            )
        return manifest

    def latest(self, table_id: UUID, target_id: str | None = None) -> int | None:
        """The newest snapshot with published statistics, of the table or of one target."""
        key = layout.latest_statistics(self._tenant, table_id, target_id)
        pointer = self._account.pointers.get(key)
        return None if pointer is None else int(_content(pointer)["snapshot_id"])

    def _active_key(self, table_id: UUID, snapshot_id: int) -> str:
        return layout.active_targets(self._tenant, table_id, snapshot_id)

    def _lifecycle_key(self, table_id: UUID, snapshot_id: int, generation: str) -> str:
        return layout.lifecycle(self._tenant, table_id, snapshot_id, generation)

    def _lifecycle(self, table_id: UUID, snapshot_id: int, generation: str) -> _Stored:
        pointer = self._account.pointers.get(self._lifecycle_key(table_id, snapshot_id, generation))
        if pointer is None:
            return _Stored(state=None, version=0)
        state = lifecycle_of(table_id, snapshot_id, pointer.payload or b"{}", pointer.blob_key)
        return _Stored(state=state, version=pointer.version)

    def _move(self, key: str, table_id: UUID, state: Lifecycle, *, expected: int) -> Op:
        last = state.publication
        pointer = Pointer(
            key=key,
            blob_key=None if last is None else last.manifest,
            payload=state.payload(),
            resource_id=table_id,
        )
        return Upsert(next=pointer, expected=expected)

    def _is_interrupted(self, state: Lifecycle) -> bool:
        is_publishing = state.state is GenerationState.PUBLISHING
        return is_publishing and state.since + PUBLISH_WITHIN < self._account.clock.now()

    def _freeze(self, new: "Publication", stored: _Stored) -> int | None:
        """Enter PUBLISHING; the version of the lifecycle, or None: try again."""
        key = self._lifecycle_key(new.table_id, new.snapshot_id, new.generation)
        state = stored.state
        if state is None and new.generation != layout.BASE:
            raise CataloguePreconditionError(key=key, rule="the generation was never begun")
        if state is not None and state.state is GenerationState.PUBLISHING:
            if state.publication_sha == new.publication_sha:
                return stored.version
            if not self._is_interrupted(state):
                return None
        elif state is not None and not state.state.accepts_records:
            raise CataloguePreconditionError(key=key, rule=f"the generation is {state.state}")
        publishing = Lifecycle(
            state=GenerationState.PUBLISHING,
            since=self._account.clock.now(),
            publication_sha=new.publication_sha,
            publication=None if state is None else state.publication,
        )
        op = self._move(key, new.table_id, publishing, expected=stored.version)
        outcome = self._account.pointers.batch([op])
        return outcome.versions[key] if isinstance(outcome, Applied) else None

    def _publication(
        self, new: "Publication", following: int, before: Pointer | None, version: int
    ) -> list[Op] | None:
        """Store the manifest; the batch that makes the generation visible."""
        where = (new.table_id, new.snapshot_id)
        manifest = self._new_manifest(new)
        staged = self._account.stage(
            NewRecord(
                record=manifest,
                key_of=lambda sha: layout.stats_manifest_blob(
                    self._tenant, *where, new.generation, sha
                ),
            )
        )
        if staged is None:
            return None
        active = ActiveGeneration(
            table_id=new.table_id,
            snapshot_id=new.snapshot_id,
            generation=new.generation,
            number=following,
            publication_sha=new.publication_sha,
            finalizer_job_id=new.finalizer_job_id,
            finalized_at=new.finalized_at,
            manifest=staged.blob_keys[0],
        )
        pointer = Pointer(
            key=self._active_key(*where),
            blob_key=active.manifest,
            payload=active.payload(),
            resource_id=new.table_id,
        )
        published = Lifecycle(
            state=GenerationState.PUBLISHED,
            since=new.finalized_at,
            publication_sha=new.publication_sha,
            publication=active,
        )
        key = self._lifecycle_key(*where, new.generation)
        return [
            Upsert(next=pointer, expected=0 if before is None else before.version),
            self._move(key, new.table_id, published, expected=version),
            *self._superseded(active, before),
            *self._latest(active, [one.target_id for one in manifest.targets]),
            *self._planned_files(active),
            *staged.fences,
        ]

    def _new_manifest(self, new: "Publication") -> StatsManifest:
        where = (self._tenant, new.table_id, new.snapshot_id, new.generation)
        targets = []
        for pointer in self._account.pages(layout.targets_of(*where)):
            blob_key = require_blob(pointer)
            record = self._account.read(TargetStats, blob_key)
            targets.append(PublishedTarget(target_id=record.target_id, blob_key=blob_key))
        files = _Files()
        for pointer in self._account.pages(layout.files_of(*where)):
            files.add(pointer)
        return StatsManifest(
            table_id=new.table_id,
            snapshot_id=new.snapshot_id,
            generation=new.generation,
            publication_sha=new.publication_sha,
            targets=tuple(targets),
            files=files.count,
            files_sha256=files.sha256(),
            captured=new.captured,
        )

    def _superseded(self, active: ActiveGeneration, before: Pointer | None) -> list[Op]:
        """The end of the generation that readers saw before, or of a `base` without readers."""
        where = (active.table_id, active.snapshot_id)
        last = None if before is None else _active(*where, before)
        generation = layout.BASE if last is None else last.generation
        if generation == active.generation:
            return []
        key = self._lifecycle_key(*where, generation)
        stored = self._lifecycle(*where, generation)
        ended = Lifecycle(
            state=GenerationState.SUPERSEDED,
            since=self._account.clock.now(),
            publication_sha=None if last is None else last.publication_sha,
            publication=last,
        )
        return [self._move(key, active.table_id, ended, expected=stored.version)]

    def _latest(self, active: ActiveGeneration, target_ids: Sequence[str]) -> list[Op]:
        """Make this the newest snapshot with statistics, where it is."""
        by_id = layout.snapshot_by_id(self._tenant, active.table_id, active.snapshot_id)
        pointer = self._account.pointers.get(by_id)
        if pointer is None:
            raise CataloguePreconditionError(
                key=self._active_key(active.table_id, active.snapshot_id),
                rule=f"snapshot {active.snapshot_id} does not exist",
            )
        entry = self._account.read(Snapshot, require_blob(pointer)).entry("")
        payload = canonical_json(
            {
                "snapshot_id": str(entry.snapshot_id),
                "committed_at": instant_text(entry.committed_at),
                "sequence_number": str(entry.sequence_number or 0),
            }
        )
        keys = [
            layout.latest_statistics(self._tenant, active.table_id, target)
            for target in (None, *target_ids)
        ]
        present = self._account.pointers.get_many(keys)
        ops: list[Op] = [CheckPresent(key=by_id, resource_id=active.table_id)]
        for key in keys:
            if key not in present or _order(present[key]) < entry.order:
                latest = Pointer(key=key, payload=payload, resource_id=active.table_id)
                expected = present[key].version if key in present else 0
                ops.append(Upsert(next=latest, expected=expected))
        return ops

    def _planned_files(self, active: ActiveGeneration) -> list[Op]:
        """The end of the list of files, which the published files replace."""
        key = layout.planned_files(self._tenant, active.table_id, active.snapshot_id)
        pointer = self._account.pointers.get(key)
        return [] if pointer is None else [Delete(key=key, expected=pointer.version)]

    def _file_pointers(self, active: ActiveGeneration) -> Iterator[Pointer]:
        where = (active.table_id, active.snapshot_id, active.generation)
        return self._account.pages(layout.files_of(self._tenant, *where))


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A result that becomes visible."""

    table_id: UUID
    snapshot_id: int
    generation: str
    publication_sha: str
    """Equal for equal results."""
    finalizer_job_id: UUID
    finalized_at: datetime
    captured: Captured


class _Files:
    """Count and digest of pointers of files."""

    def __init__(self) -> None:
        self.count, self._digest = 0, hashlib.sha256()

    def add(self, pointer: Pointer) -> str:
        blob_key = require_blob(pointer)
        name = pointer.key.rpartition("/")[2]
        self._digest.update(f"{name} {blob_key}\n".encode())
        self.count += 1
        return blob_key

    def sha256(self) -> str:
        return self._digest.hexdigest()

    def check(self, active: ActiveGeneration, manifest: StatsManifest) -> None:
        """Raise unless every published file is there; a later publication may have added some."""
        is_equal = self.sha256() == manifest.files_sha256
        if self.count < manifest.files or (self.count == manifest.files and not is_equal):
            raise CatalogueInconsistentError(
                key=active.manifest,
                fault=f"{manifest.files} files were published, and {self.count} others are stored",
            )


def active_of(pointer: Pointer) -> ActiveGeneration:
    """The publication that a pointer `targets-active` names."""
    table, _, snapshot = pointer.key.split("/")[4:7]
    return _active(UUID(table), int(snapshot), pointer)


def _active(table_id: UUID, snapshot_id: int, pointer: Pointer) -> ActiveGeneration:
    return active_generation(table_id, snapshot_id, pointer.payload or b"{}", require_blob(pointer))


def _require(key: str, stored: Lifecycle, state: GenerationState) -> None:
    if stored.state is not state:
        raise CataloguePreconditionError(
            key=key, rule=f"the generation is {stored.state}, not {state}"
        )


def _content(pointer: Pointer) -> dict[str, str]:
    content: dict[str, str] = json.loads(pointer.payload or b"{}")
    return content


def _order(pointer: Pointer) -> tuple[datetime, int, int]:
    content = _content(pointer)
    committed_at = datetime.fromisoformat(content["committed_at"])
    return (committed_at, int(content["sequence_number"]), int(content["snapshot_id"]))
