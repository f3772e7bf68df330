"""A process that compares by datacompy, as its users do, for `compare.py`: on Polars or on Spark.

It runs in a separate environment, because datacompy needs an older Polars than the workspace. A
line of standard input names two Parquet files and the output for rows that differ; a line of
standard output has the counts.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl
from datacompy import PolarsCompare  # type: ignore[import-not-found]  # not in the workspace


def on_polars(key: str, one: str, two: str, out: str) -> Any:  # noqa: ANN401 - not in the workspace
    comparison = PolarsCompare(pl.read_parquet(one), pl.read_parquet(two), join_columns=key)
    comparison.all_mismatch().write_parquet(out, compression="zstd")
    return comparison, comparison.df1_unq_rows.height, comparison.df2_unq_rows.height


def on_spark(session: Any, key: str, one: str, two: str, out: str) -> Any:  # noqa: ANN401 - as above
    from datacompy import spark  # noqa: PLC0415 - of one engine alone

    session.catalog.clearCache()  # of the question before
    frames = [_readable(session.read.parquet(path)) for path in (one, two)]
    comparison = spark.SparkSQLCompare(session, *frames, join_columns=key)
    comparison.all_mismatch().write.parquet(out)
    return comparison, comparison.df1_unq_rows.count(), comparison.df2_unq_rows.count()


def _readable(frame: Any) -> Any:  # noqa: ANN401 - as above
    """It subtracts values as doubles, which Spark 4 refuses for times without zone: as text."""
    times = [name for name, kind in frame.dtypes if kind in {"date", "timestamp_ntz"}]
    return frame.withColumns({name: frame[name].cast("string") for name in times})


def engines(name: str) -> Callable[..., Any]:
    """A warm engine; Spark's starts here."""
    if name == "polars":
        return on_polars
    from pyspark.sql import SparkSession  # noqa: PLC0415 - of one engine alone

    session = SparkSession.builder.master("local[*]")
    for key, value in of_one_machine().items():
        session = session.config(key, value)
    return partial(on_spark, session.getOrCreate())


def of_one_machine() -> Mapping[str, str]:
    """Who knows Spark says so much on one machine.

    It runs over ninety queries over its join: of the usual 200 partitions each, on two cores, ten
    thousand rows take as long as a million do here. And it holds the joined rows in memory.
    """
    return {
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def counted(comparison: Any, only_first: int, only_second: int) -> Mapping[str, int]:  # noqa: ANN401 - as above
    changed = sum(each["unequal_cnt"] for each in comparison.column_stats)
    return {"only_first": only_first, "only_others": only_second, "changed": changed}


def main(arguments: Sequence[str]) -> None:
    key, name = arguments
    compared = engines(name)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        counts = counted(*compared(key, *json.loads(line)))
        sys.stdout.write(json.dumps(counts) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
