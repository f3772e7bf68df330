"""Read CSV files strictly: structure by DuckDB, every field as text, types by strict inference.

A row with more or fewer fields than the header, or an unclosed quote, is CORRUPT_SOURCE with file
and line. Bytes are read as Latin-1 so that no byte is lost, and decoded as UTF-8 here: a value that
is not UTF-8 is INVALID, never replaced. The readers of Spark and pyarrow do neither.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from tempfile import TemporaryFile

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from datarecs_application.ports.comparing import ProbeStep, Read
from datarecs_connectors.column_inference import ColumnInference
from datarecs_connectors.csv_header import plain_header
from datarecs_connectors.csv_options import CsvOptions
from datarecs_connectors.csv_text import BOM, MAX_LINE_BYTES, CsvText
from datarecs_connectors.csv_values import (
    ColumnValues,
    CsvReading,
    column_notes,
    column_rules,
    letters_of,
    read_as,
    see_values,
    typed_column,
)
from datarecs_connectors.declared_types import declared_types, text_column
from datarecs_connectors.errors import (
    CorruptSourceError,
    SchemaChangedError,
    SourceError,
    SourceLimitError,
    header_difference,
)
from datarecs_connectors.extracting import Batches, write_extract
from datarecs_connectors.filtering import RowFilter, filter_of
from datarecs_connectors.probing import probe_files
from datarecs_connectors.source_trees import HeldFiles, SourceTree
from datarecs_connectors.text_files import TextMarks, UnpackedBytes, chunks_of, nul_error
from datarecs_connectors.typed_text import table_of
from datarecs_core.comparison.planning.scan import (
    FileList,
    Pin,
    PinnedFile,
    Scan,
    SourceSchema,
)
from datarecs_core.comparison.values.value_formats import NumberFormat, strict_reader
from datarecs_core.jobs.definition import Source

BATCH_ROWS = 20_000
MAX_COLUMNS = 2_000
_BUFFER_BYTES = 2 * MAX_LINE_BYTES
_MEMORY = "256MiB"
"""Memory limit of DuckDB; without it, DuckDB retains all data that it has read."""
_REFUSED = re.compile(rb"[\x80-\x9f]")
_LINE = re.compile(r"[Ll]ine:? (\d+)")
_READ = """
SELECT * FROM read_csv($path, header = $header, delim = $delimiter, quote = $quote,
  escape = $escape, columns = $columns, auto_detect = false, strict_mode = true,
  null_padding = false, parallel = false, nullstr = $null, allow_quoted_nulls = false,
  hive_partitioning = false, encoding = $encoding, max_line_size = $line,
  buffer_size = $buffer, compression = 'none')
