"""CSV files, read strictly: structure by DuckDB, every field as text, types by strict inference.

A row with more or fewer fields than the header, or an unclosed quote, is CORRUPT_SOURCE with file
and line. Bytes are read as Latin-1 so that no byte is lost, and decoded as UTF-8 here: what is no
UTF-8 is INVALID, never replaced. Spark's own reader and pyarrow's do neither.
"""

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from tempfile import NamedTemporaryFile
from typing import Annotated, BinaryIO, Literal

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field

from datarecs_application.ports.comparing import ProbeStep, Read
from datarecs_connectors.declared_types import declared_types, text_column, text_value
from datarecs_connectors.errors import (
    CorruptSourceError,
    SchemaChangedError,
    SourceError,
    SourceLimitError,
    header_difference,
)
from datarecs_connectors.extracting import Batches, write_extract
from datarecs_connectors.file_tree import FileTree, PinnedTree
from datarecs_connectors.filtering import RowFilter, filter_of
from datarecs_connectors.probing import probe_files
from datarecs_connectors.text_files import (
    TextMarks,
    UnpackedBytes,
    chunks_of,
    nul_error,
    open_text,
)
from datarecs_connectors.typed_text import TypedColumn, table_of
from datarecs_core.comparison.planning.scan import (
    FileList,
    Pin,
    PinnedFile,
    Scan,
    SourceColumn,
    SourceSchema,
)
from datarecs_core.comparison.values.forms import Inference
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs import types
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.types import CanonicalType

BATCH_ROWS = 20_000
MAX_COLUMNS = 2_000
MAX_LINE_BYTES = 16 * 1024 * 1024
_BUFFER_BYTES = 2 * MAX_LINE_BYTES
_MEMORY = "256MiB"
"""Of DuckDB, which otherwise keeps what it has read until memory ends."""
_REFUSED = re.compile(rb"[\x80-\x9f]")
_LINE = re.compile(r"[Ll]ine:? (\d+)")
_BOM = b"\xef\xbb\xbf"
"""A byte order mark in UTF-8."""
_READ = """
SELECT * FROM read_csv($path, header = $header, delim = $delimiter, quote = $quote,
  escape = $escape, columns = $columns, auto_detect = false, strict_mode = true,
  null_padding = false, parallel = false, nullstr = $null, allow_quoted_nulls = false,
  hive_partitioning = false, encoding = $encoding, max_line_size = $line,
  buffer_size = $buffer, compression = 'none')
"""
OneCharacter = Annotated[str, Field(min_length=1, max_length=1)]


