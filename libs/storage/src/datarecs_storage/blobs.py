"""Blobs in a local folder: keys are paths, writes are atomic and durable.

It handles the problems of a disk: half-written files, folders that other processes create and
remove, links that lead out of the folder.
"""

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit
from uuid import UUID

from datarecs_application.ports.outside import BlobCapabilities, BlobInfo
from datarecs_core.catalog.layout import check_key, check_prefix, content_hash
from datarecs_core.errors.storage import (
    BlobConflictError,
    BlobCorruptError,
    BlobNotFoundError,
    BlobStoreUnavailableError,
)
from datarecs_core.values import TenantId
from datarecs_storage.disk import Disk

_TEMPORARY = "#"
"""Prefix that no key can have, so that a half-written file is never listed."""
_CHUNK_BYTES = 1024 * 1024
_TRIES = 5
"""A folder may be removed between its creation and its use; then both are repeated."""
_MOST_REMEMBERED = 4096
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class FileBlobStores:
    """The BlobStores below one folder."""

    def __init__(self, root: Path, *, disk: Disk | None = None) -> None:
        self._root, self._disk = root, disk or Disk()

    @classmethod
    def at(cls, url: str) -> "FileBlobStores":
        """The stores of `file:///absolute/folder`; creates the folder.

        Raises:
            BlobStoreUnavailableError: another kind of URL, or a folder that cannot be written or
                does not distinguish upper and lower case.
        """
        parts = urlsplit(url)
        root = Path(unquote(parts.path))
        if parts.scheme != "file" or parts.netloc or not root.is_absolute():
            raise BlobStoreUnavailableError(
                where=parts.scheme, cause="use file:///absolute/folder, s3://, gs:// or az://"
            )
        with _translated(root):
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
            _check_volume(root)
        return cls(root)

    def of(self, tenant: UUID) -> "FileBlobStore":
        return FileBlobStore(self._root, TenantId(tenant), self._disk)

    def ready(self) -> str | None:
        if os.access(self._root, os.R_OK | os.W_OK | os.X_OK):
            return None
        return f"{self._root} cannot be read and written"

    def check_create_only(self) -> None:
        """A link is created once on every file system."""


