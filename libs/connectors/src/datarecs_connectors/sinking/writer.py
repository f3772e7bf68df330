"""Rows of one table: converted at once, kept in memory, and written to files on request."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.table.metadata import TableMetadata

from datarecs_application.ports.sinking import SinkRecord
from datarecs_connectors.locations import Places
from datarecs_connectors.sinking.files import check_locations
from datarecs_connectors.sinking.parquet_writing import TableFileWriter
from datarecs_connectors.sinking.partitions import Partitioner
from datarecs_connectors.sinking.rows import RowConverter
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.control import FileEntry
from datarecs_core.sink.definition import MetadataColumns

_MOST_VERSION = 2
_FORMAT = "write.format.default"


def check_writable(table: str, metadata: TableMetadata, places: Places) -> None:
    """Check that the sink can write files of the table.

    Raises:
        SinkError: FORMAT_VERSION_UNSUPPORTED, FILE_FORMAT_UNSUPPORTED, FILE_LOCATION_REFUSED.
    """
    if metadata.format_version > _MOST_VERSION:
        raise SinkError(
            SinkCode.FORMAT_VERSION_UNSUPPORTED,
            f"table {table} has format version {metadata.format_version}; the sink writes 1 and 2",
        )
    file_format = metadata.properties.get(_FORMAT, "parquet")
    if file_format.lower() != "parquet":
        raise SinkError(
            SinkCode.FILE_FORMAT_UNSUPPORTED,
            f"table {table} asks for files of format {file_format}; the sink writes parquet",
        )
    check_locations(metadata, places)


@dataclass(slots=True, kw_only=True)
class _Version:
    """What depends on the schema, the spec and the properties of a table."""

    converter: RowConverter
    partitioner: Partitioner
    files: TableFileWriter


@dataclass(slots=True, kw_only=True)
class IcebergTableWriter:
    """Port TableWriter over one table."""

    load: Callable[[Sequence[SinkRecord]], TableMetadata]
    """The table now; with the records to create it from if it does not exist. Raises SinkError."""
    places: Places
    metadata_columns: MetadataColumns
    prefix: str
    """Of the names of files."""
    _version: _Version | None = None
    _rows: list[pa.Table] = field(default_factory=list)
    _bytes: int = 0
    _dropped: int = 0
    _files: int = 0

    @property
    def dropped_fields(self) -> int:
        """Values of fields that have no column, since the writer was made."""
        current = self._version.converter.dropped_fields if self._version is not None else 0
        return self._dropped + current

    def add(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        rows = self._opened(records).converter.convert(records)
        self._rows.append(rows)
        self._bytes += rows.nbytes

    def size(self) -> int:
        return self._bytes

    def flush(self) -> None:
        if self._version is None or not self._rows:
            return
        rows = pa.concat_tables(self._rows)
        for partition, part in self._version.partitioner.split(rows):
            self._version.files.write(partition, part)
        self._rows, self._bytes = [], 0

    def finish(self) -> tuple[FileEntry, ...]:
        if self._version is None:
            return ()
        self.flush()
        entries = self._version.files.finish()
        self._forget()
        return entries

    def discard(self) -> None:
        self._rows, self._bytes = [], 0
        if self._version is not None:
            self._version.files.discard()
            self._forget()

    def _opened(self, records: Sequence[SinkRecord]) -> _Version:
        """The table as it is at the first record after a finish."""
        if self._version is None:
            metadata = self.load(records)
            converter = RowConverter(metadata, self.metadata_columns)
            self._version = _Version(
                converter=converter,
                partitioner=Partitioner(metadata.spec(), metadata.schema()),
                files=TableFileWriter(
                    metadata=metadata,
                    file_schema=converter.file_schema,
                    places=self.places,
                    new_name=self._new_name,
                ),
            )
        return self._version

    def _forget(self) -> None:
        """The next record reads the table again, with what others have changed."""
        self._dropped = self.dropped_fields
        self._version = None

    def _new_name(self) -> str:
        self._files += 1
        return f"{self.prefix}-{secrets.token_hex(8)}-{self._files:05d}"
