"""Groups that a source made itself, beside rows that this engine groups: one stage, one grouping.

A group is a row with numbers behind it: `pw` rows of the source, `p<measure>n` values that are not
NULL, `p<measure>v` what the source's own function made of them. Other sources' rows have NULL
there. Groups that rules make equal are merged: counts and sums add up, minima have a minimum.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame

from datarecs_core.comparison.planning.plan import InputPlan, StagePlan
from datarecs_core.comparison.planning.scan import GROUP_ROWS, Partial
from datarecs_core.jobs.vocabulary import Function
from datarecs_kernel.layout import Layout, MeasureLayout, Role, total_form
from datarecs_kernel.prepared_values import AMBIGUOUS
from datarecs_spark.aggregates import Aggregate
from datarecs_spark.canonical import name
from datarecs_spark.prepare import OVER, SOURCE, input_value, prepared
from datarecs_spark.read import Delivered

WEIGHT = "pw"
_ROWS = "BIGINT"


class GivenAggregate(Aggregate):
    """One measure of a source that gives groups: its own numbers, merged."""

    def collected(self) -> Iterator[str]:
        field, made = self.measure.field, self._name
        numbers, value = _columns_of(self.measure)
        if field is None:
            yield f"{rows_behind(self.source)} AS {made}"
            return
        if field.may_be_invalid:
            yield f"{self._of_source(f'min({field.payload})')} AS {made}_x"
        if field.role is Role.PRESENCE:
            yield f"coalesce({self._of_source(f'sum({numbers})')}, 0L) AS {made}"
        elif field.role is Role.AMOUNT:
            yield f"coalesce({self._of_source(f'sum({numbers})')}, 0L) AS {made}_n"
            # NULL beside values is an overflow, which the results tell.
            total = f"try_sum({value})"
            yield f"{self._of_source(total)} AS {made}_s"
        else:
            chosen = "max" if self.measure.plan.function is Function.MAX else "min"
            yield f"{self._of_source(f'{chosen}({value})')} AS {made}"

    def steps(self) -> Iterator[list[str]]:
        """The total is given; what is made of it is not."""
        steps = super().steps()
        if next(steps, None) is None or self.measure.field is None:
            return
        total = total_form(self.measure.field.form).sql_type
        yield [f"try_cast({self._name}_s AS {total}) AS {self._name}_t"]
        yield from steps


def gives_groups(stage: StagePlan, source: int) -> bool:
    """Whether a source was asked for groups, and gave them."""
    return stage.scans[source].groups is not None


def aggregate_of(layout: Layout, measure: MeasureLayout, source: int) -> Aggregate:
    """A measure of one source over the rows, or the groups, that it gives."""
    kind = GivenAggregate if gives_groups(layout.stage, source) else Aggregate
    return kind(measure=measure, source=source)


def row_count(layout: Layout, source: int) -> str:
    """Aggregation: how many rows of a source are in a group."""
    if gives_groups(layout.stage, source):
        return rows_behind(source)
    return f"count_if({SOURCE} = {source})"


def rows_behind(source: int) -> str:
    return f"coalesce(sum({WEIGHT}) FILTER (WHERE {SOURCE} = {source}), 0L)"


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
    yield WEIGHT, _ROWS
    for measure in layout.compared:
        field, (numbers, value) = measure.field, _columns_of(measure)
        if field is None:
            continue
        if field.role in {Role.PRESENCE, Role.AMOUNT}:
            yield numbers, _ROWS
        if field.role is not Role.PRESENCE:
            whole = total_form(field.form) if field.role is Role.AMOUNT else field.form
            yield value, whole.sql_type


def _columns_of(measure: MeasureLayout) -> tuple[str, str]:
    return f"p{measure.index}n", f"p{measure.index}v"


def _given(source: Delivered, measure: MeasureLayout, plan: InputPlan | None) -> dict[str, str]:
    """SQL of a measure's columns, by name."""
    field, (numbers, value) = measure.field, _columns_of(measure)
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
