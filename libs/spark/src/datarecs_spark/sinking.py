"""The last step of a stage, inside its tasks: groups are counted, judged, stored.

Rows arrive as Arrow batches; one row of JSON per task goes to the driver.
"""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from datarecs_kernel.sink import SinkTask
from datarecs_kernel.storing import SinkPlan, Stores

SUMMARY = "summary"
"""`what` of the row a task gives."""


def sunk(groups: DataFrame, plan: SinkPlan) -> DataFrame:
    """One row per task over groups as `opening` tells them: `what`, and its numbers in `body`."""
    return groups.mapInArrow(_step(plan, groups.columns), "what STRING, body STRING")


def _step(
    plan: SinkPlan, columns: list[str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stores = Stores(plan, attempt_name())
        task = SinkTask(stores, columns)
        for batch in batches:
            task.take(batch)
        task.close()
        counted = stores.leave()
        yield pa.RecordBatch.from_pydict({"what": [SUMMARY], "body": [counted.written()]})

    return step


def attempt_name() -> str:
    """Names this attempt of this task: no other has the same."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("the sink runs inside a task")
    return f"{context.partitionId():05d}-{context.taskAttemptId()}"
