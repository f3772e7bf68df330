"""Which groups have to be looked at: those that are not wholly equal, apart from all others.

Nearly everything agrees in most runs, and what agrees needs no tolerance, no text and no hash.
Equal groups are told as numbers here, by exact grouping and before anything else is computed, so
that the cost of judging follows what differs.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from datarecs_core.jobs.vocabulary import DuplicatePolicy, NanRule
from datarecs_kernel.layout import Layout, MeasureLayout, compared_fields, compared_values
from datarecs_kernel.open_groups import FIRST, OPEN, WEIGHT
from datarecs_spark.grouping import is_nan, partition, strict_nans


def opened_groups(layout: Layout, groups: DataFrame) -> DataFrame:
    """Groups of one row each, as `grouping.aggregated` makes them, with `is_open`."""
    present = [] if layout.always_present else [f"n{at} > 0" for at in layout.sources]
    told = " AND ".join([*present, *(_equal(layout, each) for each in layout.compared)]) or "TRUE"
    is_open = "TRUE" if _always_open(layout) else f"NOT ({told})"
    return groups.selectExpr("*", f"({is_open}) AS {OPEN}", f"TRUE AS {FIRST}", f"1L AS {WEIGHT}")


def _equal(layout: Layout, measure: MeasureLayout) -> str:
    """Every source has the same value, and none that equals nothing."""
    values = [f"v{measure.index}_{at}" for at in layout.sources]
    told = [f"{values[0]} <=> {value}" for value in values[1:]]
    if measure.may_be_invalid:
        payloads = [f"x{measure.index}_{at}" for at in layout.sources]
        told += [f"{payloads[0]} <=> {payload}" for payload in payloads[1:]]
    if measure.plan.rules.nan is NanRule.UNEQUAL:
        told.append(f"NOT {is_nan(measure.result, values[0])}")
    return " AND ".join(told)


def opened_tuples(layout: Layout, tuples: DataFrame, partitions: int) -> DataFrame:
    """Tuples of open groups, group by group, and one row per number of rows of equal groups.

    Args:
        layout: of a stage that compares rows.
        tuples: as `grouping.tuples` gives them.
        partitions: into which the rows are cut.
    """
    keys = layout.key_names
    sizes = [f"n{at}" for at in layout.sources]
    carried = [
        FIRST,
        *keys,
        *(label for field in compared_fields(layout) for label, _ in field.columns),
        *(f"c{at}" for at in layout.sources),
    ]
    marked = _marked(layout, tuples).filter(f"{OPEN} OR {FIRST}")
    apart = marked.selectExpr(
        OPEN, *sizes, *(f"IF({OPEN}, {label}, NULL) AS {label}" for label in carried)
    )
    told = apart.groupBy(OPEN, *sizes, *carried).agg(F.expr(f"count(*) AS {WEIGHT}"))
    spread = told.repartition(partitions, *keys) if keys else told.repartition(1)
    return spread.sortWithinPartitions(OPEN, *keys, F.desc(FIRST))


def _marked(layout: Layout, tuples: DataFrame) -> DataFrame:
    """Tuples with rows per source of their key, `is_open` and `is_first`."""
    key, whole = partition(layout.key_names), "c"
    if any(field.changes for field in compared_fields(layout)):
        # Values that were equal only before their rules, or only after them, are several tuples.
        same, whole = partition((*layout.key_names, *compared_values(layout))), "w"
        copies = [f"sum(c{at}) OVER ({same}) AS w{at}" for at in layout.sources]
        tuples = tuples.selectExpr("*", *copies)
    unequal = [f"{whole}{at} <> {whole}0" for at in layout.sources[1:]]
    is_open = "TRUE" if _always_open(layout) else " OR ".join([*unequal, *strict_nans(layout)])
    marked = tuples.selectExpr(
        "*",
        f"max({is_open}) OVER ({key}) AS {OPEN}",
        f"row_number() OVER ({key} ORDER BY c0) = 1 AS {FIRST}",
        *(f"sum(c{at}) OVER ({key}) AS n{at}" for at in layout.sources),
    )
    if layout.stage.duplicates is not DuplicatePolicy.ERROR:
        return marked
    # Keys that occur several times are named, so none of them is told as a number.
    repeated = " OR ".join(f"n{at} > 1" for at in layout.sources)
    return marked.withColumn(OPEN, F.expr(f"{OPEN} OR {repeated}"))


def _always_open(layout: Layout) -> bool:
    """Something of every matched group is not comparable, so that every group differs."""
    return len(layout.compared) < len(layout.measures)
