"""The files of a source: found below an allowed folder, pinned, and checked again after the read.

One module for every file format, because paths, links and pins are where files are dangerous and
all formats share it. A path is walked component by component without following links.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
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
        """Freeze which files are read and what they hold."""
        names = self.find(path)
        # Hashing leaves the interpreter free for other files.
        with ThreadPoolExecutor() as hashing:
            found = list(hashing.map(self._pinned, names))
        files = tuple(file for file, _ in found)
        pin = FileList(root=str(self.root), files=files, taken_at=self.now())
        identities = {file.path: identity for file, identity in found}
        return PinnedTree(tree=self, pin=pin, identities=identities)

    def _pinned(self, name: str) -> tuple[PinnedFile, Identity]:
        with self._opened(name) as descriptor:
            identity = Identity.of(os.fstat(descriptor))
            digest = _sha256(descriptor) if identity.size <= HASHED_UP_TO else None
        etag = None if digest else f"{identity.size}-{identity.modified_ns}"
        return PinnedFile(path=name, size_bytes=identity.size, etag=etag, sha256=digest), identity

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedTree:
    """Port HeldPin for files: nothing is held, everything is looked at again."""

    tree: FileTree
    pin: FileList
    identities: dict[str, Identity]

    def check(self) -> None:
        """Raises SnapshotLostError when a file was replaced, changed or removed."""
        for file in self.pin.files:
            with _Descriptor(self.tree, file.path) as descriptor:
                now = Identity.of(os.fstat(descriptor))
            if now != self.identities[file.path]:
                raise SnapshotLostError(
                    self.tree.source, f"{file.path} changed while it was read; run again"
                )

    def close(self) -> None:
        """Nothing is held."""


def _sha256(descriptor: int) -> str:
    digest = hashlib.sha256()
    os.lseek(descriptor, 0, os.SEEK_SET)
    while chunk := os.read(descriptor, _CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