class CsvOptions(BaseModel):
    """`options` of a csv source."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)

    delimiter: OneCharacter = ","
    quote: OneCharacter = '"'
    escape: OneCharacter = '"'
    header: bool = True
    encoding: Literal["utf-8"] = "utf-8"
    null: str = ""
    multiline: bool = False
    declared: Annotated[dict[str, str], Field(alias="schema", default_factory=dict)]
    infer: Literal["strict"] = "strict"


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvConnector:
    """Port Connector over a folder of CSV files."""

    tree: FileTree
    options: CsvOptions

    def pin(self, source: Source) -> PinnedTree:
        return self.tree.pin(source.path or "")

    def describe(self, source: Source, pin: Pin) -> SourceSchema:
        """Names of the first file's header; types that hold for every value of every file."""
        files = _files(pin)
        declared = declared_types(source.name, self.options.declared)
        unpacked = UnpackedBytes(limit=source.limits.max_bytes)
        names = self._names(files[0], unpacked.limit)
        inferred = {name: Inference() for name in names}
        rows = 0
        for file in files:
            header = self._names(file, unpacked.limit)
            _check_columns(source.name, (files[0].path, file.path), names, header)
            for batch in self._batches(file, header, unpacked):
                rows += batch.num_rows
                for name, column in zip(header, batch.columns, strict=True):
                    inferred[name] = _seen(inferred[name], column)
        if len(names) > MAX_COLUMNS:
            raise SourceLimitError(source.name, f"more than {MAX_COLUMNS} columns")
        return SourceSchema(
            columns=tuple(
                SourceColumn(
                    name=name,
                    type=declared.get(name, inferred[name].type or types.NULL),
                    native_type="text",
                )
                for name in names
            ),
            estimated_rows=rows,
            estimated_bytes=sum(file.size_bytes for file in files),
        )

    def rows(self, scan: Scan) -> Iterator[tuple[object, ...]]:
        wanted = filter_of(scan)
        kinds = {column.name: column.type for column in scan.schema.columns}
        names = [column.physical or "" for column in scan.columns]
        unpacked = UnpackedBytes(limit=scan.limits.max_bytes)
        for file in _files(scan.pin):
            header = self._names(file, unpacked.limit)
            for batch in self._batches(file, header, unpacked):
                columns = {
                    name: _plain(batch.column(header.index(name)), kinds[name])
                    for name in {*names, *wanted.columns}
                }
                for position in range(batch.num_rows):
                    row = {name: values[position] for name, values in columns.items()}
                    if wanted.keeps(row):
                        yield tuple(row[name] for name in names)

    def extract(self, scan: Scan, directory: str, progress: Callable[[Read], None]) -> Scan:
        return write_extract(scan, self.batches(scan), directory, progress)

    def probe(self, source: Source | None = None) -> Sequence[ProbeStep]:
        return probe_files(self.tree, source)

    def close(self) -> None:
        """Nothing is held open."""

    def _names(self, file: PinnedFile, limit: int) -> list[str]:
        """The header, or `c1`, `c2`, … ; equal names stay, a job that uses one is refused."""
        with open_text(self.tree, file, UnpackedBytes(limit=limit)) as text:
            reader = csv.reader(
                _header_lines(self.tree.source, file.path, text),
                delimiter=self.options.delimiter,
                quotechar=self.options.quote,
                doublequote=True,
                strict=True,
            )
            try:
                first = next(reader, [])
            except csv.Error as cause:
                raise CorruptSourceError(
                    self.tree.source,
                    f"{file.path} line 1 cannot be read as a header: a quote stands inside a "
                    "field, or lines end in CR alone; save the file with LF as line ends",
                ) from cause
        if not first:
            raise CorruptSourceError(
                self.tree.source,
                f"{file.path} has no line to read column names from; write a header line, or "
                "leave the file out of the path",
            )
        if not self.options.header:
            return [f"c{number}" for number in range(1, len(first) + 1)]
        try:
            return [name.encode("latin-1").decode() for name in first]
        except UnicodeDecodeError:
            raise CorruptSourceError(
                self.tree.source,
                f"{file.path} line 1: the header is not encoded in UTF-8; convert the file",
            ) from None

    def _batches(
        self, file: PinnedFile, names: Sequence[str], unpacked: UnpackedBytes
    ) -> Iterator[pa.RecordBatch]:
        """Every field as text in Latin-1 letters, one per byte; NULL where unquoted and empty."""
        columns = {f"c{number}": "VARCHAR" for number in range(len(names))}
        connection = duckdb.connect(config={"threads": "1", "memory_limit": _MEMORY})
        try:
            with self._as_letters(file, unpacked) as (place, encoding):
                relation = connection.sql(
                    _READ,
                    params={
                        "path": place,
                        "encoding": encoding,
                        "header": self.options.header,
                        "delimiter": self.options.delimiter,
                        "quote": self.options.quote,
                        "escape": self.options.escape,
                        "columns": columns,
                        "null": self.options.null,
                        "line": MAX_LINE_BYTES,
                        "buffer": _BUFFER_BYTES,
                    },
                )
                for batch in relation.to_arrow_reader(BATCH_ROWS):
                    self._check_line_breaks(file.path, batch)
                    yield batch
        except duckdb.Error as failure:
            # Its text quotes the line, and so it is no cause that a log may show.
            raise self._failure(file.path, failure) from None
        finally:
            connection.close()

    @contextmanager
    def _as_letters(self, file: PinnedFile, unpacked: UnpackedBytes) -> Iterator[tuple[str, str]]:
        """What DuckDB reads and its encoding: the open file, or a copy with one letter per byte.

        DuckDB refuses the bytes 80 to 9F in Latin-1, and most UTF-8 beyond Western Europe holds
        some; a byte order mark would be part of the first field. A descriptor stands for the very
        file that was checked.
        """
        marks = TextMarks(self.options.quote.encode())
        with open_text(self.tree, file, unpacked) as text:
            is_plain = text.seekable()
            if is_plain:
                is_readable = text.read(len(_BOM)) != _BOM
                text.seek(0)
                for chunk in chunks_of(text):
                    marks.add(chunk)
                    is_readable = is_readable and not _REFUSED.search(chunk)
                self._check_marks(file.path, marks)
                if is_readable:
                    yield f"/dev/fd/{text.fileno()}", "latin-1"
                    return
                text.seek(0)
            with NamedTemporaryFile(prefix="datarecs-", suffix=".csv") as copy:
                first = text.read(len(_BOM)).removeprefix(_BOM)
                for chunk in chain((first,), chunks_of(text)):
                    if not is_plain:
                        marks.add(chunk)
                    copy.write(chunk.decode("latin-1").encode())
                copy.flush()
                self._check_marks(file.path, marks)
                yield f"/dev/fd/{copy.fileno()}", "utf-8"

    def _check_marks(self, path: str, marks: TextMarks) -> None:
        """An odd number of quotes leaves one open; DuckDB drops such a last row in silence."""
        if marks.nul is not None:
            raise nul_error(self.tree.source, f"{path} line {marks.nul}")
        if marks.quotes % 2 and self.options.escape == self.options.quote:
            raise CorruptSourceError(
                self.tree.source,
                f"{path} line {marks.last_quote}: a quote is not closed until the file ends",
            )

    def _check_line_breaks(self, path: str, batch: pa.RecordBatch) -> None:
        """Without `multiline` a record is one line; two unclosed quotes would join many."""
        broken = not self.options.multiline and any(
            pc.any(pc.match_substring_regex(column, "[\r\n]")).as_py() for column in batch.columns
        )
        if broken:
            raise CorruptSourceError(
                self.tree.source,
                f"{path}: a field in quotes holds a line break; declare options.multiline, or"
                " close its quote",
            )

    def _failure(self, path: str, failure: duckdb.Error) -> SourceError:
        """File and line; DuckDB's text is not repeated, since it quotes the line's values."""
        text = str(failure)
        line = _LINE.search(text)
        place = f"{path} line {line[1]}" if line else path
        if "maximum line size" in text.lower():
            return SourceLimitError(
                self.tree.source, f"{place}: the line has more than {MAX_LINE_BYTES} bytes"
            )
        if "number of columns" in text.lower():
            fault = "the row has more or fewer fields than the header"
        elif "quote" in text.lower():
            fault = "a quote is not closed, or stands inside an unquoted field"
        else:
            fault = "the file cannot be read as CSV"
        return CorruptSourceError(self.tree.source, f"{place}: {fault}")

    def batches(self, scan: Scan) -> Batches:
        wanted = filter_of(scan)
        empty = True
        unpacked = UnpackedBytes(limit=scan.limits.max_bytes)
        for file in _files(scan.pin):
            header = self._names(file, unpacked.limit)
            for batch in self._batches(file, header, unpacked):
                empty = False
                yield self._typed(scan, batch, header, wanted)
        if empty:
            yield self._typed(scan, None, [], wanted)

    def _typed(
        self, scan: Scan, batch: pa.RecordBatch | None, found: Sequence[str], wanted: RowFilter
    ) -> tuple[pa.RecordBatch, tuple[str, ...]]:
        if batch is not None and wanted.condition is not None:
            batch = _kept(batch, found, scan, wanted)
        columns = [
            text_column(pa.array([], pa.string()), column.type)
            if batch is None
            else _typed_column(batch.column(found.index(column.physical or "")), column.type)
            for column in scan.columns
        ]
        return table_of([column.name for column in scan.columns], columns)


