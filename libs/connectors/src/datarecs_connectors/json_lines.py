"""Read JSON lines strictly: one object per line, no number as a double, no repeated key.

Any other line is CORRUPT_SOURCE with file and line. Engine and oracle share this reader; those
of Spark and pyarrow convert numbers to doubles and repair broken lines.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from datarecs_application.ports.comparing import ProbeStep, Read
from datarecs_connectors.declared_types import declared_types, typed_values
from datarecs_connectors.errors import (
    CorruptSourceError,
    SchemaChangedError,
    SourceError,
    SourceLimitError,
)
from datarecs_connectors.extracting import Batches, write_extract
from datarecs_connectors.filtering import filter_of
from datarecs_connectors.json_columns import (
    MAX_COLUMNS,
    Columns,
    TooManyColumnsError,
    value_of,
)
from datarecs_connectors.json_values import (
    MAX_DEPTH,
    NestedTooDeepError,
    parse_line,
    reader_of,
)
from datarecs_connectors.probing import probe_files
from datarecs_connectors.recoding import Encoding
from datarecs_connectors.source_trees import HeldFiles, SourceTree
from datarecs_connectors.text_files import UnpackedBytes, nul_error, open_text
from datarecs_connectors.typed_text import table_of
from datarecs_core.comparison.planning.scan import FileList, Pin, PinnedFile, Scan, SourceSchema
from datarecs_core.jobs.definition import DEFAULT_LIMITS, Source

BATCH_ROWS, BATCH_BYTES = 10_000, 16 * 1024 * 1024
MAX_VALUE_BYTES = DEFAULT_LIMITS.max_value_bytes
MAX_LINE_BYTES = 8 * MAX_VALUE_BYTES
"""The longest value may be written with escapes, six bytes for one."""
_BOM, _BLANK = b"\xef\xbb\xbf", b" \t\r\n"


class JsonOptions(BaseModel):
    """`options` of a json source."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    encoding: Encoding = Encoding.UTF_8
    declared: Annotated[dict[str, str], Field(alias="schema", default_factory=dict)]
    infer: Literal["strict"] = "strict"


