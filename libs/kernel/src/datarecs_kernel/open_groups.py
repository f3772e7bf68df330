"""Open groups as columns: batches cut where groups end, with rows per source and presence.

Rows of a group come next to each other, so only the last group of a batch has to wait for the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from datarecs_kernel.columns import Numbers
from datarecs_kernel.layout import Layout

OPEN, FIRST, WEIGHT = "is_open", "is_first", "weight"
"""Columns: the group is not wholly equal; its first row; how many groups a row that is not open
tells of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGroups:
    """Whole groups of a batch, in the columns of `opening`."""

    rows: pa.RecordBatch
    starts: Numbers
    """First row of each group."""
    sizes: Numbers
    """Rows per group and source."""
    masks: Numbers
    """Presence."""

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def group_of_row(self) -> Numbers:
        lengths = np.diff(self.starts, append=self.rows.num_rows)
        return np.repeat(np.arange(len(self)), lengths)

    def first(self, names: Sequence[str]) -> pa.RecordBatch:
        """Columns of the first row of each group."""
        return self.rows.select(names).take(pa.array(self.starts))

    def rows_of(self, group: int) -> pa.RecordBatch:
        end = self.starts[group + 1] if group + 1 < len(self) else self.rows.num_rows
        return self.rows.slice(self.starts[group], end - self.starts[group])

    def numbers(self, name: str) -> Numbers:
        """A column of counts."""
        return np.asarray(self.rows.column(name).to_numpy(zero_copy_only=False))


class Waiting:
    """Rows of the last group, which the next batch may go on with."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._rows: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> OpenGroups | None:
        """The groups that are whole now."""
        starts = np.flatnonzero(batch.column(FIRST).to_numpy(zero_copy_only=False))
        if not len(starts):
            self._rows.append(batch)
            return None
        self._rows.append(batch.slice(0, starts[-1]))
        whole = self.finish()
        self._rows = [batch.slice(starts[-1])]
        return whole

    def finish(self) -> OpenGroups | None:
        """The last group."""
        batches, self._rows = [each for each in self._rows if each.num_rows], []
        return self._grouped(batches) if batches else None

    def _grouped(self, batches: Sequence[pa.RecordBatch]) -> OpenGroups:
        rows = pa.concat_batches(batches)
        starts = np.flatnonzero(rows.column(FIRST).to_numpy(zero_copy_only=False))
        counts = (rows.column(f"n{at}") for at in self.layout.sources)
        sizes = np.stack([each.to_numpy(zero_copy_only=False)[starts] for each in counts], axis=1)
        masks = (sizes > 0) @ (1 << np.arange(sizes.shape[1]))
        if self.layout.always_present:
            masks = np.full(len(starts), self.layout.stage.everywhere)
        return OpenGroups(rows=rows, starts=starts, sizes=sizes, masks=masks)
