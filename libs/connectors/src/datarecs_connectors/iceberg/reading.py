"""Rows of a table's data files, batch by batch: the requested columns, without deleted rows.

A file is streamed, never loaded whole; its row count must equal the count in its manifest, so a
truncated file is an error and never a shorter table.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.types import NestedField

from datarecs_connectors.errors import CorruptSourceError
from datarecs_connectors.iceberg.columns import FileColumns
from datarecs_connectors.iceberg.deletes import DeadRows, Positions, alive
from datarecs_connectors.iceberg.files import TableFiles
from datarecs_connectors.iceberg.planning import PlannedFile
from datarecs_connectors.iceberg.snapshots import FrozenTable
from datarecs_connectors.parquet_files import (
    ParquetPlace,
    long_dictionaries,
    open_parquet,
    read_batches,
)
from datarecs_connectors.typed_text import TypedColumn

BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReader:
    """Reads files of one pinned table."""

    table: FrozenTable
    files: TableFiles

    def dead_rows(self, scratch: str | None) -> DeadRows:
        """Finds the deleted rows; one for all files, because files share delete files."""
        return DeadRows(
            table=self.table,
            files=self.files,
            opened=self.opened,
            keys=self._keys,
            scratch=scratch,
        )

    def read(
        self, file: PlannedFile, fields: Sequence[NestedField], dead: Positions
    ) -> Iterator[tuple[int, list[TypedColumn]]]:
        """Count of rows and one column per field, batch by batch.

        Raises:
            SnapshotLostError: the file no longer exists.
            CorruptSourceError: it cannot be read, or holds other types or another number of rows.
        """
        for start, batch, columns in self._raw(file, fields):
            living = alive(batch, start, dead)
            if living.num_rows:
                yield living.num_rows, [columns.column(living, field) for field in fields]

    @contextmanager
    def opened(self, path: str) -> Iterator[pq.ParquetFile]:
        """A Parquet file of the table, opened with limits because its footer is external input."""
        place = ParquetPlace(source=self.table.source, path=path.rpartition("/")[2])
        with self.files.new_input(path).open() as file:
            try:
                stored = open_parquet(file, place)
                texts = frozenset(stored.schema_arrow.names)
                repeated = long_dictionaries(stored.metadata, texts, BATCH_ROWS)
                yield open_parquet(file, place, dictionaries=repeated) if repeated else stored
            except (pa.ArrowException, OSError) as cause:
                raise place.error(cause) from None

    def _keys(self, file: PlannedFile, fields: Sequence[NestedField]) -> Iterator[pa.RecordBatch]:
        names = [str(field.field_id) for field in fields]
        for _, batch, columns in self._raw(file, fields):
            arrays = [key_values(columns.column(batch, field)) for field in fields]
            yield pa.RecordBatch.from_arrays(arrays, names=names)

    def _raw(
        self, file: PlannedFile, fields: Sequence[NestedField]
    ) -> Iterator[tuple[int, pa.RecordBatch, FileColumns]]:
        """Position of the first row, the columns of the file, and their mapping to fields."""
        start = 0
        with self.opened(file.file.file_path) as opened:
            schema = opened.schema_arrow
            columns = FileColumns.of(self.table.source, self.table.metadata, file.file, schema)
            names = columns.names(fields)
            if not opened.metadata.num_rows:
                arrow_fields = [schema.field(name) for name in names]
                yield 0, pa.RecordBatch.from_pylist([], pa.schema(arrow_fields)), columns
            place = ParquetPlace(source=self.table.source, path=columns.name)
            for batch in read_batches(opened, place, rows=BATCH_ROWS, columns=names):
                yield start, batch, columns
                start += batch.num_rows
        if start != file.file.record_count:
            raise CorruptSourceError(
                self.table.source,
                f"{columns.name} has {start} rows, but {file.file.record_count} in its manifest",
            )


def key_values(column: TypedColumn) -> pa.Array:
    """Texts as bytes, so collations have no effect; text that is not UTF-8 is NULL elsewhere."""
    if not pa.types.is_string(column.values.type):
        return column.values
    raw = column.values.cast(pa.binary())
    return raw if column.invalid is None else pc.coalesce(raw, column.invalid)
