"""The files of a source: found below an allowed folder, pinned, and checked again after the read.

One module for every file format, because paths, links and pins are where files are dangerous and
all formats share it. A path is walked component by component without following links.
"""

import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Event, get_native_id
from typing import BinaryIO

from datarecs_connectors.errors import (
    ConnectionFailedError,
    NoFilesError,
    PermissionDeniedError,
    SnapshotLostError,
    SourceLimitError,
    SourceUnsupportedError,
)
from datarecs_core.comparison.scan import FileList, PinnedFile
from datarecs_core.resources.connection import path_fault

MAX_FILES = 1_000_000
HASHED_UP_TO = 1024**3
"""Files up to 1 GiB are pinned by their SHA-256, larger ones by size and identity alone."""
_CHUNK = 1024 * 1024
_LESS_URGENT = 10
"""What threads that hash are more nice than those that read: a tenth of a busy core."""
_WILD = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Identity:
    """What must stay as it is while a file is read."""

    device: int
    inode: int
    size: int
    modified_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> "Identity":
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTree:
    """A folder that a connection names, inside a root the operator allows."""

    source: str
    root: Path
    now: Callable[[], datetime]
    any_path: bool = False
    """`datarecs compare`: the user's own rights, absolute paths and links included."""

    @classmethod
    def below(
        cls, source: str, folder: str, roots: tuple[Path, ...], now: Callable[[], datetime]
    ) -> "FileTree":
        """The connection's folder, when it lies in one of the roots.

        Raises ConnectionFailedError otherwise, without saying what else there is.
        """
        for root in roots:
            candidate = Path(os.path.normpath(root / folder))
            if candidate.is_relative_to(root):
                return cls(source=source, root=candidate, now=now)
        raise ConnectionFailedError(
            source, f"the folder {folder!r} is outside the folders this worker may read"
        )

    def find(self, path: str) -> list[str]:
        """Paths relative to the root, sorted; a path without wildcard names one file.

        Raises NoFilesError, SourceLimitError, PermissionDeniedError.
        """
        wrong = path_fault(path, absolute=self.any_path)
        if wrong is not None:
            raise SourceUnsupportedError(self.source, wrong)
        if self.any_path and path.startswith("/"):
            found = sorted(self._globbed_anywhere(path))
        else:
            parts = tuple(part for part in path.split("/") if part not in {"", "."})
            found = sorted(self._below(self.root, parts, ()))
        if not found:
            raise NoFilesError(self.source, path)
        if len(found) > MAX_FILES:
            raise SourceLimitError(self.source, f"more than {MAX_FILES} files match {path!r}")
        return found

    def absolute(self, path: str) -> Path:
        return Path(path) if path.startswith("/") else self.root / path

    def open(self, name: str) -> BinaryIO:
        """A file of the tree, links refused; whoever asked closes it.

        Raises SnapshotLostError when it is gone, PermissionDeniedError, SourceUnsupportedError.
        """
        with self._opened(name) as descriptor:
            return os.fdopen(os.dup(descriptor), "rb")

    def pin(self, path: str) -> "PinnedTree":
        """Freeze which files are read; what they hold is hashed from now on."""
        identities = {name: self.identity(name) for name in self.find(path)}
        files = tuple(_file(name, identity) for name, identity in identities.items())
        pin = FileList(root=str(self.root), files=files, taken_at=self.now())
        return PinnedTree(tree=self, pin=pin, identities=identities, hashing=_Hashing(self, files))

    def identity(self, name: str) -> Identity:
        """Raises what `open` raises."""
        with self._opened(name) as descriptor:
            return Identity.of(os.fstat(descriptor))

    def sha256(self, name: str, stop: Event) -> str:
        """64 hexadecimal characters; of a part of the file where it is told to stop.

        Raises what `open` raises.
        """
        digest = hashlib.sha256()
        with self._opened(name) as descriptor:
            while not stop.is_set() and (chunk := os.read(descriptor, _CHUNK)):
                digest.update(chunk)
        return digest.hexdigest()

    def _opened(self, name: str) -> "_Descriptor":
        return _Descriptor(self, name)

    def _below(self, folder: Path, parts: tuple[str, ...], above: tuple[str, ...]) -> Iterator[str]:
        """Walk without following links; a last component may also be a folder of files."""
        if not parts:
            return
        head, rest = parts[0], parts[1:]
        for entry in _entries(folder, head, self.source):
            if entry.is_symlink() and not self.any_path:
                if not _WILD & set(head):
                    raise SourceUnsupportedError(self.source, "the path leads through a link")
                continue
            here = (*above, entry.name)
            if rest and entry.is_dir():
                yield from self._below(folder / entry.name, rest, here)
            elif not rest and entry.is_file():
                yield "/".join(here)
            elif not rest and entry.is_dir():
                yield from self._below(folder / entry.name, ("*",), here)

    def _globbed_anywhere(self, path: str) -> Iterator[str]:
        anchor = Path("/")
        whole = FileTree(source=self.source, root=anchor, now=self.now, any_path=True)
        for name in whole._below(anchor, tuple(path.strip("/").split("/")), ()):
            yield f"/{name}"


