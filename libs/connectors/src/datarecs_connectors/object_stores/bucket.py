"""One bucket or prefix, opened for one source or sink: list, look up, read ranges, create.

The only module that calls obstore for sources. Every read names the pinned ETag, so a changed
object is an error and never a mixture of two. Texts of the library contain addresses with
signatures, so errors have texts of this product.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from datarecs_connectors.errors import (
    ConnectionFailedError,
    CredentialsRefusedError,
    PathRefusedError,
    SnapshotLostError,
    SourceUnsupportedError,
)
from datarecs_connectors.errors import PermissionDeniedError as SourcePermissionError
from datarecs_core.resources.store_servers import certificate_fault

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta
    from obstore.store import ObjectStore

_PAGE = 1000
_TAIL_BYTES = 64 * 1024
"""The end of a file, which contains most Parquet footers."""
_TAILS = 256
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist")
_UNKNOWN = (
    *("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"),
    "AuthenticationFailed",
)
"""Codes of S3 and Azure for credentials that the store does not accept."""
_STATUS = re.compile(r"status code: ([1-5]\d\d)\b")


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One version of an object."""

    name: str
    """Below the root of the source."""
    size: int
    etag: str
    modified_at: datetime | None = field(default=None, compare=False)
    """Of a listing; None for a pinned object."""


class StoreAddress(NamedTuple):
    """Where a bucket is."""

    bucket: str
    server: str

    def not_listed(self, text: str) -> str:
        """Why a listing has status 404, from the text of the library."""
        if _NO_BUCKET.search(text):
            return (
                f"bucket {self.bucket} does not exist at {self.server}; check the name of the "
                "bucket, and the endpoint"
            )
        return (
            f"{self.server} answers a listing of bucket {self.bucket} with status 404; check that "
            "the endpoint is the address of an object store"
        )


class Bucket:
    """Objects below the root of a source."""

    def __init__(
        self,
        source: str,
        store: "ObjectStore",
        *,
        address: StoreAddress,
        refusal: Callable[[], str | None] = lambda: None,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        """Nothing is requested yet.

        Args:
            source: for errors.
            store: bound to the root.
            address: for errors.
            refusal: why the last connection was refused, if it was.
            close: releases what the store uses.
        """
        self.source, self.close = source, close
        self.address = address
        self._store, self._refusal = store, refusal
        self._tail = lru_cache(maxsize=_TAILS)(self._read_tail)

    def head(self, name: str) -> StoredObject | None:
        """The current version of an object; None if there is none."""
        try:
            with self._translated(name):
                return self._object(obstore.head(self._store, name))
        except FileNotFoundError:
            return None

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Objects below a folder, "" for all.

        Raises:
            ConnectionFailedError: there is no such bucket, or the server is no object store.
        """
        try:
            with self._translated(prefix):
                for page in obstore.list(self._store, prefix or None, chunk_size=_PAGE):
                    yield from map(self._object, page)
        except FileNotFoundError as missing:
            raise ConnectionFailedError(
                self.source, self.address.not_listed(str(missing))
            ) from None

    def read(self, item: StoredObject, start: int, end: int) -> bytes:
        """Bytes of exactly this version, half-open.

        Raises:
            SnapshotLostError: the object was changed or removed.
        """
        first_of_tail = max(item.size - _TAIL_BYTES, 0)
        if start >= first_of_tail:
            return self._tail(item)[start - first_of_tail : end - first_of_tail]
        return self._read(item, start, end)

    def create(self, name: str, content: bytes) -> None:
        """A new object.

        Raises:
            FileExistsError: another object has the name.
        """
        try:
            with self._translated(name):
                obstore.put(self._store, name, content, mode="create", use_multipart=False)
        except FileExistsError:
            # A repeated request of the library finds the object of the first one.
            item = self.head(name)
            if item is None or self._read(item, 0, item.size) != content:
                raise

    def remove(self, name: str) -> None:
        """Nothing happens where there is no object."""
        with suppress(FileNotFoundError), self._translated(name):
            obstore.delete(self._store, name)

    def lost(self, name: str, why: str = "changed while it was read") -> SnapshotLostError:
        return SnapshotLostError(
            self.source,
            f"{name} {why}; leave objects unchanged until a run has ended, and run again",
        )

    def _read_tail(self, item: StoredObject) -> bytes:
        return self._read(item, max(item.size - _TAIL_BYTES, 0), item.size)

    def _read(self, item: StoredObject, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        options: GetOptions = {"range": (start, end)}
        if not item.etag.startswith("W/"):  # a weak ETag never matches, so it is only compared
            options["if_match"] = item.etag
        try:
            with self._translated(item.name):
                result = obstore.get(self._store, item.name, options=options)
                meta, data = result.meta, bytes(result.bytes())
        except FileNotFoundError:
            raise self.lost(item.name, "was removed after the run had pinned it") from None
        if (_etag(meta), meta["size"], len(data)) != (item.etag, item.size, end - start):
            raise self.lost(item.name)
        return data

    def _object(self, meta: "ObjectMeta") -> StoredObject:
        etag = _etag(meta)
        if not etag:
            raise SourceUnsupportedError(
                self.source, "the store returns no ETag, so a change of a file would not be noticed"
            )
        return StoredObject(
            name=meta["path"], size=meta["size"], etag=etag, modified_at=meta["last_modified"]
        )

    @contextmanager
    def _translated(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except AlreadyExistsError:
            raise FileExistsError(name) from None
        except PreconditionError:
            raise self.lost(name) from None
        except (InvalidPathError, ValueError):
            raise PathRefusedError(self.source, "it is not the name of an object") from None
        except (BaseError, OSError) as failure:
            raise self._error(failure) from None

    def _error(self, failure: Exception) -> Exception:
        refused = self._refusal()
        if refused is not None:
            return ConnectionFailedError(self.source, refused)
        match = _STATUS.search(str(failure))
        status = match[1] if match else None
        is_refused = isinstance(failure, PermissionDeniedError | UnauthenticatedError)
        if is_refused or status in {"401", "403"}:
            kind = CredentialsRefusedError if _is_unknown(failure) else SourcePermissionError
            return kind(
                self.source,
                "the store refuses the request; check the credentials, and that they may list and "
                "read the bucket, or write it for a sink",
            )
        if status == "404":
            return FileNotFoundError(str(failure))
        if status is not None:
            message = f"the store answers with status {status}; check endpoint, region and bucket"
            return ConnectionFailedError(self.source, message)
        fault = certificate_fault(str(failure))
        if fault is not None:
            message = f"the store cannot be reached: {fault}; check `endpoint`, and set `ca`"
            return ConnectionFailedError(self.source, message)
        return ConnectionFailedError(self.source, "the store cannot be reached; check its endpoint")


def _etag(meta: "ObjectMeta") -> str | None:
    """In quotes: some servers leave them out of a listing, and only there."""
    etag = meta["e_tag"]
    return etag if not etag or etag.endswith('"') else f'"{etag}"'


def _is_unknown(failure: Exception) -> bool:
    """Whether the store does not accept the credentials, as opposed to what they may do."""
    text = str(failure)
    return isinstance(failure, UnauthenticatedError) or any(sign in text for sign in _UNKNOWN)
