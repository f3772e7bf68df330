"""Indexes of data files: a Parquet file beside the catalogue, and a record that says what it is.

A worker stores the Parquet file before it reports its work, and the record follows with the report.
The pointer names both blobs, so a collection reads no record. Spec catalogue-storage 4, 5.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import partial
from uuid import UUID

from datarecs_application.catalogue.account import CatalogueAccount, NewRecord, require_blob
from datarecs_core.catalog import layout
from datarecs_core.catalog.pointers import Applied, CheckPresent, Op, Pointer, Upsert
from datarecs_core.catalog.records import IndexArtifact, IndexState
from datarecs_core.errors.catalogue import CatalogueInconsistentError, CataloguePreconditionError
from datarecs_core.errors.storage import BlobNotFoundError
from datarecs_core.hashing import canonical_json

BATCH = 500
"""Records that are stored in one batch."""


class Indexes:
    """The indexes of the data files in one account."""

    def __init__(self, account: CatalogueAccount) -> None:
        self._account, self._tenant = account, account.tenant

    def put_content(self, table_id: UUID, snapshot_id: int, target_id: str, content: bytes) -> str:
        """Store the Parquet file of an index; its key. Without a record it is collected later."""
        sha = hashlib.sha256(content).hexdigest()
        key = layout.sidecar_blob(self._tenant, table_id, snapshot_id, target_id, sha)
        self._account.blobs.put(key, content)
        return key

    def put(self, records: Sequence[IndexArtifact]) -> int:
        """Store or replace records; the number of changes. Safe to repeat.

        Raises:
            CataloguePreconditionError: a table or the Parquet file of an index does not exist;
                earlier batches are stored.
            CatalogueBusyError: other writers were faster in every try.
        """
        stored = 0
        for start in range(0, len(records), BATCH):
            part = records[start : start + BATCH]
            attempt = partial(self._put_batch, part)
            stored += self._account.repeat(self._key(part[0]), attempt)
        return stored

    def get(self, table_id: UUID, snapshot_id: int, target_id: str) -> IndexArtifact | None:
        pointer = self._account.pointers.get(
            layout.index(self._tenant, table_id, snapshot_id, target_id)
        )
        return None if pointer is None else self._account.read(IndexArtifact, require_blob(pointer))

    def all(self, table_id: UUID, snapshot_id: int) -> Iterator[IndexArtifact]:
        """Every index of a snapshot, in the order of the pointers."""
        for pointer in self._account.pages(layout.indexes(self._tenant, table_id, snapshot_id)):
            yield self._account.read(IndexArtifact, require_blob(pointer))

    def content(self, record: IndexArtifact) -> bytes:
        """The Parquet file of an index that is READY.

        Raises:
            CataloguePreconditionError: the data file has nothing that can be indexed.
            CatalogueInconsistentError: the Parquet file is missing.
            BlobCorruptError: it is damaged.
        """
        if record.blob_key is None:
            raise CataloguePreconditionError(
                key=self._key(record), rule=f"its state is {record.state}, so it has no content"
            )
        try:
            return self._account.blobs.get(record.blob_key)
        except BlobNotFoundError as cause:
            raise CatalogueInconsistentError(
                key=record.blob_key, fault="a record names it, but the blob is missing"
            ) from cause

    def _key(self, record: IndexArtifact) -> str:
        return layout.index(self._tenant, record.table_id, record.snapshot_id, record.target_id)

    def _put_batch(self, records: Sequence[IndexArtifact]) -> int | None:
        for record in records:
            self._require_form(record)
        sidecars = [one.blob_key for one in records if one.blob_key is not None]
        fences = self._account.fences(sidecars)
        staged = self._account.stage(*map(self._new, records))
        if fences is None or staged is None:
            return None
        self._require_stored(sidecars)
        keys = [self._key(record) for record in records]
        present = self._account.pointers.get_many(keys)
        ops: list[Op] = []
        for record, key, blob_key in zip(records, keys, staged.blob_keys, strict=True):
            if key in present and present[key].blob_key == blob_key:
                continue
            pointer = Pointer(
                key=key,
                blob_key=blob_key,
                payload=canonical_json({"sidecar": record.blob_key}),
                resource_id=record.table_id,
            )
            expected = present[key].version if key in present else 0
            ops.append(Upsert(next=pointer, expected=expected))
        tables = {layout.table_by_id(self._tenant, one.table_id): one.table_id for one in records}
        parents = [CheckPresent(key=key, resource_id=one) for key, one in tables.items()]
        outcome = self._account.pointers.batch([*ops, *parents, *staged.fences, *fences])
        if isinstance(outcome, Applied):
            return len(ops)
        if outcome.key in tables:
            raise CataloguePreconditionError(
                key=keys[0], rule=f"its table {outcome.key} does not exist"
            )
        return None

    def _require_form(self, record: IndexArtifact) -> None:
        """A READY index names its own Parquet file, and no other blob."""
        if record.state is IndexState.FAILED and record.blob_key is None:
            return
        expected = layout.sidecar_blob(
            self._tenant,
            record.table_id,
            record.snapshot_id,
            record.target_id,
            record.sha256 or "",
        )
        if record.state is not IndexState.READY or record.blob_key != expected:
            raise CataloguePreconditionError(
                key=self._key(record), rule="a READY index names its Parquet file, others none"
            )

    def _require_stored(self, sidecars: Sequence[str]) -> None:
        for key in sidecars:
            if self._account.blobs.head(key) is None:
                raise CataloguePreconditionError(
                    key=key, rule="the Parquet file was not stored; send it again"
                )

    def _new(self, record: IndexArtifact) -> NewRecord:
        return NewRecord(
            record=record,
            key_of=lambda sha: layout.index_blob(
                self._tenant, record.table_id, record.target_id, sha
            ),
        )


def sidecar_of(pointer: Pointer) -> str | None:
    """The Parquet file that the pointer of an index names."""
    key: str | None = json.loads(pointer.payload or b"{}").get("sidecar")
    return key
