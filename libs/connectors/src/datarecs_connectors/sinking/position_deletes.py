"""Write position delete files: for each partition one, sorted by data file and position."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.metadata import TableMetadata

from datarecs_connectors.sinking.files import SinkFiles, location_provider

Positions = npt.NDArray[np.int64]
_PATH_ID, _POSITION_ID = 2147483546, 2147483545
_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False).with_metadata(
            {"PARQUET:field_id": str(_PATH_ID)}
        ),
        pa.field("pos", pa.int64(), nullable=False).with_metadata(
            {"PARQUET:field_id": str(_POSITION_ID)}
        ),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRows:
    """Rows of one data file that are to be deleted."""

    file: DataFile
    positions: Positions
    """Not sorted, each once; not empty."""


@dataclass(slots=True, kw_only=True)
class PositionDeleteWriter:
    """Writes the delete files of one attempt to commit."""

    metadata: TableMetadata
    files: SinkFiles
    token: str
    """Part of the names of files that no other attempt has."""
    written: list[str] = field(default_factory=list)
    """Locations, also of a file that could not be completed."""

    def write(self, deleted: Sequence[DeletedRows]) -> list[DataFile]:
        """Raises OSError and errors of connectors."""
        by_partition: dict[tuple[object, ...], list[DeletedRows]] = {}
        for rows in deleted:
            by_partition.setdefault(_partition(rows.file), []).append(rows)
        return [self._file(number, rows) for number, rows in enumerate(by_partition.values())]

    def _file(self, number: int, deleted: Sequence[DeletedRows]) -> DataFile:
        deleted = sorted(deleted, key=lambda rows: rows.file.file_path.encode())
        one = deleted[0].file
        folder = self._folder(one)
        name = f"{self.token}-{number:05d}-deletes.parquet"
        place = location_provider(self.metadata).new_data_location(
            f"{folder}/{name}" if folder else name
        )
        self.written.append(place)
        output = self.files.new_output(place)
        count, least, most = 0, deleted[0].positions[0], deleted[0].positions[0]
        with output.create() as stream, pq.ParquetWriter(stream, _SCHEMA) as writer:
            for rows in deleted:
                positions = np.sort(rows.positions)
                writer.write_table(_table(rows.file.file_path, positions))
                count += len(positions)
                least, most = min(least, positions[0]), max(most, positions[-1])
        paths = deleted[0].file.file_path.encode(), deleted[-1].file.file_path.encode()
        delete_file = DataFile.from_args(
            content=DataFileContent.POSITION_DELETES,
            file_path=place,
            file_format=FileFormat.PARQUET,
            partition=one.partition,
            record_count=count,
            file_size_in_bytes=len(output),
            value_counts={_PATH_ID: count, _POSITION_ID: count},
            null_value_counts={_PATH_ID: 0, _POSITION_ID: 0},
            lower_bounds={_PATH_ID: paths[0], _POSITION_ID: _long(least)},
            upper_bounds={_PATH_ID: paths[1], _POSITION_ID: _long(most)},
            column_sizes=None,
            nan_value_counts=None,
            key_metadata=None,
            split_offsets=None,
            equality_ids=None,
            sort_order_id=None,
        )
        delete_file.spec_id = one.spec_id
        return delete_file

    def _folder(self, file: DataFile) -> str:
        spec = self.metadata.specs()[file.spec_id]
        return spec.partition_to_path(file.partition, self.metadata.schema())


def _partition(file: DataFile) -> tuple[object, ...]:
    values = file.partition
    return (file.spec_id, *(values[position] for position in range(len(values))))


def _table(path: str, positions: Positions) -> pa.Table:
    paths = pa.repeat(pa.scalar(path), len(positions))
    return pa.Table.from_arrays([paths, pa.array(positions)], schema=_SCHEMA)


def _long(value: np.int64) -> bytes:
    return struct.pack("<q", value)


def deleted_rows(
    files: Mapping[str, DataFile], positions: Mapping[str, Positions]
) -> list[DeletedRows]:
    """Of files by their paths; a file without a position is left out."""
    return [
        DeletedRows(file=files[path], positions=at) for path, at in positions.items() if len(at)
    ]
