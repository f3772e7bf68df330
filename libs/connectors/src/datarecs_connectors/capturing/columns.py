"""Types of captured columns as texts, because a plan is data, and whether values are read."""

from datarecs_connectors.errors import SourceLimitError
from datarecs_core.captures.request import CapturePolicy, Output
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType, parse_type

FIELD_ID, PATH_ORDINAL = "FIELD_ID", "PATH_ORDINAL"
"""How field ids were assigned: by the format, or by the places of columns from 1."""


def type_of(text: str) -> CanonicalType:
    """The type of a column of a text file or a folder. Raises ValueError for other types."""
    return types.NULL if text == str(types.NULL) else parse_type(text)


def counts_columns(policy: CapturePolicy) -> bool:
    """Whether values are read; otherwise the number of rows suffices."""
    return Output.COLUMN_STATS in policy.outputs


def too_many_columns(table: str, limit: SourceLimitError) -> SourceLimitError:
    """The error of a table that no reader describes, with what to do about its capture."""
    reason = str(limit).removeprefix(f"source {limit.source}: ").partition(";")[0]
    return SourceLimitError(
        limit.source,
        f"{table} has {reason}, the most that a capture takes; divide it, or capture the other "
        "tables by their names",
    )
