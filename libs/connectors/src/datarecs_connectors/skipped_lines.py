"""Skip the lines of a CSV file that contain no row: before the header, footers, comments.

They are skipped before parsing, so a footer is neither a row nor an error. Messages name lines of
the original file, so the skipped lines are counted here.
"""

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from datarecs_connectors.csv_options import SkipOptions
from datarecs_connectors.errors import SourceLimitError


@dataclass(slots=True)
class SkippedLines:
    """The skipped lines of one file."""

    first: int = 0
    last: int = 0
    by_prefix: dict[str, int] = field(default_factory=dict)
    _before: "array[int]" = field(default_factory=lambda: array("q"))
    """For each skipped line, the number of remaining lines before it; ascending."""

    def add(self, remaining: int) -> None:
        self._before.append(remaining)

    def original(self, line: int) -> int:
        """The line number in the file of a remaining line; both start at 1."""
        return line + bisect_left(self._before, line)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipRule:
    """The lines to skip in the files of one source."""

    source: str
    options: SkipOptions
    quote: bytes
    max_line_bytes: int

    def remaining(self, text: BinaryIO, path: str, skipped: SkippedLines) -> Iterator[bytes]:
        """Lines with the header and the rows.

        Raises SourceLimitError for a line that is too long, or a record if footers are skipped.
        """
        for _ in range(self.options.first):
            if self._line(text, path):
                skipped.first += 1
                skipped.add(0)
        records = self._records(text, path, skipped)
        if not self.options.last:
            for record in records:
                yield from record
            return
        waiting: deque[list[bytes]] = deque()
        filled = 0
        for record in records:
            waiting.append(record)
            filled += _is_filled(record)
            while filled > self.options.last:
                filled -= _is_filled(waiting[0])
                yield from waiting.popleft()
        skipped.last += filled

    def _records(self, text: BinaryIO, path: str, skipped: SkippedLines) -> Iterator[list[bytes]]:
        """Groups of lines with all quotes closed, without lines that a prefix skips."""
        record: list[bytes] = []
        size = remaining = 0
        is_open = False
        while line := self._line(text, path):
            if not record and (prefix := self._prefix(line)) is not None:
                skipped.by_prefix[prefix] = skipped.by_prefix.get(prefix, 0) + 1
                self._leave_out(line, text, path, skipped, remaining)
                continue
            record.append(line)
            remaining += 1
            is_open ^= bool(line.count(self.quote) % 2)
            size += len(line)
            if size > self.max_line_bytes:
                raise self._too_long(path)
            if not is_open:
                yield record
                record, size = [], 0
        if record:
            yield record

    def _leave_out(
        self, line: bytes, text: BinaryIO, path: str, skipped: SkippedLines, remaining: int
    ) -> None:
        """One line, or a whole record if it begins with a quote."""
        is_open = line.startswith(self.quote) and line.count(self.quote) % 2 == 1
        skipped.add(remaining)
        while is_open and (line := self._line(text, path)):
            skipped.add(remaining)
            is_open ^= bool(line.count(self.quote) % 2)

    def _prefix(self, line: bytes) -> str | None:
        bare = line.removeprefix(self.quote)
        for prefix in self.options.prefixes:
            written = prefix.encode()
            if bare.startswith(written) or line.startswith(written):
                return prefix
        return None

    def _line(self, text: BinaryIO, path: str) -> bytes:
        line = text.readline(self.max_line_bytes + 1)
        if len(line) > self.max_line_bytes:
            raise self._too_long(path)
        return line

    def _too_long(self, path: str) -> SourceLimitError:
        return SourceLimitError(
            self.source,
            f"{path}: a line, or a field in quotes, has more than {self.max_line_bytes} bytes; "
            "close its quote, or correct options.quote",
        )


def _is_filled(record: list[bytes]) -> bool:
    return bool(b"".join(record).strip())
