"""Rotates the logs of the parts: at most 10 MB each, with four older files."""

import shutil
from pathlib import Path

LIMIT_BYTES = 10_000_000
MOST_FILES = 5


def rotate(log: Path, *, limit_bytes: int = LIMIT_BYTES) -> bool:
    """Shift `part.log` to `part.log.1` and so on if it is over the limit; True if it was.

    The part continues to write to the same open file, so the file is copied and truncated; lines
    written between the two steps are lost.
    """
    try:
        if log.stat().st_size <= limit_bytes:
            return False
    except FileNotFoundError:
        return False
    for number in range(MOST_FILES - 2, 0, -1):
        older = log.with_name(f"{log.name}.{number}")
        if older.exists():
            older.replace(log.with_name(f"{log.name}.{number + 1}"))
    shutil.copyfile(log, log.with_name(f"{log.name}.1"))
    with log.open("r+b") as current:
        current.truncate(0)
    return True
