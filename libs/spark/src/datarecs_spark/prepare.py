"""From delivered columns to prepared ones: every source in the same columns, ready to be united.

Map, cast and rules of a column happen here, in SQL where it can, in one Arrow step where it cannot
(`python_columns`). What comes out is equal across sources exactly when it is canonically equal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType

from pyspark.sql import DataFrame

from datarecs_core.comparison.planning.plan import InputPlan
from datarecs_core.comparison.planning.rules import Rules
from datarecs_core.comparison.values.normalizing import WHITE_SPACE
from datarecs_core.jobs.types import CanonicalType, TypeKind
from datarecs_core.jobs.vocabulary import EmptyText, NullAs, Rounding, Trim
from datarecs_kernel.forms import MICROS_DIGITS, NUMBER, Form, FormKind, form_of
from datarecs_kernel.layout import Field, Role
from datarecs_kernel.prepared_values import AMBIGUOUS, ColumnInput
from datarecs_kernel.sort_keys import BROKEN, VALID
from datarecs_spark.canonical import (
    invalid_payload,
    invalid_text,
    lossless,
    name,
    plain_number,
    sort_key,
    text_literal,
    text_of,
)
from datarecs_spark.python_columns import python_step
from datarecs_spark.read import INVALID, Delivered

SOURCE = "s"
"""Column: index of the source."""
OVER = "large"
"""Column: name of a column of the source whose value is above its limit, in hexadecimal; NULL."""
_LARGE = frozenset({TypeKind.TEXT, TypeKind.BINARY})
_TRIMS = {Trim.BOTH: "BOTH", Trim.LEFT: "LEADING", Trim.RIGHT: "TRAILING"}
_WIDEST = 38
NOTHING: Mapping[str, str] = MappingProxyType({})


def prepared(
    delivered: Delivered, fields: tuple[Field, ...], beside: Mapping[str, str] = NOTHING
) -> DataFrame:
    """The columns of the fields for one source: `s`, fields and companions, `dst`, `large`.

    Columns `beside` them, SQL of delivered ones by name, come last.
    """
    index = delivered.scan.index
    large = _over(delivered, [field.inputs[index] for field in fields])
    columns = [f"{index} AS {SOURCE}", f"{large} AS {OVER}"]
    columns += [f"{sql} AS {label}" for label, sql in beside.items()]
    steps: list[ColumnInput] = []
    for field in fields:
        plan = field.inputs[index]
        if plan is not None and field.python[index]:
            base = _base(delivered, plan)
            columns += [f"{base.value} AS {field.name}", f"{base.invalid} AS {field.payload}"]
            steps.append(
                ColumnInput(field=field, plan=plan, source=delivered.source, base=base.form)
            )
        else:
            columns += in_sql(delivered, field, plan)
    rows = delivered.rows.selectExpr(*columns)
    if steps:
        rows = python_step(rows, tuple(steps))
    wanted = [(SOURCE, "INT"), *(column for field in fields for column in field.columns)]
    last = f"{AMBIGUOUS if steps else '0'} AS {AMBIGUOUS}"
    typed = (f"CAST({label} AS {kind}) AS {label}" for label, kind in wanted)
    return rows.selectExpr(*typed, last, OVER, *beside)


def united(parts: Sequence[DataFrame]) -> DataFrame:
    """The prepared rows of all sources."""
    return reduce(DataFrame.union, parts)


def _over(delivered: Delivered, plans: Sequence[InputPlan | None]) -> str:
    """As delivered; who groups the rows refuses them (`limiting`)."""
    limit = delivered.scan.limits.max_value_bytes
    columns = {plan.column for plan in plans if plan is not None and plan.type.kind in _LARGE}
    tests = [
        f"WHEN {_bytes(delivered, column)} > {limit} THEN '{column.encode().hex()}'"
        for column in sorted(columns)
    ]
    return f"CASE {' '.join(tests)} END" if tests else "CAST(NULL AS STRING)"


def _bytes(delivered: Delivered, column: str) -> str:
    own = f"octet_length({name(column)})"
    if column not in delivered.checked:
        return own
    return f"coalesce({own}, octet_length({name(INVALID + column)}))"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """A delivered column in the form of its own type, before map, cast and rules."""

    form: Form
    value: str
    invalid: str
    """Payload, or `CAST(NULL AS BINARY)`."""


def _base(delivered: Delivered, plan: InputPlan) -> _Base:
    column, kind = name(plan.column), plan.type
    form = form_of([kind], wide_integers=plan.column in delivered.wide)
    if form is None:
        raise TypeError(f"{kind} has no form, which `check_covered` should have said")
    companion = name(f"{INVALID}{plan.column}")
    invalid = "CAST(NULL AS BINARY)"
    if plan.column in delivered.checked:
        payload = invalid_payload(delivered.source, companion)
        invalid = f"CASE WHEN {companion} IS NOT NULL THEN {payload} END"
    if form.kind is FormKind.NUMBER:
        return _bare_numeric(delivered.source, column, invalid)
    return _Base(form=form, value=_typed(kind, form, column), invalid=invalid)


def _typed(kind: CanonicalType, form: Form, column: str) -> str:  # noqa: PLR0911  one per kind
    match kind.kind:
        case TypeKind.FLOAT32 | TypeKind.FLOAT64:
            # Adding zero turns -0.0 into 0.0, and nothing else into anything else.
            return f"(CAST({column} AS DOUBLE) + 0D)"
        case TypeKind.DATE:
            return f"CAST(unix_date({column}) AS BIGINT)"
        case _ if form.is_finer:
            return column
        case TypeKind.INSTANT:
            return f"unix_micros({column})"
        case TypeKind.LOCAL_TIMESTAMP:
            return f"unix_micros(CAST({column} AS TIMESTAMP))"
        case TypeKind.UUID:
            return f"unhex(replace({column}, '-', ''))"
        case TypeKind.TEXT | TypeKind.BINARY | TypeKind.BOOL | TypeKind.JSON:
            return column
        case _:
            return f"CAST({column} AS {form.sql_type})"


def _bare_numeric(source: str, column: str, invalid: str) -> _Base:
    """Text of a number; what needs more than 38 digits is INVALID."""
    plain = plain_number(column)
    written = (
        f"CASE {column} WHEN 'Infinity' THEN 'Inf' WHEN '-Infinity' THEN '-Inf' "
        f"WHEN '-0' THEN '0' ELSE {plain} END"
    )
    digits = f"length(translate({plain}, '-.', '')) - IF({plain} RLIKE '^-?0', 1, 0)"
    wide = f"({column} NOT IN ('NaN', 'Infinity', '-Infinity') AND {digits} > {_WIDEST})"
    payload = invalid_payload(source, f"CAST({column} AS BINARY)")
    return _Base(
        form=NUMBER,
        value=f"CASE WHEN NOT {wide} THEN {written} END",
        invalid=f"CASE WHEN {wide} THEN {payload} ELSE {invalid} END",
    )


def in_sql(delivered: Delivered, field: Field, plan: InputPlan | None) -> list[str]:
    """A field and its companions, where no step in Python is needed; NULL without a column."""
    if plan is None:
        return [f"CAST(NULL AS {kind}) AS {label}" for label, kind in field.columns]
    base = _base(delivered, plan)
    columns = [f"{_value(base, field)} AS {field.name}"]
    if field.may_be_invalid:
        columns.append(f"{base.invalid} AS {field.payload}")
    if field.stateful:
        columns.append(f"{_state(base, field)} AS {field.state}")
    if field.changes:
        broken, raw = f"{base.invalid} IS NOT NULL", text_of(base.form, base.value)
        told = f"CASE WHEN {broken} THEN {invalid_text(base.invalid)} ELSE {raw} END"
        order = f"concat('{VALID}', {sort_key(base.form, base.value)})"
        last = f"concat('{BROKEN}', hex({base.invalid}))"
        columns.append(f"{told} AS {field.raw}")
        columns.append(f"CASE WHEN {broken} THEN {last} ELSE {order} END AS {field.raw_order}")
    return columns


def input_value(delivered: Delivered, field: Field, column: str, kind: CanonicalType) -> str:
    """A delivered column of a type as the field takes its values."""
    return _value(_base(delivered, InputPlan(column=column, type=kind)), field)


def _value(base: _Base, field: Field) -> str:
    inside = _on_input(base.form, base.value, field.rules)
    match field.role:
        case Role.PRESENCE:
            return f"CASE WHEN {inside} IS NOT NULL THEN TRUE END"
        case Role.DISTINCT:
            return inside if base.form == field.form else lossless(base.form, inside)
        case Role.AMOUNT:
            return _amount(base, field, inside)
        case Role.CHOICE:
            return _in_form(base.form, inside, field.form)
        case _:
            return on_result(base, field, inside)


def on_result(base: _Base, field: Field, inside: str) -> str:
    """After `null` and `round`, in the field's form."""
    kept = after_rules(base.form, inside, field.rules)
    whole = _in_form(base.form, kept, field.form)
    if field.rules.null is NullAs.KEEP:
        return whole
    instead = "''" if field.rules.null is NullAs.EMPTY else f"CAST(0 AS {field.form.sql_type})"
    return f"CASE WHEN {base.invalid} IS NULL THEN coalesce({whole}, {instead}) END"


