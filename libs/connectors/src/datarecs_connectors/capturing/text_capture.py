"""Capture of CSV and JSON files: by the readers of comparisons, so values have the same types.

The types of a table are those that fit every value of every file, so a description reads them all.
"""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass

from datarecs_connectors.capturing.columns import counts_columns, too_many_columns, type_of
from datarecs_connectors.capturing.statistics import (
    FileFigures,
    RowBatch,
    StatColumn,
    StatisticsEngine,
)
from datarecs_connectors.csv import CsvConnector
from datarecs_connectors.csv_options import CsvOptions
from datarecs_connectors.csv_text import CsvText
from datarecs_connectors.errors import SchemaChangedError, SourceLimitError, header_difference
from datarecs_connectors.extracting import Batches
from datarecs_connectors.json_lines import JsonConnector, JsonOptions
from datarecs_connectors.parquet_schemas import repeated_names
from datarecs_connectors.source_trees import SourceTree
from datarecs_connectors.typed_text import INVALID, TypedColumn
from datarecs_core.captures.plan import chosen_columns
from datarecs_core.captures.request import CapturePolicy
from datarecs_core.captures.source_facts import CapturedFile
from datarecs_core.catalog.records import TableColumn
from datarecs_core.comparison.planning.scan import (
    FileList,
    Scan,
    ScanColumn,
    SourceColumn,
    SourceSchema,
)
from datarecs_core.jobs import types
from datarecs_core.jobs.definition import DEFAULT_LIMITS, Source
from datarecs_core.jobs.types import CanonicalType
from datarecs_core.jobs.vocabulary import SourceKind

_TABS = ".tsv"
_NO_COLUMN = TableColumn(field_id=1, name="", type=str(types.TEXT), nullable=True)
"""Read where a table has no column, to count its rows: it is NULL in every row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCapture:
    """Describes and captures CSV or JSON files of a tree."""

    tree: SourceTree
    kind: SourceKind

    def describe(self, files: FileList) -> tuple[TableColumn, ...]:
        """Raises what reading all files raises."""
        path = files.files[0].path
        source = Source(name=self.tree.source, kind=self.kind, path=path)
        try:
            schema = self._reader(path).describe(source, files)
        except SourceLimitError as limit:
            if " columns" not in str(limit):
                raise
            raise too_many_columns(path.partition("/")[0], limit) from limit
        return tuple(
            TableColumn(
                field_id=at + 1, name=column.name, type=str(column.type), nullable=column.nullable
            )
            for at, column in enumerate(schema.columns)
        )

    def capture(
        self,
        file: FileList,
        columns: Sequence[TableColumn],
        policy: CapturePolicy,
        engine: StatisticsEngine,
    ) -> CapturedFile:
        """The figures of the one file of the list.

        Raises what reading a file raises, and SchemaChangedError.
        """
        path = file.files[0].path
        self._check_header(file, [column.name for column in columns])
        chosen = chosen_columns(policy, columns) if counts_columns(policy) else ()
        figures = self._figures(file, columns, chosen, engine)
        return CapturedFile(
            path=path,
            rows=figures.rows,
            stored_rows=figures.rows,
            columns=figures.columns,
            is_complete=figures.is_complete,
        )

    def _figures(
        self,
        file: FileList,
        columns: Sequence[TableColumn],
        chosen: Sequence[TableColumn],
        engine: StatisticsEngine,
    ) -> FileFigures:
        repeated = repeated_names(column.name for column in columns)
        wanted: list[StatColumn] = [
            (column.name, None if column.name in repeated else type_of(column.type))
            for column in chosen
        ]
        read = [column for column in chosen if column.name not in repeated]
        counted = read or list(columns[:1]) or [_NO_COLUMN]
        scan = self._scan(file, columns or [_NO_COLUMN], counted)
        reader = self._reader(file.files[0].path)
        with closing(_batches(reader.batches(scan), scan, wanted)) as batches:
            return engine.of_file(wanted, batches)

    def _scan(
        self, file: FileList, columns: Sequence[TableColumn], read: Sequence[TableColumn]
    ) -> Scan:
        return Scan(
            source=self.tree.source,
            index=0,
            kind=self.kind,
            connection=None,
            relation=None,
            query=None,
            path=file.files[0].path,
            columns=tuple(
                ScanColumn(name=column.name, physical=column.name, type=_read_as(column))
                for column in read
            ),
            schema=SourceSchema(
                columns=tuple(
                    SourceColumn(name=column.name, type=_read_as(column)) for column in columns
                )
            ),
            filter=None,
            pin=file,
            limits=DEFAULT_LIMITS,
        )

    def _reader(self, path: str) -> CsvConnector | JsonConnector:
        if self.kind is SourceKind.JSON:
            return JsonConnector(tree=self.tree, options=JsonOptions(declared={}))
        return CsvConnector(tree=self.tree, options=_csv_options(path))

    def _check_header(self, file: FileList, names: Sequence[str]) -> None:
        """Check that a CSV file has the columns of the table, in any order."""
        if self.kind is SourceKind.JSON:
            return
        pinned = file.files[0]
        text = CsvText(tree=self.tree, options=_csv_options(pinned.path))
        delimiter = text.delimiter(pinned, DEFAULT_LIMITS.max_bytes)
        header = text.names(pinned, delimiter, DEFAULT_LIMITS.max_bytes)
        if sorted(header) != sorted(names):
            raise SchemaChangedError(
                self.tree.source,
                (pinned.path, "the first file of the table"),
                header_difference(header, names),
                remedy="move it elsewhere",
            )


def _batches(
    batches: Batches, scan: Scan, wanted: Sequence[StatColumn]
) -> Generator[RowBatch, None, None]:
    names = {column.name for column in scan.columns}
    for batch, filled in batches:
        columns = {
            name: TypedColumn(
                batch.column(name), batch.column(f"{INVALID}{name}") if name in filled else None
            )
            for name in names
        }
        yield batch.num_rows, [columns[name] if kind else None for name, kind in wanted]


def _read_as(column: TableColumn) -> CanonicalType:
    """A column without any value is read as text: it is NULL in every row."""
    kind = type_of(column.type)
    return types.TEXT if kind == types.NULL else kind


def _csv_options(path: str) -> CsvOptions:
    options = CsvOptions(formats={}, declared={})
    is_tabbed = _TABS in path.rpartition("/")[2].lower()
    return options.model_copy(update={"delimiter": "\t"}) if is_tabbed else options
