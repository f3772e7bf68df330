"""Whether files that were written for one table can be files of another one.

A table that was created again has ids and types of its own. Readers go by the ids of columns and
by the values of partitions, so a file that disagrees with either would be read wrongly.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, index_by_id, sanitize_column_names
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField

from datarecs_connectors.errors import SnapshotLostError
from datarecs_connectors.sinking.files import SinkFiles
from datarecs_connectors.sinking.partitions import Partitioner, path_to
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.control import FileEntry

_BATCH_ROWS = 65_536


def check_fits(
    table: str, metadata: TableMetadata, files: SinkFiles, entries: Sequence[FileEntry]
) -> None:
    """Check ids, names and types of every column, and the partition of every row.

    Raises:
        SinkError: TABLE_LOST, a file is of another kind than those of the table, or is gone.
    """
    for entry in entries:
        reason = _misfit(metadata, files, entry)
        if reason:
            raise SinkError(
                SinkCode.TABLE_LOST,
                f"records written for the earlier table {table} do not fit the one that is there "
                f"now: {reason}, in the file {entry.path}; use `accept-table` with leave_out to go "
                "on without them",
            )


def _misfit(metadata: TableMetadata, files: SinkFiles, entry: FileEntry) -> str:
    """Why a file cannot be one of the table; empty: it can."""
    spec = metadata.specs().get(entry.spec_id)
    if spec is None:
        return f"it has no partition spec {entry.spec_id}"
    try:
        stream = files.new_input(entry.path).open()
    except SnapshotLostError:
        return "they are gone"
    with stream, pq.ParquetFile(stream) as file:
        try:
            written = pyarrow_to_schema(file.schema_arrow)
        except ValueError:
            return "columns have no ids"
        reason = _schema_misfit(sanitize_column_names(metadata.schema()), written)
        return reason or _partition_misfit(spec, written, file, entry)


def _schema_misfit(table: Schema, file: Schema) -> str:
    columns, written = index_by_id(table), index_by_id(file)
    for field_id, field in written.items():
        name, column = file.find_column_name(field_id), columns.get(field_id)
        if column is None or table.find_column_name(field_id) != name:
            return f"it has no column {name} with the id {field_id}"
        if not _is_same_type(field, column):
            return f"column {name} is {column.field_type}, and was {field.field_type}"
        if column.required and not field.required:
            return f"column {name} is required, and was not"
    for field_id, column in columns.items():
        if column.required and field_id not in written:
            return f"column {table.find_column_name(field_id)} is required, and was not there"
    return ""


def _is_same_type(first: NestedField, second: NestedField) -> bool:
    """Members of structs, lists and maps are compared by themselves."""
    if first.field_type.is_primitive:
        return bool(first.field_type == second.field_type)
    return type(first.field_type) is type(second.field_type)


def _partition_misfit(
    spec: PartitionSpec, schema: Schema, file: pq.ParquetFile, entry: FileEntry
) -> str:
    """Names and values as the spec of the table makes them of the rows."""
    reason = f"its partition spec {spec.spec_id} has other values for the same rows"
    if spec.is_unpartitioned():
        return reason if entry.partition else ""
    try:
        paths = [path_to(schema.as_struct(), field.source_id) for field in spec.fields]
        used = [schema.fields[position] for position in sorted({path[0] for path in paths})]
    except IndexError:
        return "a column of its partition spec was not there"
    names = [field.name for field in used]
    part = Schema(*used)
    partitioner = Partitioner(spec, part)
    for batch in file.iter_batches(_BATCH_ROWS, columns=names):
        rows = pa.Table.from_batches([batch]).select(names)
        for values, _ in partitioner.split(rows):
            if values.fields(part) != entry.partition:
                return reason
    return ""
