"""Many tasks compare a stage: each reads a share, rows of one key meet, each compares whole groups.

Rows travel as messages of Arrow, hundreds or thousands of them in one row of Spark's, which
carries and stores bytes and knows no type of ours. DuckDB says which partition a key belongs to;
all executors have the same release of it (`cluster`).
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from datarecs_kernel.database import BATCH_BYTES, Connection, read_batches
from datarecs_kernel.fingerprints import seal
from datarecs_kernel.layout import Layout
from datarecs_kernel.relations import relation_columns
from datarecs_kernel.scopes import bucket_of
from datarecs_kernel.stages import Attempt, StageAnswer, compare_stage, read_answer
from datarecs_spark.reading_tasks import (
    Step,
    Work,
    create_tasks,
    open_database,
    open_share,
    share_numbers,
)
from datarecs_spark.row_counts import RowCount
from datarecs_spark.sinking import attempt_name
from datarecs_spark.task_failures import translate_failures

READINGS = 3
"""Of every row: to be sent, to be counted, and to be compared."""
_MESSAGES = "partition INT, source INT, rows BINARY"
_MESSAGE_BYTES = 2**21
"""Of a message, about; Java holds some of them at a time."""


def compare_partitions(session: SparkSession, work: Work, partitions: int) -> StageAnswer:
    """Compare a stage in so many partitions; without keys there is one group, and one partition.

    Raises:
        InvalidTextsError: it must be done again with `check_texts`.
        DatarecsError: a source cannot be read at its pin.
        PySparkException: a task failed otherwise.
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
            with open_share(work, number, attempt) as (connection, looks):
                count = RowCount(work.resources.directory, attempt, readings=READINGS)
                for source, relation in enumerate(work.relations(connection, layout, looks)):
                    query = f"SELECT {partition_of(work, partitions)}, * FROM {relation}"  # noqa: S608 - made of this package's names
                    for batch in read_batches(connection, query):
                        count.add(batch.num_rows)
                        yield from write_messages(batch, source)

    return send


def partition_of(work: Work, partitions: int) -> str:
    """SQL of the number of the partition in which all rows of a key meet."""
    layout = work.layout
    if layout.hashed is not None:
        return f"{bucket_of(layout.hashed.keys, work.sink.key)} % {partitions}"
    if not layout.keys:
        return "0"
    # DuckDB's hash of several columns is an XOR with that of the last one.
    return f"CAST(hash(hash({', '.join(layout.key_names)})) % {partitions} AS INTEGER)"


def write_messages(rows: pa.RecordBatch, source: int) -> Iterator[pa.RecordBatch]:
    """The rows of a source as messages to the partitions that their first column names."""
    numbers = rows.column(0).to_numpy()
    order = np.argsort(numbers, kind="stable")
    numbers, rows = numbers[order], rows.select(rows.schema.names[1:]).take(pa.array(order))
    edges = np.flatnonzero(np.diff(numbers, prepend=-1, append=-1))
    for start, end in pairwise(edges):
        for message in _serialize(rows.slice(start, end - start)):
            columns = {
                "partition": pa.array([numbers[start]], pa.int32()),
                "source": pa.array([source], pa.int32()),
                "rows": pa.array([message], pa.binary()),
            }
            yield pa.RecordBatch.from_pydict(columns)


def _serialize(rows: pa.RecordBatch) -> Iterator[bytes]:
    cuts = min(-(-rows.nbytes // _MESSAGE_BYTES) or 1, rows.num_rows)
    size = -(-rows.num_rows // cuts)
    for at in range(0, rows.num_rows, size):
        output = pa.BufferOutputStream()
        with pa.ipc.new_stream(output, rows.schema) as stream:
            stream.write_batch(rows.slice(at, size))
        yield output.getvalue().to_pybytes()


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


def receive_rows(
    connection: Connection, layout: Layout, batches: Iterable[pa.RecordBatch]
) -> list[str]:
    """Tables with the rows of all messages, one per source."""
    tables = _Tables(connection, layout)
    for batch in batches:
        for source, message in zip(batch.column(1).to_pylist(), batch.column(2), strict=True):
            tables.add(source, pa.ipc.open_stream(message.as_buffer()))
    tables.store()
    return tables.names


class _Tables:
    """Tables that take many rows at a time."""

    def __init__(self, connection: Connection, layout: Layout) -> None:
        self._connection = connection
        self.names = [f"rows_{source}" for source in layout.sources]
        self._waiting: list[list[pa.RecordBatch]] = [[] for _ in self.names]
        self._bytes = 0
        for source, name in enumerate(self.names):
            columns = (f"{label} {kind}" for label, kind in relation_columns(layout, source))
            connection.execute(f"CREATE TEMP TABLE {name} ({', '.join(columns)})")

    def add(self, source: int, rows: Iterable[pa.RecordBatch]) -> None:
        for batch in rows:
            self._waiting[source].append(batch)
            self._bytes += batch.nbytes
        if self._bytes >= BATCH_BYTES:
            self.store()

    def store(self) -> None:
        for name, batches in zip(self.names, self._waiting, strict=True):
            if batches:
                self._connection.register("incoming", pa.Table.from_batches(batches))
                self._connection.execute(f"INSERT INTO {name} FROM incoming")
                self._connection.unregister("incoming")
                batches.clear()
        self._bytes = 0
