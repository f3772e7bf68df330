"""The few writes to a local disk that must survive a power cut, in the order that makes them do so.

Its own module because the order is the promise: content synced, then visible under its name, then
the name synced; and every folder on the way synced into its parent. A test replaces it by a disk
that forgets what was not synced.
"""

import os
from pathlib import Path


class Disk:
    """The machine's disk."""

    def sync_file(self, descriptor: int) -> None:
        """Content is on the medium when this returns."""
        os.fsync(descriptor)

    def sync_folder(self, folder: Path) -> None:
        """Names in the folder, new and gone, are on the medium when this returns."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, temporary: Path, final: Path) -> None:
        """Visible under its name at once and whole, in place of what was there."""
        temporary.replace(final)

    def link_new(self, temporary: Path, final: Path) -> None:
        """Visible under its name unless something is there: FileExistsError."""
        os.link(temporary, final)
