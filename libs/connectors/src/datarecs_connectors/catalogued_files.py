"""Files of a source with what the catalogue knows about them.

A pin says which snapshot of the catalogue it equals, and a source that asks for an earlier snapshot
reads exactly the files of that one. Readers of formats see an ordinary tree.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from datarecs_connectors.capturing.layout import files_of
from datarecs_connectors.capturing.lists import native_id_of
from datarecs_connectors.errors import (
    NoFilesError,
    QueryFailedError,
    SnapshotLostError,
    SourceUnsupportedError,
)
from datarecs_connectors.file_tree import FileTree
from datarecs_connectors.object_stores.listing import Pattern, below_root
from datarecs_connectors.source_trees import HeldFiles, TreeOver
from datarecs_core.captures.catalogued import CataloguedFile, CataloguedTable
from datarecs_core.comparison.planning.scan import CataloguedSnapshot, FileList
from datarecs_core.resources.object_urls import ObjectUrl, is_object_url
from datarecs_core.values import instant_text


@dataclass(frozen=True, slots=True, kw_only=True)
class CataloguedPin:
    """Port HeldFiles over another one, with the snapshot that the files equal."""

    held: HeldFiles
    catalogued: CataloguedSnapshot | None

    @property
    def pin(self) -> FileList:
        return replace(self.held.pin, catalogued=self.catalogued)

    def with_rows(self, rows: Mapping[str, int]) -> "CataloguedPin":
        return replace(self, held=self.held.with_rows(rows))

    def check(self) -> FileList:
        return replace(self.held.check(), catalogued=self.catalogued)

    def close(self) -> None:
        self.held.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class CataloguedTree(TreeOver):
    """Pins the files of the snapshot that a source requests."""

    table: CataloguedTable
    root: ObjectUrl | None = None
    """Of a bucket, in which a path may be a whole address."""

    def pin(self, path: str, only: Collection[str] | None = None) -> CataloguedPin:
        """The files of the requested snapshot; without one, the current files.

        Raises:
            SnapshotLostError: a file of the requested snapshot is gone or has changed.
            QueryFailedError: no file of the requested snapshot is at the path.
            SourceUnsupportedError, PathRefusedError: no capture reads such a path.
        """
        if self.table.as_of is None:
            held = self.tree.pin(path, only)
            return CataloguedPin(held=held, catalogued=self._equal(held))
        self._check_links(path)
        below = self._below(path)
        wanted = [file for file in self.table.files if is_at(below, file.path)]
        if not wanted:
            message = (
                f"{self._snapshot()} has no file at {path!r}; its files are those that the path of "
                "its folder reads, without marks of writers and folders that begin with _ or ."
            )
            raise QueryFailedError(self.source, message)
        try:
            held = self.tree.pin(path, {file.path for file in wanted})
        except NoFilesError as gone:
            raise self._lost(wanted[0], "is gone") from gone
        try:
            # After the pin: what changes from now on is detected by its own check.
            self._check(path, wanted)
        except BaseException:
            held.close()
            raise
        is_whole = len(wanted) == len(self.table.files)
        return CataloguedPin(held=held, catalogued=self.table.as_of if is_whole else None)

    def _check_links(self, path: str) -> None:
        """Refuse what a path reads on a user's machine, where it follows links, and no capture.

        Raises:
            SourceUnsupportedError: without the time, the path would read a file of a link.
        """
        if not isinstance(self.tree, FileTree) or not self.tree.any_path:
            return
        captured = set(replace(self.tree, any_path=False).find_names(path))
        linked = next((name for name in self.tree.find_names(path) if name not in captured), None)
        if linked is not None:
            raise SourceUnsupportedError(
                self.source,
                f"{linked} is a link, or below one: a comparison reads it, and a capture leaves it "
                "out, so the past would have fewer rows; remove the link, or write a path that "
                "leaves it out",
            )

    def _below(self, path: str) -> str:
        """The path below the root. Raises PathRefusedError for an address of another place."""
        if self.root is None or not is_object_url(path):
            return path
        return below_root(self.source, self.root, path)

    def _equal(self, held: HeldFiles) -> CataloguedSnapshot | None:
        """The snapshot of the current files, if exactly these are pinned."""
        try:
            files = files_of(self.tree, self.table.name).files
        except (NoFilesError, SourceUnsupportedError):
            return None
        if [file.path for file in files] != sorted(file.path for file in held.pin.files):
            return None
        return self.table.snapshot(native_id_of(files))

    def _check(self, path: str, wanted: list[CataloguedFile]) -> None:
        try:
            current = {file.path: file for file in self.tree.listing(path)}
        except NoFilesError:
            current = {}
        for file in wanted:
            now = current.get(file.path)
            if now is None:
                raise self._lost(file, "is gone")
            if (now.size_bytes, now.etag) != (file.size_bytes, file.etag):
                raise self._lost(file, "has changed")

    def _lost(self, file: CataloguedFile, what: str) -> SnapshotLostError:
        return SnapshotLostError(
            self.source,
            f"{file.path} of {self._snapshot()} {what}; use a later time, or restore the file",
        )

    def _snapshot(self) -> str:
        as_of = self.table.as_of
        if as_of is None:
            raise TypeError("the source asks for no snapshot")
        return f"snapshot {as_of.snapshot_id}, committed {instant_text(as_of.committed_at)},"


def is_at(path: str, name: str) -> bool:
    """Whether a path of a source names a file, by the rules of folders and buckets."""
    pattern = Pattern.of(path)
    folder = tuple(name.split("/"))[: len(pattern.folder)]
    is_named = not pattern.rest and name.split("/") == list(pattern.folder)
    return is_named or (folder == pattern.folder and pattern.matches(name))
