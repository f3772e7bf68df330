"""Capture of Parquet files: columns from footers, figures from pages only where they are needed.

The newest footers describe a table, so a table with one new file is described without the others;
every other file is checked against these columns when it is captured.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from datarecs_connectors.arrow_types import canonical_type
from datarecs_connectors.capturing.columns import (
    FIELD_ID,
    PATH_ORDINAL,
    counts_columns,
    too_many_columns,
    type_of,
)
from datarecs_connectors.capturing.sidecars import SidecarWriter
from datarecs_connectors.capturing.statistics import FileFigures, RowBatch, StatisticsEngine
from datarecs_connectors.errors import (
    SchemaChangedError,
    SourceLimitError,
    SourceUnsupportedError,
    column_difference,
)
from datarecs_connectors.parquet import MAX_COLUMNS, folder_column, hive_columns, hive_values
from datarecs_connectors.parquet_files import (
    ParquetPlace,
    long_dictionaries,
    open_parquet,
    read_batches,
)
from datarecs_connectors.parquet_schemas import (
    FileSchema,
    file_schema,
    one_schema,
    repeated_names,
)
from datarecs_connectors.source_trees import SourceTree
from datarecs_connectors.typed_columns import stored_column
from datarecs_connectors.typed_text import TypedColumn
from datarecs_core.captures.plan import chosen_columns
from datarecs_core.captures.request import CapturePolicy, Output
from datarecs_core.captures.source_facts import CapturedFile, SourceFile
from datarecs_core.catalog.records import TableColumn
from datarecs_core.comparison.planning.scan import PinnedFile
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType, TypeKind

BATCH_ROWS = 131_072
_MAX_FOOTERS = 16
"""So many of the newest files are opened while a column has no value in any of them."""
_FIELD_ID = b"PARQUET:field_id"
_NO_TYPE = str(types.NULL)
Kinds = Mapping[str, CanonicalType | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetColumns:
    """The columns of a table."""

    columns: tuple[TableColumn, ...]
    column_ids: str
    partition_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetCapture:
    """Describes and captures the Parquet files of a tree."""

    tree: SourceTree

    def describe(self, newest_first: Sequence[PinnedFile]) -> ParquetColumns:
        """Columns of the newest files, then of the folders of all.

        Raises what opening a file raises, SchemaChangedError, SourceLimitError, and
        SourceUnsupportedError for a column of the files that a folder has too.
        """
        schemas = list[FileSchema]()
        ids: tuple[int, ...] = ()
        fields: tuple[pa.Field, ...] = ()
        for file in newest_first[:_MAX_FOOTERS]:
            opened = self._open(file)
            schemas.append(file_schema(opened, file.path))
            ids = ids or _field_ids(opened.schema_arrow)
            fields = one_schema(self.tree.source, schemas, merged=False)
            if not any(pat.is_null(field.type) for field in fields):
                break
        paths = [file.path for file in newest_first]
        folders = hive_columns(paths)
        if len(fields) + len(folders) > MAX_COLUMNS:
            limit = SourceLimitError(self.tree.source, f"more than {MAX_COLUMNS} columns")
            raise too_many_columns(paths[0].partition("/")[0], limit)
        self._check_folders({field.name for field in fields}, paths)
        typed = [(field.name, _type_text(field, schemas), field.nullable) for field in fields]
        typed += [(column.name, str(column.type), column.nullable) for column in folders]
        has_ids = bool(ids) and not folders
        return ParquetColumns(
            columns=tuple(
                TableColumn(
                    field_id=ids[at] if has_ids else at + 1, name=name, type=kind, nullable=nullable
                )
                for at, (name, kind, nullable) in enumerate(typed)
            ),
            column_ids=FIELD_ID if has_ids else PATH_ORDINAL,
            partition_keys=tuple(column.name for column in folders),
        )

    def capture(
        self,
        file: SourceFile,
        columns: Sequence[TableColumn],
        policy: CapturePolicy,
        *,
        engine: StatisticsEngine,
        sidecars: SidecarWriter,
    ) -> CapturedFile:
        """The figures of one file, and its index if the policy has it.

        Raises what reading a file raises, and SchemaChangedError.
        """
        opened = self._open(pinned(file))
        schema, folders = file_schema(opened, file.path), hive_values(file.path)
        self._check(schema, [column for column in columns if column.name not in folders])
        chosen = chosen_columns(policy, columns)
        figures = FileFigures(rows=opened.metadata.num_rows, columns=(), is_complete=True)
        if counts_columns(policy):
            kinds = _kinds(chosen, schema, folders)
            figures = engine.of_file(list(kinds.items()), self._batches(file, opened, kinds))
        sidecar, is_indexed = None, True
        if Output.PARQUET_PAGE_INDEX in policy.outputs:
            sidecar = sidecars.write(file, opened, {column.name for column in chosen})
            is_indexed = sidecar is not None
        return CapturedFile(
            path=file.path,
            rows=figures.rows,
            stored_rows=opened.metadata.num_rows,
            columns=figures.columns,
            is_complete=figures.is_complete and is_indexed,
            sidecar=sidecar,
        )

    def _open(self, file: PinnedFile) -> pq.ParquetFile:
        with self.tree.open_pinned(file) as opened:
            return open_parquet(opened, self._place(file.path))

    def _place(self, path: str) -> ParquetPlace:
        return ParquetPlace(source=self.tree.source, path=path)

    def _check_folders(self, names: Collection[str], paths: Sequence[str]) -> None:
        for path in paths:
            twice = [name for name in hive_values(path) if name in names]
            if twice:
                raise SourceUnsupportedError(
                    self.tree.source,
                    f"{path}: {twice[0]!r} is a column of the files and of a folder in this path; "
                    "rename the folder, or write the files without the column",
                )

    def _check(self, schema: FileSchema, columns: Sequence[TableColumn]) -> None:
        """Check that a file has the columns of the table, in any order."""
        source, files = self.tree.source, (schema.path, "the newest file of the table")
        names = [column.name for column in columns]
        if sorted(schema.names) != sorted(names):
            raise SchemaChangedError(
                source, files, column_difference(schema.names, names), remedy="move it elsewhere"
            )
        kinds = {column.name: column.type for column in columns}
        for field in schema.fields:
            kind = _type_text(field, [schema])
            if kind != kinds[field.name] and _NO_TYPE not in {kind, kinds[field.name]}:
                difference = f"{field.name!r} is {kind}, then {kinds[field.name]}"
                raise SchemaChangedError(source, files, difference, remedy="move it elsewhere")

    def _batches(
        self, file: SourceFile, opened: pq.ParquetFile, kinds: Kinds
    ) -> Iterator[RowBatch]:
        folders = hive_values(file.path)
        names = [name for name, kind in kinds.items() if kind is not None and name not in folders]
        for batch in self._read(file, opened, names, kinds):
            yield (
                batch.num_rows,
                [
                    None if kind is None else _column(batch, name, kind, folders)
                    for name, kind in kinds.items()
                ],
            )

    def _read(
        self, file: SourceFile, opened: pq.ParquetFile, names: Sequence[str], kinds: Kinds
    ) -> Iterator[pa.RecordBatch]:
        if not names:
            rows = opened.metadata.num_rows
            for first in range(0, rows, BATCH_ROWS):
                count = min(BATCH_ROWS, rows - first)
                yield pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
            return
        place, texts = self._place(file.path), _texts(names, kinds)
        repeated = long_dictionaries(opened.metadata, texts, BATCH_ROWS)
        if repeated:
            with self.tree.open_pinned(pinned(file)) as again:
                opened = open_parquet(again, place, dictionaries=repeated)
        yield from read_batches(opened, place, rows=BATCH_ROWS, columns=names)


def pinned(file: SourceFile) -> PinnedFile:
    return PinnedFile(path=file.path, size_bytes=file.size_bytes, etag=file.etag)


def _field_ids(schema: pa.Schema) -> tuple[int, ...]:
    """The ids of all columns; empty if one has none, or an id occurs twice."""
    ids = tuple(int((field.metadata or {}).get(_FIELD_ID, b"-1")) for field in schema)
    return ids if len(set(ids)) == len(ids) and min(ids, default=-1) >= 0 else ()


def _type_text(field: pa.Field, schemas: Sequence[FileSchema]) -> str:
    """The canonical type, or the name in the file of a type that has none."""
    kind = canonical_type(field.type)
    if kind is None or any(field.name in schema.undelivered for schema in schemas):
        return schemas[0].native[field.name]
    return str(kind)


def _kinds(
    chosen: Sequence[TableColumn], schema: FileSchema, folders: Mapping[str, str | None]
) -> dict[str, CanonicalType | None]:
    """Types of the columns in this file; None for columns that are not read."""
    unread = schema.undelivered | repeated_names(schema.names)
    stored = {field.name: field.type for field in schema.fields}
    kinds: dict[str, CanonicalType | None] = {}
    for column in chosen:
        if column.name in folders:
            kinds[column.name] = type_of(column.type)
        else:
            is_read = column.name not in unread
            kinds[column.name] = canonical_type(stored[column.name]) if is_read else None
    return kinds


def _texts(names: Sequence[str], kinds: Kinds) -> frozenset[str]:
    return frozenset(
        name for name in names if (kind := kinds[name]) is not None and kind.kind is TypeKind.TEXT
    )


def _column(
    batch: pa.RecordBatch, name: str, kind: CanonicalType, folders: Mapping[str, str | None]
) -> TypedColumn:
    if name in folders and kind == types.NULL:
        return TypedColumn(pa.nulls(batch.num_rows), None)
    if name in folders:
        return folder_column(folders[name], kind, batch.num_rows)
    return stored_column(batch.column(name), kind)