def after_rules(form: Form, value: str, rules: Rules) -> str:
    """`round`; a decimal alone has digits to lose."""
    if rules.round is None or form.kind is not FormKind.DECIMAL or rules.round >= form.scale:
        return value
    return f"bround({value}, {rules.round})"


def _on_input(form: Form, value: str, rules: Rules) -> str:
    if form.kind is FormKind.TEXT:
        return _text(value, rules)
    clock = form.kind in {FormKind.INSTANT, FormKind.LOCAL, FormKind.TIME}
    if clock and rules.precision is not None and rules.precision < MICROS_DIGITS + form.scale:
        return cut_moment(value, rules.precision, rules.rounding)
    return value


def _text(value: str, rules: Rules) -> str:
    if rules.trim is not Trim.NONE:
        value = f"trim({_TRIMS[rules.trim]} {text_literal(WHITE_SPACE)} FROM {value})"
    return f"nullif({value}, '')" if rules.empty is EmptyText.NULL else value


def cut_moment(value: str, second_digits: int, rounding: Rounding) -> str:
    """Microseconds with so many digits of the second; truncation goes to the earlier moment."""
    finer = second_digits - MICROS_DIGITS
    unit = f"{'0.'.ljust(finer + 1, '0')}1BD" if finer > 0 else f"{10**-finer}L"
    rest = f"pmod({value}, {unit})"
    if rounding is Rounding.TRUNCATE:
        return f"({value} - {rest})"
    up = (
        f"2 * {rest} > {unit} OR (2 * {rest} = {unit} AND "
        f"pmod(({value} - {rest}) DIV {unit}, 2L) = 1)"
    )
    return f"({value} - {rest} + IF({up}, {unit}, 0L))"


