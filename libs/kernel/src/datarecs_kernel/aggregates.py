"""The functions of measures in DuckDB's SQL, per group of one source: exact, or an overflow.

Sums are whole units, so the order of rows has no effect and nothing wraps. Columns of a measure
before its result are `a<measure>_<part>`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from datarecs_core.jobs.vocabulary import Function, NullAs
from datarecs_kernel.amounts import AmountState
from datarecs_kernel.encoding import number_order, number_text
from datarecs_kernel.exact_sums import (
    PART_DIGITS,
    Part,
    halves_of,
    large_part,
    parts_of,
    small_part,
)
from datarecs_kernel.forms import Form, FormKind, decimal
from datarecs_kernel.layout import Field, MeasureLayout, Role, total_form
from datarecs_kernel.whole_sql import (
    average,
    divided,
    limited,
    pointed,
    units_of_decimal,
    written,
)

Columns = dict[str, str]
"""SQL by name."""
_CUT = 10**PART_DIGITS
_MOST = 10**10
"""Of `_CUT`, in 38 digits."""
_SPECIAL = AmountState.NAN | AmountState.POSITIVE | AmountState.NEGATIVE
_BOTH = AmountState.POSITIVE | AmountState.NEGATIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One measure of one source over the rows of a group."""

    measure: MeasureLayout
    source: int
    in_parts: bool = False
    """Sums of more than 28 digits are added up in parts, which cannot overflow on the way."""

    @property
    def at(self) -> str:
        """Suffix of its result columns, after their letter."""
        return f"{self.measure.index}_{self.source}"

    @property
    def _name(self) -> str:
        return f"a{self.measure.index}"

    @property
    def _amount(self) -> Field | None:
        field = self.measure.field
        return field if field is not None and field.role is Role.AMOUNT else None

    @property
    def _is_plain(self) -> bool:
        """A sum that needs no units: DuckDB's sum is exact, and there are no digits to round."""
        amount, plan = self._amount, self.measure.plan
        if amount is None or plan.function is Function.AVG or amount.stateful:
            return False
        return self._is_whole(amount.form) and not self._lost_digits(amount.form)

    def collected(self) -> Columns:
        """Aggregations over rows."""
        field, name = self.measure.field, self._name
        if field is None:
            return {name: "count(*)"}
        columns = {f"{name}_x": f"min({field.payload})"} if field.may_be_invalid else {}
        if field.role is Role.AMOUNT:
            return columns | self._added(field)
        return columns | {name: chosen_function(self.measure.plan.function, field)}

    def _added(self, field: Field) -> Columns:
        name = self._name
        columns = {f"{name}_n": f"count({field.name})", **self._sums(field, field.name)}
        if field.stateful:
            columns[f"{name}_z"] = f"coalesce(bit_or({field.state}), 0)"
            rounded = f"{field.state} & {AmountState.ROUNDED:d} > 0"
            columns[f"{name}_rd"] = f"count(*) FILTER (WHERE {rounded})"
        return columns

    def _sums(self, field: Field, value: str) -> Columns:
        """Aggregations of a column with the summands."""
        name, form = self._name, self._sum_form(field)
        if self._is_whole(form):
            return {f"{name}_s": f"sum({value})"}
        return {
            f"{name}_hi": f"sum({large_part(form, value)})",
            f"{name}_lo": f"sum({small_part(form, value)})",
        }

    def _sum_form(self, field: Field) -> Form:
        """Aggregations of the summands."""
        return field.form

    def _is_whole(self, form: Form) -> bool:
        """Values are added without conversion."""
        return form.precision <= PART_DIGITS or not self.in_parts

    def steps(self) -> Iterator[Columns]:
        """Columns computed in order from the aggregated ones: `_u`, units of the result.

        NULL without a value, and if it needs more than 38 digits.
        """
        name, amount = self._name, self._amount
        if self._is_plain:
            return
        if amount is not None:
            yield from self._summed(self._sum_form(amount))
            if self.measure.plan.function is Function.AVG:
                more = self._exact_form.scale - amount.form.scale
                yield {f"{name}_q": limited_average(f"{name}_t", f"{name}_n", more)}
        elif self._lost_digits(self._exact_form):
            yield {f"{name}_t": units_of_decimal(name)}
        else:
            return
        yield {f"{name}_u": self._rounded(self._units)}

    def _summed(self, form: Form) -> Iterator[Columns]:
        name = self._name
        if self._is_whole(form):
            yield {f"{name}_t": units_of_decimal(f"{name}_s")}
            return
        yield {f"{name}_lu": units_of_decimal(f"{name}_lo")}
        high = f"{name}_hi + {name}_lu // {_CUT}"
        yield {f"{name}_h": high, f"{name}_l": f"{name}_lu % {_CUT}"}
        fits = f"{name}_h BETWEEN -{_MOST} AND {_MOST}"
        yield {f"{name}_w": f"CASE WHEN {fits} THEN {name}_h * {_CUT} + {name}_l END"}
        yield {f"{name}_t": limited(f"{name}_w")}

    @property
    def _units(self) -> str:
        """Before rules."""
        return f"{self._name}_{'q' if self.measure.plan.function is Function.AVG else 't'}"

    def _rounded(self, units: str) -> str:
        lost = self._lost_digits(self._exact_form)
        return divided(units, f"CAST({10**lost} AS HUGEINT)") if lost else units

    def _lost_digits(self, form: Form) -> int:
        """Digits that `round` removes from decimals of a form."""
        places = self.measure.plan.rules.round
        if form.kind is not FormKind.DECIMAL or places is None:
            return 0
        return max(form.scale - places, 0)

    @property
    def _exact_form(self) -> Form:
        """The form of the result before rules."""
        field, plan = self.measure.field, self.measure.plan
        if field is None or field.role in {Role.PRESENCE, Role.DISTINCT}:
            return self.measure.result
        if field.role is not Role.AMOUNT:
            return field.form
        return (
            decimal(38, plan.places or 0)
            if plan.function is Function.AVG
            else total_form(field.form)
        )

    @property
    def _scale(self) -> int:
        """The scale of the units of the result."""
        return self._exact_form.scale - self._lost_digits(self._exact_form)

    def columns(self) -> Columns:
        """`v`, `x`, `r` of the compared value; `o`, `w` and `t` if they exist."""
        measure, at = self.measure, self.at
        results = {f"v{at}": self._if_valid(self._filled(self._compared()))}
        if measure.may_be_invalid:
            results[f"x{at}"] = f"{self._name}_x"
        if measure.changes:
            results[f"r{at}"] = self._if_valid(self._before())
        if self.may_overflow:
            results[f"o{at}"] = self._overflows()
        if self.may_round:
            results[f"w{at}"] = f"CASE WHEN {self._is_finite()} THEN {self._name}_rd ELSE 0 END"
            results[f"t{at}"] = f"CASE WHEN {self._is_finite()} THEN {self._name}_u END"
        return results

    @property
    def may_overflow(self) -> bool:
        """Whether a column `o` marks the groups with a result of more than 38 digits."""
        return self._amount is not None and not self._is_plain

    @property
    def may_round(self) -> bool:
        """Columns `w` and `t`: floats rounded on the way into a sum, and the units of the sum."""
        return self._amount is not None and self._amount.stateful

    def totals(self) -> tuple[Part, ...]:
        """The summand from `columns` for the total of all groups."""
        if self._amount is None or not self._amount.stateful:
            return parts_of(self.measure.result, f"v{self.at}")
        halves = halves_of(f"t{self.at}")
        return tuple(Part(sql, weight - self._scale) for sql, weight in halves)

    def _compared(self) -> str:
        name, result = self._name, self.measure.result
        if self._is_plain:
            return f"CAST({name}_s AS {result.sql_type})"
        if self._amount is not None and result.kind is FormKind.NUMBER:
            return self._with_specials(written(f"{name}_u", self._scale))
        if self._amount is not None or self._lost_digits(self._exact_form):
            return f"CAST({pointed(f'{name}_u', self._scale)} AS {result.sql_type})"
        return f"CAST({name} AS {result.sql_type})"

    def _filled(self, value: str) -> str:
        """After `null`."""
        match self.measure.plan.rules.null:
            case NullAs.KEEP:
                return value
            case NullAs.EMPTY:
                return f"coalesce({value}, '')"
            case NullAs.ZERO:
                return f"coalesce({value}, CAST(0 AS {self.measure.result.sql_type}))"

    def _before(self) -> str:
        """The canonical text before `null` and `round`."""
        name, form = self._name, self._exact_form
        if self._is_plain:
            return number_text(form, f"CAST({name}_s AS {form.sql_type})")
        if self._amount is not None:
            return self._with_specials(written(self._units, form.scale))
        return number_text(form, name) if form.is_number else f"CAST({name} AS VARCHAR)"

    def _if_valid(self, value: str) -> str:
        field = self.measure.field
        if field is None or not field.may_be_invalid:
            return value
        return f"CASE WHEN {self._name}_x IS NULL THEN {value} END"

    def _with_specials(self, value: str) -> str:
        """NaN for any NaN or both infinities, else the infinity."""
        if self._amount is None or not self._amount.stateful:
            return value
        state = f"{self._name}_z"
        nan = f"{state} & {AmountState.NAN:d} > 0 OR {state} & {_BOTH:d} = {_BOTH:d}"
        return (
            f"CASE WHEN {nan} THEN 'NaN' WHEN {state} & {AmountState.POSITIVE:d} > 0 THEN 'Inf' "
            f"WHEN {state} & {AmountState.NEGATIVE:d} > 0 THEN '-Inf' ELSE {value} END"
        )

    def _is_finite(self) -> str:
        """No special value and no INVALID value."""
        tests = (
            [f"{self._name}_z & {_SPECIAL:d} = 0"] if self._amount and self._amount.stateful else []
        )
        if self.measure.may_be_invalid:
            tests.append(f"{self._name}_x IS NULL")
        return " AND ".join(tests) or "TRUE"

    def _overflows(self) -> str:
        name = self._name
        tests = f"{name}_n > 0 AND {self._units} IS NULL"
        if self._amount is not None and self._amount.stateful:
            tests = f"({tests}) OR {name}_z & {AmountState.WIDE:d} > 0"
        return f"({self._is_finite()} AND ({tests}))"


def limited_average(units: str, count: str, more: int) -> str:
    """`whole_sql.average` of at most 38 digits."""
    return limited(f"({average(units, count, more)})")


def chosen_function(function: Function, field: Field) -> str:
    """The aggregation of a count, a minimum or a maximum."""
    value = field.name
    match function:
        case Function.COUNT:
            return f"count({value})"
        case Function.COUNT_DISTINCT:
            return f"count(DISTINCT {value})"
        case _:
            chosen = "max" if function is Function.MAX else "min"
            if field.form.kind is FormKind.NUMBER:
                return f"arg_{chosen}({value}, {number_order(value)})"
            return f"{chosen}({value})"
