"""Where files that others name may lie: a location of a table becomes a name below an allowed root.

Apart from the files themselves because a registry decides it before anything of a table is known.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from datarecs_connectors.errors import PermissionDeniedError, SourceUnsupportedError
from datarecs_connectors.file_tree import FileTree

_LOCAL = "file:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the files of one source may lie."""

    source: str
    roots: tuple[Path, ...]
    now: Callable[[], datetime]
    any_path: bool = False
    """`datarecs compare`: the user's own rights."""

    def tree(self, location: str) -> tuple[FileTree, str]:
        """The tree that holds a location, and the name in it.

        Raises:
            SourceUnsupportedError: it lies in an object store.
            PermissionDeniedError: it lies outside the allowed folders.
        """
        path = self._local(location)
        if ".." not in path.split("/"):
            if self.any_path:
                return self._tree(Path("/")), path
            for root in self.roots:
                if path.startswith(f"{str(root).rstrip('/')}/"):
                    return self._tree(root), path.removeprefix(str(root)).lstrip("/")
        raise PermissionDeniedError(
            self.source, "the table names a file outside the folders this worker may read"
        )

    def folder(self, declared: str) -> Path:
        """A folder or file that a connection names: absolute, or below one of the roots."""
        if self.any_path:
            return Path(os.path.normpath(self.roots[0] / declared))
        return FileTree.below(self.source, declared, self.roots, self.now).root

    def _tree(self, root: Path) -> FileTree:
        return FileTree(source=self.source, root=root, now=self.now, any_path=self.any_path)

    def _local(self, location: str) -> str:
        """`/a`, `file:/a` and `file:///a` are one; names are not decoded, as no writer encodes."""
        scheme = location.partition(":")[0] if "://" in location else ""
        if scheme not in {"", "file"}:
            raise SourceUnsupportedError(
                self.source,
                f"its files lie in a store of kind {scheme}: only files of this machine can be "
                "read yet; mount the store below a root, or export the table",
            )
        return f"/{location.removeprefix(_LOCAL).lstrip('/')}"
