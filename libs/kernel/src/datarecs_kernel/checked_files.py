"""Parquet files with texts as bytes, for sources that hold what is no UTF-8.

DuckDB refuses a file whole for one such text; Arrow's reader hands the bytes over. It is slower, so
files are read in this way only once DuckDB has refused one.
"""

from itertools import count

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyarrow.types as pat

from datarecs_core.comparison.planning.scan import PinnedFile
from datarecs_kernel.database import Connection
from datarecs_kernel.refusals import UnreadableByKernelError
from datarecs_kernel.stored_files import FileGroup, StoredColumn, StoredFiles, folder_values

REFUSED_TEXT = "Invalid string encoding"
"""In what DuckDB says of a text that is no UTF-8."""
_numbers = count()


def checked_groups(connection: Connection, stored: StoredFiles) -> tuple[FileGroup, ...]:
    """The files by their columns and folders; texts are of the type BLOB.

    Raises:
        UnreadableByKernelError: names of columns differ in case alone.
    """
    alike: dict[tuple[object, ...], list[PinnedFile]] = {}
    schemas = {file.path: _schema(stored, file) for file in stored.files}
    for file in stored.files:
        fields = tuple((field.name, field.type) for field in schemas[file.path])
        key = (fields, tuple(folder_values(file.path).items()))
        alike.setdefault(key, []).append(file)
    return tuple(
        _group(connection, stored, files, schemas[files[0].path]) for files in alike.values()
    )


def _schema(stored: StoredFiles, file: PinnedFile) -> pa.Schema:
    schema = pq.ParquetFile(stored.root / file.path).schema.to_arrow_schema()
    if len({name.casefold() for name in schema.names}) < len(schema.names):
        raise UnreadableByKernelError(stored.source, "names of its columns differ in case alone")
    return pa.schema([pa.field(field.name, _bytes(field.type)) for field in schema])


def _bytes(kind: pa.DataType) -> pa.DataType:
    is_text = pat.is_string(kind) or pat.is_large_string(kind) or pat.is_string_view(kind)
    return pa.binary() if is_text else kind


def _group(
    connection: Connection, stored: StoredFiles, files: list[PinnedFile], schema: pa.Schema
) -> FileGroup:
    name = f"checked_files_{next(_numbers)}"
    paths = [str(stored.root / file.path) for file in files]
    connection.register(name, ds.dataset(paths, schema=schema, format="parquet"))
    described = connection.execute(f"DESCRIBE FROM {name}").fetchall()
    columns = {
        label: StoredColumn(sql=f"c{at}", type=kind)
        for at, (label, kind, *_) in enumerate(described)
    }
    labels = ", ".join(column.sql for column in columns.values())
    return FileGroup(files=tuple(files), table=f"{name} AS stored({labels})", columns=columns)
