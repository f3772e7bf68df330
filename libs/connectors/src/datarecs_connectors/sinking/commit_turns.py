"""Which tables may be committed at the same time: those with little metadata.

A commit has the metadata of its table in memory, about 8 KB for each snapshot. Tables with many
snapshots, and those of unknown size, are committed one after another, so that the memory of a task
does not grow with the number of its tables.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from pyiceberg.table.metadata import TableMetadata

from datarecs_core.sink.definition import SinkTarget

MOST_SNAPSHOTS = 1_000
"""Of a table that does not wait for others."""


@dataclass(frozen=True, slots=True)
class CommitTurns:
    """Used by several threads."""

    _large: Lock = field(default_factory=Lock)
    _snapshots: dict[str, int] = field(default_factory=dict)
    """By table, as it was loaded last."""

    def note(self, target: SinkTarget, metadata: TableMetadata) -> None:
        self._snapshots[f"{target.catalog}/{target}"] = len(metadata.snapshots)

    @contextmanager
    def of(self, target: SinkTarget) -> Iterator[None]:
        """The block in which a table is committed."""
        snapshots = self._snapshots.get(f"{target.catalog}/{target}")
        if snapshots is not None and snapshots <= MOST_SNAPSHOTS:
            yield
            return
        with self._large:
            yield