class _Line(NamedTuple):
    number: int
    """From 1."""
    size: int
    """Bytes."""
    row: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonConnector:
    """Port Connector over a folder of files with one JSON object per line."""

    tree: SourceTree
    options: JsonOptions

    def pin(self, source: Source) -> HeldFiles:
        return self.tree.pin(source.path or "")

    def describe(self, source: Source, pin: Pin) -> SourceSchema:
        """Names of all lines; types that fit every value of every file."""
        files, rows = _files(pin), 0
        unpacked = UnpackedBytes(limit=source.limits.max_bytes)
        columns = Columns(declared_types(source.name, self.options.declared))
        try:
            for file in files:
                for line in self._lines(file, unpacked):
                    rows += 1
                    columns.see(line.row)
                columns.end_file()
            source_columns = columns.list_columns()
        except TooManyColumnsError as cause:
            raise SourceLimitError(
                source.name,
                f"more than {MAX_COLUMNS} columns; declare an object with many members as one, "
                "column with options.schema: {name: json}",
            ) from cause
        differing = columns.difference()
        if differing is not None:
            name, one, other = differing
            raise SchemaChangedError(
                source.name,
                (files[one].path, files[other].path),
                name,
                remedy="name the column in options.schema: it is NULL where a file has none",
            )
        return SourceSchema(
            columns=tuple(source_columns),
            estimated_rows=rows,
            estimated_bytes=sum(file.size_bytes for file in files),
        )

    def rows(self, scan: Scan) -> Iterator[tuple[object, ...]]:
        names = [column.physical or "" for column in scan.columns]
        for _, row in self._delivered(scan):
            yield tuple(row[name] for name in names)

    def extract(self, scan: Scan, directory: str, progress: Callable[[Read], None]) -> Scan:
        return write_extract(scan, self.batches(scan), directory, progress)

    def probe(self, source: Source | None = None) -> Sequence[ProbeStep]:
        return probe_files(self.tree, source)

    def close(self) -> None:
        self.tree.close()

    def _lines(self, file: PinnedFile, unpacked: UnpackedBytes) -> Iterator[_Line]:
        """Lines end with LF or CR LF; blank lines contain no row."""
        path = file.path
        with open_text(self.tree, file, unpacked, self.options.encoding) as text:
            number = 0
            while raw := text.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(raw) > MAX_LINE_BYTES:
                    raise SourceLimitError(
                        self.tree.source,
                        f"{path} line {number}: the line has more than {MAX_LINE_BYTES} bytes",
                    )
                if number == 1:
                    raw = raw.removeprefix(_BOM)
                line = raw.strip(_BLANK)
                if not line:
                    continue
                if b"\0" in line:
                    raise nul_error(self.tree.source, f"{path} line {number}")
                try:
                    row = parse_line(line.decode(errors="surrogateescape"))
                except ValueError as cause:
                    # The decoder's error contains the line; it must not reach a log as the cause.
                    raise self._broken(line, f"{path} line {number}", cause) from None
                if not isinstance(row, dict):
                    raise self._broken(line, f"{path} line {number}")
                yield _Line(number, len(raw), row)

    def _broken(self, line: bytes, place: str, cause: ValueError | None = None) -> SourceError:
        hint = "; write one object per line, not an array of them" if line[:1] == b"[" else ""
        match cause:
            case None:
                return CorruptSourceError(self.tree.source, f"{place}: it is not an object{hint}")
            case NestedTooDeepError():
                message = f"{place}: values are nested more than {MAX_DEPTH} deep"
                return SourceLimitError(self.tree.source, message)
            case json.JSONDecodeError():
                message = f"{place} column {cause.colno}: {cause.msg.rstrip(': ')}{hint}"
                return CorruptSourceError(self.tree.source, message)
            case _:
                return CorruptSourceError(self.tree.source, f"{place}: {cause}")

    def _delivered(self, scan: Scan) -> Iterator[tuple[int, dict[str, object]]]:
        """Bytes of each line that matches the filter, and its plain values by physical name."""
        wanted = filter_of(scan)
        kinds = {column.name: column.type for column in scan.schema.columns}
        names = {*(column.physical or "" for column in scan.columns), *wanted.columns}
        readers = {name: reader_of(kinds[name]) for name in names}
        unpacked = UnpackedBytes(limit=scan.limits.max_bytes)
        for file in _files(scan.pin):
            for line in self._lines(file, unpacked):
                row: dict[str, object] = {}
                for name, read in readers.items():
                    value = value_of(line.row, name)
                    row[name] = None if value is None else read(value)
                limit = scan.limits.max_value_bytes
                if line.size > limit:
                    self._limit(row, limit, f"{file.path} line {line.number}")
                if wanted.matches(row):
                    yield line.size, row

    def _limit(self, row: dict[str, object], limit: int, place: str) -> None:
        for name, value in row.items():
            if isinstance(value, str) and len(value.encode()) > limit:
                raise SourceLimitError(
                    self.tree.source, f"{place}: the value of {name!r} has more than {limit} bytes"
                )

    def batches(self, scan: Scan) -> Batches:
        rows: list[dict[str, object]] = []
        size = batches = 0
        for length, row in self._delivered(scan):
            rows.append(row)
            size += length
            if len(rows) >= BATCH_ROWS or size >= BATCH_BYTES:
                yield _batch(scan, rows)
                rows, size, batches = [], 0, batches + 1
        if rows or not batches:
            yield _batch(scan, rows)


def _batch(scan: Scan, rows: Sequence[dict[str, object]]) -> tuple[pa.RecordBatch, tuple[str, ...]]:
    columns = [
        typed_values([row[column.physical or ""] for row in rows], column.type)
        for column in scan.columns
    ]
    return table_of([column.name for column in scan.columns], columns)


def _files(pin: Pin) -> tuple[PinnedFile, ...]:
    if not isinstance(pin, FileList):
        raise TypeError("a file source is pinned by its files")
    return pin.files
