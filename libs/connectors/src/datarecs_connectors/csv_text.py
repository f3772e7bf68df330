"""The text of one csv source before rows are read: recoded, without skipped lines.

Separate from the reader of rows because header, delimiter, rows and line numbers in messages all
use the same lines.
"""

import csv
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from datarecs_connectors.csv_header import has_other_breaks, record_fault, unreadable_fault
from datarecs_connectors.csv_options import CsvOptions
from datarecs_connectors.delimiters import SAMPLE_BYTES, recognise_delimiter
from datarecs_connectors.errors import CorruptSourceError, SourceLimitError
from datarecs_connectors.skipped_lines import SkippedLines, SkipRule
from datarecs_connectors.source_trees import SourceTree
from datarecs_connectors.text_files import CHUNK_BYTES, UnpackedBytes, nul_error, open_text
from datarecs_connectors.text_stream import stream_of
from datarecs_core.comparison.planning.scan import PinnedFile

if TYPE_CHECKING:
    from _csv import Reader as CsvReader

MAX_LINE_BYTES = 16 * 1024 * 1024
_NO_LIMIT = 2**62
"""Limit for lines that are read in advance."""
BOM = b"\xef\xbb\xbf"
"""A byte order mark in UTF-8."""


@dataclass(slots=True, kw_only=True)
class CsvText:
    """Opens the files of one source."""

    tree: SourceTree
    options: CsvOptions
    skipped: dict[str, SkippedLines] = field(default_factory=dict)
    """By path, of the last reading."""
    odd_headers: dict[str, list[str]] = field(default_factory=dict)
    """Lines of headers with another line break in a name than at their end, by path."""

    @contextmanager
    def opened(self, file: PinnedFile, unpacked: UnpackedBytes) -> Iterator[BinaryIO]:
        """The lines with the header and the rows, in UTF-8."""
        skipped = self.skipped[file.path] = SkippedLines()
        text = open_text(self.tree, file, unpacked, self.options.encoding)
        if not self.options.skip.is_empty:
            rule = SkipRule(
                source=self.tree.source,
                options=self.options.skip,
                quote=self.options.quote.encode(),
                max_line_bytes=MAX_LINE_BYTES,
            )
            lines = rule.remaining(_without_mark(text), file.path, skipped)
            text = stream_of(lines, text, CHUNK_BYTES)
        with text:
            yield text

    def line(self, file: PinnedFile, number: int) -> int:
        """The line number in the file of a line that was read; both start at 1."""
        return self.skipped.get(file.path, SkippedLines()).original(number)

    def delimiter(self, file: PinnedFile, limit: int) -> str:
        """The declared delimiter, or the one detected in the first lines of a file."""
        if self.options.delimiter is not None:
            return self.options.delimiter
        with self.opened(file, UnpackedBytes(limit=limit)) as text:
            sample = text.read(SAMPLE_BYTES).removeprefix(BOM).decode("latin-1")
        return recognise_delimiter(sample, self.options.quote)

    def names(self, file: PinnedFile, delimiter: str, limit: int) -> list[str]:
        """The header, or `c1`, `c2`, …; equal names remain, and a job that uses one is refused.

        Raises CorruptSourceError: there is no header, or it cannot be read.
        """
        source, path = self.tree.source, file.path
        lines: list[str] = []
        with self.opened(file, UnpackedBytes(limit=limit)) as text:
            reader = self._reader(file, text, delimiter, seen=lines)
            try:
                first = next(reader, list[str]())
            except csv.Error as cause:
                place = f"{path} line {self.line(file, 1)}"
                raise CorruptSourceError(source, f"{place}: {unreadable_fault(cause)}") from cause
        has_header = self.options.header
        if fault := record_fault(first, lines, at=self.line(file, 1), is_header=has_header):
            raise CorruptSourceError(source, f"{path} {fault}")
        if has_header and has_other_breaks(first, lines):
            self.odd_headers[path] = lines
        if not self.options.header:
            return [f"c{number}" for number in range(1, len(first) + 1)]
        try:
            return [name.encode("latin-1").decode() for name in first]
        except UnicodeDecodeError:
            line = self.line(file, 1)
            raise CorruptSourceError(source, f"{path} {_not_utf8(line, first)}") from None

    def lines_of(
        self, file: PinnedFile, delimiter: str, rows: Collection[int], *, width: int
    ) -> dict[int, int]:
        """The line of the file where each row begins; rows are counted from 0 after the header.

        Reads the file again, up to the last of the rows.
        """
        with self.opened(file, UnpackedBytes(limit=_NO_LIMIT)) as text, suppress(csv.Error):
            reader = self._reader(file, text, delimiter, limit=_NO_LIMIT)
            if self.options.header:
                next(reader, None)
            begins, number, lines = reader.line_num + 1, 0, dict[int, int]()
            for row in reader:
                if row or width == 1:
                    if number in rows:
                        lines[number] = self.line(file, begins)
                    number += 1
                if len(lines) == len(rows):
                    return lines
                begins = reader.line_num + 1
        return {}

    def _reader(
        self,
        file: PinnedFile,
        text: BinaryIO,
        delimiter: str,
        *,
        limit: int = MAX_LINE_BYTES,
        seen: list[str] | None = None,
    ) -> "CsvReader":
        """Records of the text; `seen` gets the lines that were read."""
        lines = _letters(self.tree.source, file.path, text, limit)
        return csv.reader(
            lines if seen is None else _noted(lines, seen),
            delimiter=delimiter,
            quotechar=self.options.quote,
            doublequote=True,
            strict=True,
        )


def _noted(lines: Iterator[str], seen: list[str]) -> Iterator[str]:
    for line in lines:
        seen.append(line)
        yield line


def _not_utf8(line: int, names: list[str]) -> str:
    raw = next(name.encode("latin-1") for name in names if not _is_utf8(name.encode("latin-1")))
    return (
        f"line {line}: the header is not encoded in UTF-8 (bytes 0x{raw[:8].hex()} in a name); "
        "declare options.encoding: windows-1252, or its actual encoding"
    )


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _without_mark(text: BinaryIO) -> BinaryIO:
    """Remove a byte order mark, which would precede a prefix."""
    peek = getattr(text, "peek", None)
    if peek is not None and peek(len(BOM))[: len(BOM)] == BOM:
        text.read(len(BOM))
    return text


def _letters(source: str, path: str, text: BinaryIO, limit: int) -> Iterator[str]:
    """Lines as Latin-1 characters, one per byte, until their total length exceeds the limit."""
    left, mark = limit, BOM
    while line := text.readline(min(left, MAX_LINE_BYTES) + 1):
        left -= len(line)
        line, mark = line.removeprefix(mark), b""
        if left < 0:
            raise SourceLimitError(
                source, f"{path} line 1: the line has more than {MAX_LINE_BYTES} bytes"
            )
        if b"\0" in line:
            raise nul_error(source, f"{path} line 1")
        yield line.decode("latin-1")
