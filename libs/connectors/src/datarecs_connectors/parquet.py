"""Parquet files: footers are read with limits, columns by name, values by pyarrow for the oracle.

Engines read the pinned files themselves, so nothing is extracted here. Names of folders such as
`day=2026-01-31` are columns, inferred as strictly as text is.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat
from pydantic import BaseModel, ConfigDict

from datarecs_application.ports.comparing import ProbeStep, Read
from datarecs_connectors.arrow_types import canonical_type, plain_rows
from datarecs_connectors.errors import SchemaChangedError, SourceLimitError, column_difference
from datarecs_connectors.extracting import Batches, write_extract
from datarecs_connectors.file_tree import FileTree, PinnedTree
from datarecs_connectors.filtering import filter_of
from datarecs_connectors.parquet_files import (
    ParquetPlace,
    dictionary_bytes,
    long_dictionaries,
    open_parquet,
    read_batches,
)
from datarecs_connectors.probing import probe_files
from datarecs_connectors.typed_columns import kept_rows, taken, valid_texts
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
_INT96 = "INT96 (a time that says of no zone what it is in; TIMESTAMP does)"


class ParquetOptions(BaseModel):
    """`options` of a parquet source."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    hive_partitions: bool = True
    merge_schema: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetConnector:
    """Port Connector over a folder of Parquet files."""

    tree: FileTree
    options: ParquetOptions

    def pin(self, source: Source) -> PinnedTree:
        """With the row count of each footer."""
        with ExitStack() as unless_held:
            pinned = self.tree.pin(source.path or "")
            unless_held.callback(pinned.close)
            files = tuple(
                replace(file, rows=self._open(file).metadata.num_rows) for file in pinned.pin.files
            )
            unless_held.pop_all()
        return replace(pinned, pin=replace(pinned.pin, files=files))

    def describe(self, source: Source, pin: Pin) -> SourceSchema:
        """Columns of the files, then the folders'.

        Files with other columns are refused, under `merge_schema` those with other types alone.
        What cannot be compared is told, and refused where somebody names it.
        """
        files = _files(pin)
        found = [self._schema(file) for file in files]
        schemas = [schema for schema, _ in found]
        if self.options.merge_schema:
            schema = _merged(source.name, files, schemas)
        else:
            schema = schemas[0]
            _check_alike(source.name, files, schemas)
        schema = _with_nulls(schema, schemas)
        zoneless = frozenset[str]().union(*(names for _, names in found))
        repeated = _repeated(schema.names)
        undelivered = _undelivered(schema, zoneless, repeated)
        columns = [
            _column(field, kind)
            for field in schema
            if (kind := _kind(field, zoneless, repeated)) is not None
        ]
        if self.options.hive_partitions:
            columns += _hive_columns(files)
        if max(len(columns), len(schema)) > MAX_COLUMNS:
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
                    found = {**absent, **hive, **dict(zip(held, row, strict=True))}
                    if wanted.keeps(found):
                        yield tuple(found[name] for name in names)

    def batches(self, scan: Scan) -> Batches:
        """The same as typed columns; engines read the files themselves, queries cannot."""
        files, wanted = _files(scan.pin), filter_of(scan)
        kinds = {column.name: column.type for column in scan.schema.columns}
        names = [column.physical or "" for column in scan.columns]
        asked = list(dict.fromkeys((*names, *wanted.columns)))
        labels = [column.name for column in scan.columns]
        for file in files:
            folders = _hive_values(file.path) if self.options.hive_partitions else {}
            stored = [name for name in asked if name not in folders]
            for batch in self._batches(file, stored, kinds):
                columns = {
                    name: _of_folder(folders.get(name), kinds[name], batch.num_rows)
                    if name in folders or name not in batch.schema.names
                    else valid_texts(batch.column(name))
                    for name in asked
                }
                rows = np.arange(batch.num_rows)
                if wanted.condition is not None:
                    rows = kept_rows(wanted, columns, batch.num_rows)
                yield table_of(labels, [taken(columns[name], rows) for name in names])

    def extract(self, scan: Scan, directory: str, progress: Callable[[Read], None]) -> Scan:
        """Nothing is brought, unless Spark's own reader would refuse or skip a file.

        Engines read exactly the rows that the footers promise here.
        """
        rows, limits = sum(file.rows or 0 for file in _files(scan.pin)), scan.limits
        if rows > limits.max_rows:
            told = f"{rows} rows, more than {limits.max_rows} (max_rows)"
            raise SourceLimitError(scan.source, told)
        names = frozenset(column.physical or "" for column in scan.columns)
        size = sum(self._decoded(file, names) for file in _files(scan.pin))
        if size > limits.max_bytes:
            told = f"{size} decoded bytes, more than {limits.max_bytes} (max_bytes)"
            raise SourceLimitError(scan.source, told)
        if _has_repeated_names(scan.schema) or any(map(_is_skipped, _files(scan.pin))):
            return write_extract(scan, self.batches(scan), directory, progress)
        return scan

    def probe(self, source: Source | None = None) -> Sequence[ProbeStep]:
        return probe_files(self.tree, source)

    def close(self) -> None:
        """Nothing is held open."""

    def _schema(self, file: PinnedFile) -> tuple[pa.Schema, frozenset[str]]:
        """Of a file, and which of its columns hold times as INT96."""
        opened = self._open(file)
        return opened.schema_arrow, _zoneless(opened)

    def _decoded(self, file: PinnedFile, names: frozenset[str]) -> int:
        """Bytes of these columns' pages, and of what short dictionaries stand for."""
        with self.tree.open_pinned(file) as opened:
            found = dictionary_bytes(opened, self._place(file), names)
            metadata = open_parquet(opened, self._place(file)).metadata
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            leaves = map(group.column, range(group.num_columns))
            found += sum(
                leaf.total_uncompressed_size
                for leaf in leaves
                if leaf.path_in_schema.partition(".")[0] in names or leaf.path_in_schema in names
            )
        return found

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
            # Columns come in the file's order.
            places = (batch.schema.get_all_field_indices(name)[:1] for name in columns)
            yield batch.select([place for found in places for place in found])


