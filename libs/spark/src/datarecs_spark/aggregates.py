"""The functions of measures in SQL, per group and source: exact, or an overflow that is told.

A sum never leaves decimals and never depends on the order of rows: what 38 digits might not hold
on the way is added up in parts. Names of columns are `a<measure>_<source>_<part>`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from datarecs_core.jobs.vocabulary import Function, NullAs
from datarecs_kernel.amounts import AmountState
from datarecs_kernel.forms import Form, FormKind, decimal
from datarecs_kernel.layout import MeasureLayout, Role, total_form
from datarecs_spark.canonical import lossless, magnitude, number_order, text_of
from datarecs_spark.prepare import SOURCE

_PLAIN_DIGITS = 28
"""Decimals of so many digits can be added ten thousand million times in 38."""
_HALF = "10000000000000000000BD"
"""10^19: cuts the whole part of a decimal into two halves."""
_COUNT = "DECIMAL(20,0)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One measure of one source over the rows of a group."""

    measure: MeasureLayout
    source: int

    @property
    def _name(self) -> str:
        return f"a{self.measure.index}_{self.source}"

    def _of_source(self, aggregation: str) -> str:
        return f"{aggregation} FILTER (WHERE {SOURCE} = {self.source})"

    def collected(self) -> Iterator[str]:
        """Aggregations over rows, aliased."""
        field, name = self.measure.field, self._name
        if field is None:
            yield f"count_if({SOURCE} = {self.source}) AS {name}"
            return
        if field.may_be_invalid:
            yield f"{self._of_source(f'min({field.payload})')} AS {name}_x"
        if field.role is Role.AMOUNT:
            yield f"{self._of_source(f'count({field.name})')} AS {name}_n"
            for part, summed in parts_of(field.form, field.name).items():
                yield f"{self._of_source(f'sum({summed})')} AS {name}_{part}"
            if field.stateful:
                yield f"coalesce({self._of_source(f'bit_or({field.state})')}, 0) AS {name}_z"
                rounded = (
                    f"{SOURCE} = {self.source} AND {field.state} & {AmountState.ROUNDED:d} > 0"
                )
                yield f"count_if({rounded}) AS {name}_rd"
        else:
            yield f"{self._of_source(_function(self.measure))} AS {name}"

    def steps(self) -> Iterator[list[str]]:
        """Columns computed one after another from the collected ones."""
        field, name = self.measure.field, self._name
        if field is None or field.role is not Role.AMOUNT:
            return
        yield [f"{_total(field.form, name)} AS {name}_t"]
        if self.measure.plan.function is Function.AVG:
            places = self.measure.plan.places or 0
            yield from _average(name, total_form(field.form).scale, places)

    def result(self) -> str:
        """What is compared, before `null` and `round`: NULL where the source's is INVALID."""
        field, name = self.measure.field, self._name
        if field is None:
            return name
        amount = f"{name}_q" if self.measure.plan.function is Function.AVG else f"{name}_t"
        made = amount if field.role is Role.AMOUNT else name
        return f"CASE WHEN {name}_x IS NULL THEN {made} END" if field.may_be_invalid else made

    def columns(self) -> Iterator[str]:
        """`v`, `x`, `r` of the compared value, as every stage has them."""
        measure = self.measure
        at = f"{measure.index}_{self.source}"
        before = self.result()
        yield f"{self._compared(before)} AS v{at}"
        if measure.may_be_invalid:
            yield f"{self._name}_x AS x{at}"
        if measure.changes:
            form = self._exact_form()
            written = lossless if form.kind is FormKind.DOUBLE else text_of
            raw = self._with_specials(written(form, before))
            yield f"{raw} AS r{at}"
        field = measure.field
        if field is not None and field.role is Role.AMOUNT:
            yield f"{self._overflows()} AS o{at}"
            yield f"{self._rounded()} AS w{at}"

    def _rounded(self) -> str:
        """Floats rounded on the way into a sum; none where the sum is special or INVALID."""
        field, name = self.measure.field, self._name
        if field is None or not field.stateful:
            return "0L"
        added = f"{name}_z & 7 = 0"
        if field.may_be_invalid:
            added += f" AND {name}_x IS NULL"
        return f"IF({added}, {name}_rd, 0L)"

    def _exact_form(self) -> Form:
        """Of the result before rules."""
        field, plan = self.measure.field, self.measure.plan
        if field is None or field.role in {Role.PRESENCE, Role.DISTINCT}:
            return self.measure.result
        if field.role is not Role.AMOUNT:
            return field.form
        total = total_form(field.form)
        return decimal(38, plan.places or 0) if plan.function is Function.AVG else total

    def _compared(self, before: str) -> str:
        rules, form = self.measure.plan.rules, self._exact_form()
        value = before
        loses = form.kind is FormKind.DECIMAL and rules.round is not None
        if loses and rules.round is not None and rules.round < form.scale:
            value = f"bround({value}, {rules.round})"
        result = self.measure.result
        if result.kind is FormKind.NUMBER and form.kind is FormKind.DECIMAL:
            value = self._with_specials(text_of(form, value))
        else:
            value = f"CAST({value} AS {result.sql_type})"
        if rules.null is NullAs.KEEP:
            return value
        instead = "''" if rules.null is NullAs.EMPTY else f"CAST(0 AS {result.sql_type})"
        filled = f"coalesce({value}, {instead})"
        field = self.measure.field
        if field is None or not field.may_be_invalid:
            return filled
        return f"CASE WHEN {self._name}_x IS NULL THEN {filled} END"

    def _with_specials(self, written: str) -> str:
        """NaN for any NaN or both infinities, else the infinity."""
        field = self.measure.field
        if field is None or not field.stateful:
            return written
        state = f"{self._name}_z"
        both = f"{state} & 1 > 0 OR {state} & 6 = 6"
        made = (
            f"CASE WHEN {both} THEN 'NaN' WHEN {state} & 2 > 0 THEN 'Inf' "
            f"WHEN {state} & 4 > 0 THEN '-Inf' ELSE {written} END"
        )
        return f"CASE WHEN {self._name}_x IS NULL THEN {made} END" if field.may_be_invalid else made

    def _overflows(self) -> str:
        """A sum that 38 digits do not hold, with no special value or INVALID before it."""
        field, name = self.measure.field, self._name
        last = f"{name}_q" if self.measure.plan.function is Function.AVG else f"{name}_t"
        found = f"{name}_n > 0 AND {last} IS NULL"
        if field is not None and field.stateful:
            found = f"{name}_z & 7 = 0 AND ({found} OR {name}_z & 8 > 0)"
        if field is not None and field.may_be_invalid:
            found = f"{name}_x IS NULL AND ({found})"
        return f"({found})"