class FileBlobStore:
    """The BlobStore of one account."""

    def __init__(self, root: Path, tenant: TenantId, disk: Disk) -> None:
        self._root, self._tenant, self._disk = root, tenant, disk
        self._durable: set[Path] = set()

    def put(self, key: str, data: bytes) -> BlobInfo:
        return self._write(key, lambda file: _written(file, data), self._disk.replace)

    def put_new(self, key: str, data: bytes) -> BlobInfo:
        try:
            return self._write(key, lambda file: _written(file, data), self._disk.link_new)
        except FileExistsError:
            if self.get(key) != data:
                raise BlobConflictError(key=key) from None
            return self._info(key, self._path(key).lstat())

    def put_file(self, key: str, path: str) -> BlobInfo:
        with _translated(Path(path)), Path(path).open("rb") as source:
            return self._write(key, lambda file: _copied(source, file), self._disk.replace)

    def get(self, key: str) -> bytes:
        with self._opened(key) as file:
            data = file.read()
        expected = content_hash(key)
        if expected is not None and (digest := hashlib.sha256(data).hexdigest()) != expected:
            raise BlobCorruptError(key=key, actual_sha256=digest)
        return data

    def get_range(self, key: str, start: int, end: int) -> bytes:
        with self._opened(key) as file:
            file.seek(start)
            return file.read(max(end - start, 0))

    def head(self, key: str) -> BlobInfo | None:
        path = self._path(key)
        with _translated(self._root):
            try:
                status = path.lstat()
            except (FileNotFoundError, NotADirectoryError):
                return None
        return self._info(key, status) if stat.S_ISREG(status.st_mode) else None

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        check_prefix(prefix, self._tenant)
        return self._walk(prefix)

    def delete(self, key: str) -> None:
        path = self._path(key)
        with _translated(self._root), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()
            self._disk.sync_folder(path.parent)

    def delete_prefix(self, prefix: str) -> None:
        check_prefix(prefix, self._tenant)
        folder = self._root / prefix
        if not folder.is_dir():
            return
        for _ in range(_TRIES):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.is_dir():
                with _translated(self._root), contextlib.suppress(FileNotFoundError):
                    self._disk.sync_folder(folder.parent)
                return
        raise BlobStoreUnavailableError(
            where=str(folder), cause="the folder could not be removed completely"
        )

    def capabilities(self) -> BlobCapabilities:
        return BlobCapabilities(max_put_bytes=2**63 - 1)

    def _path(self, key: str) -> Path:
        check_key(key, self._tenant)
        return self._root / key

    def _write(
        self,
        key: str,
        fill: Callable[[BinaryIO], str],
        publish: Callable[[Path, Path], None],
    ) -> BlobInfo:
        """Write a temporary file beside the final one, sync it, rename it, sync the folder."""
        final = self._path(key)
        with _translated(self._root):
            for _ in range(_TRIES):
                with contextlib.suppress(FileNotFoundError):
                    self._make_folder(final.parent)
                    return self._written_once(key, final, fill, publish)
            return self._written_once(key, final, fill, publish)

    def _written_once(
        self,
        key: str,
        final: Path,
        fill: Callable[[BinaryIO], str],
        publish: Callable[[Path, Path], None],
    ) -> BlobInfo:
        descriptor, name = tempfile.mkstemp(prefix=_TEMPORARY, dir=final.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                digest = fill(file)
                file.flush()
                self._disk.sync_file(file.fileno())
                written = os.fstat(file.fileno())
            publish(Path(name), final)
            self._disk.sync_folder(final.parent)
        finally:
            Path(name).unlink(missing_ok=True)
        return self._info(key, written, sha256=digest)

    def _make_folder(self, folder: Path) -> None:
        """Create the folder and its parents up to the root, each synced in its parent."""
        if folder == self._root or (folder in self._durable and folder.is_dir()):
            return
        self._make_folder(folder.parent)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        self._disk.sync_folder(folder.parent)  # also if another process has just created it
        if len(self._durable) >= _MOST_REMEMBERED:
            self._durable.clear()
        self._durable.add(folder)

    @contextlib.contextmanager
    def _opened(self, key: str) -> Iterator[BinaryIO]:
        path = self._path(key)
        with _translated(self._root):
            try:
                descriptor = os.open(path, _READ)
            except (FileNotFoundError, NotADirectoryError):
                raise BlobNotFoundError(key=key) from None
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise BlobNotFoundError(key=key)
                yield file

    def _walk(self, prefix: str) -> Iterator[BlobInfo]:
        with _translated(self._root):
            try:
                entries = list(os.scandir(self._root / prefix))
            except (FileNotFoundError, NotADirectoryError):
                return
        # Sort a folder with its slash, so that complete keys are in order.
        named = {entry.name + "/" * entry.is_dir(follow_symlinks=False): entry for entry in entries}
        for name in sorted(named):
            if name.endswith("/"):
                yield from self._walk(prefix + name)
            elif not name.startswith(_TEMPORARY):
                info = self.head(prefix + name)
                if info is not None:
                    yield info

    def _info(self, key: str, status: os.stat_result, *, sha256: str | None = None) -> BlobInfo:
        named = content_hash(key)
        return BlobInfo(
            key=key,
            size_bytes=status.st_size,
            etag=named or f"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}",
            last_modified=datetime.fromtimestamp(status.st_mtime, UTC),
            sha256=named or sha256,
        )


def _written(file: BinaryIO, data: bytes) -> str:
    file.write(data)
    return hashlib.sha256(data).hexdigest()


def _copied(source: BinaryIO, file: BinaryIO) -> str:
    digest = hashlib.sha256()
    source.seek(0)
    while chunk := source.read(_CHUNK_BYTES):
        digest.update(chunk)
        file.write(chunk)
    return digest.hexdigest()


@contextlib.contextmanager
def _translated(where: Path) -> Iterator[None]:
    """Turn errors of the disk into errors of the store; errors for the caller pass."""
    try:
        yield
    except (FileExistsError, BlobNotFoundError):
        raise
    except OSError as cause:
        raise BlobStoreUnavailableError(
            where=str(where), cause=cause.strerror or type(cause).__name__
        ) from cause


def _check_volume(root: Path) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f"{_TEMPORARY}case", dir=root)
    os.close(descriptor)
    probe = Path(name)
    try:
        if probe.with_name(probe.name.upper()).exists():
            raise BlobStoreUnavailableError(
                where=str(root), cause="the volume does not distinguish upper and lower case"
            )
    finally:
        probe.unlink()
