"""Which objects a path names: one object, a folder of them, or those that match a pattern.

The rules are those of folders on a disk (`file_search`), so a job reads the same files wherever
they are. A name with `/` is in a folder, although stores have none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from datarecs_connectors.file_search import is_mark, is_wild


@dataclass(frozen=True, slots=True)
class Pattern:
    """A path below the root."""

    folder: tuple[str, ...]
    """Parts before the first pattern: the prefix that is listed."""
    rest: tuple[str, ...]
    """Parts from the first pattern on; empty for a path without a pattern."""

    @classmethod
    def of(cls, path: str) -> "Pattern":
        parts = tuple(part for part in path.split("/") if part)
        first = next((at for at, part in enumerate(parts) if is_wild(part)), len(parts))
        return cls(parts[:first], parts[first:])

    @property
    def prefix(self) -> str:
        return "/".join(self.folder)

    def matches(self, name: str) -> bool:
        """Whether an object below the prefix is read; a matching folder is read completely."""
        return _matches(name.split("/")[len(self.folder) :], self.rest)


def _matches(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    if not parts or len(parts) < len(wanted):
        return False
    *folders, last = parts
    for at, part in enumerate(parts):
        pattern = wanted[at] if at < len(wanted) else "*"
        if not (fnmatchcase(part, pattern) if is_wild(pattern) else part == pattern):
            return False
        if is_wild(pattern) and at < len(folders) and part[0] in "._":
            return False
    is_named = len(parts) == len(wanted) and not is_wild(wanted[-1])
    return is_named or not is_mark(last)