def _function(measure: MeasureLayout) -> str:
    field, function = measure.field, measure.plan.function
    if field is None:
        raise TypeError("a count of rows has no input")
    match function:
        case Function.COUNT:
            return f"count({field.name})"
        case Function.COUNT_DISTINCT:
            return f"count(DISTINCT {field.name})"
        case _:
            chosen = "max" if function is Function.MAX else "min"
            if field.form.kind is FormKind.NUMBER:
                return f"{chosen}_by({field.name}, {number_order(field.name)})"
            return f"{chosen}({field.name})"


def parts_of(form: Form, value: str) -> dict[str, str]:
    """What is added up: the value itself, or its halves before the point and what is behind it."""
    if form.precision <= _PLAIN_DIGITS:
        return {"s": value}
    fraction = f"{value} % 1BD"
    whole = f"CAST({value} - {fraction} AS DECIMAL(38,0))"
    low = f"{whole} % {_HALF}"
    return {"hi": f"CAST(({whole} - {low}) / {_HALF} AS {_COUNT})", "lo": low, "fr": fraction}


def _total(form: Form, name: str) -> str:
    """The sum; NULL without a value, and where it needs more digits than there are."""
    if form.precision <= _PLAIN_DIGITS:
        return f"{name}_s"
    wanted = total_form(form).sql_type
    whole = f"try_add(try_multiply({name}_hi, {_HALF}), {name}_lo)"
    return f"try_add(try_cast({whole} AS {wanted}), try_cast({name}_fr AS {wanted}))"


def _average(name: str, scale: int, places: int) -> Iterator[list[str]]:
    """The exact quotient, rounded half-even once: whole numbers of units all the way.

    Long division in base 10^19, since a quotient of Spark's has at most 28 digits before the point.
    """
    written = f"CAST({magnitude(f'{name}_t')} AS STRING)"
    units = f"CAST(replace({written}, '.', '') AS DECIMAL(38,0))"
    more, less = max(places - scale, 0), max(scale - places, 0)
    count = f"CAST(nullif({name}_n, 0) AS {_COUNT})"
    divisor = count if less == 0 else f"CAST({count} * {10**less}BD AS DECIMAL(38,0))"
    yield [f"{units} AS {name}_u", f"{divisor} AS {name}_d"]
    yield [f"{name}_u % {_HALF} AS {name}_ul"]
    yield [f"{_cast(f'({name}_u - {name}_ul) / {_HALF}')} AS {name}_uh"]
    yield from _divided(f"{name}_uh", f"{name}_d", f"{name}_qh")
    carried = f"try_add(try_multiply({name}_qh_r, {_HALF}), {name}_ul)"
    yield [f"{_cast(carried)} AS {name}_c"]
    yield from _divided(f"{name}_c", f"{name}_d", f"{name}_ql")
    yield [f"{_cast(f'try_multiply({name}_ql_r, {10**more}BD)')} AS {name}_m"]
    yield from _divided(f"{name}_m", f"{name}_d", f"{name}_qm")
    whole = f"try_add(try_multiply({name}_qh, {_HALF}), {name}_ql)"
    shifted = f"try_add(try_multiply({_cast(whole)}, {10**more}BD), {name}_qm)"
    yield [f"{_cast(shifted)} AS {name}_qs"]
    twice = f"({name}_qm_r * 2BD)"
    up = f"{twice} > {name}_d OR ({twice} = {name}_d AND {name}_qs % 2BD = 1BD)"
    sign = f"IF({name}_t < 0, -1BD, 1BD)"
    made = _cast(f"try_multiply(try_add({name}_qs, IF({up}, 1BD, 0BD)), {sign})")
    unit = f"CAST('1E-{places}' AS DECIMAL({places},{places}))" if places else "1BD"
    yield [f"try_cast(try_multiply({made}, {unit}) AS DECIMAL(38,{places})) AS {name}_q"]


def _cast(sql: str) -> str:
    return f"try_cast({sql} AS DECIMAL(38,0))"


def _divided(number: str, divisor: str, name: str) -> Iterator[list[str]]:
    """Quotient and remainder (`<name>_r`) of numbers that are not negative."""
    yield [f"{_cast(f'{number} % {divisor}')} AS {name}_r"]
    yield [f"{_cast(f'try_divide({number} - {name}_r, {divisor})')} AS {name}"]
