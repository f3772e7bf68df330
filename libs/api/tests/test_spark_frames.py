"""DataFrames of Spark as sources of `datarecs.compare`."""

import gc
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import datarecs
from datarecs import sources
from datarecs_cli.stack.java import Java
from datarecs_core.errors.run import RunDetail
from datarecs_spark.session import SparkRuntime

pytestmark = pytest.mark.spark

TYPES = (
    "id bigint, b byte, s short, i int, d decimal(38,10), f double, t string, raw binary, "
    "yes boolean, day date, at timestamp, local timestamp_ntz"
)
VALUES: tuple[object, ...] = (
    2**53 + 1,
    1,
    2,
    3,
    Decimal("1234567890123456789012345678.0123456789"),
    0.1,
    "é\0",
    bytearray(b"\x00\xff"),
    True,
    date(1, 1, 1),
    datetime(2026, 10, 25, 0, 30, 0, 1, tzinfo=UTC),
    datetime(2026, 3, 29, 2, 30),  # noqa: DTZ001 - a local time that Berlin's clocks skip
)


@pytest.fixture(scope="module")
def session(spark_runtime: SparkRuntime) -> Iterator[SparkSession]:
    """As a user configures it: the zone of another country."""
    session = spark_runtime.session()
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield session
    gc.collect()  # sockets of failed reads, while their warnings are ignored


@pytest.fixture
def typed(session: SparkSession) -> DataFrame:
    return session.createDataFrame([VALUES, (1, *[None] * 11)], TYPES)


def test_every_type_is_exact(typed: DataFrame, tmp_path: Path) -> None:
    expected = pa.table(
        {
            "id": [2**53 + 1, 1],
            "b": pa.array([1, None], pa.int8()),
            "s": pa.array([2, None], pa.int16()),
            "i": pa.array([3, None], pa.int32()),
            "d": pa.array([VALUES[4], None], pa.decimal128(38, 10)),
            "f": [0.1, None],
            "t": ["é\0", None],
            "raw": [b"\x00\xff", None],
            "yes": [True, None],
            "day": [date(1, 1, 1), None],
            "at": pa.array([VALUES[10], None], pa.timestamp("us", "UTC")),
            "local": pa.array([VALUES[11], None], pa.timestamp("us")),
        }
    )
    pq.write_table(expected, tmp_path / "expected.parquet")
    comparison = datarecs.compare(
        typed, expected, expected.to_pandas(), tmp_path / "expected.parquet", key="id"
    )
    comparison.assert_matched()
    assert comparison.counts.matched == 2


def test_differences_are_those_of_other_tables(session: SparkSession) -> None:
    frame = session.range(100, numPartitions=3).withColumn("x", F.col("id") * 2)
    other = pd.DataFrame({"id": range(99), "x": [0, 3, *range(4, 198, 2)]})
    comparison = datarecs.compare(frame, other, key="id", names=["spark", "pandas"])
    assert comparison.counts == datarecs.Counts(compared=100, matched=98, outside=1, missing=1)
    assert not datarecs.compare(frame, frame.where("id <> 7"), key="id").is_matched


def test_names_may_repeat_by_case_and_contain_dots(session: SparkSession) -> None:
    frame = session.createDataFrame([(1, 2, 3)], ["id", "a.b", "ID"])
    table = pa.table({"id": [1], "a.b": [2], "ID": [3]})
    assert datarecs.compare(frame, table, key="id").is_matched
    twice = session.range(1).select("id", "id")
    with pytest.raises(datarecs.ArgumentError, match="source-1: id occurs twice"):
        datarecs.compare(twice, table, key="id")


def test_a_frame_without_rows_has_its_types(session: SparkSession) -> None:
    empty = session.createDataFrame([], TYPES)
    comparison = datarecs.compare(empty, empty.where("id = 1"), key="id")
    assert comparison.is_matched
    with pytest.raises(datarecs.ArgumentError, match="source-1: the table has no columns"):
        datarecs.compare(session.createDataFrame([], ""), empty)


def test_rows_are_fetched_by_partition(session: SparkSession) -> None:
    """The driver never has all rows: each partition is a separate job, ended before the next."""
    frame = session.range(40_000, numPartitions=4)
    tracker = session.sparkContext.statusTracker()
    session.sparkContext.setJobGroup("fetched", "rows")
    try:
        assert datarecs.compare(frame, pa.table({"id": range(40_000)}), key="id").is_matched
        jobs = tracker.getJobIdsForGroup("fetched")
    finally:
        session.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # None removes it
    assert len(jobs) >= 4


def test_what_spark_cannot_compute_has_its_condition_and_its_cause(session: SparkSession) -> None:
    wrong = session.createDataFrame([("s3cret",)], "id string").selectExpr("CAST(id AS INT) AS id")
    with pytest.raises(
        datarecs.DatarecsError, match="source source-1: Spark cannot comp"
    ) as failed:
        datarecs.compare(wrong, wrong, key="id")
    assert failed.value.code is RunDetail.QUERY_ERROR
    assert "s3cret" not in str(failed.value)
    assert failed.value.__cause__ is not None


def test_a_type_without_an_equal_in_arrow_is_refused(session: SparkSession) -> None:
    odd = session.range(1).selectExpr("id", "INTERVAL '1' YEAR AS odd")
    with pytest.raises(datarecs.DatarecsError, match="cannot convert to Arrow"):
        datarecs.compare(odd, odd, key="id")


def test_a_stream_is_refused(session: SparkSession) -> None:
    stream = session.readStream.format("rate").load()
    with pytest.raises(datarecs.DatarecsError, match="is a stream") as refused:
        datarecs.compare(stream, stream, key="value")
    assert "write the stream to a table" in refused.value.fix


def test_pandas_on_spark_gets_a_message_with_the_way_out(session: SparkSession) -> None:
    class Frame:
        """Stands for the class of pandas-on-Spark, which needs a separate session."""

    Frame.__module__ = "pyspark.pandas.frame"
    with pytest.raises(datarecs.ArgumentError, match=r"pass \.to_spark\(\)"):
        datarecs.compare(session.range(1), Frame())  # type: ignore[arg-type]  # wrong on purpose


def test_without_pyspark_the_extra_is_named(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = session.range(1)
    monkeypatch.setattr("datarecs_cli.parts.find_spec", lambda _name: None)
    with pytest.raises(datarecs.ArgumentError, match=r"pip install 'datarecs\[spark\]'"):
        datarecs.compare(frame, frame, key="id")
    assert sources.is_spark_frame(frame)


PROGRAM = """
    import datarecs
    from pyspark.sql import SparkSession

    def compare():
        try:
            print(datarecs.compare(frame, other, key="id").counts.missing)
        except datarecs.DatarecsError as error:
            print(error.code.name, error, error.fix, sep=" | ")

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.getOrCreate()
    frame, other = spark.range(3), spark.range(4)
    compare()
    spark.stop()
    compare()
"""


def test_a_session_with_another_python_or_that_has_ended_is_an_error(
    java_runtime: Java, tmp_path: Path
) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(PROGRAM)],
        env={
            "JAVA_HOME": str(java_runtime.home),
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": str(bare),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.stdout, ended.stderr
    first, second = ended.stdout.splitlines()
    assert "Spark's workers run another Python, without pyarrow" in first
    assert f"PYSPARK_PYTHON={sys.executable}" in first
    assert second == (
        "DRIVER_LOST | source source-1: the Spark session of the DataFrame has ended"
        " | create the DataFrame again in a running session"
    )
