"""Which names below a root a path means: one rule for folders of a disk and for object stores.

`*`, `?` and `[...]` match inside one part of a path. A part `**` matches any number of folders,
zero included. A last part that matches a folder means every file below it. Folders that begin with
`_` or `.`, results of `datarecs compare`, and files that writers leave beside data, match only a
part that names them.

Separate from `file_search` and `object_stores.listing`, which differ in how they list names.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from datarecs_core.resources.connection import ANY_FOLDERS

_WILD = frozenset("*?[")
_MARKS = ("_SUCCESS", "_metadata", "_common_metadata", "_committed_*", "_started_*", ".*.crc")
"""Files that writers leave beside data."""
RESULTS = "datarecs-compare"
"""Default folder for results of `datarecs compare`, which may be beside the compared files."""
_EVERY_FILE = ("*",)
_CACHED = 4_096
"""Listings are sorted by folder, so a few are in use at a time."""


def is_wild(part: str) -> bool:
    """Whether a part of a path is a pattern."""
    return bool(_WILD & set(part))


def is_mark(name: str) -> bool:
    """Whether a file is left by a writer beside its data."""
    return any(fnmatchcase(name, mark) for mark in _MARKS)


def is_aside(folder: str) -> bool:
    """Whether a folder of this name has no data of a source."""
    return folder.startswith((".", "_")) or folder == RESULTS


def parts_of(path: str) -> tuple[str, ...]:
    """The parts of a path, without empty ones and `.`."""
    return tuple(part for part in path.split("/") if part not in {"", "."})


@dataclass(frozen=True, slots=True)
class FolderPattern:
    """What the entries of one folder may match."""

    rests: frozenset[tuple[str, ...]]
    """Parts for the entry and for what is below it; several only where a path has `**`."""

    @classmethod
    def of(cls, parts: tuple[str, ...]) -> "FolderPattern":
        """The pattern of the root; no parts mean every file."""
        if parts[-1:] == (ANY_FOLDERS,):
            parts += _EVERY_FILE
        return cls(frozenset(_alternatives(parts or _EVERY_FILE)))

    @property
    def literals(self) -> list[str] | None:
        """The only names that can match, or None if the folder must be listed."""
        names = [rest[0] for rest in self.rests]
        return None if any(map(is_wild, names)) else sorted(set(names))

    def is_named(self, name: str) -> bool:
        """Whether a part is this name itself, not a pattern."""
        return any(rest[0] == name and not is_wild(name) for rest in self.rests)

    def takes(self, name: str, *, is_regular: bool = True) -> bool:
        """Whether a file of the folder is read; a named one also if opening it will fail."""
        ends = [rest[0] for rest in self.rests if len(rest) == 1]
        if name in ends and not is_wild(name):
            return True
        return is_regular and not is_mark(name) and any(_fits(end, name) for end in ends)

    def below(self, name: str) -> "FolderPattern | None":
        """The pattern inside a folder of this one; None if no file in it can match."""
        return _below(self, name)


@lru_cache(maxsize=_CACHED)
def _below(pattern: FolderPattern, name: str) -> FolderPattern | None:
    rests = set[tuple[str, ...]]()
    for rest in pattern.rests:
        if is_wild(rest[0]) and is_aside(name):
            continue
        if rest[0] == ANY_FOLDERS:
            rests.update(_alternatives(rest))
        elif _fits(rest[0], name):
            rests.update(_alternatives(rest[1:] or _EVERY_FILE))
    return FolderPattern(frozenset(rests)) if rests else None


def _alternatives(rest: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The parts, and those after each leading `**`, which may match no folder."""
    yield rest
    while rest[0] == ANY_FOLDERS:
        rest = rest[1:]
        yield rest


def _fits(part: str, name: str) -> bool:
    return fnmatchcase(name, part) if is_wild(part) else name == part
