"""The folder of a local comparison for intermediate data, and what killed comparisons left.

SIGKILL leaves rows of sources in the folder of temporary files. So each comparison locks its
folder, and the next one removes folders of the same user without a lock.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from datarecs_cli.local.faults import ScratchNotWritableError, reason_of
from datarecs_runtime.environment import process_environment

PREFIX = "datarecs-"
LOCK = ".lock"
"""Locked before it has this name, so that no other process finds a new folder without a lock."""
_NEW_LOCK = ".lock.new"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder, which is removed after the block.

    Raises:
        ScratchNotWritableError: it cannot be created.
    """
    try:
        root = Path(tempfile.gettempdir())
    except OSError as cause:
        named = process_environment().get("TMPDIR", "TMPDIR")
        raise ScratchNotWritableError(Path(named), "no folder can be written") from cause
    remove_abandoned(root)
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
    except OSError as cause:
        raise ScratchNotWritableError(root, reason_of(cause)) from cause
    try:
        with _locked(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned(root: Path) -> None:
    """Remove folders of this user whose process has ended; others are not touched."""
    for folder in root.glob(f"{PREFIX}*"):
        if _is_folder_of_this_user(folder) and _is_abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """The lock of the folder; the operating system releases it when this process ends.

    A file system without locks has none: its folder stays after SIGKILL.
    """
    lock = None
    with suppress(OSError):
        lock = os.open(folder / _NEW_LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (folder / _NEW_LOCK).rename(folder / LOCK)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _is_folder_of_this_user(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _is_abandoned(folder: Path) -> bool:
    """Whether the folder has a lock that nobody holds."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True
