"""The list of files of a snapshot from its plan until its statistics are published.

A capture that is cancelled or fails leaves the list: the files are those of the snapshot, although
no figures of them are known, so a run that asks for this time can read them.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from datarecs_application.catalogue.account import CatalogueAccount
from datarecs_core.captures.catalogued import CataloguedFile
from datarecs_core.captures.source_facts import SourceFile
from datarecs_core.catalog import layout
from datarecs_core.catalog.pointers import Applied, CheckPresent, Op, Pointer, Upsert
from datarecs_core.errors.catalogue import CatalogueInconsistentError
from datarecs_core.errors.storage import BlobNotFoundError
from datarecs_core.hashing import JsonValue, canonical_json, sha256_hex

SUFFIX = "/stats/planned-files"
"""Of the keys of pointers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFiles:
    """The lists of files of one account."""

    account: CatalogueAccount

    def put(self, table_id: UUID, snapshot_id: int, files: Iterable[SourceFile]) -> None:
        """Store or replace the list of a snapshot. Safe to repeat.

        Raises:
            CatalogueBusyError: other writers were faster in every try.
        """
        where = (self.account.tenant, table_id, snapshot_id)
        listed: list[JsonValue] = [[one.path, one.size_bytes, one.etag] for one in files]
        content = canonical_json(listed)
        blob_key = layout.planned_files_blob(*where, sha256_hex(content))
        key = layout.planned_files(*where)

        def attempt() -> bool | None:
            fences = self.account.fences([blob_key])
            if fences is None:
                return None
            self.account.blobs.put(blob_key, content)
            before = self.account.pointers.get(key)
            payload = canonical_json({"blob": blob_key})
            ops: list[Op] = [
                Upsert(
                    next=Pointer(key=key, payload=payload, resource_id=table_id),
                    expected=0 if before is None else before.version,
                ),
                CheckPresent(key=layout.snapshot_by_id(*where)),
                *fences,
            ]
            return True if isinstance(self.account.pointers.batch(ops), Applied) else None

        self.account.repeat(key, attempt)

    def get(self, table_id: UUID, snapshot_id: int) -> tuple[CataloguedFile, ...] | None:
        """The files of a snapshot; None: they are published, or were never listed.

        Raises:
            CatalogueInconsistentError: the list is missing.
        """
        key = layout.planned_files(self.account.tenant, table_id, snapshot_id)
        pointer = self.account.pointers.get(key)
        if pointer is None:
            return None
        try:
            listed = json.loads(self.account.blobs.get(list_of(pointer)))
        except BlobNotFoundError as cause:
            raise CatalogueInconsistentError(
                key=key, fault="it names a list of files, but the list is missing"
            ) from cause
        return tuple(
            CataloguedFile(path=path, size_bytes=size_bytes, etag=etag)
            for path, size_bytes, etag in listed
        )


def list_of(pointer: Pointer) -> str:
    """The blob that a pointer to planned files names; it is no record."""
    return str(json.loads(pointer.payload or b"{}")["blob"])
