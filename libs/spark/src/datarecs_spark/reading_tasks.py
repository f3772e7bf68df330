"""Tasks of Spark that read sources: one for a whole stage, or many with a share each.

Spark schedules and ends them; the kernel has their work (`stage_tasks`).
"""

import json
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from datarecs_core.comparison.results.results import BucketSum
from datarecs_kernel.counted import Counted, read_counted
from datarecs_kernel.stage_tasks import Act, Work, answer_of, body_of, counting, sealing
from datarecs_spark.sinking import attempt_name

Step = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]


def seal_shares(session: SparkSession, work: Work) -> tuple[BucketSum, ...]:
    """Sums of the fingerprints of a row stage for `proof: rows`.

    Raises:
        InvalidTextsError: the pass must be repeated with `check_texts`.
        DatarecsError: a source cannot be read at its pin.
        PySparkException: a task failed.
    """
    counted = Counted(len(work.layout.sources))
    for body in answers(session, work, sealing(work)):
        counted.add(read_counted(body, counted.sources))
    return counted.sealed


def count_shares(session: SparkSession, work: Work) -> list[int]:
    """Rows of each source before any condition of the stage; raises as above."""
    parts = map(json.loads, answers(session, work, counting(work)))
    return [sum(rows) for rows in zip(*parts, strict=True)]


def answers(session: SparkSession, work: Work, act: Act) -> list[str]:
    """The answers of one task per share, in any order; raises as above."""

    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        attempt = attempt_name()
        for number in share_numbers(batches):
            answer = answer_of(work, number, act, attempt)
            yield pa.RecordBatch.from_pydict({"body": [json.dumps(answer)]})

    rows = create_tasks(session, work).mapInArrow(step, "body STRING").collect()
    return [body_of(json.loads(row["body"]), work.layout) for row in rows]


def create_tasks(session: SparkSession, work: Work) -> DataFrame:
    """One partition per share, with its number."""
    return session.range(0, len(work.shares), 1, numPartitions=len(work.shares))


def share_numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    """Read shares in the form that `create_tasks` sends to a task."""
    for batch in batches:
        yield from batch.column(0).to_pylist()
