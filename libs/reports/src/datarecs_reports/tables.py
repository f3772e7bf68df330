"""The tables of a report: measures, presence patterns, and differences side by side.

This module decides the order of differences, the alignment of values and the content of cells; the
template only has the layout. Amounts have all digits.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from datarecs_core.comparison.results.results import DifferenceClass
from datarecs_core.documents import decimal_text
from datarecs_reports.figures import amount, common_places, lasting, permille, share, visible
from datarecs_reports.model import DifferenceFacts, Executed, MeasureFacts
from datarecs_reports.unreadable import example_lines, key_texts, readable, unknown_gap
from datarecs_reports.words import class_words, outside_words, presence_words, short_tolerance

MAX_PATTERNS = 20
_SHORT = 28
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)
_TIME = re.compile(r"[+-]?[0-9]{4,}-[0-9]{2}-[0-9]{2}|[0-9]{2}:[0-9]{2}:[0-9]{2}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    text: str
    kind: str = ""
    """`number`, `absent`, `null`, `reason`, `short`, or nothing for long text."""
    note: str = ""
    """A second, smaller line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceTable:
    """Differences of one measure, or groups that are missing in a source."""

    title: str
    key_columns: tuple[str, ...]
    columns: tuple[str, ...]
    """Headings after the key: sources, deltas, percentages."""
    rows: tuple[tuple[Cell, ...], ...]
    """Cells of the key, then of the columns."""
    total: int
    """Number of all differences; the rows are the largest of them."""
    measure: str | None
    """None for groups that are missing in a source."""

    @property
    def numeric(self) -> tuple[bool, ...]:
        """By cell: whether its column has amounts, which are right-aligned."""
        return tuple(
            any(cell.kind == "number" for cell in column) for column in zip(*self.rows, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRow:
    measure: MeasureFacts
    tolerance: str
    null: int
    classes: str
    """Classes of the outside groups, besides amounts."""
    gaps: tuple[tuple[str, str], ...]
    """Other source, and the amount or why it is unknown."""
    unreadable: tuple[str, ...]
    """Number of unreadable values per source, with one of them."""
    largest: str
    """The largest |delta|; empty if values cannot be subtracted."""
    bar: tuple[int, int, int]
    """Equal, within and outside, in thousandths of the compared groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternRow:
    marks: tuple[bool, ...]
    """By source: whether it has these groups."""
    words: str
    groups: int
    width: int
    """Thousandths of all groups."""


def measure_rows(executed: Executed, sources: Sequence[str], *, most: int) -> list[MeasureRow]:
    """Measures that did not pass come first, otherwise in the order of the job."""
    ordered = sorted(executed.measures, key=lambda measure: measure.passed)
    return [_measure_row(executed, measure, sources) for measure in ordered[:most]]


def _measure_row(executed: Executed, measure: MeasureFacts, sources: Sequence[str]) -> MeasureRow:
    places = places_of(executed, measure)
    largest = measure.max_abs_delta
    compared = measure.compared
    return MeasureRow(
        measure=measure,
        tolerance=short_tolerance(measure),
        null=measure.classes.get(DifferenceClass.NULL_MISMATCH, 0),
        classes=outside_words(measure),
        gaps=gaps(executed, measure, sources, places=places),
        unreadable=tuple(example_lines(executed, measure, sources)),
        largest=""
        if largest is None
        else delta_text(largest, places=places, is_time=is_time(executed, measure)),
        bar=(
            permille(measure.equal, compared),
            permille(measure.within_not_equal, compared),
            permille(measure.outside, compared),
        ),
    )


def gaps(
    executed: Executed, measure: MeasureFacts, sources: Sequence[str], *, places: int
) -> tuple[tuple[str, str], ...]:
    """The gap of every other source, or why it is unknown; none if the measure has no total.

    One gap per currency or unit if the key has it; none for measures that do not add up.
    """
    reference = executed.question.reference
    if not measure.adds_up:
        return ((reference, "not added up"),) if measure.has_total else ()
    lines = []
    for at, name in enumerate(sources):
        if name == reference:
            continue
        if executed.is_by_unit(measure):
            lines += [(name, each) for each in _unit_gaps(executed, measure, at, places)]
            continue
        gap = measure.gaps[at]
        known = None if gap is None else amount(gap, places=places)
        shown = known or unknown_gap(measure, sources, name, reference)
        lines += [(name, shown)] if shown is not None else []
    return tuple(lines)


def _unit_gaps(executed: Executed, measure: MeasureFacts, at: int, places: int) -> Iterator[str]:
    """`-51.00 USD` for each unit with a difference."""
    for unit in executed.units:
        for each in unit.measures:
            steps = each.waterfall_by_source[at]
            if each.measure == measure.name:
                gap = None if steps is None else amount(decimal_text(steps.gap), places=places)
                yield f"{gap or 'unknown'} {unit.unit}"


def places_of(executed: Executed, measure: MeasureFacts) -> int:
    """Decimal places of all amounts of a measure."""
    shown: list[str | None] = [*measure.totals, *measure.gaps, measure.max_abs_delta]
    shown += [each.value for each in measure.tolerances if each.type == "ABSOLUTE"]
    for row in _of(executed.samples, measure.name):
        if row.deltas:
            shown += [*row.values.values(), *row.deltas.values()]
    return common_places(shown)


def is_time(executed: Executed, measure: MeasureFacts) -> bool:
    """Whether deltas are microseconds: by the tolerance, else by the form of the values."""
    if any(each.type == "DURATION" for each in measure.tolerances):
        return True
    rows = (row for row in _of(executed.samples, measure.name) if row.deltas)
    return any(map(is_time_text, (value for row in rows for value in row.values.values())))


def is_time_text(value: str | None) -> bool:
    """Whether a value of a measure with deltas is a date, a time or an instant."""
    return value is not None and _TIME.match(value) is not None


def delta_text(delta: str, *, places: int, is_time: bool) -> str:
    return lasting(delta) if is_time else amount(delta, places=places)


def pattern_rows(executed: Executed, sources: Sequence[str]) -> list[PatternRow]:
    """The most frequent patterns, then all others as one."""
    counts = executed.counts
    rows = [
        PatternRow(
            marks=tuple(bool(mask >> at & 1) for at in range(len(sources))),
            words=presence_words(mask, sources),
            groups=groups,
            width=permille(groups, counts.rows_compared),
        )
        for mask, groups in counts.presence[:MAX_PATTERNS]
    ]
    rest = sum(groups for _, groups in counts.presence[MAX_PATTERNS:]) + counts.presence_other
    if rest:
        width = permille(rest, counts.rows_compared)
        rows.append(PatternRow(marks=(), words="other patterns", groups=rest, width=width))
    return rows


def difference_tables(
    executed: Executed, sources: Sequence[str], *, most: int
) -> list[DifferenceTable]:
    """One table per measure with breaks, then groups that are missing in a source."""
    tables = [
        _measure_table(executed, measure, sources, most=most)
        for measure in executed.measures
        if measure.outside
    ]
    if executed.counts.unmatched_groups:
        tables.append(_missing_table(executed, sources, most=most))
    return [table for table in tables if table.rows]


def largest_first(rows: Iterable[DifferenceFacts]) -> list[DifferenceFacts]:
    """Sorts by |delta|, rows without a delta last, then by break id."""
    return sorted(rows, key=_size)


def _size(row: DifferenceFacts) -> tuple[Decimal, str]:
    sizes = [Decimal(delta).copy_abs() for delta in row.deltas.values() if delta is not None]
    return (max(sizes).copy_negate() if sizes else Decimal(1), row.break_id)


def _of(rows: Iterable[DifferenceFacts], measure: str) -> list[DifferenceFacts]:
    return [row for row in rows if row.measure == measure]


def _measure_table(
    executed: Executed, measure: MeasureFacts, sources: Sequence[str], *, most: int
) -> DifferenceTable:
    breaks = [row for row in _of(executed.samples, measure.name) if row.is_break]
    rows = largest_first(breaks)[:most]
    reference = executed.question.reference
    others = [name for name in sources if name != reference] if any(r.deltas for r in rows) else []
    one, places, timed = len(others) == 1, places_of(executed, measure), is_time(executed, measure)
    columns = [*sources]
    for name in others:
        columns += _delta_columns("" if one else f" {name}", timed=timed)
    kinds = measure.types or (None,) * len(sources)
    has_reasons = any(row.difference_class is not DifferenceClass.OUTSIDE for row in rows)
    return DifferenceTable(
        title=f"{measure.name} outside tolerance",
        key_columns=_key_columns(executed),
        columns=(*columns, *(["Why"] if has_reasons else [])),
        rows=tuple(
            (
                *_key_cells(executed, row),
                *(
                    _value_cell(row, name, kind, places=places)
                    for name, kind in zip(sources, kinds, strict=True)
                ),
                *_delta_cells(row, others, places=places, timed=timed),
                *(
                    [Cell(text=class_words(row.difference_class), kind="reason")]
                    if has_reasons
                    else []
                ),
            )
            for row in rows
        ),
        total=measure.outside,
        measure=measure.name,
    )


def _delta_columns(of: str, *, timed: bool) -> list[str]:
    """Titles of delta columns; a duration has no percentage."""
    return [f"Δ{of}"] if timed else [f"Δ{of}", f"Δ %{of}"]


def _missing_table(executed: Executed, sources: Sequence[str], *, most: int) -> DifferenceTable:
    chosen = [row for row in executed.samples if row.is_missing][:most]
    rows = sorted(chosen, key=lambda row: (row.presence, [_in_order(part) for part in row.key]))
    return DifferenceTable(
        title="Groups that are not in every source",
        key_columns=_key_columns(executed),
        columns=(*(f"rows in {name}" for name in sources), "Where"),
        rows=tuple(
            (
                *_key_cells(executed, row),
                *(_rows_cell(row.values, name) for name in sources),
                Cell(text=presence_words(row.presence, sources), kind="reason"),
            )
            for row in rows
        ),
        total=executed.counts.unmatched_groups,
        measure=None,
    )


def _in_order(part: str | None) -> tuple[int, Decimal, str]:
    """NULL first, numbers by value, then texts."""
    if part is None:
        return (0, Decimal(0), "")
    if _NUMBER.fullmatch(part):
        return (1, Decimal(part), "")
    return (2, Decimal(0), part)


def _key_columns(executed: Executed) -> tuple[str, ...]:
    return tuple(each.name for each in executed.question.dimensions)


def _key_cells(executed: Executed, row: DifferenceFacts) -> list[Cell]:
    texts = zip(row.key, key_texts(executed, row.key), strict=True)
    cells = [
        Cell(text=text, kind="null") if part is None else _text_cell(text) for part, text in texts
    ]
    if cells and row.raw_keys:
        note = "; ".join(
            f"{visible(name)}: {visible(key or '')}" for name, key in row.raw_keys.items()
        )
        cells[-1] = replace(cells[-1], note=note)
    return cells


def _value_cell(row: DifferenceFacts, source: str, kind: str | None, *, places: int) -> Cell:
    if source not in row.values:
        return Cell(text="—", kind="absent")
    value, raw = row.values[source], row.raw_values.get(source)
    note = f"as read {visible(raw)}" if raw is not None else ""
    if value is None:
        return Cell(text="NULL", kind="null", note=note)
    if (words := readable(value, kind)) != value:
        return Cell(text=visible(words, most=300), note="" if raw is None else note)
    if row.deltas:
        return Cell(text=visible(amount(value, places=places)), kind="number", note=note)
    return _text_cell(value, note=note)


def _text_cell(text: str, *, note: str = "") -> Cell:
    """The kind `short` for short texts, such as dates, which are not wrapped."""
    shown = visible(text)
    return Cell(text=shown, kind="short" if len(shown) <= _SHORT else "", note=note)


def _rows_cell(values: Mapping[str, str | None], source: str) -> Cell:
    value = values.get(source)
    if value is None:
        return Cell(text="—", kind="absent")
    return Cell(text=amount(value), kind="number")


def _delta_cells(
    row: DifferenceFacts, others: Sequence[str], *, places: int, timed: bool
) -> list[Cell]:
    cells = []
    for name in others:
        delta, ratio = row.deltas.get(name), row.delta_percent.get(name)
        shown = "" if delta is None else delta_text(delta, places=places, is_time=timed)
        cells.append(Cell(text=shown, kind="number"))
        if not timed:
            cells.append(Cell(text="" if ratio is None else share(ratio), kind="number"))
    return cells
