"""Writes to a local disk that survive a power cut, in the necessary order.

The order is: sync the content, make it visible under its name, sync the name; and sync every folder
of the path in its parent. A test replaces it with a disk that loses all data that was not synced.
"""

import os
from pathlib import Path


class Disk:
    """The machine's disk."""

    def sync_file(self, descriptor: int) -> None:
        """Sync the content of a file to the medium."""
        os.fsync(descriptor)

    def sync_folder(self, folder: Path) -> None:
        """Sync the names of a folder, new and removed ones, to the medium."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, temporary: Path, final: Path) -> None:
        """Make the file visible under its name atomically, and replace an existing one."""
        temporary.replace(final)

    def link_new(self, temporary: Path, final: Path) -> None:
        """Make the file visible under its name; FileExistsError if the name exists."""
        os.link(temporary, final)
