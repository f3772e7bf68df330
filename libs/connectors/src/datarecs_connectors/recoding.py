"""Text files in other encodings as a stream of UTF-8.

All later steps read UTF-8. A byte that is not a character ends the read with an error that names
its line and position: replacement characters would be compared as if they were in the file.
"""

import codecs
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

from datarecs_connectors.errors import CorruptSourceError

_MARK_16_LE, _MARK_16_BE = codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE
_MARK_8 = codecs.BOM_UTF8
_MARKS_32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


class Encoding(StrEnum):
    """Encodings that text files may have."""

    UTF_8 = "utf-8"
    UTF_16 = "utf-16"
    UTF_16_LE = "utf-16le"
    UTF_16_BE = "utf-16be"
    LATIN_1 = "iso-8859-1"
    WINDOWS_1252 = "windows-1252"


_WIDE = {Encoding.UTF_16, Encoding.UTF_16_LE, Encoding.UTF_16_BE}
Fail = Callable[[str], CorruptSourceError]
"""Creates the error of a file from a description of the fault."""


def encoding_of(head: bytes, declared: Encoding, fail: Fail) -> Encoding:
    """The encoding of a file: its byte order mark decides between UTF-8 and UTF-16.

    Args:
        head: the first bytes.
        declared: in the job, or its default.
        fail: creates the error.

    Raises:
        CorruptSourceError: mark and declaration contradict each other, or both are missing.
    """
    if head.startswith(_MARKS_32):
        raise fail("is encoded in UTF-32, not supported; convert it: iconv -f UTF-32 -t UTF-8")
    if head.startswith((_MARK_16_LE, _MARK_16_BE)):
        if declared is Encoding.UTF_8 or declared in _WIDE:
            return Encoding.UTF_16
        raise fail(f"begins with a UTF-16 mark, not {declared}; declare {_declare('utf-16')}")
    if head.startswith(_MARK_8) and declared is not Encoding.UTF_8:
        raise fail(f"begins with a UTF-8 mark, not {declared}; declare {_declare('utf-8')}")
    if declared is Encoding.UTF_16:
        raise fail(
            "has no byte order mark at its beginning; declare "
            f"{_declare('utf-16le')} or {_declare('utf-16be')}"
        )
    if declared not in _WIDE and (wide := _unmarked_wide(head)) is not None:
        error = fail(f"is encoded in UTF-16 without a byte order mark; declare {_declare(wide)}")
        error.encoding = wide
        raise error
    return declared


def _declare(encoding: str) -> str:
    return f"options.encoding: {encoding}"


def _unmarked_wide(head: bytes) -> str | None:
    """Detect UTF-16 by the zero byte of nearly every character."""
    pairs = len(head) // 2
    even, odd = head[0 : 2 * pairs : 2].count(0), head[1 : 2 * pairs : 2].count(0)
    if pairs and not even and 3 * odd > pairs:
        return "utf-16le"
    if pairs and not odd and 3 * even > pairs:
        return "utf-16be"
    return None


def as_utf8(chunks: Iterable[bytes], encoding: Encoding, fail: Fail) -> Iterator[bytes]:
    """The text in UTF-8, chunk by chunk.

    Raises CorruptSourceError with line and byte if bytes are not a character of the encoding.
    """
    decoder = codecs.getincrementaldecoder(encoding.value)()
    lines = read = 0
    for chunk, is_last in _marked_last(chunks):
        try:
            text = decoder.decode(chunk, is_last)
        except UnicodeDecodeError as cause:
            waiting = len(cause.object) - len(chunk)
            before = cause.object[: cause.start].decode(encoding.value, "ignore").count("\n")
            wrong = cause.object[cause.start : cause.end].hex()
            place = read - waiting + cause.start + 1
            raise fail(
                f"line {lines + before + 1}, byte {place} of the file: 0x{wrong} is not valid in "
                f"{encoding}; correct options.encoding or export the file again"
            ) from None
        read += len(chunk)
        lines += text.count("\n")
        yield text.encode()


def _marked_last(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    for chunk in chunks:
        yield chunk, False
    yield b"", True
