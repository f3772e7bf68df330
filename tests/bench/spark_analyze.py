"""Spark's statistics of a Parquet file: ANALYZE TABLE … COMPUTE STATISTICS FOR ALL COLUMNS.

A module of its own, since only this contestant needs a Spark session. The session starts before
the first round, and each round takes a new table, so that nothing of the last one is reused.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

Analyze = Callable[[Path, Collection[str]], None]


@contextmanager
def spark_table(folder: Path) -> Iterator[Analyze]:
    """A session with as many cores as the machine; its files lie in the folder."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - of one contestant alone

    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    session = (
        builder.config("spark.sql.warehouse.dir", str(folder))
        .config("spark.driver.memory", "4g")
        .getOrCreate()
    )
    numbers = count()

    def analyze(path: Path, columns: Collection[str]) -> None:
        table = f"analyzed_{next(numbers)}"
        session.sql(f"CREATE TABLE {table} USING parquet LOCATION '{path}'")
        session.sql(f"ANALYZE TABLE {table} COMPUTE STATISTICS FOR ALL COLUMNS")
        for column in columns:
            described = session.sql(f"DESCRIBE EXTENDED {table} {column}").collect()
            if not any(row[0] == "distinct_count" and row[1] != "NULL" for row in described):
                raise RuntimeError(f"Spark has no statistics of {column}")
        session.sql(f"DROP TABLE {table}")

    try:
        yield analyze
    finally:
        session.stop()
