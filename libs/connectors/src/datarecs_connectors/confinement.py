"""Open files that a tenant names: below a root, without links, and no file of the platform.

One module because every file reader opens files through it. A path is opened component by component
from the descriptor of its root, so the checked file is the opened file. Only regular files are
read.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from datarecs_connectors.errors import (
    PathRefusedError,
    PermissionDeniedError,
    SourceUnsupportedError,
)
from datarecs_connectors.private_places import (
    DATA_DIRECTORY,
    PrivatePlaces,
    UnsearchableError,
    file_id,
    file_ids,
)

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_PRIVATE = "it is in a folder reserved for the platform"
_UNKNOWN = (
    "it has several hard links, and a platform folder that may contain one of them cannot be "
    "searched; copy the file"
)
_SPECIAL = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """A folder of a connection inside a root, and the places it may not read."""

    source: str
    root: Path
    """Folder that the operator allows; links in its path are allowed."""
    folder: tuple[str, ...] = ()
    """Path components from the root to the connection's folder."""
    excluded: PrivatePlaces = field(default_factory=PrivatePlaces)
    """Folders and files that no source reads, also inside the root."""
    follows_links: bool = False
    """True in `datarecs compare`: the user's own rights, with links and special names."""

    @contextmanager
    def open_folder(self, parts: tuple[str, ...] = ()) -> Iterator[int]:
        """A descriptor of a folder.

        Raises:
            FileNotFoundError: there is none.
            PathRefusedError: its path contains a link or leads into an excluded folder.
            PermissionDeniedError: the operating system refuses access.
        """
        way = (*self.folder, *parts)
        with self._errors("/".join(way) or str(self.root)):
            descriptor = os.open(self.root, _FLAGS | os.O_DIRECTORY)
            try:
                self._check_root(os.fstat(descriptor))
                for part in way:
                    deeper = self._enter(descriptor, part)
                    os.close(descriptor)
                    descriptor = deeper
            except BaseException:
                os.close(descriptor)
                raise
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def open_child(self, folder: int, name: str) -> Iterator[int]:
        """A folder inside an open one. Raises what `open_folder` raises."""
        with self._errors(name):
            descriptor = self._enter(folder, name)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def open_file(self, name: str) -> Iterator[int]:
        """A descriptor of a regular file by its path below the folder.

        Raises:
            SourceUnsupportedError: it is a folder, a pipe, a socket or a device.
            FileNotFoundError, PathRefusedError, PermissionDeniedError: as `open_folder`.
        """
        *above, last = (part for part in name.split("/") if part not in {"", "."})
        with self.open_folder(tuple(above)) as folder:
            with self._errors(name):
                descriptor = self._open_regular(folder, last, name)
            try:
                yield descriptor
            finally:
                os.close(descriptor)

    def _open_regular(self, folder: int, last: str, name: str) -> int:
        self._check_name(last)
        # Opening a device may change its state, so the type is checked first.
        self._check_regular(self._status(last, folder), name)
        descriptor = os.open(last, _FLAGS | self._nofollow, dir_fd=folder)
        try:
            status = os.fstat(descriptor)
            self._check_regular(status, name)
            self._check_excluded(status)
            self._check_hard_links(status, name)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _enter(self, folder: int, part: str) -> int:
        self._check_name(part)
        try:
            descriptor = os.open(part, _FLAGS | os.O_DIRECTORY | self._nofollow, dir_fd=folder)
        except OSError:
            if stat.S_ISLNK(self._status(part, folder).st_mode):
                raise self._link_error() from None
            raise
        try:
            self._check_excluded(os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _status(self, name: str, folder: int) -> os.stat_result:
        return os.stat(name, dir_fd=folder, follow_symlinks=self.follows_links)

    @property
    def _nofollow(self) -> int:
        return 0 if self.follows_links else os.O_NOFOLLOW

    def _check_name(self, part: str) -> None:
        if part == DATA_DIRECTORY and not self.follows_links:
            raise PathRefusedError(self.source, _PRIVATE)
        if part in {"", ".", ".."} or "/" in part or "\0" in part:
            raise PathRefusedError(self.source, "a part of the path is not a valid name")

    def _check_root(self, status: os.stat_result) -> None:
        """A root inside an excluded folder is excluded with its content."""
        self._check_excluded(status)
        if not self.excluded.ids and self.follows_links:
            return
        real = Path(os.path.realpath(self.root))
        inside = DATA_DIRECTORY in real.parts and not self.follows_links
        if inside or not self.excluded.ids.isdisjoint(file_ids(real.parents)):
            raise PathRefusedError(self.source, _PRIVATE)

    def _check_excluded(self, status: os.stat_result) -> None:
        if file_id(status) in self.excluded.ids:
            raise PathRefusedError(self.source, _PRIVATE)

    def _check_hard_links(self, status: os.stat_result, name: str) -> None:
        """Refuse a file that may have another hard link in a folder of the platform."""
        if status.st_nlink < 2 or self.follows_links:  # noqa: PLR2004  the name it was opened by
            return
        real = Path(os.path.realpath(self.root))
        place = real.joinpath(*self.folder, name)
        try:
            is_private = self.excluded.hold(status, place.parents)
        except UnsearchableError:
            raise PathRefusedError(self.source, _UNKNOWN) from None
        if is_private:
            raise PathRefusedError(self.source, _PRIVATE)

    def _check_regular(self, status: os.stat_result, name: str) -> None:
        if stat.S_ISLNK(status.st_mode):
            raise self._link_error()
        if not stat.S_ISREG(status.st_mode):
            kind = next((word for is_it, word in _SPECIAL if is_it(status.st_mode)), "special")
            raise SourceUnsupportedError(
                self.source, f"{name} is {kind}; only regular files are read"
            )

    def _link_error(self) -> PathRefusedError:
        return PathRefusedError(
            self.source, "it leads through a link; name the file or folder that the link points to"
        )

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except NotADirectoryError as cause:
            raise FileNotFoundError(name) from cause
        except FileNotFoundError:
            raise
        except PermissionError as cause:
            raise PermissionDeniedError(
                self.source, f"the worker's user may not read {name}; grant it read permission"
            ) from cause
        except (OSError, ValueError) as cause:
            raise SourceUnsupportedError(self.source, f"{name} cannot be opened") from cause
