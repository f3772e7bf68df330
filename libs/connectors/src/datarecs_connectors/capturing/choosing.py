"""Which columns a policy captures: one rule for every kind of source."""

from collections.abc import Sequence
from typing import TypeVar

from datarecs_core.captures.request import CapturePolicy, ColumnChoice, Output

C = TypeVar("C")


def chosen_columns(columns: Sequence[tuple[str, C]], policy: CapturePolicy) -> list[C]:
    """The captured columns in the order of the table; none without COLUMN_STATS.

    Args:
        columns: the top-level columns of the table in order, by name.
        policy: a column that it names and the table does not have is left out, because one policy
            serves many tables.
    """
    if Output.COLUMN_STATS not in policy.outputs:
        return []
    match policy.column_choice:
        case ColumnChoice.ALL:
            return [column for _, column in columns]
        case ColumnChoice.FIRST_N:
            return [column for _, column in columns[: policy.first_columns]]
        case ColumnChoice.EXPLICIT_ONLY:
            return [column for name, column in columns if name in policy.columns]