def _files(pin: Pin) -> tuple[PinnedFile, ...]:
    if not isinstance(pin, FileList):
        raise TypeError("a file source is pinned by its files")
    return pin.files


def _is_skipped(file: PinnedFile) -> bool:
    """Spark takes such names for those of unfinished files."""
    name = file.path.rpartition("/")[2]
    return name.startswith(("_", ".")) or name.endswith("._COPYING_")


def _has_repeated_names(schema: SourceSchema) -> bool:
    return bool(_repeated(column.name for column in schema.columns))


def _repeated(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name, times in Counter(names).items() if times > 1)


def _kind(
    field: pa.Field, zoneless: frozenset[str], repeated: frozenset[str]
) -> CanonicalType | None:
    """Of a name that stands twice every column is listed, whatever its type: none is ever read."""
    if field.name in repeated:
        return canonical_type(field.type) or types.TEXT
    return None if field.name in zoneless else canonical_type(field.type)


def _column(field: pa.Field, kind: CanonicalType) -> SourceColumn:
    return SourceColumn(
        name=field.name, type=kind, native_type=str(field.type), nullable=field.nullable
    )


def _zoneless(file: pq.ParquetFile) -> frozenset[str]:
    """INT96 is an instant to Spark, which writes it, and a local time to others."""
    leaves = map(file.schema.column, range(len(file.schema)))
    paths = [f"{leaf.path}." for leaf in leaves if leaf.physical_type == "INT96"]
    names = file.schema_arrow.names
    return frozenset(name for name in names if any(each.startswith(f"{name}.") for each in paths))


