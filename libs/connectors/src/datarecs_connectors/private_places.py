"""Files that no source reads: folders and files of the platform, and all files in these folders.

Separate from `confinement`, which walks the path of a source: a hard link outside may lead to a
file inside, so this module walks the folders of the platform.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

DATA_DIRECTORY = ".datarecs"
"""Name of the folder where `datarecs up` stores keys, passwords and data."""
SYSTEM_FOLDERS = (Path("/proc"), Path("/sys"))
MAX_ENTRIES = 1_000_000
"""Maximum number of files in one search of the platform's folders."""
FileId = tuple[int, int]
"""Device and inode."""


class UnsearchableError(Exception):
    """A folder of the platform cannot be listed, or contains too many files."""


def file_id(status: os.stat_result) -> FileId:
    return status.st_dev, status.st_ino


def file_ids(paths: Iterable[Path]) -> frozenset[FileId]:
    """Device and inode of the files and folders that exist; links are followed."""
    ids = set()
    for path in paths:
        with suppress(OSError):
            ids.add(file_id(path.stat()))
    return frozenset(ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivatePlaces:
    """Folders and files of the platform."""

    paths: tuple[Path, ...] = ()
    ids: frozenset[FileId] = frozenset()
    """Device and inode of the paths and the system's folders, at the time of creation."""
    _outside: set[tuple[FileId, int]] = field(default_factory=set, compare=False, repr=False)
    """Files that are in no private folder, with their change time, which a new link changes."""

    @classmethod
    def of(cls, paths: Iterable[Path]) -> "PrivatePlaces":
        """The paths and the system's folders."""
        places = tuple(paths)
        return cls(paths=places, ids=file_ids((*SYSTEM_FOLDERS, *places)))

    def hold(self, status: os.stat_result, near: Iterable[Path]) -> bool:
        """Whether a file with several hard links has one of them in a private folder.

        Args:
            status: of the open file.
            near: folders on the way to it; a `.datarecs` in one of them is private too.

        Raises:
            UnsearchableError: that cannot be known.
        """
        key = (file_id(status), status.st_ctime_ns)
        if key in self._outside:
            return False
        entries = 0
        for folder in self._folders(near):
            for other in _files_below(folder):
                entries += 1
                if file_id(other) == key[0]:
                    return True
                if entries > MAX_ENTRIES:
                    raise UnsearchableError
        self._outside.add(key)
        return False

    def _folders(self, near: Iterable[Path]) -> set[str]:
        """Real paths, none of them inside another."""
        data = [folder / DATA_DIRECTORY for folder in near]
        for path in self.paths:
            data += [above for above in path.parents if above.name == DATA_DIRECTORY]
        real = {Path(os.path.realpath(path)) for path in (*self.paths, *data)}
        folders = {path for path in real if path.is_dir()}
        return {str(path) for path in folders if folders.isdisjoint(path.parents)}


def _files_below(folder: str) -> Iterator[os.stat_result]:
    """Walk by descriptors without following links; files removed during the walk are ignored."""
    try:
        for _, _, names, descriptor in os.fwalk(folder, onerror=_stop_unless_gone):
            for name in names:
                with suppress(FileNotFoundError):
                    yield os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except OSError as cause:
        _stop_unless_gone(cause)


def _stop_unless_gone(cause: OSError) -> None:
    if not isinstance(cause, FileNotFoundError | NotADirectoryError):
        raise UnsearchableError from cause
