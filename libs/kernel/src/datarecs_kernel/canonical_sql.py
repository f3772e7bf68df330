"""Texts of values before rules and their sort keys, in DuckDB's SQL.

The same texts as `core.comparison.values.canonical` and `sort_keys` in Python, character by
character. Every function takes and returns SQL; NULL stays NULL.
"""

from datarecs_kernel.encoding import number_order, number_text
from datarecs_kernel.forms import Form, FormKind
from datarecs_kernel.sort_keys import BROKEN, VALID


def is_written(form: Form) -> bool:
    """Whether SQL can write the canonical text of every value; false for times."""
    return not form.is_moment


def text_of(form: Form, value: str) -> str:
    """The text that differences show."""
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
    """The sort key of texts of valid values, in canonical order."""
    return f"('{VALID}' || {_order(form, value)})"


def invalid_text(raw: str) -> str:
    """The text of an INVALID value, from its bytes."""
    return f"('INVALID(0x' || lower(hex({raw})) || ')')"


def invalid_sort_key(payload: str) -> str:
    """The sort key of INVALID values; they come last."""
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