def _undelivered(
    schema: pa.Schema, zoneless: frozenset[str], repeated: frozenset[str]
) -> tuple[tuple[str, str], ...]:
    words = {
        field.name: _INT96 if field.name in zoneless else str(field.type)
        for field in schema
        if field.name not in repeated
        and (field.name in zoneless or pat.is_nested(field.type) or not canonical_type(field.type))
    }
    return tuple(words.items())


def _hive_values(path: str) -> dict[str, str]:
    parts = [part.partition("=") for part in path.split("/")[:-1]]
    return {name: value for name, sign, value in parts if sign and name}


def _hive_columns(files: Sequence[PinnedFile]) -> list[SourceColumn]:
    inferred: dict[str, Inference] = {}
    for file in files:
        for name, value in _hive_values(file.path).items():
            inferred[name] = inferred.get(name, Inference()).see(value)
    return [
        SourceColumn(name=name, type=found.type or types.TEXT, native_type="folder", nullable=False)
        for name, found in inferred.items()
    ]


def _hive_plains(scan: Scan, path: str) -> dict[str, object]:
    """The folders' columns as values of their inferred types."""
    kinds = {column.name: column.type for column in scan.schema.columns}
    values = {}
    for name, text in _hive_values(path).items():
        value = read_text(text, kinds[name])
        values[name] = text if value is None else value.content
    return values


def _of_folder(text: str | None, kind: CanonicalType, rows: int) -> TypedColumn:
    """NULL where neither the file nor its folder has the column."""
    return typed(pa.array([text] * rows, pa.string()), kind)


def _check_alike(source: str, files: Sequence[PinnedFile], schemas: Sequence[pa.Schema]) -> None:
    """Columns are read by name, so that their order does not count, nor which of them hold NULLs."""
    first = _without_nulls(schemas[0])
    for file, schema in zip(files, schemas, strict=True):
        if first != _without_nulls(schema):
            paths = (files[0].path, file.path)
            raise SchemaChangedError(source, paths, _difference(schemas[0], schema))


def _without_nulls(schema: pa.Schema) -> list[str]:
    """Name and type of every column, in one order."""
    return sorted(str(field.with_nullable(True)) for field in schema)  # noqa: FBT003 - pyarrow's own


def _with_nulls(schema: pa.Schema, schemas: Sequence[pa.Schema]) -> pa.Schema:
    """A column that may be NULL in some file may be NULL: writers decide it by a file's rows."""
    nullable = {field.name for each in schemas for field in each if field.nullable}
    return pa.schema(
        [field.with_nullable(field.nullable or field.name in nullable) for field in schema]
    )


def _merged(source: str, files: Sequence[PinnedFile], schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Every column that some file has; one that another file lacks may be NULL.

    A name that stands twice in one file stands twice. Raises SchemaChangedError where two files
    have a column in two types.
    """
    repeated = frozenset[str]().union(*(_repeated(schema.names) for schema in schemas))
    found: dict[str, tuple[pa.Field, str]] = {}
    for file, schema in zip(files, schemas, strict=True):
        for field in schema:
            known, first = found.setdefault(field.name, (field, file.path))
            if known.type != field.type and field.name not in repeated:
                names, told = (first, file.path), f"{known}; {field}"
                raise SchemaChangedError(source, names, told, remedy="read them as two sources")
    everywhere = set.intersection(*(set(schema.names) for schema in schemas))
    fields = [
        field if field.name in everywhere else field.with_nullable(True)  # noqa: FBT003 - pyarrow's own
        for field, _ in found.values()
    ]
    return pa.schema([*fields, *(field for field in fields if field.name in repeated)])


def _difference(one: pa.Schema, other: pa.Schema) -> str:
    """Missing and added columns; else those whose types differ."""
    if set(one.names) != set(other.names):
        return column_difference(one.names, other.names)
    here, there = set(_without_nulls(one)), set(_without_nulls(other))
    return "; ".join(sorted(here ^ there)[:4]) or "a name is repeated in one of them"
