"""Numbers of the groups that a source computed, in the columns of `partials`."""

from datarecs_core.comparison.planning.plan import InputPlan
from datarecs_core.comparison.planning.scan import GROUP_ROWS, Partial, Scan
from datarecs_core.jobs.vocabulary import Function
from datarecs_kernel.base_columns import base_column, duckdb_type
from datarecs_kernel.delivered import Part
from datarecs_kernel.layout import Layout, MeasureLayout, Role, total_form
from datarecs_kernel.partials import WEIGHT, partial_columns, partial_names
from datarecs_kernel.rules_sql import columns_of
from datarecs_kernel.stored_files import StoredColumn

_COUNTED = frozenset({Role.PRESENCE, Role.AMOUNT})


def group_values(layout: Layout, scan: Scan, part: Part) -> dict[str, str]:
    """SQL of the numbers of each group of a source, by name."""
    made = {WEIGHT: part.partials[GROUP_ROWS].sql}
    for measure in layout.compared:
        plan = measure.plan.inputs[scan.index]
        if plan is not None:
            made |= _values(measure, plan, scan, part)
    return {
        label: f"CAST({made.get(label, 'NULL')} AS {duckdb_type(form.sql_type)})"
        for label, form in partial_columns(layout)
    }


def _values(measure: MeasureLayout, plan: InputPlan, scan: Scan, part: Part) -> dict[str, str]:
    field, (numbers, value) = measure.field, partial_names(measure)
    if field is None:
        return {}

    def partial(function: Function) -> StoredColumn:
        return part.partials[Partial(function=function, column=plan.column).name]

    made = {numbers: partial(Function.COUNT).sql} if field.role in _COUNTED else {}
    if field.role is Role.AMOUNT:
        total = duckdb_type(total_form(field.form).sql_type)
        made[value] = f"TRY_CAST({partial(Function.SUM).sql} AS {total})"
    elif field.role is not Role.PRESENCE:
        base = base_column(partial(measure.plan.function), plan.type, scan.source)
        made[value] = columns_of(field, base)[field.name]
    return made
