"""All differences of a stage in a report, as one table to filter and sort.

Rows are plain, so that ten thousand of them fit into a file of two megabytes. The tables of the
largest differences instead align the columns of one measure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from datarecs_core.comparison.planning.plan import ROWS
from datarecs_reports.amount_lines import amount_places
from datarecs_reports.figures import amount, count, counted, visible
from datarecs_reports.model import DifferenceFacts, Executed, MeasureFacts
from datarecs_reports.tables import delta_text, is_time, largest_first
from datarecs_reports.unreadable import key_texts, readable
from datarecs_reports.words import class_words, presence_words

MOST_ROWS = 10_000
"""Most rows of all stages in one file; the others can be exported."""
_CELL = 60
"""Most characters of a key or value; longer ones are cut with a mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowseRow:
    key: tuple[str, ...]
    measure: str
    kind: str
    values: tuple[str, ...]
    deltas: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowseTable:
    key_columns: tuple[str, ...]
    sources: tuple[str, ...]
    delta_columns: tuple[str, ...]
    rows: tuple[BrowseRow, ...]
    """Largest first."""
    total: int
    """Number of all differences."""
    measures: tuple[str, ...]
    kinds: tuple[str, ...]
    """Words in the rows, for the filters."""

    @property
    def title(self) -> str:
        """`all 81 differences`, or `the largest 10,000 of 1,000,000 differences`."""
        if len(self.rows) >= self.total:
            return f"all {counted(self.total, 'difference')}"
        return f"the largest {count(len(self.rows))} of {counted(self.total, 'difference')}"


def browse_table(
    executed: Executed, sources: Sequence[str], rows: Sequence[DifferenceFacts], *, most: int
) -> BrowseTable | None:
    """The table of a stage; None without rows, and for a grand total.

    Args:
        executed: the stage.
        sources: names of the sources, in the order of the run.
        rows: stored differences of the stage, in any order.
        most: most rows to show.
    """
    breaks = largest_first(row for row in rows if row.is_break)[:most]
    if not breaks or not executed.question.dimensions:
        return None
    makers = {each.name: _Maker(executed, each, sources) for each in executed.measures}
    others = [name for name in sources if name != executed.question.reference]
    has_deltas = any(row.deltas for row in breaks)
    shown = tuple(
        _row(executed, row, makers.get(row.measure), sources, others if has_deltas else [])
        for row in breaks
    )
    deltas = ("Δ",) if len(others) == 1 else tuple(f"Δ {visible(name)}" for name in others)
    return BrowseTable(
        key_columns=tuple(visible(each.name) for each in executed.question.dimensions),
        sources=tuple(map(visible, sources)),
        delta_columns=deltas if has_deltas else (),
        rows=shown,
        total=sum(each.outside for each in executed.measures) + executed.counts.unmatched_groups,
        measures=tuple(sorted({row.measure for row in shown})),
        kinds=tuple(sorted({row.kind for row in shown})),
    )


class _Maker:
    """Formats the values of one measure."""

    def __init__(self, executed: Executed, measure: MeasureFacts, sources: Sequence[str]) -> None:
        self.places = amount_places(executed, measure)
        self.is_time = is_time(executed, measure)
        self.types = dict(zip(sources, measure.types, strict=False))

    def value(self, row: DifferenceFacts, source: str) -> str:
        value = row.values[source]
        if value is None:
            return "NULL"
        words = readable(value, self.types.get(source))
        return amount(value, places=self.places) if row.deltas and words == value else words

    def delta(self, delta: str | None) -> str:
        if delta is None:
            return ""
        shown = delta_text(delta, places=self.places, is_time=self.is_time)
        return f"+{shown}" if Decimal(delta) > 0 else shown


def _row(
    executed: Executed,
    row: DifferenceFacts,
    maker: _Maker | None,
    sources: Sequence[str],
    others: Sequence[str],
) -> BrowseRow:
    return BrowseRow(
        key=tuple(map(_cut, key_texts(executed, row.key))),
        measure="rows" if row.is_missing or row.measure == ROWS else visible(row.measure),
        kind=presence_words(row.presence, sources)
        if row.is_missing
        else class_words(row.difference_class),
        values=tuple(_value(row, maker, name) for name in sources),
        deltas=tuple("" if maker is None else maker.delta(row.deltas.get(name)) for name in others),
    )


def _value(row: DifferenceFacts, maker: _Maker | None, source: str) -> str:
    if maker is None:
        rows = row.values.get(source)
        return "—" if rows in (None, "0") else amount(str(rows))
    return _cut(maker.value(row, source)) if source in row.values else "—"


def _cut(text: str) -> str:
    return visible(text, most=_CELL)
