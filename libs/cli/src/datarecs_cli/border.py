"""The border to the terminal: what stdout and stderr show holds nothing a terminal obeys.

One place for every command, behind all tables and texts: control characters (C0, C1, DEL) and
invisible ones, bidi controls among them, become escapes. Only colours that are closed again and
the line that moves, which we write ourselves, pass. Commands write JSON with such characters
escaped already. Source: spec security 12.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from datarecs_cli.error_text import plain

CLEAR = "\r\x1b[K"
"""Goes back to the start of the line and empties it; at the start of a moving line alone."""
_COLOURED = re.compile(
    r"\x1b\[(?:[1-4]|3[1-7]|9[0-7])(?:;(?:[1-4]|3[1-7]|9[0-7]))*m[^\x1b\n]*\x1b\[0m"
)
"""A text between a colour, none that hides it, and its end: the terminal is as it was before."""


class Border:
    """A stream that escapes what is written to it; everything else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """The number of characters given, as a stream says."""
        self.stream.write(harmless(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever the stream has
        return getattr(self.stream, name)


def harmless(text: str) -> str:
    """The text with escapes for everything that is no printable character or line end."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    lead = CLEAR if text.startswith(CLEAR) else ""
    shown, place = [lead], len(lead)
    for coloured in _COLOURED.finditer(text, place):
        shown += [plain(text[place : coloured.start()]), _closed(coloured[0])]
        place = coloured.end()
    return "".join([*shown, plain(text[place:])])


def _closed(coloured: str) -> str:
    """The colour and its end as they are, the text between them escaped."""
    start, inner = coloured.index("m") + 1, len(coloured) - len("\x1b[0m")
    return coloured[:start] + plain(coloured[start:inner]) + coloured[inner:]


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Stdout and stderr behind the border while a command runs."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = Border(sys.stdout), Border(sys.stderr)
    try:
        yield
    finally:
        current: object = sys.stdout
        if current is not None:  # after a broken pipe it is gone on purpose, and stays so
            sys.stdout = before[0]
        sys.stderr = before[1]


def raw_stdout() -> TextIO:
    """Stdout for data of a file format, which a program reads; the border's on a terminal."""
    stream = sys.stdout
    return stream.stream if isinstance(stream, Border) and not stream.isatty() else stream
