"""A file source's `filter`, evaluated row by row where no SQL engine reads the file.

The part of Spark SQL that the oracle knows; a condition beyond it is refused here and works on the
engine.
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
    """What a row must be to be delivered, over physical columns."""

    source: str
    condition: ParsedCondition | None
    types: Mapping[str, CanonicalType]

    @property
    def columns(self) -> tuple[str, ...]:
        """Physical columns it needs, sorted."""
        return () if self.condition is None else tuple(sorted(self.condition.columns))

    def matches(self, row: Mapping[str, object]) -> bool:
        """Where the condition is TRUE, or unknown because of a value that is INVALID."""
        if self.condition is None:
            return True
        values = {
            name: canonical(row[name], self.types[name], self.source) for name in self.columns
        }
        return self.condition.admits(values)


def filter_of(scan: Scan) -> RowFilter:
    """Raises SourceUnsupportedError when the filter says more than is known here."""
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
            raise SourceUnsupportedError(scan.source, f"the filter names no column {name!r}")
    return row_filter
