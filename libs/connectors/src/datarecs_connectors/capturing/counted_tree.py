"""A tree of files that records which data files were opened.

A capture that knows a snapshot opens none; this is where that is counted, below every reader.
"""

from dataclasses import dataclass, field
from typing import BinaryIO

from datarecs_connectors.source_trees import TreeOver
from datarecs_core.comparison.planning.scan import PinnedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedTree(TreeOver):
    """Records what is opened."""

    opened: set[str] = field(default_factory=set)
    """Paths."""

    def open(self, name: str) -> BinaryIO:
        self.opened.add(name)
        return self.tree.open(name)

    def open_pinned(self, file: PinnedFile) -> BinaryIO:
        self.opened.add(file.path)
        return self.tree.open_pinned(file)
