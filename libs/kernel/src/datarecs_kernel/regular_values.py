"""Values that SQL prepares in columns that need Python for others: texts in ASCII.

A function in Python costs some microseconds per distinct value; most texts need none.
"""

from dataclasses import dataclass, replace

from datarecs_core.comparison.planning.plan import InputPlan
from datarecs_core.jobs.vocabulary import Case, UnicodeForm
from datarecs_kernel.base_columns import BaseColumn
from datarecs_kernel.canonical_sql import sort_key, text_of
from datarecs_kernel.forms import FormKind
from datarecs_kernel.layout import Field
from datarecs_kernel.rules_sql import columns_of


@dataclass(frozen=True, slots=True)
class Regular:
    """SQL of the values that need no Python."""

    condition: str
    """TRUE for them; FALSE or NULL for the others."""
    columns: dict[str, str]
    """Of the field, by name."""


def regular_values(field: Field, plan: InputPlan, base: BaseColumn) -> Regular | None:
    """The values of a column that SQL prepares; None where it prepares none.

    No Unicode form changes ASCII, and its small letters are its folded ones.
    """
    if plan.mapped or plan.cast is not None or base.form.kind is not FormKind.TEXT:
        return None
    rules = replace(field.rules, case=Case.EXACT, unicode=UnicodeForm.NONE)
    value = f"lower({base.value})" if field.rules.case is Case.FOLD else base.value
    columns = columns_of(replace(field, rules=rules), replace(base, value=value))
    if field.changes:
        columns[field.raw] = text_of(base.form, base.value)
        columns[field.raw_order] = sort_key(base.form, base.value)
    return Regular(f"strlen({base.value}) = length({base.value})", columns)
