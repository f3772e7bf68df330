"""Limit the disk space of a stage for intermediate data, checked during its work.

Spark and the kernel spill to disk without a common limit, so this check ends a run before the disk
is full for all other runs. Separate from the engine because it runs in parallel to it.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path


class SpillGuard:
    """A Check of the size of folders.

    Args:
        folders: they need not exist yet; earlier content is not counted.
        limit: bytes.
        exceeded: called at most once.
    """

    def __init__(
        self, folders: Sequence[Path], *, limit: int, exceeded: Callable[[], None]
    ) -> None:
        self._folders, self._exceeded = folders, exceeded
        self._most = limit + self._held()

    def __call__(self, *, last: bool) -> bool:  # noqa: ARG002  the port's form
        if self._held() <= self._most:
            return True
        self._exceeded()
        return False

    def _held(self) -> int:
        return sum(map(held_bytes, self._folders))


def held_bytes(folder: Path) -> int:
    """Bytes of all files below a folder; files removed during the measurement are not counted."""
    size = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    size += held_bytes(Path(entry.path))
                else:
                    size += entry.stat(follow_symlinks=False).st_size
    except OSError:
        return size
    return size
