"""Text files of a source as a stream of bytes: unpacked from gzip or zstd; other formats refused.

One module for CSV and JSON lines, because compression does not depend on how lines are read. Suffix
and first bytes must agree. Unpacked bytes are counted, so a small file cannot expand without limit;
one chunk is in memory.
"""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import BinaryIO

import pyarrow as pa

from datarecs_connectors.errors import (
    CorruptSourceError,
    SourceLimitError,
    SourceUnsupportedError,
)
from datarecs_connectors.random_access import has_descriptor
from datarecs_connectors.recoding import Encoding, as_utf8, encoding_of
from datarecs_connectors.source_trees import SourceTree
from datarecs_connectors.text_stream import stream_of
from datarecs_core.comparison.planning.scan import PinnedFile

CHUNK_BYTES = 1024 * 1024
_REMOTE_CHUNK_BYTES = 64 * 1024
"""Of an object, which reads in advance by itself: its header needs no more."""
FREE_BYTES = 64 * 1024 * 1024
"""Bytes that every file may unpack to, independent of its size."""
MAX_RATIO = 200
"""Unpacked bytes per packed byte, above `FREE_BYTES`."""
_HEAD_BYTES = 4096


class Packing(StrEnum):
    GZIP = "gzip"
    ZSTD = "zstd"


