"""Write the files of a table: data, manifests and metadata, only where its connection allows.

A location is chosen by whoever may change the table, so it is checked before a byte is written, as
it is for reading. Local files are created exclusively and are on disk before their name is used.
"""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, Protocol, cast

from pyiceberg.io import InputFile, OutputFile
from pyiceberg.table.locations import (
    LocationProvider,
    ObjectStoreLocationProvider,
    SimpleLocationProvider,
)
from pyiceberg.table.metadata import TableMetadata

from datarecs_connectors.confinement import Confinement
from datarecs_connectors.errors import (
    PathRefusedError,
    PermissionDeniedError,
    SourceError,
    SourceUnsupportedError,
)
from datarecs_connectors.iceberg.files import TableFile, TableFiles
from datarecs_connectors.locations import AMAZON, Places
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.resources.object_urls import is_object_url

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_MODE, _FOLDER_MODE = 0o640, 0o750
_HASHED_PATHS = "write.object-storage.enabled"
_SPOOLED_BYTES = 1024 * 1024
"""Of a file for an object store, in memory."""


class WritableObjects(Protocol):
    """Objects of lake tables that may be written."""

    def below(self, path: str) -> str: ...

    def create(self, name: str, content: bytes) -> None:
        """Raises FileExistsError when an object has the name."""

    def remove(self, name: str) -> None:
        """Nothing happens where there is none."""


class SinkFiles(TableFiles):
    """pyiceberg's file access over `Places`, for reading and for new files."""

    def new_output(self, location: str) -> "NewFile":
        return NewFile(location, self.places)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove a file of this sink; one that is gone, or cannot be removed, is ignored."""
        place = location if isinstance(location, str) else location.location
        with suppress(SourceError, SinkError, OSError):
            target = target_of(place, self.places)
            if isinstance(target, LocalTarget):
                target.remove()
            else:
                target.objects.remove(target.name)


@dataclass(frozen=True, slots=True)
class LocalTarget:
    """A file below an allowed root."""

    confinement: Confinement
    parts: tuple[str, ...]

    @contextmanager
    def folder(self, *, create: bool) -> Iterator[int]:
        """A descriptor of the file's folder."""
        with self.confinement.open_folder() as root:
            descriptor = os.dup(root)
        try:
            for part in self.parts[:-1]:
                deeper = self._deeper(descriptor, part, create=create)
                os.close(descriptor)
                descriptor = deeper
            yield descriptor
        finally:
            os.close(descriptor)

    def create(self) -> int:
        """A descriptor of the new file. Raises FileExistsError."""
        with self.folder(create=True) as folder:
            return os.open(self.parts[-1], _NEW, _MODE, dir_fd=folder)

    def sync_folder(self) -> None:
        with self.folder(create=False) as folder:
            os.fsync(folder)

    def remove(self) -> None:
        with self.folder(create=False) as folder:
            os.unlink(self.parts[-1], dir_fd=folder)

    def _deeper(self, folder: int, part: str, *, create: bool) -> int:
        try:
            with self.confinement.open_child(folder, part) as opened:
                return os.dup(opened)
        except FileNotFoundError:
            if not create:
                raise
        with suppress(FileExistsError):
            os.mkdir(part, _FOLDER_MODE, dir_fd=folder)
            os.fsync(folder)
        with self.confinement.open_child(folder, part) as opened:
            return os.dup(opened)


@dataclass(frozen=True, slots=True)
class ObjectTarget:
    """An object below the connection's address."""

    objects: WritableObjects
    name: str


def target_of(location: str, places: Places) -> LocalTarget | ObjectTarget:
    """Where a location is.

    Raises:
        SinkError: FILE_LOCATION_REFUSED, it is outside of the places of the connection.
    """
    address = AMAZON.sub("s3://", location)
    try:
        if is_object_url(address) and places.objects is not None:
            return ObjectTarget(_writable(places), places.objects.below(address))
        tree, name = places.tree(location)
    except (PathRefusedError, SourceUnsupportedError) as cause:
        raise refused(str(cause)) from cause
    parts = tuple(part for part in name.split("/") if part not in {"", "."})
    if not parts:
        raise refused("a file needs a name below an allowed folder")
    return LocalTarget(tree.confinement, parts)


