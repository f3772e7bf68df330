"""The disk that a stage may take for intermediate data: looked at while it works.

Spark and the kernel write to disk rather than die, so somebody else must say how much is too much,
before the disk is full for every other run on it. Apart from the engine because it works beside it.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Self

LOOK_EVERY_S = 1.0


class SpillWatch:
    """Looks at folders until it is left, and once more then.

    Args:
        folders: those that need not exist yet; what lies in them before is not counted.
        limit: bytes.
        exceeded: told at most once, perhaps on another thread.
    """

    def __init__(
        self, folders: Sequence[Path], *, limit: int, exceeded: Callable[[], None]
    ) -> None:
        self._folders, self._exceeded = folders, exceeded
        self._most = limit + self._held()
        self._left = Event()
        self._thread = Thread(target=self._look_on, name="spill", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._thread.join()

    def _look_on(self) -> None:
        while True:
            last = self._left.wait(LOOK_EVERY_S)
            if self._held() > self._most:
                self._exceeded()
                return
            if last:
                return

    def _held(self) -> int:
        return sum(map(held_bytes, self._folders))


def held_bytes(folder: Path) -> int:
    """Of all files below a folder; what goes while it is looked at is not counted."""
    found = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    found += held_bytes(Path(entry.path))
                else:
                    found += entry.stat(follow_symlinks=False).st_size
    except OSError:
        return found
    return found
