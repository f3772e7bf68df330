"""Rows sent between tasks: Arrow messages to the partition of their keys.

A message has hundreds or thousands of rows of one source for one partition, in the columns of its
relation. DuckDB computes the partition of a key, so all tasks need the same release of DuckDB.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from datarecs_kernel.database import BATCH_BYTES, Connection
from datarecs_kernel.layout import Layout
from datarecs_kernel.relations import relation_columns
from datarecs_kernel.scopes import bucket_of

MESSAGE_BYTES = 2**21
"""Approximate bytes of a message; the transport has several in memory at a time."""


def partition_of(layout: Layout, key: bytes, partitions: int) -> str:
    """SQL of the number of the partition for all rows of a key.

    Args:
        layout: of the stage.
        key: the tenant's, for buckets.
        partitions: the number of partitions.
    """
    if layout.hashed is not None:
        return f"{bucket_of(layout.hashed.keys, key)} % {partitions}"
    if not layout.keys:
        return "0"
    # DuckDB's hash of several columns is an XOR with that of the last one.
    return f"CAST(hash(hash({', '.join(layout.key_names)})) % {partitions} AS INTEGER)"


def write_messages(rows: pa.RecordBatch, source: int) -> Iterator[pa.RecordBatch]:
    """The rows of a source as messages; their first column is the partition number."""
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
    cuts = min(-(-rows.nbytes // MESSAGE_BYTES) or 1, rows.num_rows)
    size = -(-rows.num_rows // cuts)
    for at in range(0, rows.num_rows, size):
        output = pa.BufferOutputStream()
        with pa.ipc.new_stream(output, rows.schema) as stream:
            stream.write_batch(rows.slice(at, size))
        yield output.getvalue().to_pybytes()


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
    """Tables that receive many rows at a time."""

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
