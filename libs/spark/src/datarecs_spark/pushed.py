"""Groups that a source made itself, beside rows of other sources, as the kernel groups them.

A group is a row with numbers behind it, the columns of `datarecs_kernel.partials`; rows of the
other sources have NULL there.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame

from datarecs_core.comparison.planning.plan import InputPlan
from datarecs_core.comparison.planning.scan import GROUP_ROWS, Partial
from datarecs_core.jobs.vocabulary import Function
from datarecs_kernel.layout import Layout, MeasureLayout, Role, total_form
from datarecs_kernel.partials import WEIGHT, partial_columns, partial_names
from datarecs_kernel.prepared_values import AMBIGUOUS
from datarecs_spark.canonical import name
from datarecs_spark.prepare import OVER, SOURCE, input_value, prepared
from datarecs_spark.read import Delivered


def rows_beside(source: Delivered, layout: Layout) -> DataFrame:
    """The prepared rows of a source that gives rows, with the columns that groups have."""
    rows = prepared(source, layout.fields)
    empty = (f"CAST(NULL AS {kind}) AS {label}" for label, kind in _columns(layout))
    return rows.selectExpr("*", *empty)


def prepared_groups(source: Delivered, layout: Layout) -> DataFrame:
    """The groups of a source, in the columns that prepared rows have beside them."""
    numbers = {WEIGHT: name(GROUP_ROWS)}
    for measure in layout.compared:
        numbers |= _given(source, measure, measure.plan.inputs[source.scan.index])
    made = prepared(source, layout.keys, numbers)
    given = {SOURCE, AMBIGUOUS, OVER, *layout.key_names, *numbers}
    fields = [(SOURCE, "INT"), *(column for field in layout.fields for column in field.columns)]
    wanted = [*fields, (AMBIGUOUS, "INT"), (OVER, "STRING"), *_columns(layout)]
    return made.selectExpr(
        *(
            f"CAST({label if label in given else 'NULL'} AS {kind}) AS {label}"
            for label, kind in wanted
        )
    )


def _columns(layout: Layout) -> Iterator[tuple[str, str]]:
    """Name and SQL type of what stands behind a group."""
    return ((label, form.sql_type) for label, form in partial_columns(layout))


def _given(source: Delivered, measure: MeasureLayout, plan: InputPlan | None) -> dict[str, str]:
    """SQL of a measure's columns, by name."""
    field, (numbers, value) = measure.field, partial_names(measure)
    found: dict[str, str] = {}
    if field is None or plan is None:
        return found
    if field.role in {Role.PRESENCE, Role.AMOUNT}:
        found[numbers] = _partial(Function.COUNT, plan)
    if field.role is Role.AMOUNT:
        total = total_form(field.form).sql_type
        found[value] = f"try_cast({_partial(Function.SUM, plan)} AS {total})"
    elif field.role is not Role.PRESENCE:
        chosen = Partial(function=measure.plan.function, column=plan.column).name
        found[value] = input_value(source, field, chosen, plan.type)
    return found


def _partial(function: Function, plan: InputPlan) -> str:
    return name(Partial(function=function, column=plan.column).name)
