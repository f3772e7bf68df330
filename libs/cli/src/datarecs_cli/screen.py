"""Where progress is shown: plain lines on stderr, and on a terminal one line that moves.

Apart from what is said, because whether anything may move is decided by the terminal and the
environment alone: without both there is no escape byte.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from shutil import get_terminal_size

from datarecs_cli.border import CLEAR
from datarecs_cli.invocation import Invocation

COLOURS = {"MATCHED": "32", "UNMATCHED": "33", "ERRORED": "31", "QUEUE_ERRORED": "31"}
"""ANSI codes by outcome; the sign and the word say the same without them."""


@dataclass(slots=True)
class Screen:
    """Lines to stderr; `moves` is whether the last line may be drawn over."""

    quiet: bool
    moves: bool
    _drawn: str = ""
    """The moving line as it stands."""

    @classmethod
    def of(cls, invocation: Invocation, environment: Mapping[str, str]) -> "Screen":
        plain = environment.get("NO_COLOR") or environment.get("TERM") == "dumb"
        return cls(
            quiet=invocation.quiet,
            moves=sys.stderr.isatty() and not plain and not invocation.quiet,
        )

    def say(self, line: str) -> None:
        """A line that stays."""
        if not self.quiet:
            self.clear()
            print(line, file=sys.stderr, flush=True)

    def begin(self, text: str) -> None:
        """The first sign of life, before what takes its time is imported."""
        if self.moves:
            self.draw(text)
        else:
            self.say(text)

    @property
    def width(self) -> int:
        """Of a line that does not break."""
        return get_terminal_size().columns - 1

    def draw(self, line: str) -> None:
        """The moving line; nothing where nothing may move."""
        if self.moves:
            self.move(line[: self.width])

    def move(self, line: str) -> None:
        """The same of a line that fits, whatever bytes its colours take."""
        if self.moves and line != self._drawn:
            sys.stderr.write(CLEAR + line)
            sys.stderr.flush()
            self._drawn = line

    def clear(self) -> None:
        """Take the moving line away."""
        if self._drawn:
            sys.stderr.write(CLEAR)
            sys.stderr.flush()
            self._drawn = ""


def coloured(text: str, outcome: str, invocation: Invocation) -> str:
    """The text in its outcome's colour, where colours are wanted."""
    code = COLOURS.get(outcome)
    return f"\x1b[{code}m{text}\x1b[0m" if code and invocation.color else text
