"""Parquet files: footers are read with limits, columns by name, values by pyarrow for the oracle.

Engines read the pinned files directly, so nothing is extracted here. Folder names such as
`day=2026-01-31` are columns, inferred by the strict rules of text.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

from datarecs_application.ports.comparing import ProbeStep, Read
from datarecs_connectors.arrow_types import plain_rows
from datarecs_connectors.declared_types import typed_values
from datarecs_connectors.errors import SourceLimitError
from datarecs_connectors.extracting import Batches, write_extract
from datarecs_connectors.filtering import filter_of
from datarecs_connectors.parquet_files import (
    ParquetPlace,
    dictionary_bytes,
    long_dictionaries,
    open_parquet,
    read_batches,
)
from datarecs_connectors.parquet_schemas import (
    FileSchema,
    columns_of,
    file_schema,
    one_schema,
    repeated_names,
)
from datarecs_connectors.probing import probe_files
from datarecs_connectors.source_trees import HeldFiles, SourceTree
from datarecs_connectors.typed_columns import matching_rows, stored_column, taken
from datarecs_connectors.typed_text import TypedColumn, table_of, typed
from datarecs_core.comparison.planning.scan import (
    FileList,
    Pin,
    PinnedFile,
    Scan,
    SourceColumn,
    SourceSchema,
)
from datarecs_core.comparison.values.forms import Inference, read_text
from datarecs_core.jobs import types
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.types import CanonicalType, TypeKind

BATCH_ROWS = 10_000
MAX_COLUMNS = 2_000
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""Name of the folder for rows with the value NULL."""


