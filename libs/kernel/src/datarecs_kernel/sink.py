"""Groups of one task: counted, judged, stored, a batch at a time.

Fully equal groups arrive as numbers; open groups are judged.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from datarecs_kernel.judging import Judge, JudgedGroups
from datarecs_kernel.open_groups import OPEN, WEIGHT, Shape
from datarecs_kernel.storing import Stores


class SinkTask:
    """Groups of one shape."""

    def __init__(self, stores: Stores, columns: Sequence[str], shape: Shape | None = None) -> None:
        """`columns` are those of the rows; `shape` is the shape of groups, None as `shape_of`."""
        self.stores, layout = stores, stores.layout
        self.judge = Judge(layout, stores.plan.key, columns, stores.counted, shape)
        self.sizes = [f"n{index}" for index in layout.sources]

    def take(self, batch: pa.RecordBatch) -> None:
        """Add rows of groups: open ones, and numbers of equal ones."""
        is_open = batch.column(OPEN)
        self._count(batch.select([*self.sizes, WEIGHT]).filter(pc.invert(is_open)))
        self._store(self.judge.add(batch.filter(is_open)))

    def take_open(self, batch: pa.RecordBatch) -> None:
        """Add rows of groups that are not fully equal."""
        self._store(self.judge.add(batch))

    def close(self) -> None:
        """The last group is complete."""
        self._store(self.judge.finish())

    def _store(self, groups: JudgedGroups | None) -> None:
        if groups is not None:
            self.stores.add(groups)

    def _count(self, rows: pa.RecordBatch) -> None:
        """Groups that are equal everywhere: `weight` of them in a row, with its rows per source."""
        kinds = pa.Table.from_batches([rows]).group_by(self.sizes).aggregate([(WEIGHT, "sum")])
        for kind in kinds.to_pylist():
            sizes = [kind[label] for label in self.sizes]
            self.stores.add_equal(sizes, kind[f"{WEIGHT}_sum"])
