"""The pin of a source whose query reads several tables: one list with the files of all of them.

Every file names its table, so the proof, the check after the read and a later verification cover
all of them, and each reader gets the files of its table.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from datarecs_application.ports.comparing import HeldPin
from datarecs_connectors.errors import SourceUnsupportedError
from datarecs_core.comparison.planning.scan import FileList, Pin, PinnedFile


def pin_of_table(pin: Pin, table: str | None) -> Pin:
    """The files of one table as a pin of their own; other pins have one table."""
    if not isinstance(pin, FileList):
        return pin
    files = (replace(file, table=None) for file in pin.files if file.table == table)
    return replace(pin, files=tuple(files))


@dataclass(frozen=True, slots=True)
class JoinedPin:
    """Port HeldPin over the pins of all tables of a source."""

    parts: Mapping[str | None, HeldPin]
    """By table; None for the source's own path."""

    @classmethod
    def of(cls, source: str, pins: Mapping[str | None, Callable[[], HeldPin]]) -> "JoinedPin":
        """Pin every table; releases all if one cannot be pinned.

        Raises what pinning a table raises, and SourceUnsupportedError for tables in other places.
        """
        with ExitStack() as unless_held:
            parts: dict[str | None, HeldPin] = {}
            for name, pin in pins.items():
                parts[name] = pin()
                unless_held.callback(parts[name].close)
            roots = {_files(part.pin).root for part in parts.values()}
            if len(roots) > 1:
                raise SourceUnsupportedError(
                    source,
                    f"its tables are in different places: {', '.join(sorted(roots))}; "
                    "put the files of one source into one folder or bucket",
                )
            unless_held.pop_all()
        return cls(parts)

    @property
    def pin(self) -> FileList:
        return _joined({name: _files(part.pin) for name, part in self.parts.items()})

    def check(self) -> FileList:
        """Raises SnapshotLostError when a file of any table was replaced, changed or removed."""
        return _joined({name: _files(part.check()) for name, part in self.parts.items()})

    def close(self) -> None:
        for part in self.parts.values():
            part.close()


def _joined(parts: Mapping[str | None, FileList]) -> FileList:
    """One list, sorted by path and table."""
    files = [replace(file, table=name) for name, part in parts.items() for file in part.files]
    return replace(parts[None], files=tuple(sorted(files, key=_place)))


def _place(file: PinnedFile) -> tuple[str, str]:
    return file.path, file.table or ""


def _files(pin: Pin) -> FileList:
    if not isinstance(pin, FileList):
        raise TypeError("a file source is pinned by its files")
    return pin
