"""Statistics of a snapshot from those of its files: exactly those of all rows at once.

Pure, so that the control plane merges what workers far away captured. A figure that one file lacks
is absent, never partly right. Spec queue-capture 13, 16.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any

from datarecs_core.captures.bounds import bound_order
from datarecs_core.captures.sketches import Sketch, united
from datarecs_core.catalog.records import FileContent, FileStats, ScalarStats
from datarecs_core.documents import decimal_text
from datarecs_core.jobs.types import TypeKind

_WIDTH = Context(prec=20)
"""More digits than a sum of bytes has."""
_NO_TYPE = TypeKind.NULL.value
MERGED_AT_ONCE = 16
"""Parts of a column that wait for their common figures."""


class ColumnMerge:
    """Merges the statistics of files one by one: its memory grows with the columns alone.

    A sketch has up to 16 KiB, so those of ten thousand files with 32 columns do not fit together.

    Args:
        types: of the columns of the snapshot, by name: what a column without a common figure has.
    """

    def __init__(self, types: Mapping[str, str]) -> None:
        self._files = self._rows = 0
        self._types = types
        self._columns: dict[str, _Parts] = {}

    def add(self, file: FileStats) -> None:
        """Count a file; one of deletes has no part in the figures."""
        if file.content is not FileContent.DATA:
            return
        self._files += 1
        self._rows += file.rows
        for column in {column.name: column for column in file.columns}.values():
            self._columns.setdefault(column.name, _Parts(first=_rows_only(column, 0))).add(column)

    def merged(self) -> tuple[ScalarStats, ...]:
        """Statistics of every column of the data files, in the order of their first appearance.

        A column that is missing in a file has its rows and no other figure.
        """
        return tuple(
            parts.merged()
            if parts.files == self._files and len(parts.kinds) <= 1
            else self._without_figures(parts.first)
            for parts in self._columns.values()
        )

    def _without_figures(self, first: ScalarStats) -> ScalarStats:
        kind = self._types.get(first.name, first.type)
        return ScalarStats(name=first.name, type=kind, rows=self._rows)


@dataclass(slots=True, kw_only=True)
class _Parts:
    """One column of the files so far."""

    first: ScalarStats
    """Name and type of the first one."""
    files: int = 0
    kinds: set[str] = field(default_factory=set)
    """Types of values; with two of them there is no common figure."""
    waiting: list[ScalarStats] = field(default_factory=list)
    """The merged part, and those that follow it; at most `MERGED_AT_ONCE`."""

    def add(self, part: ScalarStats) -> None:
        self.files += 1
        if part.type != _NO_TYPE:
            self.kinds.add(part.type)
        if len(self.kinds) > 1:
            self.waiting.clear()
            return
        self.waiting.append(part)
        if len(self.waiting) == MERGED_AT_ONCE:
            self.waiting = [self.merged()]

    def merged(self) -> ScalarStats:
        return merged_scalars(self.waiting)


def merged_scalars(parts: Sequence[ScalarStats]) -> ScalarStats:
    """Statistics of one column over disjoint sets of rows; at least one."""
    kinds = dict.fromkeys(part.type for part in parts if part.type != _NO_TYPE)
    rows = sum(part.rows for part in parts)
    if len(kinds) > 1:
        return _rows_only(parts[0], rows)
    kind = next(iter(kinds), _NO_TYPE)
    filled = [part for part in parts if part.nulls != part.rows]
    low = _bound([part.min for part in filled], kind, min)
    high = _bound([part.max for part in filled], kind, max)
    ndv = _merged_ndv(filled, parts, most_different(kind, low, high))
    return ScalarStats(
        name=parts[0].name,
        type=kind,
        rows=rows,
        nulls=_total(part.nulls for part in parts),
        nans=_total(part.nans for part in parts if part.type == kind),
        ndv=ndv[0],
        ndv_method=ndv[1],
        min=low,
        max=high,
        average_width=_merged_width(filled),
        sketch=ndv[2],
    )


def width_text(total: int, values: int) -> str:
    """The average as text, with so many digits that `total` can be computed from it."""
    return decimal_text(_WIDTH.divide(Decimal(total), Decimal(values)))


def most_different(kind: str, low: str | None, high: str | None) -> int | None:
    """How many different values a column can have by its bounds; None if they do not limit it."""
    if kind != TypeKind.INT.value or low is None or high is None:
        return None
    return int(high) - int(low) + 1


def ndv_text(sketch: Sketch, values: int, most: int | None) -> str:
    """The number of different values, at most `values` and `most`: an estimate may be above."""
    return str(min(sketch.distinct, values, values if most is None else most))


def _rows_only(part: ScalarStats, rows: int) -> ScalarStats:
    return ScalarStats(name=part.name, type=part.type, rows=rows)


def _total(numbers: Iterable[int | None]) -> int | None:
    known = list(numbers)
    if not known or None in known:
        return None
    return sum(number for number in known if number is not None)


def _bound(texts: Sequence[str | None], kind: str, choose: Callable[..., Any]) -> str | None:
    """The smallest or largest text; None if a file with values has none."""
    known = [text for text in texts if text is not None]
    if not known or len(known) < len(texts):
        return None
    text: str = choose(known, key=lambda each: bound_order(each, kind))
    return text


def _merged_width(filled: Sequence[ScalarStats]) -> str | None:
    total = values = 0
    for part in filled:
        if part.nulls is None or part.average_width is None:
            return None
        count = part.rows - part.nulls
        values += count
        width = _WIDTH.multiply(Decimal(part.average_width), Decimal(count))
        total += int(width.to_integral_value())
    return width_text(total, values) if values else None


def _merged_ndv(
    filled: Sequence[ScalarStats], parts: Sequence[ScalarStats], most: int | None
) -> tuple[str | None, str | None, bytes | None]:
    """Number of different values, its method and the sketch."""
    if not filled:
        first = parts[0]
        return first.ndv, first.ndv_method, first.sketch
    if len(filled) == 1:
        return filled[0].ndv, filled[0].ndv_method, filled[0].sketch
    sketches = [Sketch.from_bytes(part.sketch, part.ndv_method) for part in filled if part.sketch]
    sketch = united(sketches) if len(sketches) == len(filled) else None
    if sketch is None:
        return None, None, None
    values = sum(part.rows - (part.nulls or 0) for part in filled)
    return ndv_text(sketch, values, most), sketch.method, sketch.to_bytes()
