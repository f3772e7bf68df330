"""The last step of a stage, inside its tasks: groups are counted, judged, stored.

Rows arrive as Arrow batches. What is wholly equal was told as numbers before; open groups are
judged a batch at a time. One row of JSON per task goes to the driver.
"""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from datarecs_spark.counted import Counted
from datarecs_spark.judging import Judge, JudgedGroups
from datarecs_spark.opening import OPEN, WEIGHT
from datarecs_spark.storing import SinkPlan, Stores, attempt_name

SUMMARY = "summary"
"""`what` of the row a task gives."""


def sunk(groups: DataFrame, plan: SinkPlan) -> DataFrame:
    """One row per task over groups as `opening` tells them: `what`, and its numbers in `body`."""
    return groups.mapInArrow(_step(plan, groups.columns), "what STRING, body STRING")


def _step(
    plan: SinkPlan, columns: list[str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = SinkTask(plan, columns, attempt_name())
        for batch in batches:
            task.take(batch)
        counted = task.finish()
        yield pa.RecordBatch.from_pydict({"what": [SUMMARY], "body": [counted.written()]})

    return step


class SinkTask:
    """One partition of groups."""

    def __init__(self, plan: SinkPlan, columns: list[str], attempt: str) -> None:
        self.stores = Stores(plan, attempt)
        self.judge = Judge(plan.layout, plan.key, columns, self.stores.counted)
        self.sizes = [f"n{index}" for index in plan.layout.sources]

    def take(self, batch: pa.RecordBatch) -> None:
        self.stores.add_values(batch)
        is_open = batch.column(OPEN)
        self._count(batch.select([*self.sizes, WEIGHT]).filter(pc.invert(is_open)))
        self._store(self.judge.add(batch.filter(is_open)))

    def finish(self) -> Counted:
        self._store(self.judge.finish())
        return self.stores.finish()

    def _store(self, groups: JudgedGroups | None) -> None:
        if groups is not None:
            self.stores.add(groups)

    def _count(self, rows: pa.RecordBatch) -> None:
        """Groups that are equal everywhere: `weight` of them in a row, with its rows per source."""
        kinds = pa.Table.from_batches([rows]).group_by(self.sizes).aggregate([(WEIGHT, "sum")])
        for kind in kinds.to_pylist():
            sizes = [kind[label] for label in self.sizes]
            self.stores.add_equal(sizes, kind[f"{WEIGHT}_sum"])
