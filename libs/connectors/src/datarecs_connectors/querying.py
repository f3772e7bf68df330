"""Queries over files: a copy of the rows of their tables, and the result of DuckDB.

A query is that of a source or of a custom_sql stage. The rows of the pinned files that match the
source's filter, and those of its `tables`, are loaded into an isolated database (`walled_query`).
Separate from the connectors because all file formats are queried in the same way, and from
`walled_query` because most sources have no query and never import DuckDB.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from datarecs_application.ports.comparing import Connector, HeldPin, ProbeStep, Read
from datarecs_application.stopping import Stopping
from datarecs_connectors.errors import QueryFailedError, SourceLimitError
from datarecs_connectors.extracted import typed_rows
from datarecs_connectors.extracting import Batches, write_extract
from datarecs_connectors.joined_pins import JoinedPin, pin_of_table
from datarecs_core.comparison.planning.computing import brings_computed
from datarecs_core.comparison.planning.scan import Pin, Scan, ScanColumn, SourceSchema
from datarecs_core.jobs.definition import Limits, Source

if TYPE_CHECKING:
    from datarecs_connectors.walled_query import Table, WalledQuery


class Readable(Connector, Protocol):
    """A connector that also returns rows as columns."""

    def batches(self, scan: Scan) -> Batches:
        """Rows of a scan as typed columns by logical names; at least one batch, maybe empty."""


def table_source(source: Source, name: str) -> Source:
    """A table of a source, as a source of its own."""
    table = source.tables[name]
    return Source(
        name=source.name,
        kind=table.kind or source.kind,
        connection=source.connection,
        path=table.path,
        options=table.options,
        limits=source.limits,
    )


@dataclass(frozen=True, slots=True)
class QueriedFiles:
    """Port Connector over a file source: its rows, or the result of a query over them."""

    files: Readable
    stop: Stopping = field(default_factory=Stopping)
    """Signal that ends a query and the loading of its rows."""
    tables: Mapping[str, Readable] = field(default_factory=dict)
    """Further files of queries, by the name of their table."""
    spill_bytes: int | None = None
    """Most disk for intermediate data of a query; None: the free disk."""
    _schemas: dict[tuple[str | None, Pin], SourceSchema] = field(default_factory=dict)
    """Schemas by table and pin: some formats read every value to infer them."""

    def pin(self, source: Source) -> HeldPin:
        if not self.tables:
            return self.files.pin(source)
        return JoinedPin.of(
            source.name,
            {
                None: partial(self.files.pin, source),
                **{
                    name: partial(files.pin, table_source(source, name))
                    for name, files in self.tables.items()
                },
            },
        )

    def describe(self, source: Source, pin: Pin) -> SourceSchema:
        """Columns of the files, or of the source's query over them.

        Raises, for a query:
            QueryFailedError: it is not one SELECT over the columns of the source.
            SourceUnsupportedError: a column that it returns cannot be compared.
        """
        if source.query is None:
            return self._schema(source, pin)
        query = self._query(source.name, source.query, source.limits)
        tables = self._empty_tables(source, pin)
        with TemporaryDirectory() as scratch, query.database(scratch, tables) as database:
            columns = query.columns(database, tables)
        return SourceSchema(
            columns=columns,
            read_as=tuple(
                line if table.name == source.name else f"table {table.name}: {line}"
                for table in tables
                for line in table.schema.read_as
            ),
        )

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
        steps = list(self.files.probe(source))
        if source is None or not steps[-1].ok:
            return steps
        for name, files in self.tables.items():
            probed = files.probe(table_source(source, name))[1:]
            steps += [replace(step, name=f"{step.name} of table {name}") for step in probed]
        return steps

    def close(self) -> None:
        for files in (self.files, *self.tables.values()):
            files.close()

    def _schema(self, source: Source, pin: Pin, table: str | None = None) -> SourceSchema:
        """The schema of the source's own files, or of a table, without the query."""
        key = table, pin_of_table(pin, table)
        if key not in self._schemas:
            files = self.files if table is None else self.tables[table]
            described = source if table is None else table_source(source, table)
            plain = replace(described, query=None, tables={})
            self._schemas[key] = files.describe(plain, key[1])
        return self._schemas[key]

    def _empty_tables(self, source: Source, pin: Pin) -> "list[Table]":
        """Every table of a query without its rows, that of the source's own files first."""
        from datarecs_connectors.walled_query import Table  # noqa: PLC0415 - as said above

        names = (None, *self.tables)
        return [Table(name or source.name, self._schema(source, pin, name)) for name in names]

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
        from datarecs_connectors.walled_query import plain_column  # noqa: PLC0415 - as said above

        query = self._query(scan.source, scan.query or "", scan.limits)
        wanted = [column.physical or "" for column in scan.columns]
        labels = [column.name for column in scan.columns]
        tables = self._empty_tables(_source_of(scan), scan.pin)
        with query.database(scratch, tables) as database:
            needed = query.needed(database, tables)
        loaded = Loaded(scan, self.stop)
        tables = [
            replace(table, schema=schema, load=partial(self._loaded, loaded, name, schema))
            for name, table, schema in zip((None, *self.tables), tables, needed, strict=True)
        ]
        with query.database(scratch, tables) as database:
            for batch in query.answers(database, tables):
                columns = [plain_column(batch.column(name)) for name in wanted]
                yield pa.RecordBatch.from_arrays(columns, names=labels), ()

    def _query(self, source: str, text: str, limits: Limits) -> "WalledQuery":
        from datarecs_connectors.walled_query import WalledQuery  # noqa: PLC0415 - as said above

        return WalledQuery(source, text, limits.statement_timeout, self.stop, self.spill_bytes)

    def _loaded(
        self, loaded: "Loaded", name: str | None, schema: SourceSchema
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one table, in the columns that the query needs."""
        scan = loaded.scan
        columns = tuple(
            ScanColumn(name=each.name, physical=each.name, type=each.type)
            for each in schema.columns
        )
        source = _source_of(scan)
        table = source if name is None else table_source(source, name)
        pin = pin_of_table(scan.pin, name)
        table_scan = replace(
            scan,
            kind=table.kind,
            query=None,
            path=table.path,
            tables=(),
            schema=self._schemas[name, pin],
            columns=columns,
            filter=scan.filter if name is None else None,
            options=tuple(sorted(table.options.items())),
            pin=pin,
        )
        if name is None:
            batches = self._batches(table_scan)
        else:
            batches = self.tables[name].batches(table_scan)
        return loaded.counted(batches)


@dataclass(slots=True)
class Loaded:
    """The rows that one query reads, counted over all its tables."""

    scan: Scan
    stop: Stopping
    rows: int = 0
    size_bytes: int = 0

    def counted(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """The batches of a table, up to the limits of the source."""
        scan = self.scan
        for batch, invalid in batches:
            self.stop.check()
            if invalid:
                raise QueryFailedError(
                    scan.source,
                    f"column {invalid[0]!r} holds values without a canonical form, which SQL "
                    "cannot hold; leave the column out of the query",
                )
            self.rows, self.size_bytes = self.rows + batch.num_rows, self.size_bytes + batch.nbytes
            if self.rows > scan.limits.max_rows or self.size_bytes > scan.limits.max_bytes:
                raise SourceLimitError(scan.source, "its query reads more than its limits allow")
            yield batch


def _source_of(scan: Scan) -> Source:
    """The places of the files of a scan."""
    return Source(
        name=scan.source,
        kind=scan.kind,
        path=scan.path,
        tables=dict(scan.tables),
        options=dict(scan.options),
        limits=scan.limits,
    )


def _made(directory: str) -> Path:
    path = Path(directory)
    path.mkdir(parents=True, exist_ok=True)
    return path
