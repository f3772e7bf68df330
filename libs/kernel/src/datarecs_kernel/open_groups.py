"""Open groups as columns: batches divided at group ends, with rows per source and presence.

Rows of a group are consecutive, so only the last group of a batch must wait for the next batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce

import numpy as np
import pyarrow as pa

from datarecs_kernel.columns import Numbers
from datarecs_kernel.layout import Layout

OPEN, FIRST, WEIGHT = "is_open", "is_first", "weight"
"""Columns: the group is not fully equal; its first row; the number of groups that a row of equal
groups counts."""


class Shape(StrEnum):
    """How rows represent groups."""

    TUPLES = "tuples"
    """One row per tuple of values, with its copies in source i in column `c<i>`; the rows of a
    group are consecutive. Values are in the columns of the layout's fields."""
    WIDE = "wide"
    """One row per group: `v<measure>_<source>`, payloads `x…`, texts before rules `r…`, and
    optionally `d<measure>`, whether the measure differs
    somewhere, INVALID values included."""


def shape_of(layout: Layout) -> Shape:
    """The default shape of groups: tuples if rows are compared."""
    return Shape.TUPLES if layout.pairs_rows else Shape.WIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGroups:
    """Whole groups of a batch."""

    rows: pa.RecordBatch
    starts: Numbers
    """First row of each group."""
    sizes: Numbers
    """Rows per group and source."""
    masks: Numbers
    """Presence."""
    is_wide: bool
    """Whether every group is one row."""

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def group_of_row(self) -> Numbers:
        if self.is_wide:
            return self.starts
        lengths = np.diff(self.starts, append=self.rows.num_rows)
        return np.repeat(np.arange(len(self)), lengths)

    def first(self, names: Sequence[str]) -> pa.RecordBatch:
        """Columns of the first row of each group."""
        columns = self.rows.select(names)
        return columns if self.is_wide else columns.take(pa.array(self.starts))

    def numbers(self, name: str) -> Numbers:
        """A column of counts."""
        return np.asarray(self.rows.column(name).to_numpy(zero_copy_only=False))


class GroupBatches:
    """Divides batches of rows at group ends; rows of the last group wait for the next batch."""

    def __init__(self, layout: Layout, shape: Shape) -> None:
        self.layout, self.shape = layout, shape
        self._waiting: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> OpenGroups | None:
        """Add rows; return the groups that are now complete."""
        if self.shape is Shape.WIDE:
            return self._grouped(batch, np.arange(batch.num_rows)) if batch.num_rows else None
        starts = np.flatnonzero(batch.column(FIRST).to_numpy(zero_copy_only=False))
        if not len(starts):
            self._waiting.append(batch)
            return None
        self._waiting.append(batch.slice(0, starts[-1]))
        whole = self.finish()
        self._waiting = [batch.slice(starts[-1])]
        return whole

    def finish(self) -> OpenGroups | None:
        """The last group."""
        batches, self._waiting = [each for each in self._waiting if each.num_rows], []
        if not batches:
            return None
        rows = pa.concat_batches(batches)
        is_first = rows.column(FIRST).to_numpy(zero_copy_only=False)
        return self._grouped(rows, np.flatnonzero(is_first))

    def _grouped(self, rows: pa.RecordBatch, starts: Numbers) -> OpenGroups:
        is_wide = self.shape is Shape.WIDE
        counts = [
            rows.column(f"n{at}").to_numpy(zero_copy_only=False) for at in self.layout.sources
        ]
        source_counts = counts if is_wide else [each[starts] for each in counts]
        sizes = np.stack(source_counts, axis=1).astype(np.int64, copy=False)
        masks = reduce(
            np.bitwise_or,
            ((each > 0).astype(np.int64) << at for at, each in enumerate(source_counts)),
        )
        if self.layout.always_present:
            masks = np.full(len(starts), self.layout.stage.everywhere)
        return OpenGroups(rows=rows, starts=starts, sizes=sizes, masks=masks, is_wide=is_wide)
