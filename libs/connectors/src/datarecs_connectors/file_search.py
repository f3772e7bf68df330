"""Find the files that match a path with patterns, through descriptors, so no link is followed.

Separate from `confinement`, which opens one file by its name.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase

from datarecs_connectors.confinement import Confinement
from datarecs_connectors.errors import PathRefusedError, SourceLimitError

MAX_DEPTH = 64
"""Depth of folders below the connection's folder."""
_WILD = frozenset("*?[")
_MARKS = ("_SUCCESS", "_metadata", "_common_metadata", "_committed_*", "_started_*", ".*.crc")
"""Files that writers leave beside data. Folders that begin with `_` or `.` are also ignored."""


def is_wild(part: str) -> bool:
    """Whether a part of a path is a pattern."""
    return bool(_WILD & set(part))


def is_mark(name: str) -> bool:
    """Whether a file is left by a writer beside its data."""
    return any(fnmatchcase(name, mark) for mark in _MARKS)


@dataclass(frozen=True, slots=True)
class FileSearch:
    """Files that match a pattern, found through descriptors; links are not followed."""

    confinement: Confinement

    def matches(self, folder: int, parts: tuple[str, ...], above: tuple[str, ...]) -> Iterator[str]:
        """A last component may also be a folder of files."""
        if not parts:
            return
        if len(above) > MAX_DEPTH:
            raise SourceLimitError(
                self.confinement.source, f"folders are nested more than {MAX_DEPTH} deep"
            )
        head, rest = parts[0], parts[1:]
        is_pattern = is_wild(head)
        for name in self._names(folder, head, is_pattern=is_pattern):
            here = (*above, name)
            if self._is_folder(folder, name, is_pattern=is_pattern):
                if is_pattern and name[0] in "._":
                    continue
                with self._entered(folder, name, is_pattern=is_pattern) as deeper:
                    if deeper is not None:
                        yield from self.matches(deeper, rest or ("*",), here)
            elif not rest and (not is_pattern or self._is_data(folder, name)):
                yield "/".join(here)

    def _names(self, folder: int, pattern: str, *, is_pattern: bool) -> list[str]:
        if not is_pattern:
            return [pattern] if self._exists(folder, pattern) else []
        names = sorted(os.listdir(folder))
        return [name for name in names if fnmatchcase(name, pattern)]

    @contextmanager
    def _entered(self, folder: int, name: str, *, is_pattern: bool) -> Iterator[int | None]:
        """None for an entry that only a pattern matches and that may not be read."""
        with ExitStack() as stack:
            descriptor: int | None = None
            try:
                descriptor = stack.enter_context(self.confinement.open_child(folder, name))
            except (PathRefusedError, FileNotFoundError):
                if not is_pattern:
                    raise
            yield descriptor

    def _exists(self, folder: int, name: str) -> bool:
        with suppress(OSError):
            os.stat(name, dir_fd=folder, follow_symlinks=False)
            return True
        return False

    def _is_folder(self, folder: int, name: str, *, is_pattern: bool) -> bool:
        """A named link leads to an error; a link that only a pattern matches is ignored."""
        mode = self._mode(folder, name)
        return stat.S_ISDIR(mode) or (stat.S_ISLNK(mode) and not is_pattern)

    def _is_data(self, folder: int, name: str) -> bool:
        return not is_mark(name) and stat.S_ISREG(self._mode(folder, name))

    def _mode(self, folder: int, name: str) -> int:
        follows = self.confinement.follows_links
        with suppress(OSError):
            return os.stat(name, dir_fd=folder, follow_symlinks=follows).st_mode
        return 0
