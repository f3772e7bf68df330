"""Prepare regular values in SQL in columns that need Python: ASCII texts, UUIDs of texts.

A Python function takes some microseconds per distinct value; most texts do not need it.
"""

from dataclasses import dataclass, replace

from datarecs_core.comparison.planning.plan import InputPlan
from datarecs_core.jobs.vocabulary import Case, NullAs, UnicodeForm
from datarecs_kernel.base_columns import BaseColumn
from datarecs_kernel.canonical_sql import sort_key, text_of
from datarecs_kernel.forms import Form, FormKind
from datarecs_kernel.layout import Field, Role
from datarecs_kernel.rules_sql import columns_of

_UUID_PATTERN = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


@dataclass(frozen=True, slots=True)
class Regular:
    """SQL of the values that do not need Python."""

    condition: str
    """TRUE for these values; FALSE or NULL for the others."""
    columns: dict[str, str]
    """SQL columns of the field, by name."""


def regular_values(field: Field, plan: InputPlan, base: BaseColumn) -> Regular | None:
    """The values of a column that SQL prepares; None if it prepares none.

    Unicode normalisation does not change ASCII, and its case folding is lower case.
    """
    if plan.mapped or base.form.kind is not FormKind.TEXT:
        return None
    if plan.cast is not None:
        return _uuids(field, base)
    rules = replace(field.rules, case=Case.EXACT, unicode=UnicodeForm.NONE)
    value = f"lower({base.value})" if field.rules.case is Case.FOLD else base.value
    columns = columns_of(replace(field, rules=rules), replace(base, value=value))
    return _regular(field, base, columns, condition=f"strlen({base.value}) = length({base.value})")


def _uuids(field: Field, base: BaseColumn) -> Regular | None:
    """Texts with a valid cast to UUID; others are INVALID."""
    if field.form.kind is not FormKind.UUID or field.role not in {Role.KEY, Role.VALUE}:
        return None
    rules = replace(field.rules, null=NullAs.KEEP)  # NULL needs Python
    value = f"unhex(replace({base.value}, '-', ''))"
    uuids = replace(base, form=Form(kind=FormKind.UUID), value=value)
    columns = columns_of(replace(field, rules=rules), uuids)
    condition = f"regexp_full_match({base.value}, '{_UUID_PATTERN}')"
    return _regular(field, base, columns, condition=condition)


def _regular(field: Field, base: BaseColumn, columns: dict[str, str], *, condition: str) -> Regular:
    """Add the text before rules."""
    if field.changes:
        columns[field.raw] = text_of(base.form, base.value)
        columns[field.raw_order] = sort_key(base.form, base.value)
    return Regular(condition, columns)