class ParquetOptions(BaseModel):
    """`options` of a parquet source."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    hive_partitions: bool = True
    merge_schema: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetConnector:
    """Port Connector over a folder of Parquet files."""

    tree: SourceTree
    options: ParquetOptions

    def pin(self, source: Source) -> HeldFiles:
        """Pin the files with the row count of each footer."""
        with ExitStack() as unless_held:
            pinned = self.tree.pin(source.path or "")
            unless_held.callback(pinned.close)
            rows = {file.path: self._open(file).metadata.num_rows for file in pinned.pin.files}
            unless_held.pop_all()
        return pinned.with_rows(rows)

    def describe(self, source: Source, pin: Pin) -> SourceSchema:
        """Columns of the files, then of the folders.

        Files with other columns are refused; with `merge_schema` only those with other types.
        Columns that cannot be compared are listed, and refused where a job names them.
        """
        files = _files(pin)
        schemas = [self._schema(file) for file in files]
        fields = one_schema(source.name, schemas, merged=self.options.merge_schema)
        columns, undelivered = columns_of(fields, schemas)
        if self.options.hive_partitions:
            columns += hive_columns(file.path for file in files)
        if max(len(columns), len(fields)) > MAX_COLUMNS:
            raise SourceLimitError(source.name, f"more than {MAX_COLUMNS} columns")
        return SourceSchema(
            columns=tuple(columns),
            undelivered=undelivered,
            estimated_rows=sum(file.rows or 0 for file in files),
            estimated_bytes=sum(file.size_bytes for file in files),
        )

    def rows(self, scan: Scan) -> Iterator[tuple[object, ...]]:
        names = [column.physical or "" for column in scan.columns]
        kinds = {column.name: column.type for column in scan.schema.columns}
        wanted = filter_of(scan)
        for file in _files(scan.pin):
            hive = _hive_plains(scan, file.path) if self.options.hive_partitions else {}
            absent = dict.fromkeys((*names, *wanted.columns))
            stored = [name for name in absent if name not in hive]
            for batch in self._batches(file, stored, kinds):
                held = batch.schema.names
                if held == names and wanted.condition is None:
                    yield from plain_rows(batch)
                    continue
                for row in plain_rows(batch):
                    values = {**absent, **hive, **dict(zip(held, row, strict=True))}
                    if wanted.matches(values):
                        yield tuple(values[name] for name in names)

    def batches(self, scan: Scan) -> Batches:
        """The rows as typed columns, at least one batch; engines usually read files directly."""
        files, wanted = _files(scan.pin), filter_of(scan)
        kinds = {column.name: column.type for column in scan.schema.columns}
        names = [column.physical or "" for column in scan.columns]
        needed = list(dict.fromkeys((*names, *wanted.columns)))
        labels = [column.name for column in scan.columns]
        is_empty = True
        for file in files:
            folders = hive_values(file.path) if self.options.hive_partitions else {}
            stored = [name for name in needed if name not in folders]
            for batch in self._batches(file, stored, kinds):
                columns = {
                    name: folder_column(folders.get(name), kinds[name], batch.num_rows)
                    if name in folders or name not in batch.schema.names
                    else stored_column(batch.column(name), kinds[name])
                    for name in needed
                }
                rows = np.arange(batch.num_rows)
                if wanted.condition is not None:
                    rows = matching_rows(wanted, columns, batch.num_rows)
                is_empty = False
                yield table_of(labels, [taken(columns[name], rows) for name in names])
        if is_empty:
            yield table_of(labels, [typed_values([], column.type) for column in scan.columns])

    def extract(self, scan: Scan, directory: str, progress: Callable[[Read], None]) -> Scan:
        """No extract, unless engines would refuse or skip a file or a column, or cannot open it.

        Engines read exactly the rows that the footers declare. From a store only the pages of the
        needed columns are read, once; every engine then reads the extract.
        """
        rows, limits = sum(file.rows or 0 for file in _files(scan.pin)), scan.limits
        if rows > limits.max_rows:
            message = f"{rows} rows, more than {limits.max_rows} (max_rows)"
            raise SourceLimitError(scan.source, message)
        names = frozenset(column.physical or "" for column in scan.columns)
        size = sum(self._decoded(file, names) for file in _files(scan.pin))
        if size > limits.max_bytes:
            message = f"{size} decoded bytes, more than {limits.max_bytes} (max_bytes)"
            raise SourceLimitError(scan.source, message)
        if self._is_read_by_engines(scan, names.union(filter_of(scan).columns)):
            return scan
        return write_extract(scan, self.batches(scan), directory, progress)

    def probe(self, source: Source | None = None) -> Sequence[ProbeStep]:
        return probe_files(self.tree, source)

    def close(self) -> None:
        self.tree.close()

    def _is_read_by_engines(self, scan: Scan, names: frozenset[str]) -> bool:
        if self.tree.is_remote or _has_repeated_names(scan.schema):
            return False
        files = _files(scan.pin)
        return not any(map(_is_skipped, files)) and all(
            self._schema(file).is_plain(name) for file in files for name in names
        )

    def _schema(self, file: PinnedFile) -> FileSchema:
        return file_schema(self._open(file), file.path)

    def _decoded(self, file: PinnedFile, names: frozenset[str]) -> int:
        """Bytes of the pages of these columns, and of the expanded values of dictionaries."""
        with self.tree.open_pinned(file) as opened:
            size = dictionary_bytes(opened, self._place(file), names)
            metadata = open_parquet(opened, self._place(file)).metadata
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            leaves = map(group.column, range(group.num_columns))
            size += sum(
                leaf.total_uncompressed_size
                for leaf in leaves
                if leaf.path_in_schema.partition(".")[0] in names or leaf.path_in_schema in names
            )
        return size

    def _open(self, file: PinnedFile) -> pq.ParquetFile:
        with self.tree.open_pinned(file) as opened:
            return open_parquet(opened, self._place(file))

    def _place(self, file: PinnedFile) -> ParquetPlace:
        return ParquetPlace(source=self.tree.source, path=file.path)

    def _batches(
        self, file: PinnedFile, columns: Sequence[str], kinds: Mapping[str, CanonicalType]
    ) -> Iterator[pa.RecordBatch]:
        texts = frozenset(name for name in columns if kinds[name].kind is TypeKind.TEXT)
        with self.tree.open_pinned(file) as opened:
            place = self._place(file)
            stored = open_parquet(opened, place)
            repeated = long_dictionaries(stored.metadata, texts, BATCH_ROWS)
            if repeated:
                stored = open_parquet(opened, place, dictionaries=repeated)
        for batch in read_batches(stored, place, rows=BATCH_ROWS, columns=columns):
            # The reader returns columns in the file's order.
            places = (batch.schema.get_all_field_indices(name)[:1] for name in columns)
            yield batch.select([place for indices in places for place in indices])


def _files(pin: Pin) -> tuple[PinnedFile, ...]:
    if not isinstance(pin, FileList):
        raise TypeError("a file source is pinned by its files")
    return pin.files


def _is_skipped(file: PinnedFile) -> bool:
    """Whether Spark skips the file because of its name, as unfinished."""
    name = file.path.rpartition("/")[2]
    return name.startswith(("_", ".")) or name.endswith("._COPYING_")


def _has_repeated_names(schema: SourceSchema) -> bool:
    return bool(repeated_names(column.name for column in schema.columns))


def hive_values(path: str) -> dict[str, str | None]:
    """The values of the folders of a file, by name; None for NULL."""
    parts = [part.partition("=") for part in path.split("/")[:-1]]
    return {
        name: None if value == _NO_VALUE else value for name, sign, value in parts if sign and name
    }


def hive_columns(paths: Iterable[str]) -> list[SourceColumn]:
    """The columns of the folders of all files."""
    values: dict[str, list[str | None]] = {}
    for path in paths:
        for name, value in hive_values(path).items():
            values.setdefault(name, []).append(value)
    return [
        SourceColumn(
            name=name,
            type=reduce(Inference.see, texts, Inference()).type or types.NULL,
            native_type="folder",
            nullable=None in texts,
        )
        for name, texts in values.items()
    ]


def _hive_plains(scan: Scan, path: str) -> dict[str, object]:
    """The columns of the folders as values of their inferred types."""
    kinds = {column.name: column.type for column in scan.schema.columns}
    values: dict[str, object] = {}
    for name, text in hive_values(path).items():
        value = None if text is None else read_text(text, kinds[name])
        values[name] = text if value is None else value.content
    return values


def folder_column(text: str | None, kind: CanonicalType, rows: int) -> TypedColumn:
    """A column; NULL if neither the file nor its folder has it."""
    return typed(pa.array([text] * rows, pa.string()), kind)
