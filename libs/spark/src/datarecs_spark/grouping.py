"""From united rows to ranks: per group one row, or one row per place of the canonical order.

Rows of a row stage are counted per (key, tuple) and source; what every source has cancels with its
smallest multiplicity, the rest is ranked by a window and paired by rank. No list per key is made
and no product of duplicates. Aggregates have one place, their functions' results.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from datarecs_core.jobs.vocabulary import NanRule
from datarecs_spark.aggregates import Aggregate
from datarecs_spark.canonical import canonical_order
from datarecs_spark.forms import FormKind
from datarecs_spark.layout import Field, Layout
from datarecs_spark.prepare import SOURCE

ABOUT_GROUP = "about_group"
"""Column: this row counts the group."""
ABOUT_VALUES = "about_values"
"""Column: this row holds values to be compared."""
PLACE = "place"
"""Column: the place in canonical order; 0 where the row is about the group alone."""
_NOTHING = "CAST(array() AS ARRAY<STRUCT<place: BIGINT, src: INT>>)"


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


def ranked(layout: Layout, rows: DataFrame, partitions: int) -> DataFrame:
    """Keys, rows per source (`n<source>`), the place, and what is compared there.

    Values stand in `v<measure>_<source>`, payloads of INVALID in `x…`, texts before rules in `r…`,
    overflows of sums in `o…`, rounded floats in `w…`; the last four only where they may exist.
    """
    if layout.pairs_rows:
        return _paired(layout, _left_over(layout, _tuples(layout, rows, partitions)))
    return _aggregated(layout, rows)


def _compared(layout: Layout) -> list[Field]:
    """Fields of what is compared, in the canonical order of their names."""
    named = sorted(layout.compared, key=lambda each: each.plan.name)
    return [each.field for each in named if each.field is not None]


def _tuples(layout: Layout, rows: DataFrame, partitions: int) -> DataFrame:
    """One row per key, tuple and texts before rules, with its copies per source in `c<source>`."""
    keys = layout.key_names
    fields = _compared(layout)
    values = [label for field in fields for label, _ in field.columns]
    copies = [f"count_if({SOURCE} = {index}) AS c{index}" for index in layout.sources]
    spread = rows.repartition(partitions, *keys) if keys else rows.repartition(1)
    return spread.groupBy(*keys, *values).agg(*map(F.expr, copies))


def _left_over(layout: Layout, tuples: DataFrame) -> DataFrame:
    """Adds rows per source of the key, copies left after cancelling, and places up to here."""
    fields = _compared(layout)
    key = _partition(layout.key_names)
    values = [
        label
        for field in fields
        for label, _ in field.columns
        if label not in {field.raw, field.raw_order}
    ]
    before = [f"{field.raw_order} NULLS FIRST" for field in fields if field.changes]
    same = _partition((*layout.key_names, *values))
    order = f"{key} ORDER BY {', '.join([*_order(layout), *before]) or 'c0'}"
    frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    return (
        tuples.selectExpr("*", *_copies_of_tuple(layout, same, before))
        .selectExpr("*", f"{_common(layout)} AS common")
        .selectExpr("*", *(f"{_left(index)} AS l{index}" for index in layout.sources))
        .selectExpr(
            "*",
            f"row_number() OVER ({order}) AS first",
            *(f"sum(c{index}) OVER ({key}) AS n{index}" for index in layout.sources),
            *(f"sum(l{index}) OVER ({order} {frame}) AS q{index}" for index in layout.sources),
        )
    )


def _partition(names: Sequence[str]) -> str:
    return f"PARTITION BY {', '.join(names)}" if names else ""


def _copies_of_tuple(layout: Layout, same: str, before: Sequence[str]) -> list[str]:
    """`w<source>`: its copies; `b<source>`: those whose text sorts earlier before rules."""
    if not before:
        copies = [f"c{index} AS w{index}" for index in layout.sources]
        return [*copies, *(f"0L AS b{index}" for index in layout.sources)]
    earlier = (
        f"{same} ORDER BY {', '.join(before)} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    )
    return [
        *(f"sum(c{index}) OVER ({same}) AS w{index}" for index in layout.sources),
        *(f"coalesce(sum(c{index}) OVER ({earlier}), 0L) AS b{index}" for index in layout.sources),
    ]


def _common(layout: Layout) -> str:
    """Copies that every source has; a NaN that equals nothing is in common with nothing."""
    strict = [
        f"coalesce(isnan({each.field.name}), FALSE)"
        if each.field.form.kind is FormKind.DOUBLE
        else f"coalesce({each.field.name} = 'NaN', FALSE)"
        for each in layout.compared
        if each.field is not None
        and each.plan.rules.nan is NanRule.UNEQUAL
        and each.field.form.kind in {FormKind.DOUBLE, FormKind.NUMBER}
    ]
    common = f"least({', '.join(f'w{index}' for index in layout.sources)})"
    return f"IF({' OR '.join(strict)}, 0L, {common})" if strict else common


def _left(index: int) -> str:
    """Of equal copies the first ones cancel."""
    return f"c{index} - least(c{index}, greatest(common - b{index}, 0L))"


def _order(layout: Layout) -> list[str]:
    """NULL first, then values, then what is INVALID."""
    found = []
    for field in _compared(layout):
        if field.may_be_invalid:
            found.append(f"{field.payload} NULLS FIRST")
        found.append(f"{canonical_order(field.form, field.name)} NULLS FIRST")
    return found


def even(layout: Layout) -> str:
    """Every source has the group, with equally many rows."""
    first, *others = (f"n{index}" for index in layout.sources)
    return " AND ".join([f"{first} > 0", *(f"{other} = {first}" for other in others)])


def _paired(layout: Layout, tuples: DataFrame) -> DataFrame:
    """Copies become rows with their place, and rows of the same place meet."""
    keys, counts = layout.key_names, [f"n{index}" for index in layout.sources]
    pieces = [f"IF(first = 1, array(struct(0L AS place, -1 AS src)), {_NOTHING})"]
    for index in layout.sources:
        places = (
            f"transform(sequence(q{index} - l{index} + 1L, q{index}), "
            f"at -> struct(at AS place, {index} AS src))"
        )
        pieces.append(f"IF(l{index} > 0 AND {even(layout)}, {places}, {_NOTHING})")
    fields = _compared(layout)
    carried = [label for field in fields for label, _ in field.columns if label != field.raw_order]
    rows = tuples.selectExpr(
        *keys, *counts, *carried, f"inline(concat({', '.join(pieces)})) AS ({PLACE}, src)"
    )
    values = [
        f"max({label}) FILTER (WHERE src = {index}) AS {made}"
        for field in fields
        for index in layout.sources
        for label, made in _named(field, index)
    ]
    grouped = rows.groupBy(*keys, *counts, PLACE)
    ranks = grouped.agg(*map(F.expr, values)) if values else rows.select(*keys, *counts, PLACE)
    return ranks.selectExpr("*", f"{PLACE} = 0 AS {ABOUT_GROUP}", f"{PLACE} > 0 AS {ABOUT_VALUES}")


def _named(field: Field, index: int) -> list[tuple[str, str]]:
    at = f"{field.name[1:]}_{index}"
    found = [(field.name, f"v{at}")]
    if field.may_be_invalid:
        found.append((field.payload, f"x{at}"))
    if field.changes:
        found.append((field.raw, f"r{at}"))
    return found


def _aggregated(layout: Layout, rows: DataFrame) -> DataFrame:
    keys = layout.key_names
    aggregates = [
        Aggregate(measure=measure, source=index)
        for measure in layout.compared
        for index in layout.sources
    ]
    counts = [f"count_if({SOURCE} = {index}) AS n{index}" for index in layout.sources]
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
        f"1L AS {PLACE}",
        f"TRUE AS {ABOUT_GROUP}",
        f"TRUE AS {ABOUT_VALUES}",
    )
