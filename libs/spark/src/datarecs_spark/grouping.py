"""From united rows to groups: tuples with their copies per source, or one row per group.

Rows of a row stage are counted per (key, tuple) and source, so that duplicates cost what they are
and never a product. In aggregates a group is what its functions make of its rows.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from datarecs_core.jobs.vocabulary import NanRule
from datarecs_kernel.forms import Form, FormKind
from datarecs_kernel.layout import Field, Layout, compared_fields, compared_measures
from datarecs_spark.prepare import SOURCE
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


def tuples(layout: Layout, rows: DataFrame, partitions: int) -> DataFrame:
    """One row per key, tuple and texts before rules, with its copies per source in `c<source>`."""
    keys = layout.key_names
    fields = compared_fields(layout)
    values = [label for field in fields for label, _ in field.columns]
    copies = [f"count_if({SOURCE} = {index}) AS c{index}" for index in layout.sources]
    spread = rows.repartition(partitions, *keys) if keys else rows.repartition(1)
    return spread.groupBy(*keys, *values).agg(*map(F.expr, copies))


def partition(names: Sequence[str]) -> str:
    return f"PARTITION BY {', '.join(names)}" if names else ""


def strict_nans(layout: Layout) -> list[str]:
    """Conditions: the tuple holds a NaN that equals nothing."""
    return [
        is_nan(field.form, field.name)
        for measure, field in compared_measures(layout)
        if measure.plan.rules.nan is NanRule.UNEQUAL
    ]


def is_nan(form: Form, value: str) -> str:
    """Whether a value is a NaN; never NULL."""
    match form.kind:
        case FormKind.DOUBLE:
            return f"coalesce(isnan({value}), FALSE)"
        case FormKind.NUMBER:
            return f"coalesce({value} = 'NaN', FALSE)"
        case _:
            return "FALSE"


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
