"""Canonical texts and orders of values in DuckDB's SQL.

What `core.comparison.values.canonical` and `sort_keys` write in Python, character by character.
Every function takes SQL and gives SQL; NULL stays NULL.
"""

from datarecs_kernel.forms import Form, FormKind
from datarecs_kernel.sort_keys import BROKEN, KEY_DIGITS, KEY_SHIFT, VALID

_WRITTEN = frozenset(
    {
        FormKind.INTEGER,
        FormKind.DECIMAL,
        FormKind.NUMBER,
        FormKind.TEXT,
        FormKind.JSON,
        FormKind.BOOL,
        FormKind.BINARY,
        FormKind.UUID,
    }
)


def blob(raw: bytes) -> str:
    """A binary literal."""
    return f"unhex('{raw.hex()}')" if raw else "''::BLOB"


def is_written(form: Form) -> bool:
    """Whether SQL writes the canonical text of every value; it does not of floats and times."""
    return form.kind in _WRITTEN


def text_of(form: Form, value: str) -> str:
    """As people read it in differences."""
    match form.kind:
        case FormKind.DECIMAL:
            return plain_number(_decimal_text(form, value))
        case FormKind.NUMBER | FormKind.TEXT | FormKind.JSON:
            return value
        case FormKind.BINARY:
            return f"lower(hex({value}))"
        case FormKind.UUID:
            return _uuid_text(f"lower(hex({value}))")
        case FormKind.BOOL | FormKind.INTEGER:
            return f"CAST({value} AS VARCHAR)"
        case _:
            raise TypeError(f"{form.kind} has no text in SQL")


def _decimal_text(form: Form, value: str) -> str:
    written = f"CAST({value} AS VARCHAR)"
    if form.precision > form.scale:
        return written
    # DuckDB writes no zero before the point of such a type.
    return f"regexp_replace({written}, '^-?', '\\00')"


def plain_number(written: str) -> str:
    """Digits with a point as canonical text: no trailing zeros."""
    shorter = f"rtrim(rtrim({written}, '0'), '.')"
    return f"CASE WHEN contains({written}, '.') THEN {shorter} ELSE {written} END"


def sort_key(form: Form, value: str) -> str:
    """What sorts texts of valid values canonically."""
    return f"('{VALID}' || {_order(form, value)})"


def invalid_text(raw: str) -> str:
    """Of the bytes of an INVALID value."""
    return f"('INVALID(0x' || lower(hex({raw})) || ')')"


def invalid_sort_key(payload: str) -> str:
    """INVALID values come last."""
    return f"('{BROKEN}' || hex({payload}))"


def _uuid_text(digits: str) -> str:
    parts = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
    return " || '-' || ".join(f"substr({digits}, {at}, {size})" for at, size in parts)


def _order(form: Form, value: str) -> str:
    match form.kind:
        case FormKind.TEXT | FormKind.JSON:
            return value
        case FormKind.BOOL:
            return f"CAST(CAST({value} AS INTEGER) AS VARCHAR)"
        case FormKind.BINARY | FormKind.UUID:
            return f"hex({value})"
        case _:
            return _number_order(text_of(form, value))


def _number_order(written: str) -> str:
    """Sorts canonical texts of numbers by value: -Inf lowest, NaN highest."""
    size = _size_key(f"ltrim({written}, '-')")
    below = f"'1' || translate({size}, '0123456789', '9876543210') || '~'"
    return (
        f"CASE {written} WHEN '-Inf' THEN '0' WHEN '0' THEN '2' WHEN 'Inf' THEN '4' "
        f"WHEN 'NaN' THEN '5' ELSE CASE WHEN starts_with({written}, '-') "
        f"THEN {below} ELSE '3' || {size} END END"
    )


def _size_key(written: str) -> str:
    whole = f"split_part({written}, '.', 1)"
    fraction = f"split_part({written}, '.', 2)"
    significant = f"ltrim({fraction}, '0')"
    below_one = _key(f"strlen({significant}) - strlen({fraction}) - 1", significant)
    above = _key(f"strlen({whole}) - 1", f"rtrim({whole} || {fraction}, '0')")
    # `split_part` compared with a constant fails in DuckDB 2.0 where a column is NULL throughout.
    return f"CASE WHEN starts_with({written}, '0') THEN {below_one} ELSE {above} END"


def _key(exponent: str, digits: str) -> str:
    return f"(lpad(CAST({exponent} + {KEY_SHIFT} AS VARCHAR), {KEY_DIGITS}, '0') || {digits})"
