"""Rows that each source delivered, before any condition of the stage."""

import json
from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from datarecs_spark.prepare import SOURCE

READ = "read"
"""`what` of the rows: one per source that has any."""


def read_rows(rows: DataFrame) -> DataFrame:
    """One row per source that has any: how many rows it delivered."""
    return (
        rows.groupBy(SOURCE)
        .agg(F.expr("count(*) AS rows"))
        .selectExpr(
            f"'{READ}' AS what",
            f"to_json(named_struct('{SOURCE}', {SOURCE}, 'rows', rows)) AS body",
        )
    )


def read_counts(sources: int, answers: Sequence[tuple[str, str]]) -> list[int]:
    """Per source."""
    counts = [0] * sources
    for what, body in answers:
        if what == READ:
            count = json.loads(body)
            counts[count[SOURCE]] = count["rows"]
    return counts