"""


def _parser() -> closing[duckdb.DuckDBPyConnection]:
    """DuckDB for all files of one reading: opening it takes longer than reading a small file.

    It keeps nothing of a file: the next one may have the same descriptor, so the same path.
    """
    return closing(
        duckdb.connect(
            config={"threads": "1", "memory_limit": _MEMORY, "enable_external_file_cache": False}
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvConnector:
    """Port Connector over a folder of CSV files."""

    tree: SourceTree
    options: CsvOptions

    def pin(self, source: Source) -> HeldFiles:
        return self.tree.pin(source.path or "")

    def describe(self, source: Source, pin: Pin) -> SourceSchema:
        """Names of the first file's header; types that fit every value of every file."""
        reading = self._reading(pin, source.limits.max_bytes)
        if len(reading.names) > MAX_COLUMNS:
            raise SourceLimitError(source.name, f"more than {MAX_COLUMNS} columns")
        declared = declared_types(source.name, self.options.declared)
        columns = {
            name: ColumnInference(rules=column_rules(self.options, name, declared.get(name)))
            for name in reading.names
        }
        starts = []
        rows = 0
        with _parser() as parser:
            for file in reading.files:
                starts.append(rows)
                header = self._header(reading, file)
                for batch in self._batches(file, header, reading, parser):
                    for name, column in zip(header, batch.columns, strict=True):
                        see_values(columns[name], column, rows)
                    rows += batch.num_rows
        return SourceSchema(
            columns=tuple(columns[name].column() for name in reading.names),
            estimated_rows=rows,
            estimated_bytes=sum(file.size_bytes for file in reading.files),
            read_as=read_as(self.options, reading.files, reading.delimiter, reading.text.skipped),
            notes=column_notes(tuple(columns.values()), starts, reading),
        )

    def rows(self, scan: Scan) -> Iterator[tuple[object, ...]]:
        wanted = filter_of(scan)
        read = _values_of(scan, self.options)
        names = [column.physical or "" for column in scan.columns]
        reading = self._reading(scan.pin, scan.limits.max_bytes)
        for header, batch in self._all_batches(reading):
            columns = {
                name: _plain(batch.column(header.index(name)), read[name])
                for name in {*names, *wanted.columns}
            }
            for position in range(batch.num_rows):
                row = {name: values[position] for name, values in columns.items()}
                if wanted.matches(row):
                    yield tuple(row[name] for name in names)

    def extract(self, scan: Scan, directory: str, progress: Callable[[Read], None]) -> Scan:
        return write_extract(scan, self.batches(scan), directory, progress)

    def probe(self, source: Source | None = None) -> Sequence[ProbeStep]:
        return probe_files(self.tree, source)

    def close(self) -> None:
        self.tree.close()

    def _reading(self, pin: Pin, limit: int) -> CsvReading:
        """Delimiter and column names of the first file apply to all files of the source."""
        files = _files(pin)
        text = CsvText(tree=self.tree, options=self.options)
        delimiter = text.delimiter(files[0], limit)
        return CsvReading(
            files=files,
            text=text,
            delimiter=delimiter,
            names=text.names(files[0], delimiter, limit),
            unpacked=UnpackedBytes(limit=limit),
        )

    def _header(self, reading: CsvReading, file: PinnedFile) -> list[str]:
        """Read one file; it has the columns of the first file, in any order."""
        if file == reading.files[0]:
            return reading.names
        header = reading.text.names(file, reading.delimiter, reading.unpacked.limit)
        paths = (reading.files[0].path, file.path)
        _check_columns(self.tree.source, paths, reading.names, header)
        return header

    def _all_batches(self, reading: CsvReading) -> Iterator[tuple[list[str], pa.RecordBatch]]:
        """The batches of all files, each with the column names of its file."""
        with _parser() as parser:
            for file in reading.files:
                header = self._header(reading, file)
                for batch in self._batches(file, header, reading, parser):
                    yield header, batch

    def _batches(
        self,
        file: PinnedFile,
        names: Sequence[str],
        reading: CsvReading,
        parser: duckdb.DuckDBPyConnection,
    ) -> Iterator[pa.RecordBatch]:
        """Every field as text in Latin-1 letters, one per byte; NULL where unquoted and empty."""
        columns = {f"c{number}": "VARCHAR" for number in range(len(names))}
        try:
            with self._as_letters(file, reading) as (place, encoding):
                relation = parser.sql(
                    _READ,
                    params={
                        "path": place,
                        "encoding": encoding,
                        "header": self.options.header,
                        "delimiter": reading.delimiter,
                        "quote": self.options.quote,
                        "escape": self.options.escape,
                        "columns": columns,
                        "null": [letters_of(each) for each in self._null_words()],
                        "line": MAX_LINE_BYTES,
                        "buffer": _BUFFER_BYTES,
                    },
                )
                for batch in relation.to_arrow_reader(BATCH_ROWS):
                    self._check_line_breaks(file.path, batch)
                    yield batch
        except duckdb.Error as failure:
            # DuckDB's text quotes the line, so it must not reach a log as the cause.
            raise self._failure(file, failure, reading) from None

    @contextmanager
    def _as_letters(self, file: PinnedFile, reading: CsvReading) -> Iterator[tuple[str, str]]:
        """The path that DuckDB reads and its encoding: the open file, or a copy in Latin-1.

        DuckDB refuses the bytes 80 to 9F in Latin-1, and most UTF-8 beyond Western Europe holds
        some; a byte order mark would be part of the first field. A descriptor refers to exactly the
        file that was checked.
        """
        marks = TextMarks(self.options.quote.encode(), MAX_LINE_BYTES)
        header = reading.text.odd_headers.get(file.path, ())
        with reading.text.opened(file, reading.unpacked) as text:
            is_plain = text.seekable() and not header
            if is_plain:
                is_readable = text.read(len(BOM)) != BOM
                text.seek(0)
                for chunk in chunks_of(text):
                    marks.add(chunk)
                    is_readable = is_readable and not _REFUSED.search(chunk)
                self._check_marks(file, marks, reading)
                if is_readable:
                    yield f"/dev/fd/{text.fileno()}", "latin-1"
                    return
                text.seek(0)
            with TemporaryFile() as copy:
                first = text.read(len(BOM)).removeprefix(BOM)
                if header:
                    first += text.read(sum(map(len, header)) - len(first))
                    marks.add(first)
                    copy.write(plain_header(len(reading.names), reading.delimiter, header).encode())
                    first = b""
                for chunk in chain((first,), chunks_of(text)):
                    if not is_plain:
                        marks.add(chunk)
                    copy.write(chunk.decode("latin-1").encode())
                copy.flush()
                self._check_marks(file, marks, reading)
                yield f"/dev/fd/{copy.fileno()}", "utf-8"

    def _check_marks(self, file: PinnedFile, marks: TextMarks, reading: CsvReading) -> None:
        """Refuse what DuckDB does not name: NUL bytes, lines far too long, an odd quote.

        It takes a line longer than its buffer for rows with too few fields, and silently drops a
        last row with an open quote.
        """
        if marks.nul is not None:
            line = reading.text.line(file, marks.nul)
            raise nul_error(self.tree.source, f"{file.path} line {line}")
        if marks.too_long is not None:
            line = reading.text.line(file, marks.too_long)
            raise self._too_long(f"{file.path} line {line}")
        if marks.quotes % 2 and self.options.escape == self.options.quote:
            raise CorruptSourceError(
                self.tree.source,
                f"{file.path} line {reading.text.line(file, marks.last_quote)}: a quote is not "
                "closed by the end of the file; close it, write a quote inside a field twice, or "
                "set options.quote to a character that is not used",
            )

    def _check_line_breaks(self, path: str, batch: pa.RecordBatch) -> None:
        """Without `multiline` a record is one line; two unclosed quotes would join many lines."""
        broken = not self.options.multiline and any(
            pc.any(pc.match_substring_regex(column, "[\r\n]")).as_py() for column in batch.columns
        )
        if broken:
            raise CorruptSourceError(
                self.tree.source,
                f"{path}: a field in quotes holds a line break; declare options.multiline, or"
                " close its quote",
            )

    def _failure(self, file: PinnedFile, failure: duckdb.Error, reading: CsvReading) -> SourceError:
        """File and line; DuckDB's text is not repeated, since it quotes the line's values."""
        text = str(failure)
        line = _LINE.search(text)
        place = file.path
        if line:
            below = max(0, len(reading.text.odd_headers.get(file.path, ())) - 1)
            place = f"{place} line {reading.text.line(file, int(line[1]) + below)}"
        if "maximum line size" in text.lower():
            return self._too_long(place)
        if "number of columns" in text.lower():
            fault = (
                "the row has more or fewer fields than the header; if it is a footer, or lines "
                "precede the header, skip them with options.skip"
            )
        elif "invalid state" in text.lower():
            fault = (
                "some lines end with CR LF and others with LF, or a quote is inside an unquoted "
                "field; save the file with one kind of line ending"
            )
        elif "quote" in text.lower():
            fault = "a quote is not closed, or is inside an unquoted field"
        else:
            fault = "the file cannot be read as CSV"
        return CorruptSourceError(self.tree.source, f"{place}: {fault}")

    def _too_long(self, place: str) -> SourceLimitError:
        return SourceLimitError(
            self.tree.source, f"{place}: the line has more than {MAX_LINE_BYTES} bytes"
        )

    def _null_words(self) -> list[str]:
        """Words that mean NULL when they are not quoted."""
        return list(dict.fromkeys((self.options.null, *self.options.null_words)))

    def batches(self, scan: Scan) -> Batches:
        wanted = filter_of(scan)
        empty = True
        reading = self._reading(scan.pin, scan.limits.max_bytes)
        for header, batch in self._all_batches(reading):
            empty = False
            yield self._typed(scan, batch, header, wanted)
        if empty:
            yield self._typed(scan, None, [], wanted)

    def _typed(
        self, scan: Scan, batch: pa.RecordBatch | None, names: Sequence[str], wanted: RowFilter
    ) -> tuple[pa.RecordBatch, tuple[str, ...]]:
        read = _values_of(scan, self.options)
        if batch is not None and wanted.condition is not None:
            batch = _chosen(batch, names, read, wanted)
        columns = [
            text_column(pa.array([], pa.string()), column.type)
            if batch is None
            else typed_column(
                batch.column(names.index(column.physical or "")), read[column.physical or ""]
            )
            for column in scan.columns
        ]
        return table_of([column.name for column in scan.columns], columns)


