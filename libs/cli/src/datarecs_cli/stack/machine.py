"""Checks before the start that this machine and this folder are sufficient for the platform."""

import os
import shutil
import tempfile
from pathlib import Path

from datarecs_cli.stack.failures import MachineTooSmallError

GIB = 1024**3
LEAST_DISK_BYTES = 2 * GIB
LEAST_MEMORY_BYTES = 3 * GIB
MEMORY_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Memory limits of the container, for versions 2 and 1 of control groups."""


def check_machine(
    directory: Path, *, free_bytes: int | None = None, memory_bytes: int | None = None
) -> None:
    """Raises MachineTooSmallError with the sizes. The folder must exist."""
    free = shutil.disk_usage(directory).free if free_bytes is None else free_bytes
    if free < LEAST_DISK_BYTES:
        raise MachineTooSmallError(
            what=f"{directory} has {_gib(free)} free; {_gib(LEAST_DISK_BYTES)} are needed"
        )
    memory = memory_of_machine() if memory_bytes is None else memory_bytes
    if memory < LEAST_MEMORY_BYTES:
        raise MachineTooSmallError(
            what=f"{_gib(memory)} of memory; {_gib(LEAST_MEMORY_BYTES)} are needed"
        )
    check_writable(directory)


def check_writable(directory: Path) -> None:
    """Raises MachineTooSmallError if no file can be created there."""
    try:
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as failure:
        raise unwritable(directory, failure) from failure


def unwritable(directory: Path, failure: OSError) -> MachineTooSmallError:
    return MachineTooSmallError(what=f"{directory} cannot be written: {failure.strerror}")


def memory_of_machine() -> int:
    """Bytes of memory, or of the container's limit if it is lower."""
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for limit in MEMORY_LIMITS:
        try:
            text = limit.read_text(encoding="utf-8").strip()
        except OSError:
            continue
        if text.isdigit():
            sizes.append(int(text))
    return min(sizes)


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.1f} GiB"
