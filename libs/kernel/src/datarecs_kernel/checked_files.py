"""Parquet files with texts as bytes, for sources with text that is not UTF-8.

DuckDB refuses a whole file because of one such text; Arrow's reader returns the bytes. It is
slower, so files are read this way only after DuckDB has refused one, or if DuckDB cannot accept its
path.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyarrow.types as pat

from datarecs_core.comparison.planning.scan import PinnedFile
from datarecs_core.errors.run import RunDetail
from datarecs_kernel.database import Connection
from datarecs_kernel.refusals import SourceFailedError
from datarecs_kernel.stored_files import FileGroup, StoredColumn, StoredFiles, folder_values

REFUSED_TEXT = "Invalid string encoding"
"""Part of DuckDB's message about a text that is not UTF-8."""
_numbers = count()


def checked_groups(connection: Connection, stored: StoredFiles) -> tuple[FileGroup, ...]:
    """The files by their columns and folders; texts are of the type BLOB.

    Raises:
        SourceFailedError: a file is not a readable Parquet file.
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
    try:
        schema = pq.ParquetFile(stored.root / file.path).schema.to_arrow_schema()
    except (pa.ArrowException, OSError) as cause:
        message = f"{file.path} is not a readable Parquet file; deliver it again"
        raise SourceFailedError(RunDetail.CORRUPT_SOURCE, stored.source, message) from cause
    return pa.schema([pa.field(field.name, _bytes(field.type)) for field in schema])


def _bytes(kind: pa.DataType) -> pa.DataType:
    is_text = pat.is_string(kind) or pat.is_large_string(kind) or pat.is_string_view(kind)
    return pa.binary() if is_text else kind


def _group(
    connection: Connection, stored: StoredFiles, files: list[PinnedFile], schema: pa.Schema
) -> FileGroup:
    name = f"checked_files_{next(_numbers)}"
    paths = [str(stored.root / file.path) for file in files]
    names = schema.names
    if len({label.casefold() for label in names}) == len(names):
        connection.register(name, ds.dataset(paths, schema=schema, format="parquet"))
    else:
        connection.register(name, _NumberedColumns(paths, schema))
    described = connection.execute(f"DESCRIBE FROM {name}").fetchall()
    columns = {
        label: StoredColumn(sql=f"c{at}", type=kind)
        for at, (label, (_, kind, *_)) in enumerate(zip(names, described, strict=True))
        if names.count(label) == 1
    }
    labels = ", ".join(f"c{at}" for at in range(len(names)))
    return FileGroup(files=tuple(files), table=f"{name} AS stored({labels})", columns=columns)


class _NumberedColumns:
    """Files with column names that DuckDB cannot distinguish; read again each time."""

    def __init__(self, paths: list[str], schema: pa.Schema) -> None:
        self._paths = paths
        self._schema = pa.schema([each.with_name(f"c{at}") for at, each in enumerate(schema)])

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:  # noqa: ANN401 - Arrow's protocol
        reader = pa.RecordBatchReader.from_batches(self._schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for path in self._paths:
            for batch in pq.ParquetFile(path).iter_batches():
                yield batch.rename_columns(self._schema.names).cast(self._schema)
