"""The moving line of a longer local comparison: a bar, its share, rows and rows per second.

rich draws it and is imported only when there is a bar. This module makes the line; the screen
decides where it goes and whether it may move.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from typing import Self

from datarecs_cli.invocation import Invocation
from datarecs_cli.output import UNICODE, cell, words
from datarecs_reports.figures import count, counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The progress of one step."""

    what: str
    rows: int
    total: int | None
    """Number of rows; None if unknown."""
    rate: float
    """Rows per second."""
    then: str = ""
    """The step that follows when all rows are read."""

    @property
    def is_read(self) -> bool:
        return self.total is not None and self.rows >= self.total

    @property
    def cells(self) -> tuple[str, ...]:
        """The texts after the bar. The share is rounded down: 100 % means all rows."""
        share = [] if self.total is None else [f"{min(self.rows * 100 // self.total, 100)} %"]
        if self.is_read and self.then:
            return (*share, f"{counted(self.rows, 'row')} read", self.then)
        of = "" if self.total is None or self.is_read else f" of {count(self.total)}"
        return (*share, f"{count(self.rows)}{of} rows", f"{self.rate:,.0f} rows/s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Draws the bar for one terminal."""

    encoding: str
    color: bool

    @classmethod
    def of(
        cls, invocation: Invocation, environment: Mapping[str, str], *, encoding: str | None
    ) -> Self:
        unicode = words(environment, encoding=encoding) is UNICODE
        return cls(encoding="utf-8" if unicode else "ascii", color=invocation.color)

    def line(self, shown: Shown, width: int) -> str:
        """One line of at most this width; longer text is cut off."""
        from rich.console import Console
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        # Two blanks between columns, none around them.
        row = Table.grid(padding=(0, 2, 0, 0), expand=True)
        row.add_column(no_wrap=True, max_width=max(width // 3, 1))
        row.add_column(ratio=1)
        cells = [Text(each) for each in shown.cells]
        for _ in cells:
            row.add_column(no_wrap=True, justify="right")
        bar = ProgressBar(
            total=shown.total,
            completed=shown.rows,
            style="bright_black",
            complete_style="cyan",
            finished_style="cyan",
            pulse_style="cyan",
        )
        row.add_row(Text(cell(shown.what)), bar, *cells)
        # rich uses the file's encoding, and with these arguments does not read the environment.
        with TextIOWrapper(BytesIO(), encoding=self.encoding, errors="replace") as file:
            console = Console(
                file=file,
                force_terminal=True,
                width=width,
                color_system="standard" if self.color else None,
                no_color=not self.color,
                legacy_windows=False,
            )
            console.print(row)
            file.seek(0)
            return file.readline().rstrip("\n")
