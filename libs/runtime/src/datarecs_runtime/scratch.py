"""The scratch folder of a worker: folders of attempts and of children, and who uses them.

A killed worker removes nothing, and its folders hold secrets and rows of sources. So each worker
has a scratch folder of its own, and the next worker with this folder removes them.
"""

import fcntl
import os
import shutil
import socket
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import structlog

from datarecs_core.errors.process import ScratchInUseError, SettingsError

log = structlog.get_logger()

LOCK, RUNS, CHILD = "worker.lock", "runs", "child"
"""Names in a scratch folder; children of slots are `child-0`, `child-1`. Others are never touched.
"""


class ScratchFolder:
    """The folder of one worker, locked as long as its process lives."""

    def __init__(self, root: Path, *, setting: str = "DATARECS_WORKER__SCRATCH_DIR") -> None:
        """`setting` names the folder in messages."""
        self.root = root.absolute()
        self._setting = setting
        self._lock: int | None = None

    def claim(self) -> None:
        """Lock the folder and remove what a dead worker left; safe to repeat.

        The kernel releases the lock when this process ends. On a file system without locks nothing
        is removed, because another worker may be alive.

        Raises:
            ScratchInUseError: a live worker has the lock.
            SettingsError: the folder cannot be used.
        """
        if self._lock is not None:
            return
        lock = self._open_lock()
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 200, 0).decode(errors="replace")
            os.close(lock)
            raise ScratchInUseError(
                folder=str(self.root), holder=holder, setting=self._setting
            ) from None
        except OSError as cause:
            log.warning("scratch_not_locked", folder=str(self.root), cause=str(cause))
        else:
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
            self._remove_leftovers()
        self._lock = lock

    def _open_lock(self) -> int:
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            return os.open(self.root / LOCK, flags, mode=0o600)
        except OSError as cause:
            fault = f"{self._setting}: {self.root} cannot be used: {cause.strerror}"
            raise SettingsError((fault,)) from cause

    def release(self) -> None:
        """Remove the files of ended children and unlock; safe to repeat."""
        if self._lock is None:
            return
        with suppress(OSError):
            self._remove_leftovers()
        os.close(self._lock)
        self._lock = None

    def child(self, slot: int) -> Path:
        """The folder of a slot's child."""
        return self.root / f"{CHILD}-{slot}"

    @property
    def of_template(self) -> Path:
        """The home folder of the process from which children are forked."""
        return self.root / f"{CHILD}-template"

    @property
    def of_check(self) -> Path:
        """The folder of the child that checks sources."""
        return self.root / f"{CHILD}-check"

    @property
    def runs(self) -> Path:
        """The folder of attempts."""
        return self.root / RUNS

    def _remove_leftovers(self) -> None:
        folders = [*self.root.glob(f"{CHILD}-*"), self.runs]
        left = [entry for folder in folders if folder.is_dir() for entry in folder.iterdir()]
        for entry in left:
            _remove(entry)
        if left:
            log.info("scratch_emptied", folder=str(self.root), entries=len(left))


def use_for_temporary_files(folder: str) -> None:
    """Let this process, a child, and its libraries write temporary files there."""
    tempfile.tempdir = os.environ["TMPDIR"] = folder


def empty_folder(folder: Path) -> None:
    """Create a folder, 0700, or remove everything in it.

    Raises:
        OSError: it cannot be created.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for entry in folder.iterdir():
        _remove(entry)


def _remove(entry: Path) -> None:
    """Remove a file, a link or a folder."""
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        entry.unlink(missing_ok=True)


class ReportFolder:
    """Port ChildFolder: the folder in which a child leaves what it reports."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def path(self) -> str:
        return str(self._root)

    def empty(self) -> None:
        empty_folder(self._root)

    def read(self, name: str, *, most: int) -> bytes | None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe without a writer never blocks
        try:
            descriptor = os.open(self._root / name, flags)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > most:
                return None
            content = file.read(most + 1)
        return content if len(content) <= most else None
