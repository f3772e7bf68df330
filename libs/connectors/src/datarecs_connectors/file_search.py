"""Find the files that match a path with patterns, through descriptors, so no link is followed.

Separate from `confinement`, which opens one file by its name.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count

from datarecs_connectors.confinement import Confinement
from datarecs_connectors.errors import PathRefusedError, SourceLimitError
from datarecs_connectors.path_patterns import FolderPattern

MAX_DEPTH = 64
"""Depth of folders below the connection's folder."""
MAX_ENTRIES = 10_000_000
"""Files and folders that are listed for one path."""


@dataclass(frozen=True, slots=True)
class FileSearch:
    """Files that match a path, found once through descriptors; links are not followed."""

    confinement: Confinement
    entries: Iterator[int] = field(default_factory=count)

    def matches(
        self, folder: int, pattern: FolderPattern, above: tuple[str, ...] = ()
    ) -> Iterator[str]:
        """Files below an open folder, relative to it.

        Raises SourceLimitError, PathRefusedError, PermissionDeniedError and others.
        """
        if len(above) > MAX_DEPTH:
            raise SourceLimitError(
                self.confinement.source,
                f"folders are nested more than {MAX_DEPTH} deep below {above[0]!r}; a link may "
                "lead back to a folder above it",
            )
        for name in self._names(folder, pattern):
            deeper = pattern.below(name)
            if deeper is None and not pattern.takes(name):
                continue
            here, is_named = (*above, name), pattern.is_named(name)
            mode = self._mode(folder, name)
            if not _is_folder(mode, is_named=is_named):
                if pattern.takes(name, is_regular=stat.S_ISREG(mode)):
                    yield "/".join(here)
            elif deeper is not None:
                with self._entered(folder, name, is_named=is_named) as opened:
                    if opened is not None:
                        yield from self.matches(opened, deeper, here)

    def _names(self, folder: int, pattern: FolderPattern) -> Iterator[str]:
        literals = pattern.literals
        if literals is not None:
            yield from (name for name in literals if self._exists(folder, name))
            return
        for name in sorted(os.listdir(folder)):
            if next(self.entries) >= MAX_ENTRIES:
                raise SourceLimitError(
                    self.confinement.source,
                    f"more than {MAX_ENTRIES:,} files and folders are listed; name more folders "
                    "in the path",
                )
            yield name

    @contextmanager
    def _entered(self, folder: int, name: str, *, is_named: bool) -> Iterator[int | None]:
        """None for an entry that only a pattern matches and that may not be read."""
        with ExitStack() as stack:
            descriptor: int | None = None
            try:
                descriptor = stack.enter_context(self.confinement.open_child(folder, name))
            except (PathRefusedError, FileNotFoundError):
                if is_named:
                    raise
            yield descriptor

    def _exists(self, folder: int, name: str) -> bool:
        with suppress(OSError):
            os.stat(name, dir_fd=folder, follow_symlinks=False)
            return True
        return False

    def _mode(self, folder: int, name: str) -> int:
        follows = self.confinement.follows_links
        with suppress(OSError):
            return os.stat(name, dir_fd=folder, follow_symlinks=follows).st_mode
        return 0


def _is_folder(mode: int, *, is_named: bool) -> bool:
    """A named link leads to an error; a link that only a pattern matches is ignored."""
    return stat.S_ISDIR(mode) or (stat.S_ISLNK(mode) and is_named)
