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
from datarecs_connectors.sinking.schema_changes import SchemaChanger
from datarecs_core.errors.sink import BadRecordError, SinkCode, SinkError
from datarecs_core.sink.control import FileEntry, KeyFile, TableReference
from datarecs_core.sink.definition import MetadataColumns, SinkTarget

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


def reference_of(target: SinkTarget, metadata: TableMetadata) -> TableReference:
    return TableReference(
        catalog=target.catalog,
        namespace=target.namespace,
        name=target.name,
        uuid=metadata.table_uuid,
    )


@dataclass(slots=True, kw_only=True)
class _Version:
    """What depends on the schema, the spec and the properties of a table."""

    metadata: TableMetadata
    converter: RowConverter
    partitioner: Partitioner
    files: TableFileWriter


@dataclass(slots=True, kw_only=True)
class IcebergTableWriter:
    """Port TableWriter over one table."""

    target: SinkTarget
    load: Callable[[Sequence[SinkRecord]], TableMetadata]
    """The table now; with the records to create it from if it does not exist. Raises SinkError."""
    places: Places
    metadata_columns: MetadataColumns
    prefix: str
    """Of the names of files."""
    ignores_case: bool = False
    """Of names of fields."""
    changer: SchemaChanger | None = None
    """None: the schema stays as it is."""
    _version: _Version | None = None
    _earlier: list[TableFileWriter] = field(default_factory=list)
    """Complete files of earlier schemas, since the last finish."""
    _reference: TableReference | None = None
    """Of the version that was opened last."""
    _rows: list[pa.Table] = field(default_factory=list)
    _bytes: int = 0
    _dropped: int = 0
    _files: int = 0

    @property
    def dropped_fields(self) -> int:
        """Values of fields that have no column, since the writer was made."""
        current = self._version.converter.dropped_fields if self._version is not None else 0
        return self._dropped + current

    def add(self, records: Sequence[SinkRecord]) -> int:
        if records:
            rows = self._converted(records)
            self._rows.append(rows)
            self._bytes += rows.nbytes
        return 0

    def reference(self) -> TableReference:
        if self._reference is None:
            raise SinkError(SinkCode.TABLE_LOST, f"table {self.target} has no record yet")
        return self._reference

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
        written = (*self._earlier, self._version.files)
        entries = tuple(entry for files in written for entry in files.finish())
        self._earlier = []
        self._forget()
        return entries

    def key_file(self) -> KeyFile | None:
        """None: rows are only appended."""
        return None

    def discard(self) -> None:
        self._rows, self._bytes = [], 0
        for files in self._earlier:
            files.discard()
        self._earlier = []
        if self._version is not None:
            self._version.files.discard()
            self._forget()

    def _converted(self, records: Sequence[SinkRecord]) -> pa.Table:
        """The rows, under another schema if the records need one and may have it."""
        version = self._opened(records)
        if self.changer is None:
            return version.converter.convert(records)
        dropped = version.converter.dropped_fields
        rows: pa.Table | BadRecordError
        try:
            rows = version.converter.convert(records)
        except BadRecordError as error:
            rows = error
        else:
            if version.converter.dropped_fields == dropped:
                return rows
        metadata = self.changer.evolve(version.metadata, records)
        if metadata is not None:
            return self._changed(version, metadata, dropped).converter.convert(records)
        if isinstance(rows, BadRecordError):
            raise rows
        return rows

    def _changed(self, version: _Version, metadata: TableMetadata, dropped: int) -> _Version:
        """Go on under another schema; the files of the old one are complete."""
        check_writable(str(self.target), metadata, self.places)
        self.flush()
        version.files.close()
        self._earlier.append(version.files)
        self._dropped += dropped
        self._version = self._version_of(metadata)
        return self._version

    def _opened(self, records: Sequence[SinkRecord]) -> _Version:
        """The table as it is at the first record after a finish."""
        if self._version is None:
            metadata = self.load(records)
            self._reference = reference_of(self.target, metadata)
            self._version = self._version_of(metadata)
        return self._version

    def _version_of(self, metadata: TableMetadata) -> _Version:
        converter = RowConverter(metadata, self.metadata_columns, ignores_case=self.ignores_case)
        return _Version(
            metadata=metadata,
            converter=converter,
            partitioner=Partitioner(metadata.spec(), metadata.schema()),
            files=TableFileWriter(
                metadata=metadata,
                file_schema=converter.file_schema,
                places=self.places,
                new_name=self._new_name,
            ),
        )

    def _forget(self) -> None:
        """The next record reads the table again, with what others have changed."""
        self._dropped = self.dropped_fields
        self._version = None

    def _new_name(self) -> str:
        self._files += 1
        return f"{self.prefix}-{secrets.token_hex(8)}-{self._files:05d}"
