"""One table of all groups: a row per key, with the rows and results of every source.

Each source is grouped separately and read once; the groups are joined in full joins, which spill.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb

from datarecs_core.jobs.vocabulary import NanRule, NullKeys
from datarecs_kernel.aggregates import Aggregate, Columns
from datarecs_kernel.database import Connection
from datarecs_kernel.forms import Form, FormKind
from datarecs_kernel.layout import Field, Layout, MeasureLayout
from datarecs_kernel.partials import WEIGHT, PartialAggregate, delivers_groups, rows_of

GROUPS = "compared_groups"
"""The table: keys, `n<source>`, and the columns of `Aggregate` for each measure and source."""


@contextmanager
def group_table(
    connection: Connection, layout: Layout, relations: Sequence[str]
) -> Iterator[tuple[Aggregate, ...]]:
    """Create the table of a stage with functions that aggregate rows, and drop it at the end."""
    aggregates = _aggregates(layout, in_parts=False)
    try:
        _store(connection, _query(layout, relations, aggregates))
    except duckdb.OutOfRangeException:
        # A sum has exceeded 38 digits, possibly only an intermediate one.
        aggregates = _aggregates(layout, in_parts=True)
        _store(connection, _query(layout, relations, aggregates))
    try:
        yield tuple(each for source_aggregates in aggregates for each in source_aggregates)
    finally:
        connection.execute(f"DROP TABLE {GROUPS}").fetchall()


def _aggregates(layout: Layout, *, in_parts: bool) -> list[list[Aggregate]]:
    """Per source."""
    aggregates = []
    for index in layout.sources:
        kind = PartialAggregate if delivers_groups(layout.stage, index) else Aggregate
        aggregates.append(
            [kind(measure=each, source=index, in_parts=in_parts) for each in layout.compared]
        )
    return aggregates


def _query(
    layout: Layout, relations: Sequence[str], aggregates: Sequence[Sequence[Aggregate]]
) -> str:
    parts = [
        _grouped(layout, relation, index, aggregates[index])
        for index, relation in enumerate(relations)
    ]
    counts = (f"coalesce(n{index}, 0) AS n{index}" for index in layout.sources)
    query = f"SELECT * REPLACE ({', '.join(counts)}) FROM ({_joined(layout.key_names, parts)})"
    if layout.keys or layout.always_present:
        return query
    # Without keys DuckDB also returns a group for no rows.
    return f"{query} WHERE {' OR '.join(f'n{index} > 0' for index in layout.sources)}"


@contextmanager
def stored_groups(connection: Connection, query: str) -> Iterator[None]:
    """Store the result of a query as the table of groups."""
    _store(connection, query)
    try:
        yield
    finally:
        connection.execute(f"DROP TABLE {GROUPS}").fetchall()


def _store(connection: Connection, query: str) -> None:
    connection.execute(f"CREATE TEMP TABLE {GROUPS} AS {query}").fetchall()


def null_key(keys: Sequence[Field]) -> str:
    """Whether any part of the key is NULL; an INVALID part is not."""
    parts = [
        f"({field.name} IS NULL AND {field.payload} IS NULL)"
        if field.may_be_invalid
        else f"{field.name} IS NULL"
        for field in keys
    ]
    return f"({' OR '.join(parts)})" if parts else "FALSE"


def grouped_rows(layout: Layout) -> str:
    """Condition: the rows of a relation that have a group."""
    excludes = layout.stage.null_keys is NullKeys.EXCLUDE
    return f"NOT {null_key(layout.keys)}" if excludes else "TRUE"


def open_groups(layout: Layout) -> str:
    """Condition: the group is not fully equal, or has a value that equals nothing."""
    if len(layout.compared) < len(layout.measures):
        # A measure that is not comparable differs in every matched group.
        return "TRUE"
    tests = [] if layout.always_present else [f"n{index} = 0" for index in layout.sources]
    for measure in layout.compared:
        tests += unequal(layout, measure)
    return f"({' OR '.join(tests) or 'FALSE'})"


def unequal(layout: Layout, measure: MeasureLayout) -> Iterator[str]:
    """Conditions over a group's row; at least one is true if a measure differs."""
    letters = "vx" if measure.may_be_invalid else "v"
    for letter in letters:
        first, *others = (f"{letter}{measure.index}_{index}" for index in layout.sources)
        yield from (f"{first} IS DISTINCT FROM {other}" for other in others)
    if measure.plan.rules.nan is NanRule.UNEQUAL:
        yield is_nan(measure.result, f"v{measure.index}_0")


def is_nan(form: Form, value: str) -> str:
    """Whether a value is a NaN; never NULL."""
    match form.kind:
        case FormKind.DOUBLE:
            return f"coalesce(isnan({value}), FALSE)"
        case FormKind.NUMBER:
            return f"coalesce({value} = 'NaN', FALSE)"
        case _:
            return "FALSE"


def _grouped(layout: Layout, relation: str, source: int, aggregates: Sequence[Aggregate]) -> str:
    """Keys, `n<source>` and results of one source."""
    keys = layout.key_names
    rows = rows_of(WEIGHT) if delivers_groups(layout.stage, source) else "count(*)"
    collected: Columns = {f"n{source}": rows}
    for each in aggregates:
        collected |= each.collected()
    query = f"SELECT {_named(keys, collected)} FROM {relation} WHERE {grouped_rows(layout)}"
    if keys:
        query += f" GROUP BY {', '.join(keys)}"
    steps = [list(each.steps()) for each in aggregates]
    for depth in range(max(map(len, steps), default=0)):
        made: Columns = {}
        for aggregate_steps in steps:
            made |= aggregate_steps[depth] if depth < len(aggregate_steps) else {}
        query = f"SELECT {_named(['*'], made)} FROM ({query})"
    results: Columns = {}
    for each in aggregates:
        results |= each.columns()
    return f"SELECT {_named([*keys, f'n{source}'], results)} FROM ({query})"


def _named(plain: Sequence[str], columns: Columns) -> str:
    return ", ".join([*plain, *(f"{sql} AS {name}" for name, sql in columns.items())])


def _joined(keys: Sequence[str], parts: Sequence[str]) -> str:
    """The groups of all sources by key; `n<source>` is NULL if the group is missing in a source."""
    whole, *others = parts
    for index, other in enumerate(others, start=1):
        if not keys:
            whole = f"SELECT * FROM ({whole}) a, ({other}) b"
            continue
        same = " AND ".join(f"a.{key} IS NOT DISTINCT FROM b.{key}" for key in keys)
        either = ", ".join(
            f"CASE WHEN b.n{index} IS NULL THEN a.{key} ELSE b.{key} END AS {key}" for key in keys
        )
        rest = f"EXCLUDE ({', '.join(keys)})"
        whole = (
            f"SELECT {either}, a.* {rest}, b.* {rest} FROM ({whole}) a FULL JOIN ({other}) b "
            f"ON {same}"
        )
    return whole
