"""The columns of every source as a DataFrame, for schema stages: the plan knows them all."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from datarecs_core.comparison.planning.cataloguing import column_rows, over_columns
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_spark.read import Delivered

_SCHEMA = pa.schema(
    [
        ("column", pa.string()),
        ("type", pa.string()),
        ("nullable", pa.bool_()),
        ("position", pa.int64()),
    ]
)
"""`cataloguing.CATALOGUE_COLUMNS` in Arrow's types."""


def listed(session: SparkSession, stage: StagePlan) -> list[Delivered]:
    """One row per column of each source, in place of the source's rows; nothing is read."""
    return [
        Delivered(
            scan=scan,
            rows=session.createDataFrame(_table(rows)).coalesce(1),
            checked=frozenset(),
            wide=frozenset(),
            pinned_rows=len(rows),
        )
        for scan, rows in zip(over_columns(stage).scans, column_rows(stage), strict=True)
    ]


def _table(rows: Sequence[tuple[object, ...]]) -> pa.Table:
    return pa.table(
        [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(_SCHEMA)],
        schema=_SCHEMA,
    )
