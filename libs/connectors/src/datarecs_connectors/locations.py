"""Where files may be: the roots of a tenant, and the path of a table's file below one of them.

Separate from file access because the registry decides this before it reads any table.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from datarecs_connectors.errors import PathRefusedError, SourceUnsupportedError
from datarecs_connectors.file_tree import Allowed, FileTree
from datarecs_connectors.private_places import PrivatePlaces
from datarecs_connectors.source_trees import TableObjects
from datarecs_core.resources.object_urls import is_object_url

_LOCAL = "file:"
AMAZON = re.compile(r"^s3[an]://")
"""Other spellings of s3://, by writers in Java."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRoots:
    """The configured roots and their tenants."""

    roots: tuple[Path, ...]
    owner: UUID | None = None
    """Tenant that reads all files below the roots; None: each tenant reads its own folder."""

    def of(self, tenant: UUID) -> tuple[Path, ...]:
        """Folders of one tenant; none if another tenant owns the roots."""
        if self.owner is None:
            return tuple(root / str(tenant) for root in self.roots)
        return self.roots if tenant == self.owner else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The folders where the files of one source may be."""

    source: str
    roots: tuple[Path, ...]
    now: Callable[[], datetime]
    any_path: bool = False
    """True in `datarecs compare`: the user's own rights."""
    excluded: PrivatePlaces = field(default_factory=PrivatePlaces)
    """Folders and files of the platform."""
    objects: TableObjects | None = None
    """The object store of the tables' files, where the connection names one."""

    def open(self, location: str) -> BinaryIO:
        """A file that a table names; the caller closes it.

        Raises:
            SnapshotLostError: it does not exist.
            SourceUnsupportedError: it is in a store, and the connection names none.
            PathRefusedError: it is outside the allowed folders or the connection's store.
        """
        address = AMAZON.sub("s3://", location)
        if self.objects is not None and is_object_url(address):
            return self.objects.open(self.objects.below(address))
        tree, name = self.tree(location)
        return tree.open(name)

    def close(self) -> None:
        if self.objects is not None:
            self.objects.close()

    def tree(self, location: str) -> tuple[FileTree, str]:
        """The tree that contains a location, and the name in it.

        Raises:
            SourceUnsupportedError: it is in an object store.
            PathRefusedError: it is outside the allowed folders.
        """
        path = self._local(location)
        if ".." not in path.split("/"):
            if self.any_path:
                return self._tree(Path("/")), path
            for root in self.roots:
                if path.startswith(f"{str(root).rstrip('/')}/"):
                    return self._tree(root), path.removeprefix(str(root)).lstrip("/")
        raise PathRefusedError(
            self.source,
            "the table names a file outside the folders of this tenant; store the table's files "
            "below one of them",
        )

    def folder(self, declared: str) -> Path:
        """A folder or file that a connection names: absolute, or below one of the roots."""
        if self.any_path:
            return Path(os.path.normpath(self.roots[0] / declared))
        allowed = Allowed(
            source=self.source, roots=self.roots, now=self.now, excluded=self.excluded
        )
        return FileTree.below(declared, allowed).root

    def _tree(self, root: Path) -> FileTree:
        return FileTree(
            source=self.source,
            root=root,
            now=self.now,
            any_path=self.any_path,
            excluded=self.excluded,
        )

    def _local(self, location: str) -> str:
        """`/a`, `file:/a`, `file:///a` are equal; nothing is decoded, as writers do not encode."""
        scheme = location.partition(":")[0] if "://" in location else ""
        if scheme not in {"", "file"}:
            raise SourceUnsupportedError(
                self.source,
                f"its files are in a store of kind {scheme}; name a store of kind s3, gs or az in "
                "config.store of the connection, or mount the store below a root",
            )
        return f"/{location.removeprefix(_LOCAL).lstrip('/')}"
