"""Groups that a source computed: a relation of them, and how its rows are merged.

Such a relation has the key columns, `dst`, `pw` (the number of source rows of each row), and per
measure `p<measure>n` (the number of values that are not NULL) and `p<measure>v` (the result of the
source's function). Rows that rules map to one group are merged: counts and sums are added, and the
minimum of minima is taken.
"""

from collections.abc import Iterator
from dataclasses import replace

from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_kernel.aggregates import Aggregate, Columns, chosen_function
from datarecs_kernel.forms import INTEGER, Form
from datarecs_kernel.layout import Field, Layout, MeasureLayout, Role, total_form

WEIGHT = "pw"


class PartialAggregate(Aggregate):
    """One measure of a source that returns groups."""

    def collected(self) -> Columns:
        field, name = self.measure.field, self._name
        if field is None:
            return {name: rows_of(WEIGHT)}
        numbers, value = partial_names(self.measure)
        # A source groups only columns without INVALID values.
        columns = {f"{name}_x": "CAST(NULL AS BLOB)"} if field.may_be_invalid else {}
        if field.role is Role.PRESENCE:
            return columns | {name: rows_of(numbers)}
        if field.role is not Role.AMOUNT:
            return columns | {
                name: chosen_function(self.measure.plan.function, replace(field, name=value))
            }
        lost = f"coalesce(bool_or({numbers} > 0 AND {value} IS NULL), FALSE)"
        columns |= {f"{name}_n": rows_of(numbers), f"{name}_lost": lost}
        if field.stateful:
            columns |= {f"{name}_z": "0", f"{name}_rd": "0"}
        return columns | self._sums(field, value)

    @property
    def _is_plain(self) -> bool:
        """A sum that exceeds the type of the source is an overflow as well."""
        return False

    def _sum_form(self, field: Field) -> Form:
        return total_form(field.form)

    def _overflows(self) -> str:
        return f"({self._name}_lost OR {super()._overflows()})"


def delivers_groups(stage: StagePlan, source: int) -> bool:
    """Whether the scan of a source returns groups, so its relation contains groups."""
    return stage.scans[source].groups is not None


def rows_of(weights: str) -> str:
    """Aggregation: the number of rows, or values, from these weights."""
    return f"CAST(coalesce(sum({weights}), 0) AS BIGINT)"


def partial_names(measure: MeasureLayout) -> tuple[str, str]:
    """The columns of a measure: the number of values, and their result."""
    return f"p{measure.index}n", f"p{measure.index}v"


def partial_columns(layout: Layout) -> Iterator[tuple[str, Form]]:
    """Name and form of the columns of a relation of groups, except its keys and `dst`."""
    yield WEIGHT, INTEGER
    for measure in layout.compared:
        field, (numbers, value) = measure.field, partial_names(measure)
        if field is None:
            continue
        if field.role in {Role.PRESENCE, Role.AMOUNT}:
            yield numbers, INTEGER
        if field.role is not Role.PRESENCE:
            yield value, total_form(field.form) if field.role is Role.AMOUNT else field.form
