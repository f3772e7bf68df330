"""Writes an XLSX file row by row: one sheet per class, with a fixed first row and fixed keys.

This module has the features of spreadsheets: frozen panes, filters and column widths.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

EMPTY = "differences"
"""Name of the sheet of an export without rows."""
_NARROWEST, _WIDEST = 8, 48
"""Width of a column, in characters."""


class Spreadsheet:
    """Writes in order, so that no sheet is in memory; the file is complete after the block."""

    def __init__(self, target: Path, titles: Sequence[str], *, frozen_columns: int) -> None:
        """Start a file with these columns; the first ones are frozen."""
        import xlsxwriter  # type: ignore[import-untyped]  # it has no py.typed

        # On the disk of the file, so that an error names the right one; a pipe has no disk.
        beside = target.parent if target.name.startswith(".") else None
        self._scratch = TemporaryDirectory(prefix=".datarecs-", dir=beside)
        options = {"constant_memory": True, "tmpdir": self._scratch.name}
        self._book = xlsxwriter.Workbook(target, options)
        self._bold = self._book.add_format({"bold": True, "bottom": 1})
        self._titles, self._frozen = titles, frozen_columns
        self._sheets: dict[str, _Sheet] = {}

    def add(self, sheet: str, cells: Sequence[str | float | None]) -> None:
        """Append a row to a sheet."""
        if sheet not in self._sheets:
            self._sheets[sheet] = self._new(sheet)
        self._sheets[sheet].add(cells)

    def note(self, text: str) -> None:
        """Append a sheet of notes after all others."""
        if not self._sheets:
            self._sheets[EMPTY] = self._new(EMPTY)
        self._book.add_worksheet("notes").write_string(0, 0, text)

    def _new(self, name: str) -> "_Sheet":
        sheet = self._book.add_worksheet(name)
        sheet.freeze_panes(1, self._frozen)
        for column, title in enumerate(self._titles):
            sheet.write_string(0, column, title, self._bold)
        return _Sheet(sheet, [len(title) for title in self._titles])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        from xlsxwriter.exceptions import (  # type: ignore[import-untyped]  # it has no py.typed
            FileCreateError,
        )

        try:
            if error is None:
                for sheet in self._sheets.values():
                    sheet.finish()
                self._book.close()
        except FileCreateError as failure:
            cause = failure.args[0]
            raise cause if isinstance(cause, OSError) else OSError(str(cause)) from failure
        finally:
            for sheet in self._book.worksheets():
                sheet._opt_close()  # noqa: SLF001  no public way to close a book without writing it
            self._scratch.cleanup()


class _Sheet:
    def __init__(self, sheet: Any, widths: list[int]) -> None:  # noqa: ANN401  a library without types
        self._sheet, self._widths, self._rows = sheet, widths, 0

    def add(self, cells: Sequence[str | float | None]) -> None:
        self._rows += 1
        for column, cell in enumerate(cells):
            if cell is None:
                continue
            if isinstance(cell, str):
                self._sheet.write_string(self._rows, column, cell)
            else:
                self._sheet.write_number(self._rows, column, cell)
            self._widths[column] = max(self._widths[column], len(str(cell)))

    def finish(self) -> None:
        """Set filters over all rows, and the widths of the columns."""
        self._sheet.autofilter(0, 0, self._rows, len(self._widths) - 1)
        for column, width in enumerate(self._widths):
            self._sheet.set_column(column, column, min(max(width + 3, _NARROWEST), _WIDEST))
