"""What readers of files need of the place of a source: a folder, or a bucket."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Protocol

from datarecs_core.comparison.planning.scan import FileList, PinnedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A file as a listing shows it, without a look inside it."""

    path: str
    """Relative to the root of the tree."""
    size_bytes: int
    etag: str
    """Changes with the content."""
    modified_at: datetime


class HeldFiles(Protocol):
    """Port HeldPin for files."""

    @property
    def pin(self) -> FileList: ...

    def with_rows(self, rows: Mapping[str, int]) -> "HeldFiles":
        """The pin with the number of rows of its files, by path."""

    def check(self) -> FileList:
        """Raises SnapshotLostError when a file was replaced, changed or removed."""

    def close(self) -> None: ...


class TableObjects(Protocol):
    """Objects of lake tables, named by their addresses."""

    def below(self, path: str) -> str:
        """The name of an address; raises PathRefusedError outside the root."""

    def open(self, name: str) -> BinaryIO:
        """A file; the caller closes it. Raises SnapshotLostError where there is none."""

    def close(self) -> None: ...


class SourceTree(Protocol):
    """Files below one root; names are relative to it."""

    @property
    def source(self) -> str: ...

    @property
    def is_remote(self) -> bool:
        """Whether engines cannot open the files themselves."""

    def find(self, path: str) -> list[str]:
        """Sorted names; raises NoFilesError, SourceLimitError, PathRefusedError and others."""

    def listing(self, path: str) -> list[ListedFile]:
        """The files of a path, sorted; raises what `find` raises."""

    def listed(self, name: str) -> ListedFile:
        """The current version of a file; raises SnapshotLostError when it no longer exists."""

    def open(self, name: str) -> BinaryIO:
        """A file; the caller closes it."""

    def open_pinned(self, file: PinnedFile) -> BinaryIO:
        """A pinned file; raises SnapshotLostError when it is not the pinned one."""

    def pin(self, path: str, only: Collection[str] | None = None) -> HeldFiles:
        """Fix the files to read: of a path those with certain names, or all of them.

        Raises what `find` raises, NoFilesError also where none has such a name.
        """

    def check_root(self) -> str:
        """Check that the root can be listed; returns a text for people."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeOver:
    """Port SourceTree over another one; a subclass changes what it is there for."""

    tree: SourceTree

    @property
    def source(self) -> str:
        return self.tree.source

    @property
    def is_remote(self) -> bool:
        return self.tree.is_remote

    def find(self, path: str) -> list[str]:
        return self.tree.find(path)

    def listing(self, path: str) -> list[ListedFile]:
        return self.tree.listing(path)

    def listed(self, name: str) -> ListedFile:
        return self.tree.listed(name)

    def open(self, name: str) -> BinaryIO:
        return self.tree.open(name)

    def open_pinned(self, file: PinnedFile) -> BinaryIO:
        return self.tree.open_pinned(file)

    def pin(self, path: str, only: Collection[str] | None = None) -> HeldFiles:
        return self.tree.pin(path, only)

    def check_root(self) -> str:
        return self.tree.check_root()

    def close(self) -> None:
        self.tree.close()
