"""Rows of a user's DataFrame as Arrow batches, with the memory of one partition.

`toArrow` collects all rows, and a folder written by Spark is not on this machine if Spark runs on a
cluster. Here tasks encode their rows as Arrow and the driver fetches one partition at a time. Only
public functions of Spark are used.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from datarecs_core.errors.run import RunDetail
from datarecs_kernel.refusals import SourceFailedError
from datarecs_spark.errors import SparkFailure, cause_name, messages_of

_NEXT = "create the DataFrame again in a running session"
_NOT_ARROW = "UNSUPPORTED_DATA_TYPE_FOR_ARROW_CONVERSION"
_OTHER_PYTHON = ("No module named 'pyarrow'", "PYTHON_VERSION_MISMATCH")
_NO_PACKAGE = ("PACKAGE_NOT_INSTALLED", "UNSUPPORTED_PACKAGE_VERSION")


class FrameNotReadableError(SourceFailedError):
    """A DataFrame cannot be read; the cause is Spark's error."""

    def __init__(self, source: str, message: str, fix: str, *, code: RunDetail) -> None:
        super().__init__(code, source, message)
        self.fix = fix


def frame_batches(frame: DataFrame, source: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The types of a DataFrame, and its rows in the order of its partitions.

    The largest partition must fit into the memory of Spark's driver, once. Every partition is a job
    of Spark, so a DataFrame that is expensive to compute should be cached.

    Args:
        frame: not a stream.
        source: the name of the source in messages.

    Raises:
        FrameNotReadableError: the session has ended, or Spark cannot compute the rows or express
            them in Arrow. The iterator raises it too.
    """
    _check_session(frame, source)
    with _translated(source):
        if frame.isStreaming:
            raise FrameNotReadableError(
                source,
                "the DataFrame is a stream, which has no end",
                "write the stream to a table and compare the table",
                code=RunDetail.SOURCE_UNSUPPORTED,
            )
        names = frame.columns
        # Names may repeat or contain dots, which Spark reads as paths.
        rows = frame.toDF(*(f"c{at}" for at in range(len(names))))
        types = rows.limit(0).toArrow().schema if names else pa.schema([])
        schema = pa.schema([types.field(at).with_name(name) for at, name in enumerate(names)])
        encoded = rows.mapInArrow(_encoder(), "rows binary")
    return schema, _decoded(encoded, schema, source)


def _decoded(encoded: DataFrame, schema: pa.Schema, source: str) -> Iterator[pa.RecordBatch]:
    with _translated(source):
        for row in encoded.toLocalIterator():
            with pa.ipc.open_stream(row[0]) as stream:
                for batch in stream:
                    columns = [
                        column.cast(field.type)
                        for column, field in zip(batch.columns, schema, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _encoder() -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function that executors get as code, because they do not have this package."""

    def encode(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow  # noqa: ICN001, PLC0415 - on the executor

        for batch in batches:
            sink = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            rows = pyarrow.array([sink.getvalue().to_pybytes()], pyarrow.binary())
            yield pyarrow.RecordBatch.from_arrays([rows], ["rows"])

    return encode


def _check_session(frame: DataFrame, source: str) -> None:
    session: Any = frame.sparkSession
    remote = getattr(session, "is_stopped", None)  # of Spark Connect
    ended = remote if remote is not None else session.sparkContext._jsc is None  # noqa: SLF001 - pyspark has no public name for it
    if ended:
        raise FrameNotReadableError(
            source,
            "the Spark session of the DataFrame has ended",
            _NEXT,
            code=RunDetail.DRIVER_LOST,
        )


@contextmanager
def _translated(source: str) -> Iterator[None]:
    try:
        yield
    except SparkFailure as failure:
        known = _known(failure, source)
        if known is not None:
            raise known from None
        raise FrameNotReadableError(
            source,
            f"Spark cannot compute the DataFrame ({_condition(failure) or cause_name(failure)})",
            "the cause of this error has Spark's message",
            code=RunDetail.QUERY_ERROR,
        ) from failure


def _known(failure: Exception, source: str) -> FrameNotReadableError | None:
    """The error of a failure that has nothing to do with the rows."""
    condition = _condition(failure)
    if condition in _NO_PACKAGE:
        return FrameNotReadableError(
            source,
            "Spark needs packages that are not installed to read a DataFrame",
            "install them with: pip install 'datarecs[spark]'",
            code=RunDetail.SOURCE_UNSUPPORTED,
        )
    if condition == _NOT_ARROW:
        return FrameNotReadableError(
            source,
            "the DataFrame has a column with a type that Spark cannot convert to Arrow",
            "cast the column in the DataFrame, or leave it out with drop()",
            code=RunDetail.SOURCE_UNSUPPORTED,
        )
    if isinstance(failure, ConnectionError):
        return FrameNotReadableError(
            source, "the connection to Spark was lost", _NEXT, code=RunDetail.DRIVER_LOST
        )
    if any(sign in text for text in messages_of(failure) for sign in _OTHER_PYTHON):
        return FrameNotReadableError(
            source,
            "Spark's workers run another Python, without pyarrow or of another version",
            f"on this machine set PYSPARK_PYTHON={sys.executable} before the session starts; on a "
            "cluster install pyarrow for the Python of its executors",
            code=RunDetail.SOURCE_UNSUPPORTED,
        )
    return None


def _condition(failure: Exception) -> str:
    """Of Spark; its messages quote values, and remain in the cause."""
    return (failure.getCondition() or "") if isinstance(failure, PySparkException) else ""