def refused(why: str) -> SinkError:
    return SinkError(SinkCode.FILE_LOCATION_REFUSED, why)


def _writable(places: Places) -> WritableObjects:
    objects = places.objects
    if not hasattr(objects, "create"):
        raise refused("the object store of the connection was opened for reading")
    return objects  # type: ignore[return-value]  # checked above


def location_provider(metadata: TableMetadata) -> LocationProvider:
    """Names of new files. The class that a property may name is never loaded."""
    hashes_paths = metadata.properties.get(_HASHED_PATHS, "false").lower() == "true"
    provider = ObjectStoreLocationProvider if hashes_paths else SimpleLocationProvider
    return provider(metadata.location.rstrip("/"), metadata.properties)


def check_locations(metadata: TableMetadata, places: Places) -> None:
    """Check every folder that new files of the table would be in.

    Raises:
        SinkError: FILE_LOCATION_REFUSED.
    """
    provider = location_provider(metadata)
    for folder in (metadata.location, provider.data_path, provider.metadata_path):
        target = target_of(f"{folder.rstrip('/')}/file", places)
        if isinstance(target, LocalTarget):
            try:
                with suppress(FileNotFoundError), target.folder(create=False):
                    pass
            except (PathRefusedError, SourceUnsupportedError) as cause:
                raise refused(str(cause)) from cause


class NewFile(OutputFile):
    """A file to be written once."""

    def __init__(self, location: str, places: Places) -> None:
        super().__init__(location)
        self._places = places
        self._size: int | None = None

    def __len__(self) -> int:
        return len(self.to_input_file()) if self._size is None else self._size

    def exists(self) -> bool:
        return self.to_input_file().exists()

    def to_input_file(self) -> TableFile:
        return TableFile(self.location, self._places)

    def create(self, overwrite: bool = False) -> BinaryIO:  # noqa: ARG002, FBT001, FBT002  pyiceberg's signature; a binary file is its OutputStream
        """A stream that is complete once it is closed; it never replaces a file.

        Raises:
            SinkError: FILE_LOCATION_REFUSED.
            FileExistsError: a file has the name.
            PermissionDeniedError: the user of the process may not write there.
        """
        target = target_of(self.location, self._places)
        if isinstance(target, ObjectTarget):
            return cast("BinaryIO", _ObjectStream(target, self._finished))
        try:
            return _LocalStream(target, self._finished)
        except (PathRefusedError, SourceUnsupportedError) as cause:
            raise refused(str(cause)) from cause
        except PermissionError as cause:
            raise PermissionDeniedError(
                self._places.source,
                "the user of the sink may not write in the folder of the table; grant it write "
                "permission",
            ) from cause

    def _finished(self, size: int) -> None:
        self._size = size


class _LocalStream(io.FileIO):
    def __init__(self, target: LocalTarget, finished: Callable[[int], None]) -> None:
        self._target, self._finished = target, finished
        super().__init__(target.create(), "wb")

    def close(self) -> None:
        if not self.closed:
            try:
                os.fsync(self.fileno())
                self._finished(os.fstat(self.fileno()).st_size)
            finally:
                super().close()
            self._target.sync_folder()

    def write(self, content: object, /) -> int:
        """Write all of it, also where the system takes less at once."""
        view = memoryview(content).cast("B")  # type: ignore[arg-type]  # a buffer
        size = view.nbytes
        while view:
            view = view[super().write(view) :]
        return size

    def __exit__(self, *_: object) -> None:
        self.close()


class _ObjectStream(SpooledTemporaryFile[bytes]):
    """On disk until it is complete: a task has many open files beside its buffered records."""

    def __init__(self, target: ObjectTarget, finished: Callable[[int], None]) -> None:
        self._target, self._finished = target, finished
        super().__init__(max_size=_SPOOLED_BYTES)

    def close(self) -> None:
        if not self.closed:
            self.seek(0)
            content = self.read()
            super().close()
            self._target.objects.create(self._target.name, content)
            self._finished(len(content))

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            super().close()  # an incomplete object is never created
        else:
            self.close()
