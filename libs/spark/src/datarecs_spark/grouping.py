"""From united rows to groups: tuples with their copies per source, or one row per group.

Rows of a row stage are counted per (key, tuple) and source, so that duplicates cost what they are
and never a product. In aggregates a group is what its functions make of its rows.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from datarecs_kernel.layout import Field, Layout
from datarecs_spark.pushed import aggregate_of, row_count


def null_key(keys: Sequence[Field]) -> str:
    """Whether any part of the key is NULL; an INVALID part is not."""
    parts = [
        f"({field.name} IS NULL AND {field.payload} IS NULL)"
        if field.may_be_invalid
        else f"{field.name} IS NULL"
        for field in keys
    ]
    return f"({' OR '.join(parts)})" if parts else "FALSE"


def united(parts: Sequence[DataFrame]) -> DataFrame:
    """The prepared rows of all sources."""
    return reduce(DataFrame.union, parts)


def aggregated(layout: Layout, rows: DataFrame) -> DataFrame:
    """One row per group: keys, rows per source, and the functions' results as `ranked` has them."""
    keys = layout.key_names
    aggregates = [
        aggregate_of(layout, measure, index)
        for measure in layout.compared
        for index in layout.sources
    ]
    counts = [f"{row_count(layout, index)} AS n{index}" for index in layout.sources]
    collected = [column for each in aggregates for column in each.collected()]
    made = rows.groupBy(*keys).agg(*map(F.expr, (*counts, *collected)))
    steps = [list(each.steps()) for each in aggregates]
    for depth in range(max(map(len, steps), default=0)):
        made = made.selectExpr(
            "*", *(column for own in steps if depth < len(own) for column in own[depth])
        )
    return made.selectExpr(
        *keys,
        *(f"n{index}" for index in layout.sources),
        *(column for each in aggregates for column in each.columns()),
    )
