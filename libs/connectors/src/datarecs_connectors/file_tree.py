"""Find the files of a source below an allowed folder, pin them, and check them after the read.

One module for every file format, because all of them share paths and pins; `confinement` opens.
"""

import hashlib
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from threading import Event, get_native_id
from typing import BinaryIO, ClassVar

from datarecs_connectors.confinement import Confinement
from datarecs_connectors.errors import (
    ConnectionFailedError,
    NoFilesError,
    PathRefusedError,
    SnapshotLostError,
    SourceLimitError,
    SourceUnsupportedError,
)
from datarecs_connectors.file_search import FileSearch
from datarecs_connectors.path_patterns import FolderPattern, parts_of
from datarecs_connectors.private_places import PrivatePlaces
from datarecs_connectors.source_trees import ListedFile
from datarecs_core.comparison.planning.scan import FileList, PinnedFile
from datarecs_core.resources.connection import path_fault, pattern_fault

MAX_FILES = 1_000_000
HASHED_UP_TO = 1024**3
"""Files up to 1 GiB are pinned by their SHA-256, larger ones by size and identity alone."""
_CHUNK = 1024 * 1024
_LESS_URGENT = 10
"""Niceness that hashing threads add to that of reading threads: a tenth of a busy core."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The properties of a file that must not change while it is read."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int
    """Set by the system at every write, also where `modified_ns` is set back."""

    @classmethod
    def of(cls, status: os.stat_result) -> "Identity":
        return cls(
            status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        )

    def listed(self, name: str) -> ListedFile:
        """The file in a listing. The device is left out: a mount may get another number."""
        seconds, rest = divmod(self.modified_ns, 1_000_000_000)
        return ListedFile(
            path=name,
            size_bytes=self.size,
            etag=f"{self.modified_ns:x}-{self.changed_ns:x}-{self.inode:x}",
            modified_at=datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=rest // 1000),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTree:
    """A folder that a connection names, inside a root the operator allows."""

    is_remote: ClassVar[bool] = False

    source: str
    root: Path
    now: Callable[[], datetime]
    any_path: bool = False
    """True in `datarecs compare`: the user's own rights, with absolute paths and links."""
    base: Path | None = None
    """Root from which no link is followed, above the folder; None: the folder itself."""
    excluded: PrivatePlaces = field(default_factory=PrivatePlaces)
    """Folders and files of the platform."""

    @classmethod
    def below(cls, folder: str, allowed: "Allowed") -> "FileTree":
        """The connection's folder, if it is in one of the roots.

        Raises PathRefusedError otherwise; the message does not reveal what else exists.
        """
        fault = path_fault(folder, absolute=True)
        if fault is not None:
            raise PathRefusedError(allowed.source, f"{fault}; the root is {folder!r}")
        for base in allowed.roots:
            candidate = Path(os.path.normpath(base / folder))
            if candidate.is_relative_to(base):
                return cls(
                    source=allowed.source,
                    root=candidate,
                    now=allowed.now,
                    base=base,
                    excluded=allowed.excluded,
                )
        raise PathRefusedError(
            allowed.source,
            f"the folder {folder!r} is outside the folders of this tenant; name one inside them, "
            "or ask the operator to change DATARECS_FILES__ROOTS or DATARECS_FILES__OWNER",
        )

    def find(self, path: str) -> list[str]:
        """Paths relative to the root, sorted; a path without wildcard names one file.

        Raises NoFilesError, SourceLimitError, PathRefusedError, PermissionDeniedError,
        SourceUnsupportedError.
        """
        fault = path_fault(path, absolute=self.any_path) or pattern_fault(path)
        if fault is not None:
            raise PathRefusedError(self.source, f"{fault}; the path is {path!r}")
        top = "/" if self.any_path and path.startswith("/") else ""
        names = self._from_top(path).find_names(path) if top else self.find_names(path)
        files = sorted(f"{top}{name}" for name in islice(names, MAX_FILES + 1))
        if not files:
            is_below = self.any_path and not top
            raise NoFilesError(self.source, path, place=f"folder {self.root}" if is_below else "")
        if len(files) > MAX_FILES:
            raise SourceLimitError(self.source, f"more than {MAX_FILES} files match {path!r}")
        return files

    def find_names(self, path: str) -> Iterator[str]:
        """As `find`, in any order; none where nothing matches."""
        parts = parts_of(path)
        if not parts:
            return
        confinement = self.confinement
        try:
            with confinement.open_folder() as folder:
                yield from FileSearch(confinement).matches(folder, FolderPattern.of(parts))
        except FileNotFoundError:
            return

    @property
    def confinement(self) -> Confinement:
        base = self.base or self.root
        return Confinement(
            source=self.source,
            root=base,
            folder=self.root.relative_to(base).parts,
            excluded=self.excluded,
            follows_links=self.any_path,
        )

    def open(self, name: str) -> BinaryIO:
        """A regular file of the tree; the caller closes it.

        Raises SnapshotLostError when it no longer exists, PathRefusedError, PermissionDeniedError,
        SourceUnsupportedError.
        """
        with self.descriptor(name) as descriptor:
            return os.fdopen(os.dup(descriptor), "rb")

    def open_pinned(self, file: PinnedFile) -> BinaryIO:
        """A pinned file; the caller closes it.

        Raises SnapshotLostError when the path is now another file, a link or missing.
        """
        try:
            opened = self.open(file.path)
        except (PathRefusedError, SourceUnsupportedError) as cause:
            raise self._replaced(file.path) from cause
        if os.fstat(opened.fileno()).st_size != file.size_bytes:
            opened.close()
            raise self._replaced(file.path)
        return opened

    @contextmanager
    def descriptor(self, name: str) -> Iterator[int]:
        """Raises what `open` raises."""
        tree = self._from_top(name) if name.startswith("/") else self
        try:
            with tree.confinement.open_file(name.lstrip("/")) as descriptor:
                yield descriptor
        except FileNotFoundError as cause:
            raise SnapshotLostError(
                self.source, f"{name} was removed after the run had pinned it; run again"
            ) from cause

    def pin(self, path: str, only: Collection[str] | None = None) -> "PinnedTree":
        """Fix the list of files to read, and start to hash their content."""
        names = [name for name in self.find(path) if only is None or name in only]
        if not names:
            raise NoFilesError(self.source, path)
        identities = {name: self.identity(name) for name in names}
        files = tuple(_file(name, identity) for name, identity in identities.items())
        pin = FileList(root=str(self.root), files=files, taken_at=self.now())
        return PinnedTree(tree=self, pin=pin, identities=identities, hashing=_Hashing(self, files))

    def check_root(self) -> str:
        """Check that the folder can be listed; returns a text for people.

        Raises ConnectionFailedError, PathRefusedError, PermissionDeniedError, SourceLimitError.
        """
        try:
            with self.confinement.open_folder() as folder:
                if self.any_path:
                    return "the folder can be read"
                files = FileSearch(self.confinement).matches(folder, FolderPattern.of(()))
                count = sum(1 for _ in files)
        except FileNotFoundError as cause:
            name = f"the folder {self.root}" if self.any_path else "its folder"
            raise ConnectionFailedError(
                self.source, f"{name} does not exist; correct `root`, or create the folder"
            ) from cause
        return f"{count} {'file' if count == 1 else 'files'}"

    def close(self) -> None:
        """Nothing to close."""

    def identity(self, name: str) -> Identity:
        """Raises what `open` raises."""
        with self.descriptor(name) as descriptor:
            return Identity.of(os.fstat(descriptor))

    def listing(self, path: str) -> list[ListedFile]:
        return [self.identity(name).listed(name) for name in self.find(path)]

    def listed(self, name: str) -> ListedFile:
        """Raises SnapshotLostError when the path is now a link, a folder or missing."""
        try:
            return self.identity(name).listed(name)
        except (PathRefusedError, SourceUnsupportedError) as cause:
            raise self._replaced(name) from cause

    def check_identity(self, name: str, pinned: Identity) -> None:
        """Raises SnapshotLostError when the path is now another file, a link or missing."""
        try:
            identity = self.identity(name)
        except (PathRefusedError, SourceUnsupportedError) as cause:
            raise self._replaced(name) from cause
        if identity != pinned:
            raise self._replaced(name)

    def check_same_file(self, name: str, before: Identity) -> None:
        """As `check_identity`, for a file that other processes may write to."""
        now = self.identity(name)
        if (now.device, now.inode) != (before.device, before.inode):
            raise self._replaced(name)

    def sha256(self, name: str, stop: Event) -> str:
        """64 hexadecimal characters; after `stop` is set, the hash of the bytes read so far.

        Raises what `open` raises.
        """
        digest = hashlib.sha256()
        with self.descriptor(name) as descriptor:
            while not stop.is_set() and (chunk := os.read(descriptor, _CHUNK)):
                digest.update(chunk)
        return digest.hexdigest()

    def _replaced(self, name: str) -> SnapshotLostError:
        return SnapshotLostError(
            self.source,
            f"{name} changed while it was read; leave files unchanged until a run has ended, and "
            "run again",
        )

    def _from_top(self, path: str) -> "FileTree":
        """Refuse an absolute path."""
        if not self.any_path:
            raise PathRefusedError(self.source, f"{path!r} begins with /")
        return FileTree(source=self.source, root=Path("/"), now=self.now, any_path=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """The folders where the files of one source may be."""

    source: str
    roots: tuple[Path, ...]
    now: Callable[[], datetime]
    excluded: PrivatePlaces = field(default_factory=PrivatePlaces)


class _Hashing:
    """SHA-256 of files, in threads with a lower priority than readers."""

    def __init__(self, tree: FileTree, files: Sequence[PinnedFile]) -> None:
        self._stopped = Event()
        # Hashing releases the interpreter lock for other threads.
        pool = ThreadPoolExecutor(thread_name_prefix="hash", initializer=_stand_back)
        self._hashes: dict[str, Future[str]] = {
            file.path: pool.submit(tree.sha256, file.path, self._stopped)
            for file in files
            if file.etag is None
        }
        self._pool = pool

    def collect_hashes(self) -> dict[str, str]:
        """Hashes by path, after all are complete. Raises what opening a file raises."""
        return {path: future.result() for path, future in self._hashes.items()}

    def stop(self) -> None:
        self._stopped.set()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _stand_back() -> None:
    """Only on Linux; on other systems a thread has no separate priority."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, get_native_id(), _LESS_URGENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedTree:
    """Port HeldPin for files: nothing is held, every file is checked again."""

    tree: FileTree
    pin: FileList
    identities: dict[str, Identity]
    hashing: _Hashing

    def with_rows(self, rows: Mapping[str, int]) -> "PinnedTree":
        """The pin with the number of rows of its files, by path."""
        files = tuple(replace(file, rows=rows.get(file.path)) for file in self.pin.files)
        return replace(self, pin=replace(self.pin, files=files))

    def check(self) -> FileList:
        """Raises SnapshotLostError when a file was replaced, changed or removed."""
        # Identities last: they show whether a file was written while it was hashed.
        try:
            hashes = self.hashing.collect_hashes()
        except (PathRefusedError, SourceUnsupportedError):
            hashes = {}  # the file that is now at this path is named below
        for name, identity in self.identities.items():
            self.tree.check_identity(name, identity)
        files = (replace(file, sha256=hashes.get(file.path)) for file in self.pin.files)
        return replace(self.pin, files=tuple(files))

    def close(self) -> None:
        """Nothing is held."""
        self.hashing.stop()


def _file(name: str, identity: Identity) -> PinnedFile:
    is_large = identity.size > HASHED_UP_TO
    etag = f"{identity.size}-{identity.modified_ns}" if is_large else None
    return PinnedFile(path=name, size_bytes=identity.size, etag=etag)
