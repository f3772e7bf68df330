"""The number of rows that a task of the kernel has read, in a file for progress reports.

A task returns its answer at its end, so its progress needs another way to the driver. The task does
not depend on readers of the file, and errors of the file do not affect it. Separate from the kernel
because tasks on one machine and on many count in the same way.
"""

import os
from pathlib import Path

_SUFFIX = ".counted"
_BYTES = 8


class RowCount:
    """Rows that one attempt of a task has read.

    Args:
        directory: of the kernel's work item; on a cluster all tasks share it.
        attempt: a unique name of the attempt.
        readings: how often every row is read; each reading adds its fraction of a row.
    """

    def __init__(self, directory: str, attempt: str, *, readings: int) -> None:
        self._path: Path | None = Path(directory) / f"{attempt}{_SUFFIX}"
        self._rows, self._readings = 0, readings

    def add(self, rows: int) -> None:
        """Add rows of one of the readings."""
        self._rows += rows
        if self._path is None:
            return
        count = (self._rows // self._readings).to_bytes(_BYTES, "little")
        try:
            # Opened each time: a shared file system shows content to others after close. Never
            # truncated, so that it always contains a whole number.
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.write(file, count)
            finally:
                os.close(file)
        except OSError:
            self._path = None


def rows_counted(directory: Path) -> int:
    """Rows read by all tasks so far, with failed attempts; 0 if there are no counts."""
    return sum(map(_read, directory.glob(f"*{_SUFFIX}")))


def _read(path: Path) -> int:
    try:
        return int.from_bytes(path.read_bytes()[:_BYTES], "little")
    except OSError:
        return 0
