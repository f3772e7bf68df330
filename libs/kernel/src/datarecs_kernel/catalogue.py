"""The columns of every source as rows, for schema stages; the plan contains all of them."""

from collections.abc import Sequence

from datarecs_core.comparison.planning.cataloguing import (
    CATALOGUE_COLUMNS,
    column_rows,
    over_columns,
)
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.scan import Scan
from datarecs_kernel.base_columns import base_column, duckdb_type
from datarecs_kernel.condition_sql import TypedBase
from datarecs_kernel.database import sql_text
from datarecs_kernel.delivered import Delivered, Part
from datarecs_kernel.forms import form_of
from datarecs_kernel.stored_files import StoredColumn


def list_columns(stage: StagePlan) -> list[Delivered]:
    """One row per column of each source, instead of the source's rows; nothing is read."""
    return [
        _list(scan, rows)
        for scan, rows in zip(over_columns(stage).scans, column_rows(stage), strict=True)
    ]


def _list(scan: Scan, rows: Sequence[tuple[object, ...]]) -> Delivered:
    stored = {
        column.name: StoredColumn(sql=f"c{at}", type=_kind(at))
        for at, column in enumerate(CATALOGUE_COLUMNS)
    }
    columns = {
        column.name: TypedBase(
            type=column.type, base=base_column(stored[column.name], column.type, scan.source)
        )
        for column in CATALOGUE_COLUMNS
    }
    labels = ", ".join(column.sql for column in stored.values())
    lines = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
    part = Part(table=f"(VALUES {lines}) AS stored({labels})", columns=columns, passing=())
    return Delivered(
        scan=scan,
        files=None,
        parts=(part,) if rows else (),
        checked=frozenset(),
        wide=frozenset(),
        pinned_rows=len(rows),
    )


def _kind(at: int) -> str:
    form = form_of([CATALOGUE_COLUMNS[at].type])
    if form is None:
        raise TypeError("columns of a catalogue are plain")
    return duckdb_type(form.sql_type)


def _literal(value: object) -> str:
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return f"{value}::BIGINT"
        case _:
            return sql_text(str(value))
