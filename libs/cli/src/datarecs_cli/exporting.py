"""Writes differences to a file for other programs: CSV, JSONL, Parquet or XLSX, row by row.

Unlike the table of `diff`, nothing is shortened: every digit stays, numbers stay numbers, and no
text of a source becomes a formula. Source: spec experience 11, security 12.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from datarecs_cli.output import csv_text, exact_json
from datarecs_cli.saving import replacing
from datarecs_core.comparison.planning.plan import PRESENCE
from datarecs_core.comparison.proof.sealed import SealedRun, SealedStage
from datarecs_reports.differences import DifferenceFilter, all_differences
from datarecs_reports.stored_rows import parts_of

if TYPE_CHECKING:
    import pyarrow as pa

MAX_XLSX_ROWS = 200_000
_EXACT_IN_XLSX = 15
"""Digits that a double of a spreadsheet stores exactly; longer numbers are written as text."""
_BATCH_ROWS = 10_000
_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
_NOTE = (
    "Numbers of more than 15 digits are written as text, because a spreadsheet would round them."
)
Row = Mapping[str, object]


class ExportForm(StrEnum):
    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    XLSX = "xlsx"


class TooManyForXlsxError(ValueError):
    """More rows than a spreadsheet can handle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The columns of an export, the same for every row."""

    dimensions: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def titles(self) -> list[str]:
        """Keys, measure and class, one value per source, then delta and percent per source."""
        return [
            "stage",
            *(f"key.{name}" for name in self.dimensions),
            "measure",
            "class",
            *(f"value.{name}" for name in self.sources),
            *(f"delta.{name}" for name in self.sources),
            *(f"delta_percent.{name}" for name in self.sources),
            "odd_one_out",
            "break_id",
            *(f"key_as_written.{name}" for name in self.sources),
        ]

    def texts(self, row: Row) -> list[str | None]:
        """The cells of a row as exact texts; None for NULL and absent values."""
        cells = [
            row.get("stage"),
            *(_member(row, "key").get(name) for name in self.dimensions),
            row.get("measure"),
            row.get("class"),
        ]
        for member in ("values", "deltas", "delta_percent"):
            cells += [_member(row, member).get(name) for name in self.sources]
        cells += [row.get("odd_one_out"), row.get("break_id")]
        cells += [_member(row, "raw_keys").get(name) for name in self.sources]
        return [None if each is None else str(each) for each in cells]

    def numeric(self, row: Row) -> list[bool]:
        """By cell: whether it is an amount that can be subtracted, or a number of rows."""
        amounts = bool(_member(row, "deltas")) or row.get("measure") == PRESENCE
        width, keys = len(self.sources), len(self.dimensions)
        return [*(False,) * (keys + 3), *(amounts,) * (3 * width), *(False,) * (2 + width)]


def _member(row: Row, name: str) -> Mapping[str, object]:
    member = row.get(name)
    return member if isinstance(member, Mapping) else {}


def stored(
    run: SealedRun,
    stages: Iterable[SealedStage],
    differences: Path,
    where: DifferenceFilter | None = None,
) -> tuple[Layout, Iterable[Row]]:
    """Columns and rows of the stored differences of these stages."""
    executed = [each for each in stages if each.results]
    names = (one.name for each in executed for one in each.dimensions)
    layout = Layout(dimensions=tuple(dict.fromkeys(names)), sources=run.sources)
    parts = [part for each in executed for part in parts_of(differences, each.name)]
    return layout, all_differences(parts, where or DifferenceFilter())


def export(rows: Iterable[Row], layout: Layout, form: ExportForm, target: Path) -> int:
    """Write the rows and return their number. A reader sees the whole file or none.

    Raises:
        TooManyForXlsxError: more than 200,000 rows for XLSX.
        OutNotWritableError: the file cannot be written.
    """
    with replacing(target) as partial:
        return _WRITERS[form](rows, layout, partial)


def _csv(rows: Iterable[Row], layout: Layout, target: Path) -> int:
    count = 0
    with target.open("w", encoding="utf-8", newline="") as file:
        file.write(_record([csv_text(title) for title in layout.titles]))
        for row in rows:
            numeric, texts = layout.numeric(row), layout.texts(row)
            pairs = zip(texts, numeric, strict=True)
            file.write(_record([_csv_cell(text, number=number) for text, number in pairs]))
            count += 1
    return count


def _csv_cell(text: str | None, *, number: bool) -> str:
    if text is None:
        return ""
    return text if number else csv_text(text)


def _record(cells: Sequence[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerow(cells)
    return buffer.getvalue()


def _jsonl(rows: Iterable[Row], layout: Layout, target: Path) -> int:  # noqa: ARG001  one form of writer; objects need no columns
    count = 0
    with target.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(f"{exact_json(row)}\n")
            count += 1
    return count


def _parquet(rows: Iterable[Row], layout: Layout, target: Path) -> int:
    import pyarrow.parquet as pq

    count = 0
    with pq.ParquetWriter(target, _schema(layout), compression="zstd") as writer:
        for table in _tables(rows, layout):
            writer.write_table(table)
            count += table.num_rows
    return count


def arrow_table(rows: Iterable[Row], layout: Layout) -> "pa.Table":
    """The rows as in the Parquet file: columns of exact texts."""
    import pyarrow as pa

    return pa.concat_tables([_schema(layout).empty_table(), *_tables(rows, layout)])


def _schema(layout: Layout) -> "pa.Schema":
    import pyarrow as pa

    return pa.schema([pa.field(title, pa.string()) for title in layout.titles])


def _tables(rows: Iterable[Row], layout: Layout) -> "Iterator[pa.Table]":
    import pyarrow as pa

    schema = _schema(layout)
    for batch in _batches(rows):
        columns = zip(*(layout.texts(row) for row in batch), strict=True)
        arrays = [pa.array(column, pa.string()) for column in columns]
        yield pa.Table.from_arrays(arrays, schema=schema)


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    waiting = iter(rows)
    while batch := list(islice(waiting, _BATCH_ROWS)):
        yield batch


def _xlsx(rows: Iterable[Row], layout: Layout, target: Path) -> int:
    from datarecs_cli.spreadsheet import Spreadsheet

    count = 0
    with Spreadsheet(target, layout.titles, frozen_columns=1 + len(layout.dimensions)) as book:
        for row in rows:
            count += 1
            if count > MAX_XLSX_ROWS:
                raise TooManyForXlsxError(f"more than {MAX_XLSX_ROWS:,} rows; use --format parquet")
            pairs = zip(layout.texts(row), layout.numeric(row), strict=True)
            cells = [_xlsx_cell(text, number=number) for text, number in pairs]
            book.add(_sheet_of(row), cells)
        book.note(_NOTE)
    return count


def _xlsx_cell(text: str | None, *, number: bool) -> str | float | None:
    """A number if a spreadsheet stores every digit of it, else the text as in CSV."""
    if text is None:
        return None
    if not number:
        return csv_text(text)
    return float(text) if _fits(text) else text


def _sheet_of(row: Row) -> str:
    """`missing`, `outside`, `null mismatch`: the class of the difference."""
    return str(row.get("class") or "differences").replace("_", " ").lower()


def _fits(text: str) -> bool:
    """Whether a spreadsheet stores every digit of the number."""
    if not _NUMBER.fullmatch(text):
        return False
    digits = Decimal(text).as_tuple().digits
    return len(digits) <= _EXACT_IN_XLSX


_WRITERS: Mapping[ExportForm, Callable[[Iterable[Row], Layout, Path], int]] = {
    ExportForm.CSV: _csv,
    ExportForm.JSONL: _jsonl,
    ExportForm.PARQUET: _parquet,
    ExportForm.XLSX: _xlsx,
}
