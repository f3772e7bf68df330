"""Iceberg tables: pinned by snapshot, read by field id, without deleted rows.

pyiceberg reads metadata, manifests and bounds; pyarrow reads Parquet; deletes are applied here. No
Java is used, so the oracle of `datarecs compare` and Spark read the same rows.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa

from datarecs_application.ports.comparing import ProbeStep, Read
from datarecs_connectors.errors import (
    QueryFailedError,
    SnapshotLostError,
    SourceUnsupportedError,
)
from datarecs_connectors.extracting import Batches, write_extract
from datarecs_connectors.filtering import filter_of
from datarecs_connectors.iceberg.catalogs import Catalog, TableName
from datarecs_connectors.iceberg.files import TableFiles
from datarecs_connectors.iceberg.planning import planned
from datarecs_connectors.iceberg.reading import TableReader
from datarecs_connectors.iceberg.snapshots import FrozenTable, frozen, pinned
from datarecs_connectors.locations import Places
from datarecs_connectors.probing import steps
from datarecs_connectors.typed_columns import matching_rows, plain_values, taken
from datarecs_connectors.typed_text import TypedColumn, arrow_type, table_of
from datarecs_core.captures.catalogued import CataloguedTable
from datarecs_core.comparison.planning.scan import (
    Pin,
    Scan,
    ScanColumn,
    SourceSchema,
    TableSnapshot,
)
from datarecs_core.egress.addresses import Policy
from datarecs_core.jobs.definition import Source
from datarecs_core.resources.connection import IcebergConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTable:
    """Port HeldPin: nothing is held, the catalog is read again."""

    connector: "IcebergConnector"
    pin: TableSnapshot

    def check(self) -> TableSnapshot:
        self.connector.frozen(self.pin)
        return self.pin

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergConnector:
    """Port Connector over the tables of one catalog."""

    source: str
    catalog: Catalog
    now: Callable[[], datetime]
    catalogued: CataloguedTable | None = None
    """The table in the catalogue of the platform."""

    def pin(self, source: Source) -> HeldTable:
        table = TableName.of(self.source, source.relation or "")
        table_pin = pinned(source, self.catalog, self.catalog.load(table), self.now)
        if self.catalogued is not None and table_pin.snapshot_id is not None:
            captured = self.catalogued.snapshot(str(table_pin.snapshot_id))
            table_pin = replace(table_pin, catalogued=captured)
        return HeldTable(connector=self, pin=table_pin)

    def frozen(self, pin: TableSnapshot) -> FrozenTable:
        """The table at a pin, with the current metadata of its catalog.

        Raises SnapshotLostError when it can no longer be read at the pin.
        """
        try:
            metadata = self.catalog.load(TableName.of(self.source, pin.table))
        except QueryFailedError as cause:
            raise _lost(self.source, pin) from cause
        return frozen(self.source, metadata, pin)

    def describe(self, source: Source, pin: Pin) -> SourceSchema:  # noqa: ARG002  the pin names the table
        """Columns that cannot be compared are listed, and refused where a job names them."""
        table = self.frozen(_table_pin(pin))
        return SourceSchema(
            columns=table.columns(),
            undelivered=table.undelivered(),
            estimated_rows=_counted(table, "total-records"),
            estimated_bytes=_counted(table, "total-files-size"),
            record_fields=table.record_fields(),
            identifier=table.identifier(),
        )

    def rows(self, scan: Scan) -> Iterator[tuple[object, ...]]:
        kinds = [column.type for column in scan.columns]
        for rows, columns in self._delivered(scan):
            plain = [plain_values(one, kind) for one, kind in zip(columns, kinds, strict=True)]
            yield from zip(*plain, strict=True) if plain else [()] * rows

    def extract(self, scan: Scan, directory: str, progress: Callable[[Read], None]) -> Scan:
        with closing(self._batches(scan, directory)) as batches:
            return write_extract(scan, batches, directory, progress)

    def probe(self, source: Source | None = None) -> Sequence[ProbeStep]:
        """Probe table, columns and files of the source; without a source the catalog."""
        if source is None:
            return steps(("catalog", self.catalog.check))
        held = []

        def table() -> str:
            held.append(self.pin(source))
            return f"snapshot {held[0].pin.snapshot_id}"

        def columns() -> str:
            return f"{len(self.describe(source, held[0].pin).columns)} columns"

        def files() -> str:
            table = self.frozen(held[0].pin)
            reader = TableReader(table=table, files=TableFiles(self.catalog.places))
            data_files = planned(table, reader.files)
            for first in data_files[:1]:
                with reader.opened(first.file.file_path):
                    pass
            return f"{len(data_files)} data files"

        return steps(("table", table), ("columns", columns), ("files", files))

    def close(self) -> None:
        self.catalog.places.close()

    def batches(self, scan: Scan) -> Batches:
        return self._batches(scan)

    def _batches(
        self, scan: Scan, scratch: str | None = None
    ) -> Generator[tuple[pa.RecordBatch, tuple[str, ...]], None, None]:
        names = [column.name for column in scan.columns]
        empty = [TypedColumn(pa.array([], arrow_type(one.type)), None) for one in scan.columns]
        yield table_of(names, empty)
        for _, columns in self._delivered(scan, scratch):
            yield table_of(names, columns)

    def _delivered(
        self, scan: Scan, scratch: str | None = None
    ) -> Iterator[tuple[int, list[TypedColumn]]]:
        """Row count and columns of the scan, batch by batch: live rows that match the filter."""
        wanted = filter_of(scan)
        table = self.frozen(_table_pin(scan.pin))
        reader = TableReader(table=table, files=TableFiles(self.catalog.places))
        column_names = [_physical(scan, column) for column in scan.columns]
        names = list(dict.fromkeys((*column_names, *wanted.columns)))
        by_name = {field.name: field for field in table.schema.fields}
        fields = [by_name[name] for name in names]
        condition = wanted.condition.holds if wanted.condition else None
        with closing(reader.dead_rows(scratch)) as dead:
            for file in planned(table, reader.files, condition):
                for rows, columns in reader.read(file, fields, dead.of(file)):
                    columns_by_name = dict(zip(names, columns, strict=True))
                    if condition is None:
                        yield rows, [columns_by_name[name] for name in column_names]
                        continue
                    matching = matching_rows(wanted, columns_by_name, rows)
                    yield (
                        len(matching),
                        [taken(columns_by_name[name], matching) for name in column_names],
                    )


def iceberg_connector(
    source: str,
    config: IcebergConfig,
    secrets: Mapping[str, str],
    *,
    places: Places,
    policy: Policy,
) -> IcebergConnector:
    """The connector of a source over a connection of type iceberg."""
    catalog = Catalog(source=source, config=config, secrets=secrets, places=places, policy=policy)
    return IcebergConnector(source=source, catalog=catalog, now=places.now)


def _table_pin(pin: Pin) -> TableSnapshot:
    if not isinstance(pin, TableSnapshot):
        raise TypeError("an iceberg source is pinned by a table's snapshot")
    return pin


def _lost(source: str, pin: TableSnapshot) -> SnapshotLostError:
    return SnapshotLostError(source, f"the table {pin.table!r} was dropped since it was pinned")


def _counted(table: FrozenTable, what: str) -> int | None:
    """A count of the snapshot's summary; it is text and may be missing."""
    summary = table.snapshot.summary if table.snapshot else None
    written = summary[what] if summary else None
    return int(written) if written and written.isdecimal() else None


def _physical(scan: Scan, column: ScanColumn) -> str:
    if column.physical is None:
        raise SourceUnsupportedError(
            scan.source,
            f"{column.name!r} is an expression, which this source does not support; compute it "
            "in the table, or use a `query` of a database",
        )
    return column.physical
