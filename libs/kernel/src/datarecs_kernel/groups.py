"""Aggregate, counts and digest stages: groups are computed and compared in DuckDB.

Fully equal groups are only counted there; open groups are streamed and judged.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import pyarrow as pa

from datarecs_core.jobs.vocabulary import StageType
from datarecs_kernel.aggregates import Aggregate
from datarecs_kernel.counted import Counted
from datarecs_kernel.database import Connection, read_batches
from datarecs_kernel.exact_sums import read_sum
from datarecs_kernel.fingerprints import bucket_table
from datarecs_kernel.group_table import GROUPS, group_table, open_groups, stored_groups
from datarecs_kernel.judging import Judge
from datarecs_kernel.layout import Layout
from datarecs_kernel.open_groups import FIRST
from datarecs_kernel.settling import SinkPlan
from datarecs_kernel.storing import Stores


def compare_groups(
    connection: Connection, plan: SinkPlan, relations: Sequence[str], attempt: str
) -> Counted:
    """Compare a stage with functions that aggregate rows, or that adds fingerprints.

    Args:
        connection: a database without concurrent queries.
        plan: of the stage.
        relations: per source, in the columns of the layout's rows; each is read once.
        attempt: part of the names of written files.
    """
    if plan.layout.hashed is not None:
        buckets = bucket_table(connection, plan.layout.hashed, plan.key, relations)
        connection.register("bucket_rows", buckets)
        try:
            with stored_groups(connection, "SELECT * FROM bucket_rows"):
                return _compared(connection, plan, (), attempt)
        finally:
            connection.unregister("bucket_rows")
    with group_table(connection, plan.layout, relations) as aggregates:
        return _compared(connection, plan, aggregates, attempt)


def _compared(
    connection: Connection, plan: SinkPlan, aggregates: Sequence[Aggregate], attempt: str
) -> Counted:
    """Count, judge and store the groups of the table."""
    stores = Stores(plan, attempt, connection)
    _add_equal(connection, plan.layout, stores.counted)
    _add_sums(connection, aggregates, stores.counted)
    judge: Judge | None = None
    for batch in _open_rows(connection, plan.layout):
        judge = judge or Judge(plan.layout, plan.key, batch.schema.names, stores.counted)
        judged = judge.add(batch)
        if judged is not None:
            stores.add(judged)
    judged = None if judge is None else judge.finish()
    if judged is not None:
        stores.add(judged)
    return stores.leave()


def _open_rows(connection: Connection, layout: Layout) -> Iterator[pa.RecordBatch]:
    query = f"SELECT *, TRUE AS {FIRST} FROM {GROUPS} WHERE {open_groups(layout)}"
    return read_batches(connection, query)


def _add_equal(connection: Connection, layout: Layout, counted: Counted) -> None:
    """Groups that are equal everywhere, as numbers."""
    sources, stage = layout.sources, layout.stage
    is_repeated = [f"n{index} > 1" for index in sources]
    if stage.type is not StageType.ROW:
        is_repeated = ["FALSE" for _ in sources]  # Their groups are not keys that may repeat.
    sums = [f"sum(n{index})" for index in sources]
    query = (
        f"SELECT {', '.join([*is_repeated, *sums])}, count(*) FROM {GROUPS} "
        f"WHERE NOT {open_groups(layout)} GROUP BY {', '.join(is_repeated)}"
    )
    for row in connection.execute(query).fetchall():
        flags, sizes, groups = row[: len(sources)], row[len(sources) : -1], row[-1]
        repeated = sum(1 << index for index in sources if flags[index])
        counted.groups[stage.everywhere, repeated, False, None] += groups
        for index, rows in enumerate(sizes):
            counted.grouped[index] += int(rows)


def _add_sums(connection: Connection, aggregates: Sequence[Aggregate], counted: Counted) -> None:
    """Totals over all groups, overflows and rounded floats."""
    parts = [(each, each.totals()) for each in aggregates if each.measure.plan.has_total]
    overflowing = [each for each in aggregates if each.may_overflow]
    rounding = [each for each in aggregates if each.may_round]
    columns = [f"sum({part.sql})" for _, totals in parts for part in totals]
    columns += [f"coalesce(bool_or(o{each.at}), FALSE)" for each in overflowing]
    columns += [f"coalesce(sum(w{each.at}), 0)" for each in rounding]
    if not columns:
        return
    query = f"SELECT {', '.join(columns)} FROM {GROUPS}"
    (row,) = connection.execute(query).fetchall()
    values = iter(row)
    for each, totals in parts:
        counted.totals[each.measure.index, each.source] = read_sum(
            totals, list(islice(values, len(totals)))
        )
    for each in overflowing:
        if next(values):
            counted.overflows.add((each.measure.index, each.source))
    for each in rounding:
        counted.rounded[each.source] += int(next(values))
