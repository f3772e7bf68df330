"""Blobs in an object store (S3, Google Cloud Storage, Azure): one object per key.

Uses obstore, and only conditions that the store evaluates itself: a blob is created with
`If-None-Match: *`, so of several writers one succeeds. A store that ignores the condition is
refused, because two attempts of a run could both write its result.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, S3Store

from datarecs_application.ports.outside import BlobCapabilities, BlobInfo
from datarecs_core.catalog.layout import check_key, check_prefix, content_hash
from datarecs_core.errors.storage import (
    BlobConflictError,
    BlobCorruptError,
    BlobNotFoundError,
    BlobStoreUnavailableError,
)
from datarecs_core.resources.object_urls import ObjectUrl, StoreKind, store_config
from datarecs_core.resources.store_servers import certificate_fault
from datarecs_core.values import TenantId

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

_PART_BYTES = 8 * 1024 * 1024
"""Larger blobs are uploaded in parts."""
_PAGE = 1000
_TRIES = 5
"""How often a blob is written that is not visible afterwards."""
_PROBE = "probe/create-only"
_REFUSED = "it refuses the credentials, or they lack a permission"
_CONNECT_TIMEOUT = timedelta(seconds=5)
_STATUS = re.compile(r"status code: ([1-5]\d\d)\b")
R = TypeVar("R")


class _Place(NamedTuple):
    """Where blobs are, for errors."""

    url: str
    server: str

    def unavailable(self, cause: str) -> BlobStoreUnavailableError:
        return BlobStoreUnavailableError(where=self.url, cause=cause)

    def without_bucket(self) -> BlobStoreUnavailableError:
        bucket = ObjectUrl.parse(self.url).bucket
        return self.unavailable(
            f"bucket {bucket} does not exist at {self.server}; check DATARECS_BLOB__URL and "
            "DATARECS_BLOB__ENDPOINT"
        )


class _Patience(NamedTuple):
    timeout: timedelta
    retries: int


_OF_WORK = _Patience(timedelta(minutes=2), 4)
_OF_PROBES = _Patience(timedelta(seconds=3), 0)


class ObjectBlobStores:
    """The BlobStores below one address."""

    def __init__(
        self,
        url: str,
        *,
        endpoint: str | None,
        region: str | None,
        authorities: str | None,
        credentials: str | None,
    ) -> None:
        """Nothing is requested yet.

        Raises:
            BlobStoreUnavailableError: the address, the endpoint or the form of the credentials.
        """
        self._place = _Place(url, endpoint or "the server of the provider")
        try:
            parsed = ObjectUrl.parse(url)
            config = store_config(parsed, endpoint=endpoint, region=region, credentials=credentials)
            is_plain = endpoint is not None and endpoint.startswith("http://")
            client: dict[str, Any] = {"allow_http": is_plain}
            if authorities is not None:
                client["root_certificate"] = authorities
            self._store = _open_store(parsed, config, client, _OF_WORK)
            self._probe = _open_store(parsed, config, client, _OF_PROBES)
        except ValueError as refused:
            raise self._place.unavailable(str(refused)) from None
        except BaseError:
            # The library's text may quote a setting.
            cause = "endpoint, region, certificate authority or credentials are not valid"
            raise self._place.unavailable(cause) from None

    def of(self, tenant: UUID) -> "ObjectBlobStore":
        return ObjectBlobStore(self._store, TenantId(tenant), self._place)

    def ready(self) -> str | None:
        """None if the store answers, else the reason."""
        try:
            with _translated(self._place):
                next(iter(obstore.list(self._probe, "probe", chunk_size=1)), None)
        except BlobStoreUnavailableError as error:
            return error.cause
        except FileNotFoundError:
            return self._place.without_bucket().cause
        return None

    def check_create_only(self) -> None:
        """Refuse a store that replaces an object although `If-None-Match: *` forbids it.

        Raises:
            BlobStoreUnavailableError: it does, or the store does not answer.
        """
        try:
            with _translated(self._place):
                with suppress(AlreadyExistsError):
                    obstore.put(self._probe, _PROBE, b"one", mode="create")
                obstore.put(self._probe, _PROBE, b"other", mode="create")
        except AlreadyExistsError:
            return
        except FileNotFoundError:
            raise self._place.without_bucket() from None
        raise self._place.unavailable(
            "it ignores If-None-Match, so two writers can replace each other's result; use "
            "a store with conditional writes"
        )


class ObjectBlobStore:
    """The BlobStore of one account."""

    def __init__(self, store: "ObjectStore", tenant: TenantId, place: _Place) -> None:
        self._store, self._tenant, self._place = store, tenant, place

    def put(self, key: str, data: bytes) -> BlobInfo:
        check_key(key, self._tenant)
        digest = hashlib.sha256(data).hexdigest()
        return self._stored(
            key, lambda: obstore.put(self._store, key, data, chunk_size=_PART_BYTES), digest
        )

    def put_new(self, key: str, data: bytes) -> BlobInfo:
        check_key(key, self._tenant)

        def create() -> None:
            try:
                self._call(lambda: obstore.put(self._store, key, data, mode="create"))
            except AlreadyExistsError:
                with suppress(BlobNotFoundError):
                    if self.get(key) != data:
                        raise BlobConflictError(key=key) from None

        return self._stored(key, create, hashlib.sha256(data).hexdigest())

    def put_file(self, key: str, path: str) -> BlobInfo:
        check_key(key, self._tenant)
        try:
            with Path(path).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as cause:
            reason = cause.strerror or type(cause).__name__
            raise BlobStoreUnavailableError(where=path, cause=reason) from cause
        return self._stored(
            key, lambda: obstore.put(self._store, key, Path(path), chunk_size=_PART_BYTES), digest
        )

    def get(self, key: str) -> bytes:
        check_key(key, self._tenant)
        data = self._read(key, lambda: bytes(obstore.get(self._store, key).bytes()))
        expected = content_hash(key)
        if expected is not None and (digest := hashlib.sha256(data).hexdigest()) != expected:
            raise BlobCorruptError(key=key, actual_sha256=digest)
        return data

    def get_range(self, key: str, start: int, end: int) -> bytes:
        info = self.head(key)
        if info is None:
            raise BlobNotFoundError(key=key)
        end = min(end, info.size_bytes)
        if start >= end:
            return b""
        return self._read(
            key, lambda: bytes(obstore.get_range(self._store, key, start=start, end=end))
        )

    def head(self, key: str) -> BlobInfo | None:
        check_key(key, self._tenant)
        try:
            meta = self._call(lambda: obstore.head(self._store, key))
        except FileNotFoundError:
            return None
        return _info(meta)

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        check_prefix(prefix, self._tenant)
        return self._walk(prefix)

    def delete(self, key: str) -> None:
        check_key(key, self._tenant)
        with suppress(FileNotFoundError):
            self._call(lambda: obstore.delete(self._store, key))

    def delete_prefix(self, prefix: str) -> None:
        check_prefix(prefix, self._tenant)
        keys = [info.key for info in self._walk(prefix)]
        for at in range(0, len(keys), _PAGE):
            self._delete_all(keys[at : at + _PAGE])

    def capabilities(self) -> BlobCapabilities:
        return BlobCapabilities()

    def _delete_all(self, keys: Sequence[str]) -> None:
        """Azure and Google stop at a blob that somebody else has deleted: then one by one."""
        try:
            self._call(lambda: obstore.delete(self._store, keys))
        except FileNotFoundError:
            for key in keys:
                self.delete(key)

    def _walk(self, prefix: str) -> Iterator[BlobInfo]:
        """Sorted here, because some stores sort the names of every folder separately."""
        with _translated(self._place):
            pages = list(obstore.list(self._store, prefix, chunk_size=_PAGE))
        infos = (_info(meta) for page in pages for meta in page)
        yield from sorted(infos, key=lambda info: info.key)

    def _stored(self, key: str, write: Callable[[], object], sha256: str) -> BlobInfo:
        """Write until the blob is visible: another writer may delete it, or create it just now."""
        for _ in range(_TRIES):
            try:
                self._call(write)
            except FileNotFoundError:
                raise self._place.without_bucket() from None
            info = self.head(key)
            if info is not None:
                return replace(info, sha256=sha256)
        raise self._place.unavailable("written blobs disappear")

    def _read(self, key: str, read: Callable[[], R]) -> R:
        try:
            return self._call(read)
        except FileNotFoundError:
            raise BlobNotFoundError(key=key) from None

    def _call(self, act: Callable[[], R]) -> R:
        with _translated(self._place):
            return act()


def _info(meta: "ObjectMeta") -> BlobInfo:
    named = content_hash(meta["path"])
    return BlobInfo(
        key=meta["path"],
        size_bytes=meta["size"],
        etag=named or (meta["e_tag"] or "").strip('"'),
        last_modified=meta["last_modified"],
        sha256=named,
        version_id=meta["version"],
    )


def _open_store(
    url: ObjectUrl, config: dict[str, str], client: dict[str, Any], patience: _Patience
) -> "ObjectStore":
    """Raises BaseError or ValueError for settings that the library refuses."""
    timeout = patience.timeout
    options: dict[str, Any] = {
        "prefix": url.prefix or None,
        "config": config,
        "client_options": {
            **client,
            "timeout": timeout,
            "connect_timeout": min(timeout, _CONNECT_TIMEOUT),
        },
        "retry_config": {"max_retries": patience.retries, "retry_timeout": timeout},
    }
    match url.kind:
        case StoreKind.S3:
            return S3Store(**options)
        case StoreKind.GS:
            return GCSStore(**options)
        case StoreKind.AZ:
            return AzureStore(**options)


@contextmanager
def _translated(place: _Place) -> Iterator[None]:
    """Turn errors of the library into errors of the store; its texts may contain credentials."""
    try:
        yield
    except (AlreadyExistsError, FileNotFoundError):
        raise
    except (PermissionDeniedError, UnauthenticatedError):
        raise place.unavailable(_REFUSED) from None
    except (BaseError, OSError) as failure:
        raise _error(place, str(failure)) from None


def _error(place: _Place, text: str) -> BlobStoreUnavailableError:
    fault = certificate_fault(text)
    if fault is not None:
        cause = f"{fault}; set DATARECS_BLOB__CA_FILE to the certificates of its authority"
        return place.unavailable(cause)
    status = _STATUS.search(text)
    if status is None:
        return place.unavailable("it cannot be reached")
    if status[1] in {"401", "403"}:
        return place.unavailable(_REFUSED)
    if status[1] == "404":  # of a listing
        return place.without_bucket()
    return place.unavailable(f"it answers with status {status[1]}")
