"""Blobs in a dictionary: the BlobStore of unit tests and of `datarecs compare`.

A separate module because it is a store like the one on disk and passes the same suite.
"""

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from datarecs_application.ports.outside import BlobCapabilities, BlobInfo, Clock
from datarecs_core.catalog.layout import check_key, check_prefix, content_hash
from datarecs_core.errors.storage import (
    BlobConflictError,
    BlobCorruptError,
    BlobNotFoundError,
    BlobStoreUnavailableError,
)
from datarecs_core.values import TenantId


class _Blob(NamedTuple):
    info: BlobInfo
    data: bytes


class MemoryBlobStores:
    """BlobStores over one dictionary; threads share it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._blobs: dict[str, _Blob] = {}
        self._lock = threading.Lock()

    def of(self, tenant: UUID) -> "MemoryBlobStore":
        return MemoryBlobStore(TenantId(tenant), self._clock, self._blobs, self._lock)

    def ready(self) -> str | None:
        return None

    def check_create_only(self) -> None:
        """One lock guards every write."""


class MemoryBlobStore:
    """The BlobStore of one account."""

    def __init__(
        self, tenant: TenantId, clock: Clock, blobs: dict[str, _Blob], lock: threading.Lock
    ) -> None:
        self._tenant, self._clock, self._blobs, self._lock = tenant, clock, blobs, lock

    def put(self, key: str, data: bytes) -> BlobInfo:
        check_key(key, self._tenant)
        with self._lock:
            return self._store(key, data)

    def put_new(self, key: str, data: bytes) -> BlobInfo:
        check_key(key, self._tenant)
        with self._lock:
            present = self._blobs.get(key)
            if present is None:
                return self._store(key, data)
            if present.data != data:
                raise BlobConflictError(key=key)
            return present.info

    def put_file(self, key: str, path: str) -> BlobInfo:
        check_key(key, self._tenant)
        try:
            return self.put(key, Path(path).read_bytes())
        except OSError as cause:
            raise BlobStoreUnavailableError(where=path, cause=str(cause.strerror)) from cause

    def get(self, key: str) -> bytes:
        data = self._require_blob(key).data
        expected = content_hash(key)
        if expected is not None and (digest := hashlib.sha256(data).hexdigest()) != expected:
            raise BlobCorruptError(key=key, actual_sha256=digest)
        return data

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._require_blob(key).data[start : max(end, start)]

    def head(self, key: str) -> BlobInfo | None:
        check_key(key, self._tenant)
        with self._lock:
            blob = self._blobs.get(key)
        return blob.info if blob else None

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        check_prefix(prefix, self._tenant)
        with self._lock:
            entries = sorted(
                (key, blob.info) for key, blob in self._blobs.items() if key.startswith(prefix)
            )
        return (info for _, info in entries)

    def delete(self, key: str) -> None:
        check_key(key, self._tenant)
        with self._lock:
            self._blobs.pop(key, None)

    def delete_prefix(self, prefix: str) -> None:
        for info in self.list(prefix):
            self.delete(info.key)

    def capabilities(self) -> BlobCapabilities:
        return BlobCapabilities()

    def _store(self, key: str, data: bytes) -> BlobInfo:
        digest = hashlib.sha256(data).hexdigest()
        info = BlobInfo(
            key=key,
            size_bytes=len(data),
            etag=content_hash(key) or digest,
            last_modified=self._clock.now(),
            sha256=content_hash(key) or digest,
        )
        self._blobs[key] = _Blob(info, bytes(data))
        return info

    def _require_blob(self, key: str) -> _Blob:
        check_key(key, self._tenant)
        with self._lock:
            blob = self._blobs.get(key)
        if blob is None:
            raise BlobNotFoundError(key=key)
        return blob
