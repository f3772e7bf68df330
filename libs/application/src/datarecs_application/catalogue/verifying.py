"""Read everything that pointers of the catalogue name, and say what is damaged or missing.

A page of pointers at a time, so that a large catalogue is verified in short steps. Nothing is
repaired. Spec catalogue-storage 13.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from datarecs_application.catalogue.account import CatalogueAccount
from datarecs_application.catalogue.ended import pinned_manifest
from datarecs_application.catalogue.generations import Generations, active_of
from datarecs_application.catalogue.indexes import Indexes
from datarecs_application.catalogue.tables import TableRoots
from datarecs_core.catalog.pointers import Pointer
from datarecs_core.catalog.protobuf import Record
from datarecs_core.catalog.records import IndexArtifact, StatsManifest, TableRoot, decode_any
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.catalogue import CatalogueInconsistentError, UnsupportedRecordError
from datarecs_core.errors.storage import BlobCorruptError, BlobNotFoundError

DAMAGED = (
    BlobNotFoundError,
    BlobCorruptError,
    CatalogueInconsistentError,
    UnsupportedRecordError,
)
"""Errors that say something about what is stored; others say that it cannot be judged now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What a pointer names cannot be read as it was written."""

    pointer: str
    blob_key: str | None
    """The damaged or missing blob, as far as the error names it."""
    code: str
    """Name of the error catalogue."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Checks pointers of one account."""

    account: CatalogueAccount

    def faults(self, pointers: Sequence[Pointer]) -> list[Fault]:
        """The first fault of each pointer and of what it names; any other error is raised."""
        faults = []
        for pointer in pointers:
            try:
                self._check(pointer)
            except DAMAGED as error:
                faults.append(_fault(pointer, error))
        return faults

    def _check(self, pointer: Pointer) -> None:
        """Read the records of a pointer, and what they name."""
        manifest = pinned_manifest(pointer) if "/pins/" in pointer.key else None
        for blob_key in (pointer.blob_key, manifest):
            if blob_key is not None:
                self._check_named(decode_any(self.account.blobs.get(blob_key)))
        if pointer.key.endswith("/stats/targets-active"):
            Generations(self.account).check_files(active_of(pointer))

    def _check_named(self, record: Record) -> None:
        match record:
            case TableRoot():
                self._require(record.table_blob)
                for entry in TableRoots(account=self.account).entries(record):
                    self._require(entry.blob_key)
            case StatsManifest():
                for target in record.targets:
                    decode_any(self.account.blobs.get(target.blob_key))
            case IndexArtifact(blob_key=str()):
                Indexes(self.account).content(record)

    def _require(self, blob_key: str) -> None:
        if self.account.blobs.head(blob_key) is None:
            raise BlobNotFoundError(key=blob_key)


def _fault(pointer: Pointer, error: DatarecsError) -> Fault:
    return Fault(
        pointer=pointer.key,
        blob_key=getattr(error, "key", pointer.blob_key),
        code=error.code.name,
        message=str(error),
    )
