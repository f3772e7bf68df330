"""Map, cast and rules of a column in DuckDB's SQL, if SQL can express them.

Order: trim, empty, null, round or precision, as `core.comparison.values.normalizing` applies them.
Results are equal across sources exactly when they are canonically equal.
"""

from datarecs_core.comparison.planning.rules import Rules
from datarecs_core.comparison.values.normalizing import WHITE_SPACE
from datarecs_core.jobs.vocabulary import EmptyText, NullAs, Rounding, Trim
from datarecs_kernel.amounts import AmountState
from datarecs_kernel.base_columns import BaseColumn, duckdb_type
from datarecs_kernel.canonical_sql import (
    invalid_sort_key,
    invalid_text,
    is_written,
    sort_key,
    text_of,
)
from datarecs_kernel.database import sql_text
from datarecs_kernel.forms import MICROS_DIGITS, Form, FormKind
from datarecs_kernel.layout import Field, Role

_TRIMS = {Trim.BOTH: "trim", Trim.LEFT: "ltrim", Trim.RIGHT: "rtrim"}


def can_prepare(field: Field, form: Form) -> bool:
    """Whether SQL writes the texts of a field before rules, from values of a form."""
    return is_written(form) or not field.changes


def columns_of(field: Field, base: BaseColumn) -> dict[str, str]:
    """SQL of the field and its companions, by name."""
    made = {field.name: _typed(_value(field, base), field.form.sql_type)}
    if field.may_be_invalid:
        made[field.payload] = base.payload
    if field.stateful:
        made[field.state] = _typed(_state(field, base), "INT")
    if field.changes:
        raw, order = text_of(base.form, base.value), sort_key(base.form, base.value)
        if base.raw is not None:
            raw = f"CASE WHEN {base.is_invalid} THEN {invalid_text(base.raw)} ELSE {raw} END"
            last = invalid_sort_key(base.payload)
            order = f"CASE WHEN {base.is_invalid} THEN {last} ELSE {order} END"
        made |= {field.raw: raw, field.raw_order: order}
    return made


def nulls_of(field: Field) -> dict[str, str]:
    """Columns of a source without this field."""
    return {name: _typed("NULL", kind) for name, kind in field.columns}


def _typed(sql: str, kind: str) -> str:
    return f"CAST({sql} AS {duckdb_type(kind)})"


def _value(field: Field, base: BaseColumn) -> str:
    inside = _on_input(base.form, base.value, field.rules)
    match field.role:
        case Role.PRESENCE:
            return f"CASE WHEN {inside} IS NOT NULL THEN TRUE END"
        case Role.DISTINCT:
            return inside if base.form == field.form else _lossless(base.form, inside)
        case Role.AMOUNT:
            return _amount(field, base, inside)
        case Role.CHOICE:
            return _in_form(base.form, inside, field.form)
        case _:
            return _on_result(field, base, inside)


def _on_result(field: Field, base: BaseColumn, inside: str) -> str:
    """The value after `null` and `round`, in the field's form."""
    whole = _in_form(base.form, _rounded(base.form, inside, field.rules), field.form)
    if field.rules.null is NullAs.KEEP:
        return whole
    instead = "''" if field.rules.null is NullAs.EMPTY else _typed("0", field.form.sql_type)
    filled = f"coalesce({whole}, {instead})"
    return filled if base.raw is None else f"CASE WHEN NOT {base.is_invalid} THEN {filled} END"


def _rounded(form: Form, value: str, rules: Rules) -> str:
    """Round a decimal; other values have no digits to round."""
    if rules.round is None or form.kind is not FormKind.DECIMAL or rules.round >= form.scale:
        return value
    return f"round_even({value}, {rules.round})"


def _on_input(form: Form, value: str, rules: Rules) -> str:
    if form.kind is FormKind.TEXT:
        return _trimmed(value, rules)
    clock = form.kind in {FormKind.INSTANT, FormKind.LOCAL, FormKind.TIME}
    if clock and rules.precision is not None and rules.precision < MICROS_DIGITS + form.scale:
        return _cut_moment(form, value, rules)
    return value


def _trimmed(value: str, rules: Rules) -> str:
    if rules.trim is not Trim.NONE:
        trimmed = f"{_TRIMS[rules.trim]}({value}, {sql_text(WHITE_SPACE)})"
        # Checking both ends is several times faster than trimming text that needs no trimming.
        ends = (f"{value}[{at}] BETWEEN '!' AND '~'" for at in (1, -1))
        value = f"CASE WHEN {' AND '.join(ends)} THEN {value} ELSE {trimmed} END"
    return f"nullif({value}, '')" if rules.empty is EmptyText.NULL else value


def _cut_moment(form: Form, value: str, rules: Rules) -> str:
    """A time with this many digits of the second; truncated to the earlier time."""
    digits = MICROS_DIGITS + form.scale - (rules.precision or 0)
    unit = 10**digits
    counted, kind = value, "BIGINT"
    if form.scale:
        kind = f"DECIMAL({form.precision},0)"
        counted = f"CAST({value} * {10**form.scale} AS HUGEINT)"
    rest = f"((({counted}) % {unit} + {unit}) % {unit})"
    cut = f"({counted} - {rest})"
    if rules.rounding is not Rounding.TRUNCATE:
        is_odd = f"({cut} // {unit}) % 2 <> 0"
        up = f"2 * {rest} > {unit} OR (2 * {rest} = {unit} AND {is_odd})"
        cut = f"({cut} + CASE WHEN {up} THEN {unit} ELSE 0 END)"
    if not form.scale:
        return cut
    thousandth = f"CAST(0.{'1'.rjust(form.scale, '0')} AS DECIMAL({form.scale + 1},{form.scale}))"
    return f"CAST(CAST({cut} AS {kind}) * {thousandth} AS {form.sql_type})"


def _in_form(form: Form, value: str, wanted: Form) -> str:
    if form == wanted:
        return value
    if wanted.kind is FormKind.NUMBER:
        return text_of(form, value)
    return _typed(value, wanted.sql_type)


def _lossless(form: Form, value: str) -> str:
    """A text that is the same only for equal values."""
    if form.kind in {FormKind.BINARY, FormKind.UUID}:
        return f"hex({value})"
    return f"CAST({value} AS VARCHAR)"


def _amount(field: Field, base: BaseColumn, inside: str) -> str:
    if not field.stateful:
        return _in_form(base.form, inside, field.form)
    fits = f"TRY_CAST({inside} AS {field.form.sql_type})"
    return f"CASE WHEN {_state(field, base)} = 0 THEN {fits} END"


def _state(field: Field, base: BaseColumn) -> str:
    """Bits of `AmountState`."""
    value, form = base.value, field.form
    if base.form.kind is not FormKind.NUMBER:
        fits = f"TRY_CAST({value} AS {form.sql_type}) IS NOT NULL"
        return f"CASE WHEN {value} IS NULL OR {fits} THEN 0 ELSE {AmountState.WIDE:d} END"
    whole = f"strlen(ltrim(split_part({value}, '.', 1), '-'))"
    after = f"strlen(split_part({value}, '.', 2))"
    wide = f"{whole} > {form.precision - form.scale} OR {after} > {form.scale}"
    return (
        f"CASE {value} WHEN 'NaN' THEN {AmountState.NAN:d} WHEN 'Inf' THEN "
        f"{AmountState.POSITIVE:d} WHEN '-Inf' THEN {AmountState.NEGATIVE:d} "
        f"ELSE CASE WHEN {wide} THEN {AmountState.WIDE:d} ELSE 0 END END"
    )
