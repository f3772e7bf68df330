"""Groups that a PostgreSQL server computes: checked, counted, stored.

Separate from the connector because groups are used only after their values are checked: for a value
without a canonical form the engine reads the rows instead (NotPushedError).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from datarecs_application.ports.comparing import Read
from datarecs_connectors.extracting import write_extract
from datarecs_connectors.postgres_statements import answers
from datarecs_connectors.postgres_types import cast_at_once, text_reader
from datarecs_connectors.typed_text import TypedColumn, table_of, typed
from datarecs_core.comparison.planning.pushdown import NotPushedError
from datarecs_core.comparison.planning.scan import GROUP_ROWS, Groups, Scan
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType

_BEHIND = 3
"""Columns after those of `answers`: rows of the group, rows beside `where` too, the warning."""


def typed_batch(
    batch: pa.RecordBatch, kinds: Sequence[tuple[str, CanonicalType]]
) -> tuple[pa.RecordBatch, tuple[str, ...]]:
    """Text columns of COPY as columns of an extract, and the columns with INVALID values."""
    columns = [_typed(column, kind) for column, (_, kind) in zip(batch.columns, kinds, strict=True)]
    return table_of([name for name, _ in kinds], columns)


def _typed(texts: pa.Array, kind: CanonicalType) -> TypedColumn:
    whole = cast_at_once(texts, kind)
    return typed(texts, kind, text_reader(kind)) if whole is None else TypedColumn(whole, None)


@dataclass(slots=True, kw_only=True)
class GroupedAnswer:
    """One answer of the server, in its stored form."""

    scan: Scan
    groups: Groups
    all_rows: int = field(default=0, init=False)

    @property
    def _kinds(self) -> tuple[tuple[str, CanonicalType], ...]:
        return answers(self.scan, self.groups)

    @property
    def width(self) -> int:
        """Columns that the server sends."""
        return len(self._kinds) + _BEHIND

    def stored(
        self,
        batches: Iterator[pa.RecordBatch],
        directory: str,
        progress: Callable[[Read], None],
    ) -> Scan:
        """The scan with an extract of its groups.

        Raises:
            NotPushedError: a value has no canonical form, or a sum needs more than 38 digits.
            SourceLimitError: more groups than the row limit of the source.
        """
        brought = write_extract(self.scan, map(self._checked, batches), directory, progress)
        if brought.extract is None:
            raise TypeError("the scan has no groups")
        return replace(brought, extract=replace(brought.extract, source_rows=self.all_rows))

    def _checked(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, tuple[str, ...]]:
        kinds = self._kinds
        rows, everything, odd = batch.columns[len(kinds) :]
        if pc.any(pc.equal(odd, "t")).as_py():
            raise NotPushedError(
                f"{self.scan.source} holds NaN, infinity or a year outside 1 to 9999"
            )
        self.all_rows += pc.sum(pc.cast(everything, pa.int64())).as_py() or 0
        having = pc.not_equal(rows, "0")
        batch = batch.select(range(len(kinds) + 1)).filter(having)
        table, invalid = typed_batch(batch, [*kinds, (GROUP_ROWS, types.INT)])
        if invalid:
            raise NotPushedError(f"{invalid[0]} of {self.scan.source} has no canonical form")
        return table, invalid
