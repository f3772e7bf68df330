"""Evaluate a file source's `filter` row by row where no SQL engine reads the file.

It supports the part of Spark SQL that the oracle supports; other conditions are refused here and
need the Spark engine.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from datarecs_connectors.errors import SourceUnsupportedError
from datarecs_core.comparison.expressions.condition import (
    ConditionNotCoveredError,
    ParsedCondition,
    parse_condition,
)
from datarecs_core.comparison.planning.scan import Scan
from datarecs_core.comparison.values.translating import canonical
from datarecs_core.jobs.types import CanonicalType


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """The condition that a row must meet, over physical columns."""

    source: str
    condition: ParsedCondition | None
    types: Mapping[str, CanonicalType]

    @property
    def columns(self) -> tuple[str, ...]:
        """Physical columns of the condition, sorted."""
        return () if self.condition is None else tuple(sorted(self.condition.columns))

    def matches(self, row: Mapping[str, object]) -> bool:
        """Whether the condition is TRUE, or unknown because of an INVALID value."""
        if self.condition is None:
            return True
        values = {
            name: canonical(row[name], self.types[name], self.source) for name in self.columns
        }
        return self.condition.admits(values)


def filter_of(scan: Scan) -> RowFilter:
    """Raises SourceUnsupportedError when the filter needs the Spark engine."""
    types = {column.name: column.type for column in scan.schema.columns}
    try:
        condition = None if scan.filter is None else parse_condition(scan.filter)
    except ConditionNotCoveredError as cause:
        raise SourceUnsupportedError(
            scan.source, f"the filter needs the Spark engine: {cause}"
        ) from cause
    row_filter = RowFilter(source=scan.source, condition=condition, types=types)
    for name in row_filter.columns:
        if name not in types:
            raise SourceUnsupportedError(scan.source, f"the filter names {name!r}, not a column")
    return row_filter
