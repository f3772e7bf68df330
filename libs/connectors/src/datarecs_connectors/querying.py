"""Queries of custom_sql stages over files: a copy of the source's rows, and the result of DuckDB.

The rows of the pinned files that match the source's filter are loaded into an isolated database
(`walled_query`). Separate from the connectors because all file formats are queried in the same way,
and from `walled_query` because most sources have no query and never import DuckDB.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import pyarrow as pa

from datarecs_application.ports.comparing import Connector, HeldPin, ProbeStep, Read
from datarecs_application.stopping import Stopping
from datarecs_connectors.errors import QueryFailedError, SourceLimitError
from datarecs_connectors.extracted import typed_rows
from datarecs_connectors.extracting import Batches, write_extract
from datarecs_core.comparison.planning.computing import brings_computed
from datarecs_core.comparison.planning.scan import Pin, Scan, ScanColumn, SourceSchema
from datarecs_core.jobs.definition import Source


class Readable(Connector, Protocol):
    """A connector that also returns rows as columns."""

    def batches(self, scan: Scan) -> Batches:
        """Rows of a scan as typed columns by logical names; at least one batch, maybe empty."""


@dataclass(frozen=True, slots=True)
class QueriedFiles:
    """Port Connector over a file source: its rows, or the result of a query over them."""

    files: Readable
    stop: Stopping = field(default_factory=Stopping)
    """Signal that ends a query and the loading of its rows."""
    _schemas: dict[Pin, SourceSchema] = field(default_factory=dict)
    """Schemas by pin: some formats read every value to infer them."""

    def pin(self, source: Source) -> HeldPin:
        return self.files.pin(source)

    def describe(self, source: Source, pin: Pin) -> SourceSchema:
        """Columns of the files, or of the source's query over them.

        Raises, for a query:
            QueryFailedError: it is not one SELECT over the columns of the source.
            SourceUnsupportedError: a column that it returns cannot be compared.
        """
        schema = self._schema(source, pin)
        if source.query is None:
            return schema
        from datarecs_connectors.walled_query import WalledQuery  # noqa: PLC0415 - as said above

        query = WalledQuery(source.name, source.query, source.limits.statement_timeout, self.stop)
        with TemporaryDirectory() as scratch, query.database(scratch, schema) as database:
            columns = query.columns(database)
        return SourceSchema(columns=columns)

    def rows(self, scan: Scan) -> Iterator[tuple[object, ...]]:
        if scan.query is None and not brings_computed(scan):
            yield from self.files.rows(scan)
            return
        with TemporaryDirectory() as scratch:
            batches = self._batches(scan) if scan.query is None else self._answers(scan, scratch)
            for batch, _ in batches:
                yield from typed_rows(batch, scan.columns)

    def extract(self, scan: Scan, directory: str, progress: Callable[[Read], None]) -> Scan:
        if scan.query is None and brings_computed(scan):
            return write_extract(scan, self._batches(scan), directory, progress)
        if scan.query is None:
            return self.files.extract(scan, directory, progress)
        with TemporaryDirectory(dir=_made(directory), prefix="query-") as scratch:
            return write_extract(scan, self._answers(scan, scratch), directory, progress)

    def probe(self, source: Source | None = None) -> Sequence[ProbeStep]:
        return self.files.probe(source)

    def close(self) -> None:
        self.files.close()

    def _schema(self, source: Source, pin: Pin) -> SourceSchema:
        """The schema of the files, without the query."""
        if pin not in self._schemas:
            self._schemas[pin] = self.files.describe(replace(source, query=None), pin)
        return self._schemas[pin]

    def _batches(self, scan: Scan) -> Batches:
        """Rows of the files, with computed columns."""
        if not brings_computed(scan):
            return self.files.batches(scan)
        from datarecs_connectors.computing import computed_batches  # noqa: PLC0415 - as said above

        return computed_batches(scan, self.files.batches)

    def _answers(self, scan: Scan, scratch: str) -> Batches:
        """Rows of the query, with computed columns."""
        if all(column.expression is None for column in scan.columns):
            return self._answered(scan, scratch)
        from datarecs_connectors.computing import computed_batches  # noqa: PLC0415 - as said above

        return computed_batches(
            replace(scan, filter=None),
            lambda inner: self._answered(replace(inner, filter=scan.filter), scratch),
        )

    def _answered(self, scan: Scan, scratch: str) -> Batches:
        from datarecs_connectors.walled_query import (  # noqa: PLC0415 - as said above
            WalledQuery,
            is_single,
            plain_column,
        )

        query = WalledQuery(scan.source, scan.query or "", scan.limits.statement_timeout, self.stop)
        schema = self._schema(Source(name=scan.source, kind=scan.kind), scan.pin)
        wanted = [column.physical or "" for column in scan.columns]
        labels = [column.name for column in scan.columns]
        with query.database(scratch, schema) as database:
            needed = query.needed(database, schema)
        # Columns with equal names are not loaded: a query that names one fails.
        query_schema = replace(
            schema, columns=tuple(each for each in needed if is_single(each, schema))
        )
        with query.database(
            scratch, query_schema, lambda: self._loaded(scan, query_schema)
        ) as database:
            for batch in query.answers(database):
                columns = [plain_column(batch.column(name)) for name in wanted]
                yield pa.RecordBatch.from_arrays(columns, names=labels), ()

    def _loaded(self, scan: Scan, schema: SourceSchema) -> Iterator[pa.RecordBatch]:
        """The source's own rows, in the columns that the query needs."""
        columns = tuple(
            ScanColumn(name=each.name, physical=each.name, type=each.type)
            for each in schema.columns
        )
        source_scan = replace(scan, query=None, schema=self._schemas[scan.pin], columns=columns)
        rows = size = 0
        for batch, invalid in self._batches(source_scan):
            self.stop.check()
            if invalid:
                raise QueryFailedError(
                    scan.source,
                    f"column {invalid[0]!r} holds values without a canonical form, which SQL "
                    "cannot hold; leave the column out of the query",
                )
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows > scan.limits.max_rows or size > scan.limits.max_bytes:
                raise SourceLimitError(scan.source, "its query reads more than its limits allow")
            yield batch


def _made(directory: str) -> Path:
    path = Path(directory)
    path.mkdir(parents=True, exist_ok=True)
    return path
