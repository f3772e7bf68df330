"""Open every file that a table names: below an allowed folder or address, and read-only.

Metadata is written by others: a manifest can name any path. So pyiceberg uses this instead
of its file access, for metadata, manifests, delete files and data.
"""

from typing import BinaryIO

from pyiceberg.io import FileIO, InputFile, OutputFile

from datarecs_connectors.errors import PermissionDeniedError, SnapshotLostError
from datarecs_connectors.locations import Places
from datarecs_connectors.random_access import size_of


class TableFiles(FileIO):
    """pyiceberg's file access over `Places`; nothing is ever written."""

    def __init__(self, places: Places) -> None:
        super().__init__()
        self.places = places

    def new_input(self, location: str) -> "TableFile":
        return TableFile(location, self.places)

    def new_output(self, location: str) -> OutputFile:  # noqa: ARG002  the same for every place
        raise PermissionDeniedError(self.places.source, "a source is only read")

    def delete(self, location: str | InputFile | OutputFile) -> None:  # noqa: ARG002  see above
        raise PermissionDeniedError(self.places.source, "a source is only read")


class TableFile(InputFile):
    """One file, opened without following links."""

    def __init__(self, location: str, places: Places) -> None:
        super().__init__(location)
        self._places = places

    def __len__(self) -> int:
        with self.open() as file:
            return size_of(file)

    def exists(self) -> bool:
        try:
            self.open().close()
        except SnapshotLostError:
            return False
        return True

    def open(self, seekable: bool = True) -> BinaryIO:  # noqa: ARG002, FBT001, FBT002  pyiceberg's signature; a binary file is its InputStream
        return self._places.open(self.location)
