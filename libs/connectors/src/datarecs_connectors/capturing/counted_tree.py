"""A tree of files that records which data files were opened.

A capture that knows a snapshot opens none; this is where that is counted, below every reader.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import BinaryIO

from datarecs_connectors.source_trees import HeldFiles, ListedFile, SourceTree
from datarecs_core.comparison.planning.scan import PinnedFile


@dataclass(frozen=True, slots=True)
class CountedTree:
    """Port SourceTree over another one."""

    tree: SourceTree
    opened: set[str] = field(default_factory=set)
    """Paths."""

    @property
    def source(self) -> str:
        return self.tree.source

    @property
    def is_remote(self) -> bool:
        return self.tree.is_remote

    def find(self, path: str) -> list[str]:
        return self.tree.find(path)

    def listing(self, path: str) -> list[ListedFile]:
        return self.tree.listing(path)

    def listed(self, name: str) -> ListedFile:
        return self.tree.listed(name)

    def open(self, name: str) -> BinaryIO:
        self.opened.add(name)
        return self.tree.open(name)

    def open_pinned(self, file: PinnedFile) -> BinaryIO:
        self.opened.add(file.path)
        return self.tree.open_pinned(file)

    def pin(self, path: str, only: Collection[str] | None = None) -> HeldFiles:
        return self.tree.pin(path, only)

    def check_root(self) -> str:
        return self.tree.check_root()

    def close(self) -> None:
        self.tree.close()