def _files(pin: Pin) -> tuple[PinnedFile, ...]:
    if not isinstance(pin, FileList):
        raise TypeError("a file source is pinned by its files")
    return pin.files


def _header_lines(source: str, path: str, text: BinaryIO) -> Iterator[str]:
    """Lines as Latin-1 letters, until the header is longer than a line may be."""
    left = MAX_LINE_BYTES
    mark = _BOM
    while line := text.readline(left + 1):
        left -= len(line)
        line, mark = line.removeprefix(mark), b""
        if left < 0:
            raise SourceLimitError(
                source, f"{path} line 1: the line has more than {MAX_LINE_BYTES} bytes"
            )
        if b"\0" in line:
            raise nul_error(source, f"{path} line 1")
        yield line.decode("latin-1")


def _check_columns(
    source: str, files: tuple[str, str], names: Sequence[str], others: Sequence[str]
) -> None:
    """The second file has the columns of the first, in any order."""
    if sorted(names) == sorted(others):
        return
    raise SchemaChangedError(
        source, files, header_difference(names, others), remedy="read them as two sources"
    )


def _seen(inference: Inference, column: pa.Array) -> Inference:
    for text in pc.unique(column).to_pylist():
        inference = inference.see(text)
    return inference


def _utf8(letters: str) -> str | None:
    """Latin-1 letters as the UTF-8 they stand for; None when they stand for none."""
    try:
        return letters.encode("latin-1").decode()
    except UnicodeDecodeError:
        return None


def _plain(column: pa.Array, kind: CanonicalType) -> list[object]:
    return [None if letters is None else _value(letters, kind) for letters in column.to_pylist()]


def _value(letters: str, kind: CanonicalType) -> object:
    text = _utf8(letters)
    return Invalid(letters.encode("latin-1")) if text is None else text_value(text, kind)


def _typed_column(column: pa.Array, kind: CanonicalType) -> TypedColumn:
    if pc.all(pc.string_is_ascii(column)).as_py() is not False:
        return text_column(column, kind)
    texts = [None if one is None else _utf8(one) for one in column.to_pylist()]
    broken = [
        one.encode("latin-1") if one is not None and text is None else None
        for one, text in zip(column.to_pylist(), texts, strict=True)
    ]
    found = text_column(pa.array(texts, pa.string()), kind)
    if not any(one is not None for one in broken):
        return found
    both = pa.array(broken, pa.binary())
    return TypedColumn(
        found.values, both if found.invalid is None else pc.coalesce(both, found.invalid)
    )


def _kept(
    batch: pa.RecordBatch, found: Sequence[str], scan: Scan, wanted: RowFilter
) -> pa.RecordBatch:
    kinds = {column.name: column.type for column in scan.schema.columns}
    columns = {
        name: _plain(batch.column(found.index(name)), kinds[name]) for name in wanted.columns
    }
    mask = [
        wanted.keeps({name: values[position] for name, values in columns.items()})
        for position in range(batch.num_rows)
    ]
    return batch.filter(pa.array(mask, pa.bool_()))
