"""Which columns of a table are captured, and their types as texts, because a plan is data."""

from collections.abc import Sequence

from datarecs_core.captures.request import CapturePolicy, ColumnChoice, Output
from datarecs_core.catalog.records import TableColumn
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType, parse_type

FIELD_ID, PATH_ORDINAL = "FIELD_ID", "PATH_ORDINAL"
"""How field ids were assigned: by the format, or by the places of columns from 1."""


def type_of(text: str) -> CanonicalType:
    """The type of a column of a text file or a folder. Raises ValueError for other types."""
    return types.NULL if text == str(types.NULL) else parse_type(text)


def captured_columns(
    columns: Sequence[TableColumn], policy: CapturePolicy
) -> tuple[TableColumn, ...]:
    """The columns that a policy chooses, in the order of the table.

    A name that the table does not have is ignored, because a policy serves many tables.
    """
    match policy.column_choice:
        case ColumnChoice.ALL:
            return tuple(columns)
        case ColumnChoice.FIRST_N:
            return tuple(columns[: policy.first_columns])
        case ColumnChoice.EXPLICIT_ONLY:
            return tuple(column for column in columns if column.name in policy.columns)


def counts_columns(policy: CapturePolicy) -> bool:
    """Whether values are read; otherwise the number of rows suffices."""
    return Output.COLUMN_STATS in policy.outputs
