"""The kernel over Spark's partitions: Spark reads and prepares, every task compares whole groups.

Rows of one key of all sources meet in one partition, whose task puts them into the kernel's
database and compares them there; numbers come back, differences lie in the task's own files.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from shutil import rmtree

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from datarecs_core.comparison.results.results import BucketSum
from datarecs_kernel.counted import Counted, read_counted
from datarecs_kernel.database import Connection, Resources, connected
from datarecs_kernel.fingerprints import seal
from datarecs_kernel.layout import Field, Layout
from datarecs_kernel.partials import gives_groups, partial_columns
from datarecs_kernel.prepared_values import AMBIGUOUS
from datarecs_kernel.settling import SinkPlan
from datarecs_kernel.stages import Attempt, StageAnswer, compare_stage, read_answer
from datarecs_spark.fingerprints import bucket
from datarecs_spark.prepare import SOURCE
from datarecs_spark.sinking import attempt_name

_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_ARROW = {
    "BIGINT": pa.int64(),
    "INT": pa.int32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "BINARY": pa.binary(),
}
Step = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]
Act = Callable[[Connection, Sequence[str], str], str]
"""From the relations of a partition, in the name of an attempt, to numbers as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWork:
    """What every task needs to know; travels in a closure."""

    sink: SinkPlan
    resources: Resources
    """Of one task; the directory is shared, below it every attempt has its own."""


def compare_partitions(rows: DataFrame, work: PartitionWork, partitions: int) -> StageAnswer:
    """Compare prepared and united rows of all sources.

    Args:
        rows: as `prepare` makes them, or `pushed` where a source gave groups, within their limits.
        work: of every task.
        partitions: into which the rows are cut.

    Raises:
        PySparkException: a task failed.
    """
    layout = work.sink.layout
    if layout.hashed is not None:
        together = [F.expr(bucket(layout.hashed.keys, work.sink.key))]
    else:
        together = [F.col(each) for each in layout.key_names]
    spread = rows.repartition(partitions, *together) if together else rows.repartition(1)
    step = _step(work, layout, _compared(work))
    first, *others = (
        read_answer(row["body"]) for row in spread.mapInArrow(step, "body STRING").collect()
    )
    for each in others:
        first.add(each)
    return first


def seal_partitions(rows: DataFrame, work: PartitionWork, layout: Layout) -> tuple[BucketSum, ...]:
    """`proof: rows` of a stage that compares rows: sums of their fingerprints.

    Args:
        rows: prepared and united, wherever they are.
        work: of every task.
        layout: `sealing_layout` of the stage.

    Raises:
        PySparkException: a task failed.
    """
    counted = Counted(len(layout.sources))

    def sealed(connection: Connection, relations: Sequence[str], _attempt: str) -> str:
        sums = seal(connection, work.sink, layout, relations)
        return Counted(len(layout.sources), sealed=sums).written()

    step = _step(work, layout, sealed)
    for row in rows.mapInArrow(step, "body STRING").collect():
        counted.add(read_counted(row["body"], len(layout.sources)))
    return counted.sealed


def _compared(work: PartitionWork) -> Act:
    def compared(connection: Connection, relations: Sequence[str], attempt: str) -> str:
        layout = work.sink.layout
        part = Attempt(name=attempt, is_whole=False)
        answer = compare_stage(connection, work.sink, relations, part)
        if layout.stage.seal_rows and not layout.pairs_rows:
            hashed = layout.hashed or layout
            answer.counted.sealed = seal(connection, work.sink, hashed, relations)
        return answer.written()

    return compared


def _step(work: PartitionWork, layout: Layout, act: Act) -> Step:
    """Do something with the relations of a partition whose rows have this layout."""

    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        attempt = attempt_name()
        directory = Path(work.resources.directory) / attempt
        directory.mkdir(parents=True)
        try:
            with connected(replace(work.resources, directory=str(directory))) as connection:
                body = act(connection, _relations(connection, layout, batches), attempt)
        finally:
            rmtree(directory, ignore_errors=True)
        yield pa.RecordBatch.from_pydict({"body": [body]})

    return step


def _relations(
    connection: Connection, layout: Layout, batches: Iterable[pa.RecordBatch]
) -> list[str]:
    """All rows of the partition in one table, and of each source as part of it."""
    incoming = pa.RecordBatchReader.from_batches(
        _schema(layout), (each.cast(_schema(layout)) for each in batches)
    )
    connection.register("incoming", incoming)
    connection.execute("CREATE TEMP TABLE rows AS FROM incoming")
    connection.unregister("incoming")
    return [
        f"(SELECT {_columns(layout, index)} FROM rows WHERE {SOURCE} = {index})"  # noqa: S608 - made of this package's names
        for index in layout.sources
    ]


def _columns(layout: Layout, source: int) -> str:
    """What the relation of a source has: values of rows, or partial results of groups."""
    rows = layout.of_rows
    if gives_groups(layout.stage, source):
        fields, partials = rows.keys, [label for label, _ in partial_columns(layout)]
    else:
        fields, partials = rows.fields, []
    return ", ".join([*_labels(fields), AMBIGUOUS, *partials])


def _labels(fields: Iterable[Field]) -> list[str]:
    return [label for field in fields for label, _ in field.columns]


def _schema(layout: Layout) -> pa.Schema:
    """Of the prepared rows of all sources."""
    columns = chain.from_iterable(field.columns for field in layout.of_rows.fields)
    partials = partial_columns(layout) if layout.stage.has_groups else ()
    return pa.schema(
        [
            (SOURCE, pa.int32()),
            *((label, _arrow_type(kind)) for label, kind in columns),
            (AMBIGUOUS, pa.int32()),
            *((label, _arrow_type(form.sql_type)) for label, form in partials),
        ]
    )


def _arrow_type(kind: str) -> pa.DataType:
    """Of a column of a field, by its type in SQL."""
    digits = _DECIMAL.fullmatch(kind)
    return _ARROW[kind] if digits is None else pa.decimal128(int(digits[1]), int(digits[2]))
