"""What every repository uses: the stores of one account, staged records, and repeated tries.

A blob is stored before the pointers that name it, so a crash leaves an unreachable blob and never
a pointer without one. The removal of unreachable blobs is excluded by a fence: a pointer beside
each blob, which the writer reads before it stores the blob and checks in its batch (ADR 0161).
"""

import hashlib
import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from datarecs_application.ports.catalogue import Pointers
from datarecs_application.ports.outside import BlobStore, Clock
from datarecs_core.catalog.layout import blob_deletion
from datarecs_core.catalog.pointers import Check, Pointer
from datarecs_core.catalog.protobuf import R, Record, decode, encode
from datarecs_core.errors.catalogue import CatalogueBusyError, CatalogueInconsistentError
from datarecs_core.errors.storage import BlobNotFoundError
from datarecs_core.hashing import canonical_json
from datarecs_core.values import TenantId, instant_text

T = TypeVar("T")
TRIES = 16
LONGEST_PAUSE_MS = 100
WRITERS = 16
"""Blobs that are written at once."""
PAGE = 500
"""Pointers that are read or deleted at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """A record, and its key by the SHA-256 of its bytes."""

    record: Record
    key_of: Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Stored records that no pointer names yet."""

    blob_keys: tuple[str, ...]
    """In the order of the records."""
    fences: tuple[Check, ...]
    """To be checked by the batch that names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueAccount:
    """The stores of one account."""

    tenant: TenantId
    pointers: Pointers
    blobs: BlobStore
    clock: Clock

    def stage(self, *records: NewRecord) -> Staged | None:
        """Store records; None while one of the blobs is being removed.

        Also a blob that exists is stored again: its age is that of its last writer.
        """
        contents = [encode(one.record) for one in records]
        shas = [hashlib.sha256(content).hexdigest() for content in contents]
        keys = [one.key_of(sha) for one, sha in zip(records, shas, strict=True)]
        fences = self.fences(keys)
        if fences is None:
            return None
        self._store(dict(zip(keys, contents, strict=True)))
        return Staged(blob_keys=tuple(keys), fences=fences)

    def fences(self, blob_keys: Sequence[str]) -> tuple[Check, ...] | None:
        """The fences of blobs as they are now; None while one of the blobs is being removed.

        Read them before a blob is stored, or before it is known that it is stored.
        """
        keys = dict.fromkeys(blob_deletion(self.tenant, key) for key in blob_keys)
        present = self.pointers.get_many(keys)
        if any(is_deleting(fence) for fence in present.values()):
            return None
        return tuple(
            Check(key=key, expected=present[key].version if key in present else 0) for key in keys
        )

    def _store(self, blobs: Mapping[str, bytes]) -> None:
        """Store blobs, several at once: each one waits for its disk or its network."""
        if len(blobs) < WRITERS:
            for key, content in blobs.items():
                self.blobs.put(key, content)
            return
        with ThreadPoolExecutor(WRITERS, thread_name_prefix="blob") as pool:
            for _ in pool.map(self.blobs.put, blobs.keys(), blobs.values()):
                pass

    def read(self, kind: type[R], blob_key: str) -> R:
        """A record by its blob.

        Raises:
            CatalogueInconsistentError: the blob is missing.
            BlobCorruptError, UnsupportedRecordError: it cannot be used.
        """
        try:
            return decode(kind, self.blobs.get(blob_key))
        except BlobNotFoundError as cause:
            raise CatalogueInconsistentError(
                key=blob_key, fault="a pointer names it, but the blob is missing"
            ) from cause

    def repeat(self, key: str, attempt: Callable[[], T | None]) -> T:
        """Try until an attempt has a result, with short pauses of different lengths.

        Raises:
            CatalogueBusyError: none had one.
        """
        for _ in range(TRIES):
            result = attempt()
            if result is not None:
                return result
            pause = 5 + secrets.randbelow(LONGEST_PAUSE_MS - 5)
            self.clock.wait(timedelta(milliseconds=pause))
        raise CatalogueBusyError(key=key)

    def remove_below(self, prefix: str) -> None:
        """Delete every pointer below a prefix, whatever its version."""
        while self.pointers.delete_prefix(prefix, limit=PAGE) == PAGE:
            pass

    def pages(self, prefix: str, *, at_once: int = PAGE) -> Iterator[Pointer]:
        """Every pointer below a prefix, so many in one statement."""
        token = None
        while True:
            page = self.pointers.list(prefix, limit=at_once, token=token)
            yield from page.pointers
            token = page.token
            if token is None:
                return


def require_blob(pointer: Pointer) -> str:
    """The record of a pointer that must have one.

    Raises:
        CatalogueInconsistentError: it has none.
    """
    if pointer.blob_key is None:
        raise CatalogueInconsistentError(key=pointer.key, fault="the pointer names no record")
    return pointer.blob_key


def fence(key: str, *, blob_key: str, until: datetime | None) -> Pointer:
    """A fence with its blob; `until` while the blob is being removed."""
    state = {"blob": blob_key, "until": None if until is None else instant_text(until)}
    return Pointer(key=key, payload=canonical_json(state))


def is_deleting(pointer: Pointer) -> bool:
    return deleting_until(pointer) is not None


def deleting_until(pointer: Pointer) -> datetime | None:
    """Until when one process removes the blob; None: no removal is running."""
    until = json.loads(pointer.payload or b"{}").get("until")
    return None if until is None else datetime.fromisoformat(until)


def texts(pointer: Pointer, name: str) -> tuple[str, ...]:
    """A list of keys in the payload of a pointer."""
    content: Sequence[str] = json.loads(pointer.payload or b"{}").get(name, [])
    return tuple(content)
