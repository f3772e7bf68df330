"""Which objects a path names: one object, a folder of them, or those that match a pattern.

The rules are those of folders on a disk (`path_patterns`), so a job reads the same files wherever
they are. A name with `/` is in a folder, although stores have none.
"""

from dataclasses import dataclass

from datarecs_connectors.errors import PathRefusedError
from datarecs_connectors.path_patterns import FolderPattern, is_wild, parts_of
from datarecs_core.resources.object_urls import ObjectUrl


@dataclass(frozen=True, slots=True)
class Pattern:
    """A path below the root."""

    folder: tuple[str, ...]
    """Parts before the first pattern: the prefix that is listed."""
    rest: tuple[str, ...]
    """Parts from the first pattern on; empty for a path without a pattern."""
    below: FolderPattern
    """What names below the prefix match."""

    @classmethod
    def of(cls, path: str) -> "Pattern":
        parts = parts_of(path)
        first = next((at for at, part in enumerate(parts) if is_wild(part)), len(parts))
        return cls(parts[:first], parts[first:], FolderPattern.of(parts[first:]))

    @property
    def prefix(self) -> str:
        return "/".join(self.folder)

    def matches(self, name: str) -> bool:
        """Whether an object below the prefix is read; a matching folder is read completely."""
        parts = name.split("/")[len(self.folder) :]
        pattern: FolderPattern | None = self.below
        for part in parts[:-1]:
            pattern = pattern and pattern.below(part)
        return bool(parts) and pattern is not None and pattern.takes(parts[-1])


def below_root(source: str, root: ObjectUrl, address: str) -> str:
    """The path of an object's address. Raises PathRefusedError for one of another place."""
    try:
        below = ObjectUrl.parse(address).below(root)
    except ValueError as refused:
        raise PathRefusedError(source, str(refused)) from None
    if below is None:
        raise PathRefusedError(source, f"it is not below the connection's url, {root}")
    return below
