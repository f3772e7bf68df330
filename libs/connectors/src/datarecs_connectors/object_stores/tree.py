"""The files of a source in an object store: found by listing, pinned by ETag and size.

The counterpart of `file_tree`. Nothing is copied and nothing is held: reads name the pinned ETag,
and the pin is checked again after the last read.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import BinaryIO, ClassVar, cast

from datarecs_connectors.errors import NoFilesError, PathRefusedError, SourceLimitError
from datarecs_connectors.object_stores.bucket import Bucket, StoredObject
from datarecs_connectors.object_stores.listing import Pattern, below_root
from datarecs_connectors.object_stores.objects import ObjectFile
from datarecs_connectors.source_trees import ListedFile
from datarecs_core.comparison.planning.scan import FileList, PinnedFile
from datarecs_core.resources.connection import path_fault, pattern_fault
from datarecs_core.resources.object_urls import ObjectUrl, is_object_url

MAX_OBJECTS = 1_000_000
"""Objects that are listed for one path."""
_HEAD_REQUESTS = 16
"""Up to so many files are checked one by one, more by listing again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectTree:
    """Objects below one root."""

    is_remote: ClassVar[bool] = True

    bucket: Bucket
    root: ObjectUrl
    now: Callable[[], datetime]

    @property
    def source(self) -> str:
        return self.bucket.source

    def find(self, path: str) -> list[str]:
        """Names below the root, sorted; a path without pattern is an object or a folder.

        Raises NoFilesError, SourceLimitError, PathRefusedError, ConnectionFailedError,
        PermissionDeniedError.
        """
        return [item.name for item in self._objects(path)]

    def listing(self, path: str) -> list[ListedFile]:
        return [self._in_listing(item) for item in self._objects(path)]

    def listed(self, name: str) -> ListedFile:
        item = self.bucket.head(name)
        if item is None:
            raise self.bucket.lost(name, "was removed after the run had pinned it")
        return self._in_listing(item)

    def open(self, name: str) -> BinaryIO:
        """Raises SnapshotLostError when it no longer exists."""
        item = self.bucket.head(name)
        if item is None:
            raise self.bucket.lost(name, "was removed after the run had pinned it")
        return cast("BinaryIO", ObjectFile(self.bucket, item))

    def create(self, name: str, content: bytes) -> None:
        """A new object of a sink's table. Raises FileExistsError."""
        self.bucket.create(name, content)

    def remove(self, name: str) -> None:
        """Nothing happens where there is no object."""
        self.bucket.remove(name)

    def open_pinned(self, file: PinnedFile) -> BinaryIO:
        """Reading raises SnapshotLostError when the object is not the pinned one."""
        item = StoredObject(file.path, file.size_bytes, file.etag or "")
        return cast("BinaryIO", ObjectFile(self.bucket, item))

    def pin(self, path: str, only: Collection[str] | None = None) -> "PinnedObjects":
        files = tuple(
            PinnedFile(path=item.name, size_bytes=item.size, etag=item.etag)
            for item in self._objects(path)
            if only is None or item.name in only
        )
        if not files:
            raise NoFilesError(self.source, path)
        pin = FileList(root=str(self.root), files=files, taken_at=self.now())
        return PinnedObjects(tree=self, path=path, pin=pin)

    def check_root(self) -> str:
        objects = len(list(islice(self.bucket.list(""), 1)))
        return "the bucket can be listed" if objects else "the bucket has no object here"

    def close(self) -> None:
        self.bucket.close()

    def current(self, path: str, files: tuple[PinnedFile, ...]) -> Mapping[str, StoredObject]:
        """The current versions of pinned files that still exist."""
        if len(files) > _HEAD_REQUESTS:
            return {item.name: item for item in self._listed(Pattern.of(self.below(path)))}
        items = (self.bucket.head(file.path) for file in files)
        return {item.name: item for item in items if item is not None}

    def _objects(self, path: str) -> list[StoredObject]:
        fault = pattern_fault(path)
        if fault is not None:
            raise PathRefusedError(self.source, f"{fault}; the path is {path!r}")
        pattern = Pattern.of(self.below(path))
        if not pattern.rest and pattern.folder:
            item = self.bucket.head(pattern.prefix)
            if item is not None:
                return [item]
        items = sorted(self._listed(pattern), key=lambda item: item.name)
        if not items:
            place = f"{self.root} at {self.bucket.address.server}"
            raise NoFilesError(self.source, path, place=place)
        return items

    def _in_listing(self, item: StoredObject) -> ListedFile:
        return ListedFile(
            path=item.name,
            size_bytes=item.size,
            etag=item.etag,
            modified_at=item.modified_at or self.now(),
        )

    def _listed(self, pattern: Pattern) -> list[StoredObject]:
        """Matching objects; one that marks a folder is no file."""
        items: dict[str, StoredObject] = {}
        folders = set[str]()
        for number, item in enumerate(self.bucket.list(pattern.prefix)):
            if number >= MAX_OBJECTS:
                where = pattern.prefix or str(self.root)
                message = f"more than {MAX_OBJECTS} objects are below {where!r}; narrow the path"
                raise SourceLimitError(self.source, message)
            folder = item.name.rpartition("/")[0]
            while folder and folder not in folders:
                folders.add(folder)
                folder = folder.rpartition("/")[0]
            if pattern.matches(item.name):
                items[item.name] = item
        return [item for name, item in items.items() if name not in folders]

    def below(self, path: str) -> str:
        """The path relative to the root."""
        if not is_object_url(path):
            fault = path_fault(path)
            if fault is not None:
                raise PathRefusedError(self.source, f"{fault}; the path is {path!r}")
            return path
        return below_root(self.source, self.root, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedObjects:
    """Port HeldPin for objects: nothing is held, every object is checked again."""

    tree: ObjectTree
    path: str
    pin: FileList

    def with_rows(self, rows: Mapping[str, int]) -> "PinnedObjects":
        files = tuple(replace(file, rows=rows.get(file.path)) for file in self.pin.files)
        return replace(self, pin=replace(self.pin, files=files))

    def check(self) -> FileList:
        """Raises SnapshotLostError when an object was replaced or removed."""
        current = self.tree.current(self.path, self.pin.files)
        for file in self.pin.files:
            item = current.get(file.path)
            if item is None:
                raise self.tree.bucket.lost(file.path, "was removed while it was read")
            if (item.size, item.etag) != (file.size_bytes, file.etag):
                raise self.tree.bucket.lost(file.path)
        return self.pin

    def close(self) -> None:
        """Nothing is held."""