def _entries(folder: Path, pattern: str, source: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            wild = bool(_WILD & set(pattern))
            return [
                entry
                for entry in found
                if (fnmatchcase(entry.name, pattern) and entry.name[0] not in "._")
                or (not wild and entry.name == pattern)
            ]
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        return []
    except PermissionError as cause:
        raise PermissionDeniedError(
            source, f"the folder {folder.name!r} may not be read"
        ) from cause


class _Descriptor:
    """A regular file, opened component by component from the root, links refused."""

    def __init__(self, tree: FileTree, name: str) -> None:
        self._tree, self._name = tree, name
        self._stack = ExitStack()

    def __enter__(self) -> int:
        tree, flags = self._tree, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        nofollow = 0 if tree.any_path else os.O_NOFOLLOW
        try:
            if self._name.startswith("/"):
                descriptor = os.open(self._name, flags)
            else:
                descriptor = self._walk(flags, nofollow)
            self._stack.callback(os.close, descriptor)
        except FileNotFoundError as cause:
            raise SnapshotLostError(tree.source, f"{self._name} is gone") from cause
        except PermissionError as cause:
            raise PermissionDeniedError(tree.source, f"{self._name} may not be read") from cause
        except OSError as cause:
            raise SourceUnsupportedError(
                tree.source, f"{self._name} is a link or no regular file"
            ) from cause
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            self._stack.close()
            raise SourceUnsupportedError(tree.source, f"{self._name} is no regular file")
        return descriptor

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _walk(self, flags: int, nofollow: int) -> int:
        folder = os.open(self._tree.root, flags | os.O_DIRECTORY)
        *folders, last = self._name.split("/")
        try:
            for part in folders:
                deeper = os.open(part, flags | os.O_DIRECTORY | nofollow, dir_fd=folder)
                os.close(folder)
                folder = deeper
            return os.open(last, flags | nofollow, dir_fd=folder)
        finally:
            os.close(folder)


class _Hashing:
    """SHA-256 of files, in threads that take what readers leave of the processor."""

    def __init__(self, tree: FileTree, files: Sequence[PinnedFile]) -> None:
        self._stopped = Event()
        # Hashing leaves the interpreter free for others.
        pool = ThreadPoolExecutor(thread_name_prefix="hash", initializer=_stand_back)
        self._hashes: dict[str, Future[str]] = {
            file.path: pool.submit(tree.sha256, file.path, self._stopped)
            for file in files
            if file.etag is None
        }
        self._pool = pool

    def found(self) -> dict[str, str]:
        """By path; waits for all of them. Raises what opening a file raises."""
        return {path: each.result() for path, each in self._hashes.items()}

    def stop(self) -> None:
        self._stopped.set()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _stand_back() -> None:
    """Elsewhere a thread has no priority of its own."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, get_native_id(), _LESS_URGENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedTree:
    """Port HeldPin for files: nothing is held, everything is looked at again."""

    tree: FileTree
    pin: FileList
    identities: dict[str, Identity]
    hashing: _Hashing

    def check(self) -> FileList:
        """Raises SnapshotLostError when a file was replaced, changed or removed."""
        # Identities last: who hashed a file while it was written learns it from them.
        hashes = self.hashing.found()
        for name, identity in self.identities.items():
            if self.tree.identity(name) != identity:
                raise SnapshotLostError(
                    self.tree.source, f"{name} changed while it was read; run again"
                )
        files = (replace(file, sha256=hashes.get(file.path)) for file in self.pin.files)
        return replace(self.pin, files=tuple(files))

    def close(self) -> None:
        """Nothing is held."""
        self.hashing.stop()


def _file(name: str, identity: Identity) -> PinnedFile:
    is_large = identity.size > HASHED_UP_TO
    etag = f"{identity.size}-{identity.modified_ns}" if is_large else None
    return PinnedFile(path=name, size_bytes=identity.size, etag=etag)
