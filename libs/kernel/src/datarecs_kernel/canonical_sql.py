"""Texts of values before rules and what sorts them, in DuckDB's SQL.

What `core.comparison.values.canonical` and `sort_keys` write in Python, character by character.
Every function takes SQL and gives SQL; NULL stays NULL.
"""

from datarecs_kernel.encoding import number_order, number_text
from datarecs_kernel.forms import Form, FormKind
from datarecs_kernel.sort_keys import BROKEN, VALID


def is_written(form: Form) -> bool:
    """Whether SQL writes the canonical text of every value; it does not of times."""
    return not form.is_moment


def text_of(form: Form, value: str) -> str:
    """As people read it in differences."""
    match form.kind:
        case FormKind.TEXT | FormKind.JSON:
            return value
        case FormKind.BINARY:
            return f"lower(hex({value}))"
        case FormKind.UUID:
            return _uuid_text(f"lower(hex({value}))")
        case FormKind.BOOL:
            return f"CAST({value} AS VARCHAR)"
        case _ if form.is_number:
            return number_text(form, value)
        case _:
            raise TypeError(f"{form.kind} has no text in SQL")


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
            return number_order(text_of(form, value))