def _in_form(form: Form, value: str, wanted: Form) -> str:
    if form == wanted:
        return value
    if wanted.kind is FormKind.NUMBER:
        return text_of(form, value)
    return f"CAST({value} AS {wanted.sql_type})"


def _amount(base: _Base, field: Field, inside: str) -> str:
    if not field.stateful:
        return _in_form(base.form, inside, field.form)
    fits = f"try_cast({inside} AS {field.form.sql_type})"
    return f"CASE WHEN {_state(base, field)} = 0 THEN {fits} END"


def _state(base: _Base, field: Field) -> str:
    """What an amount is besides a number: bits of `amounts.AmountState`."""
    value, form = base.value, field.form
    if base.form.kind is not FormKind.NUMBER:
        wide = f"{value} IS NOT NULL AND try_cast({value} AS {form.sql_type}) IS NULL"
        return f"CASE WHEN {wide} THEN 8 ELSE 0 END"
    whole = f"length(trim(LEADING '-' FROM substring_index({value}, '.', 1)))"
    after = f"IF(instr({value}, '.') > 0, length(substring_index({value}, '.', -1)), 0)"
    wide = f"{whole} > {form.precision - form.scale} OR {after} > {form.scale}"
    return (
        f"CASE {value} WHEN 'NaN' THEN 1 WHEN 'Inf' THEN 2 WHEN '-Inf' THEN 4 "
        f"ELSE IF({wide}, 8, 0) END"
    )
