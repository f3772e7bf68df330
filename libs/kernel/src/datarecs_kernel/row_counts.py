"""How many rows a task of the kernel has read: a number in a file, for whoever cares to look.

A task answers once, at its end, so what it has done until then needs another way to the driver. It
knows nothing of who looks, and nothing that happens to the file may disturb it. Apart from the
kernel because tasks of one machine and of many count alike.
"""

import os
from pathlib import Path

_SUFFIX = ".counted"
_BYTES = 8


class RowCount:
    """Rows that one attempt of a task has read.

    Args:
        directory: of the kernel's work item; on a cluster all tasks share it.
        attempt: no other task has the same.
        readings: how often every row is read; each adds its part of a row.
    """

    def __init__(self, directory: str, attempt: str, *, readings: int) -> None:
        self._path: Path | None = Path(directory) / f"{attempt}{_SUFFIX}"
        self._rows, self._readings = 0, readings

    def add(self, rows: int) -> None:
        """So many more in one of the readings."""
        self._rows += rows
        if self._path is None:
            return
        count = (self._rows // self._readings).to_bytes(_BYTES, "little")
        try:
            # Opened each time: a file system of many machines shows others what was closed. Never
            # cut to nothing, so that it holds a whole number whenever it is read.
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.write(file, count)
            finally:
                os.close(file)
        except OSError:
            self._path = None


def rows_counted(directory: Path) -> int:
    """By all tasks so far, attempts that failed among them; 0 where nobody has counted."""
    return sum(map(_read, directory.glob(f"*{_SUFFIX}")))


def _read(path: Path) -> int:
    try:
        return int.from_bytes(path.read_bytes()[:_BYTES], "little")
    except OSError:
        return 0
