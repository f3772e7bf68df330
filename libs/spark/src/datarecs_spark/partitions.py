"""Many tasks compare a stage: each reads a share, rows are partitioned by key, groups compared.

Rows are sent as Arrow messages (`datarecs_kernel.messages`), each in one row of Spark, which
transports and stores bytes without their types. All executors have the same release of DuckDB,
which computes the partition of a key (`cluster`).
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from datarecs_kernel.database import read_batches
from datarecs_kernel.fingerprints import seal
from datarecs_kernel.messages import partition_of, receive_rows, write_messages
from datarecs_kernel.row_counts import RowCount
from datarecs_kernel.stage_tasks import Work, open_database, open_share
from datarecs_kernel.stages import Attempt, StageAnswer, compare_stage, read_answer
from datarecs_spark.reading_tasks import Step, create_tasks, share_numbers
from datarecs_spark.sinking import attempt_name
from datarecs_spark.task_failures import translate_failures

READINGS = 3
"""How often every row is read: to be sent, to be counted, and to be compared."""
_MESSAGES = "partition INT, source INT, rows BINARY"


def compare_partitions(session: SparkSession, work: Work, partitions: int) -> StageAnswer:
    """Compare a stage in a number of partitions; without keys there is one group and one partition.

    Raises:
        InvalidTextsError: the pass must be repeated with `check_texts`.
        DatarecsError: a source cannot be read at its pin.
        PySparkException: another failure of a task.
    """
    has_keys = bool(work.layout.of_rows.keys)
    partitions = partitions if has_keys else 1
    sent = create_tasks(session, work).mapInArrow(_send_step(work, partitions), _MESSAGES)
    met = sent.repartitionById(partitions, "partition")
    with translate_failures(work.layout):
        rows = met.mapInArrow(_compare_step(work), "body STRING").collect()
    first, *others = (read_answer(row["body"]) for row in rows)
    for each in others:
        first.add(each)
    return first


def _send_step(work: Work, partitions: int) -> Step:
    layout = work.layout.of_rows

    def send(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in share_numbers(batches):
            attempt = attempt_name()
            with open_share(work, number, attempt) as (connection, rechecks):
                count = RowCount(work.resources.directory, attempt, readings=READINGS)
                place = partition_of(work.layout, work.sink.key, partitions)
                for source, relation in enumerate(work.relations(connection, layout, rechecks)):
                    query = f"SELECT {place}, * FROM {relation}"  # noqa: S608 - made of this package's names
                    for batch in read_batches(connection, query):
                        count.add(batch.num_rows)
                        yield from write_messages(batch, source)

    return send


def _compare_step(work: Work) -> Step:
    """Compare the groups of a partition."""

    def compare(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        attempt = attempt_name()
        with open_database(work.resources, attempt) as connection:
            layout = work.layout
            count = RowCount(work.resources.directory, attempt, readings=READINGS)
            relations = receive_rows(connection, layout.of_rows, batches)
            part = Attempt(name=attempt, is_whole=False, on_rows=count.add)
            answer = compare_stage(connection, work.sink, relations, part)
            if layout.stage.seal_rows and not layout.pairs_rows:
                hashed = layout.hashed or layout
                answer.counted.sealed = seal(connection, work.sink, hashed, relations)
            body = answer.written()
        yield pa.RecordBatch.from_pydict({"body": [body]})

    return compare
