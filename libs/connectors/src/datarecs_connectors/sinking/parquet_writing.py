"""The open Parquet files of one table: one for each partition, closed at the target size.

A file is written row group by row group, so it may become larger than the memory of the sink. Few
files are open at once; the one that was written to longest ago is closed first.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import ParquetFormatWriter
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from datarecs_connectors.errors import ConnectionFailedError, SourceError
from datarecs_connectors.locations import Places
from datarecs_connectors.sinking.files import NewFile, SinkFiles, location_provider
from datarecs_connectors.sinking.partitions import PartitionValues
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.control import FileEntry

_MOST_OPEN = 64
_TARGET, _TARGET_BYTES = "write.target-file-size-bytes", 512 * 1024 * 1024
_USED = (
    "write.parquet.compression-codec",
    "write.parquet.compression-level",
    "write.parquet.page-size-bytes",
    "write.parquet.page-row-limit",
    "write.parquet.dict-size-bytes",
    "write.parquet.row-group-limit",
)
_METRICS = "write.metadata.metrics."
_DEFAULT_CODEC = {"write.parquet.compression-codec": "zstd"}


def writer_properties(metadata: TableMetadata) -> dict[str, str]:
    """The properties of a table that its files obey; others are not passed on."""
    used = {
        name: value
        for name, value in metadata.properties.items()
        if name in _USED or name.startswith(_METRICS)
    }
    return {**_DEFAULT_CODEC, **used}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsPlace:
    """Where rows were written: their file, and the position of the first of them."""

    path: str
    start: int


@dataclass(slots=True, kw_only=True)
class _OpenFile:
    output: NewFile
    writer: ParquetFormatWriter
    partition: PartitionValues
    written: int = 0
    """Bytes of its rows in memory, before compression."""
    rows: int = 0


@dataclass(slots=True, kw_only=True)
class TableFileWriter:
    """Writes the files of one version of a table."""

    metadata: TableMetadata
    file_schema: Schema
    places: Places
    new_name: Callable[[], str]
    """A name that no other file has, without an ending."""
    _open: OrderedDict[tuple[Any, ...], _OpenFile] = field(default_factory=OrderedDict)
    _done: list[FileEntry] = field(default_factory=list)

    def write(self, partition: PartitionValues, rows: pa.Table) -> RowsPlace:
        """Append rows of one partition; all of them are in one file."""
        key = partition.values
        opened = self._open.get(key) or self._opened(partition)
        self._open.move_to_end(key)
        with self._translated():
            opened.writer.write(rows)
        place = RowsPlace(path=opened.output.location, start=opened.rows)
        opened.written += rows.nbytes
        opened.rows += rows.num_rows
        if opened.written >= self._target_bytes:
            self._close(key)
        elif len(self._open) > _MOST_OPEN:
            self._close(next(iter(self._open)))
        return place

    def close(self) -> None:
        """Complete the open files; the next row begins others."""
        while self._open:
            self._close(next(iter(self._open)))

    def finish(self) -> tuple[FileEntry, ...]:
        """Every file since the last finish, complete and readable."""
        self.close()
        done, self._done = tuple(self._done), []
        return done

    def discard(self) -> None:
        """Remove every file since the last finish."""
        files = SinkFiles(self.places)
        while self._open:
            _, opened = self._open.popitem()
            with suppress(OSError, ValueError, SourceError, SinkError):
                opened.writer.close()
            files.delete(opened.output)
        for entry in self._done:
            files.delete(entry.path)
        self._done = []

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raises ConnectionFailedError where the system refuses, SinkError for a property."""
        try:
            yield
        except (ValueError, pa.ArrowException) as cause:
            raise SinkError(
                SinkCode.FILE_FORMAT_UNSUPPORTED,
                "a property write.parquet.* or write.metadata.metrics.* of the table cannot be "
                f"obeyed: {cause}",
            ) from cause
        except OSError as cause:
            raise ConnectionFailedError(
                self.places.source, f"a file of the table cannot be written: {cause.strerror}"
            ) from cause

    @property
    def _target_bytes(self) -> int:
        text = self.metadata.properties.get(_TARGET, "")
        return int(text) if text.isdigit() else _TARGET_BYTES

    def _opened(self, partition: PartitionValues) -> _OpenFile:
        folder = partition.path(self.metadata.schema())
        name = f"{self.new_name()}.parquet"
        place = location_provider(self.metadata).new_data_location(
            f"{folder}/{name}" if folder else name
        )
        output = NewFile(place, self.places)
        with self._translated():
            writer = ParquetFormatWriter(output, self.file_schema, writer_properties(self.metadata))
        opened = _OpenFile(output=output, writer=writer, partition=partition)
        self._open[partition.values] = opened
        return opened

    def _close(self, key: tuple[Any, ...]) -> None:
        opened = self._open[key]
        with self._translated():
            statistics = opened.writer.close().to_serialized_dict()
        del self._open[key]
        partition = opened.partition
        self._done.append(
            FileEntry(
                path=opened.output.location,
                spec_id=partition.spec.spec_id,
                partition=partition.fields(self.metadata.schema()),
                record_count=statistics["record_count"],
                size=len(opened.output),
                column_sizes=statistics["column_sizes"],
                value_counts=statistics["value_counts"],
                null_value_counts=statistics["null_value_counts"],
                nan_value_counts=statistics["nan_value_counts"],
                lower_bounds=statistics["lower_bounds"],
                upper_bounds=statistics["upper_bounds"],
                split_offsets=tuple(statistics["split_offsets"]),
            )
        )
