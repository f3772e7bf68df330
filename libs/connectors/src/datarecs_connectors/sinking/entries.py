"""Files of a message as files of a manifest, and the reverse."""

from collections.abc import Mapping
from uuid import UUID

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from datarecs_core.sink.control import FileEntry


def data_file_of(entry: FileEntry) -> DataFile:
    """The file, with the id of the spec that it was written under."""
    values = (field.value for field in entry.partition)
    file = DataFile.from_args(
        content=DataFileContent(int(entry.content)),
        file_path=entry.path,
        file_format=FileFormat.PARQUET,
        partition=Record(*(value.bytes if isinstance(value, UUID) else value for value in values)),
        record_count=entry.record_count,
        file_size_in_bytes=entry.size,
        column_sizes=_mapping(entry.column_sizes),
        value_counts=_mapping(entry.value_counts),
        null_value_counts=_mapping(entry.null_value_counts),
        nan_value_counts=_mapping(entry.nan_value_counts),
        lower_bounds=_mapping(entry.lower_bounds),
        upper_bounds=_mapping(entry.upper_bounds),
        key_metadata=None,
        split_offsets=list(entry.split_offsets) or None,
        equality_ids=list(entry.equality_ids) or None,
        sort_order_id=entry.sort_order_id,
    )
    file.spec_id = entry.spec_id
    return file


def _mapping(values: Mapping[int, object]) -> dict[int, object] | None:
    return dict(values) or None
