"""Escapes terminal control characters in everything that stdout and stderr show.

One place for every command and all tables and texts: control characters (C0, C1, DEL) and
invisible ones, including bidi controls, become escapes. Only closed colours and the moving line,
which this program writes, pass. JSON of commands already has such characters escaped.
Source: spec security 12.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from datarecs_cli.error_text import plain

CLEAR = "\r\x1b[K"
"""Moves to the start of the line and clears it; allowed only at the start of a moving line."""
_COLOURED = re.compile(
    r"\x1b\[(?:[1-4]|3[1-7]|9[0-7])(?:;(?:[1-4]|3[1-7]|9[0-7]))*m[^\x1b\n]*\x1b\[0m"
)
"""A text between a colour (never a hiding one) and its end, after which the terminal is reset."""


class StreamLostError(OSError):
    """Nothing can be written to stdout or stderr, as on a full disk."""


class Border:
    """A stream that escapes all written text; everything else passes to the stream."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write; returns the number of characters of `text`, as the stream protocol requires."""
        try:
            self.stream.write(harmless(text))
        except BrokenPipeError:
            raise
        except OSError as failure:
            raise StreamLostError(failure.errno, failure.strerror) from failure
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  any attribute of the stream
        return getattr(self.stream, name)


def harmless(text: str) -> str:
    """The text with escapes for everything except printable characters and line ends."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    lead = CLEAR if text.startswith(CLEAR) else ""
    shown, place = [lead], len(lead)
    for coloured in _COLOURED.finditer(text, place):
        shown += [plain(text[place : coloured.start()]), _closed(coloured[0])]
        place = coloured.end()
    return "".join([*shown, plain(text[place:])])


def _closed(coloured: str) -> str:
    """The colour and its end unchanged, with the text between them escaped."""
    start, inner = coloured.index("m") + 1, len(coloured) - len("\x1b[0m")
    return coloured[:start] + plain(coloured[start:inner]) + coloured[inner:]


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Escape stdout and stderr while a command runs."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = Border(sys.stdout), Border(sys.stderr)
    try:
        yield
    finally:
        current: object = sys.stdout
        if current is not None:  # after a broken pipe it is None on purpose and stays so
            sys.stdout = before[0]
        sys.stderr = before[1]


def raw_stdout() -> TextIO:
    """Stdout for a file format that a program reads; escaped only on a terminal."""
    stream = sys.stdout
    return stream.stream if isinstance(stream, Border) and not stream.isatty() else stream
