"""How many rows each source delivered, before any condition of the stage."""

from collections import Counter

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from datarecs_spark.prepare import SOURCE


def count_rows(rows: DataFrame) -> Counter[int]:
    """By source.

    Args:
        rows: of all sources, with `s`.

    Raises:
        PySparkException: a source cannot be read.
    """
    counts = rows.groupBy(SOURCE).agg(F.expr("count(*) AS rows")).collect()
    return Counter({row[SOURCE]: row["rows"] for row in counts})
