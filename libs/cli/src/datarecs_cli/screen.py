"""Shows progress: plain lines on stderr, and on a terminal one moving line.

Only the terminal and the environment decide whether a line may move; without a suitable terminal
no escape byte is written.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from shutil import get_terminal_size

from datarecs_cli.border import CLEAR
from datarecs_cli.invocation import Invocation

COLOURS = {"MATCHED": "32", "UNMATCHED": "33", "ERRORED": "31", "QUEUE_ERRORED": "31"}
"""ANSI codes by outcome; the symbol and the word show the same without colour."""


@dataclass(slots=True)
class Screen:
    """Lines to stderr; `moves`: the last line may be redrawn."""

    quiet: bool
    moves: bool
    _drawn: str = ""
    """The current moving line."""

    @classmethod
    def of(cls, invocation: Invocation, environment: Mapping[str, str]) -> "Screen":
        plain = environment.get("NO_COLOR") or environment.get("TERM") == "dumb"
        return cls(
            quiet=invocation.quiet,
            moves=sys.stderr.isatty() and not plain and not invocation.quiet,
        )

    def say(self, line: str) -> None:
        """Print a line that stays."""
        if not self.quiet:
            self.clear()
            print(line, file=sys.stderr, flush=True)

    def begin(self, text: str) -> None:
        """Show a first line before slow imports."""
        if self.moves:
            self.draw(text)
        else:
            self.say(text)

    @property
    def width(self) -> int:
        """The width of a line that does not wrap."""
        return get_terminal_size().columns - 1

    def draw(self, line: str) -> None:
        """Draw the moving line; nothing if no line may move."""
        if self.moves:
            self.move(line[: self.width])

    def move(self, line: str) -> None:
        """Draw a line that fits; bytes of colours do not count for its width."""
        if self.moves and line != self._drawn:
            sys.stderr.write(CLEAR + line)
            sys.stderr.flush()
            self._drawn = line

    def clear(self) -> None:
        """Clear the moving line."""
        if self._drawn:
            sys.stderr.write(CLEAR)
            sys.stderr.flush()
            self._drawn = ""


def coloured(text: str, outcome: str, invocation: Invocation) -> str:
    """The text in its outcome's colour, if colours are enabled."""
    code = COLOURS.get(outcome)
    return f"\x1b[{code}m{text}\x1b[0m" if code and invocation.color else text