_SUFFIXES = {".gz": Packing.GZIP, ".zst": Packing.ZSTD, ".zstd": Packing.ZSTD}
_OTHER_FORMATS = (
    (0, b"PK\x03\x04", "a zip archive or an Office workbook"),
    (0, b"PK\x05\x06", "an empty zip archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (0, b"Rar!\x1a\x07", "a rar archive"),
    (257, b"ustar", "a tar archive"),
    (0, b"\xfd7zXZ\x00", "an xz file"),
    (0, b"\x04\x22\x4d\x18", "an lz4 file"),
    (0, b"%PDF-", "a PDF document"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document"),
    (0, b"PAR1\x15", "a Parquet file"),
    (0, b"ARROW1\x00\x00", "an Arrow file"),
    (0, b"Obj\x01", "an Avro file"),
    (0, b"SQLite format 3\x00", "an SQLite database"),
)
_PICKLE_PROTOCOLS = range(2, 6)
_UNPACK = "unpack or convert it, and name the text files"


@dataclass(slots=True, kw_only=True)
class UnpackedBytes:
    """Limit of the unpacked bytes of all compressed files of one read."""

    limit: int
    total: int = 0


@dataclass(slots=True)
class TextMarks:
    """Counts lines and quotes of a stream; finds its first NUL byte and its first line too long.

    A chunk is shorter than the longest line allowed, so a line too long covers whole chunks.
    """

    quote: bytes = b""
    max_line_bytes: int | None = None
    lines: int = 0
    """Line ends so far."""
    quotes: int = 0
    last_quote: int = 0
    """Line of the last quote, from 1."""
    nul: int | None = None
    """Line of the first NUL byte, from 1."""
    too_long: int | None = None
    """First line with more than `max_line_bytes`, from 1."""
    _line_bytes: int = 0
    """Bytes of the line that is not ended yet."""

    def add(self, chunk: bytes) -> None:
        if self.nul is None and (at := chunk.find(b"\0")) >= 0:
            self.nul = self._line(chunk, at)
        if self.quote and (count := chunk.count(self.quote)):
            self.quotes += count
            self.last_quote = self._line(chunk, chunk.rfind(self.quote))
        if self.max_line_bytes is not None:
            self._check_length(chunk, self.max_line_bytes)
        self.lines += chunk.count(b"\n")

    def _check_length(self, chunk: bytes, limit: int) -> None:
        end = chunk.find(b"\n")
        size = self._line_bytes + (len(chunk) if end < 0 else end)
        if self.too_long is None and size > limit:
            self.too_long = self.lines + 1
        self._line_bytes = size if end < 0 else len(chunk) - chunk.rfind(b"\n") - 1

    def _line(self, chunk: bytes, at: int) -> int:
        return self.lines + chunk.count(b"\n", 0, at) + 1


def open_text(
    tree: SourceTree, file: PinnedFile, unpacked: UnpackedBytes, encoding: Encoding = Encoding.UTF_8
) -> BinaryIO:
    """The text of a pinned file in UTF-8; the caller closes it.

    `fileno` works only for a local file that is neither compressed nor in another encoding.

    Raises:
        SnapshotLostError: the file is not the pinned one.
        SourceUnsupportedError: it is an archive, or a format without lines of text.
        CorruptSourceError: suffix and content differ, or it has another encoding; on reading, a
            byte is not a character of the encoding.
        SourceLimitError: on reading, it unpacks to more than `unpacked` or `MAX_RATIO` allow.
    """
    opened = tree.open_pinned(file)
    text: BinaryIO = opened
    try:
        head = opened.read(_HEAD_BYTES)
        opened.seek(0)
        packing = _packing(tree.source, file.path, head)
        if packing is not None:
            raw = _Unpacked(opened, packing, _Place(tree.source, file.path), unpacked)
            text = io.BufferedReader(raw, CHUNK_BYTES)
            head = text.peek(_HEAD_BYTES)[:_HEAD_BYTES]
        elif not has_descriptor(opened):
            text = stream_of(chunks_of(opened, _REMOTE_CHUNK_BYTES), opened, CHUNK_BYTES)
        _check_is_text(tree.source, file.path, head)

        def fail(fault: str) -> CorruptSourceError:
            return CorruptSourceError(tree.source, f"{file.path} {fault}")

        written = encoding_of(head, encoding, fail)
        if written is not Encoding.UTF_8:
            recoded = as_utf8(chunks_of(text), written, fail)
            text = stream_of(recoded, text, CHUNK_BYTES)
    except BaseException:
        text.close()
        raise
    return text


def chunks_of(text: BinaryIO, size: int = CHUNK_BYTES) -> Iterator[bytes]:
    return iter(lambda: text.read(size), b"")


def nul_error(source: str, place: str) -> CorruptSourceError:
    return CorruptSourceError(
        source,
        f"{place} contains a NUL byte and is not text; export the file again as UTF-8 text",
    )


def _packing(source: str, path: str, head: bytes) -> Packing | None:
    suffix = PurePosixPath(path).suffix.lower()
    named, is_packed = _SUFFIXES.get(suffix), _packing_of(head)
    if named is is_packed:
        return named
    if named is None:
        raise CorruptSourceError(
            source,
            f"the name of {path} means plain text, but its first bytes mean {is_packed}; "
            f"rename it to {path}{_suffix(is_packed)}",
        )
    content = f"mean {is_packed}" if is_packed else f"are not those of {named}"
    raise CorruptSourceError(
        source,
        f"the name of {path} means {named}, but its first bytes {content}; "
        "deliver the file again, or correct its name",
    )


def _suffix(packing: Packing | None) -> str:
    return next((suffix for suffix, named in _SUFFIXES.items() if named is packing), "")


def _packing_of(head: bytes) -> Packing | None:
    if head.startswith(b"\x1f\x8b"):
        return Packing.GZIP
    is_frame = head.startswith(b"\x28\xb5\x2f\xfd")
    is_skippable = head[1:4] == b"\x2a\x4d\x18" and 0x50 <= head[0] <= 0x5F  # noqa: PLR2004  of the format
    return Packing.ZSTD if is_frame or is_skippable else None


def _check_is_text(source: str, path: str, head: bytes) -> None:
    kind = _format_of(head)
    if kind is not None:
        raise SourceUnsupportedError(source, f"{path} is {kind}; {_UNPACK}")


def _format_of(head: bytes) -> str | None:
    """The format's name for messages; None if it may be text. Packed data is packed twice."""
    packing = _packing_of(head)
    if packing is not None:
        return f"compressed twice, with {packing} inside"
    for offset, magic, kind in _OTHER_FORMATS:
        if head[offset : offset + len(magic)] == magic:
            return kind
    if head[:3] == b"BZh" and head[4:10] == b"1AY&SY":
        return "a bzip2 file"
    if head[:1] == b"\x80" and head[1:2] and head[1] in _PICKLE_PROTOCOLS:
        return "a Python pickle"
    return None


@dataclass(frozen=True, slots=True)
class _Place:
    source: str
    path: str


class _Unpacked(io.RawIOBase):
    """The unpacked bytes of a compressed file, chunk by chunk."""

    def __init__(
        self, packed: BinaryIO, packing: Packing, place: _Place, unpacked: UnpackedBytes
    ) -> None:
        super().__init__()
        self._packed, self._packing, self._place = packed, packing, place
        self._all, self._size = unpacked, 0
        self._stream = pa.CompressedInputStream(pa.PythonFile(packed, mode="r"), packing.value)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        target = memoryview(buffer).cast("B")  # type: ignore[arg-type]  # what io hands over
        chunk = self._read(self._stream.read, min(len(target), CHUNK_BYTES))
        target[: len(chunk)] = chunk
        self._size += len(chunk)
        self._all.total += len(chunk)
        self._check_limits()
        return len(chunk)

    def close(self) -> None:
        self._packed.close()
        super().close()

    def _read(self, read: Callable[[int], bytes], size: int) -> bytes:
        source, path = self._place.source, self._place.path
        try:
            return read(size)
        except OSError as cause:
            if "too much memory" in str(cause):
                raise SourceLimitError(
                    source,
                    f"{path} needs a window of more than 128 MiB to be unpacked; compress it "
                    "without --long, or unpack it",
                ) from None
            is_cut = "Truncated" in str(cause)
            fault = "ends in the middle" if is_cut else "is damaged, or other bytes follow it"
            raise CorruptSourceError(
                source, f"the {self._packing} data of {path} {fault}; deliver the file again"
            ) from None

    def _check_limits(self) -> None:
        source, path = self._place.source, self._place.path
        if self._all.total > self._all.limit:
            raise SourceLimitError(
                source,
                f"its compressed files unpack to more than {self._all.limit} bytes (max_bytes), "
                f"reached in {path}; raise limits.max_bytes or read fewer files",
            )
        if self._size > FREE_BYTES and self._size > MAX_RATIO * max(self._packed.tell(), 1):
            raise SourceLimitError(
                source,
                f"{path} unpacks to more than {MAX_RATIO} times its size; if that is right, "
                "deliver it unpacked",
            )