def _files(pin: Pin) -> tuple[PinnedFile, ...]:
    if not isinstance(pin, FileList):
        raise TypeError("a file source is pinned by its files")
    return pin.files


def _check_columns(
    source: str, files: tuple[str, str], names: Sequence[str], others: Sequence[str]
) -> None:
    """Check that the second file has the columns of the first, in any order."""
    if sorted(names) == sorted(others):
        return
    raise SchemaChangedError(
        source, files, header_difference(names, others), remedy="read them as two sources"
    )


def _values_of(scan: Scan, options: CsvOptions) -> dict[str, ColumnValues]:
    """One reader of values per column of the source."""
    numbers = NumberFormat(options.decimal, options.thousands)
    delivered = {column.physical: column.type for column in scan.columns}
    return {
        column.name: ColumnValues(
            kind=(kind := delivered.get(column.name, column.type)),
            strict=strict_reader(kind, numbers, column.date_format),
        )
        for column in scan.schema.columns
    }


def _plain(column: pa.Array, read: ColumnValues) -> list[object]:
    return [None if letters is None else read.value(letters) for letters in column.to_pylist()]


def _chosen(
    batch: pa.RecordBatch,
    names: Sequence[str],
    read: Mapping[str, ColumnValues],
    wanted: RowFilter,
) -> pa.RecordBatch:
    columns = {name: _plain(batch.column(names.index(name)), read[name]) for name in wanted.columns}
    mask = [
        wanted.matches({name: values[position] for name, values in columns.items()})
        for position in range(batch.num_rows)
    ]
    return batch.filter(pa.array(mask, pa.bool_()))
