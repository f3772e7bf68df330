"""The first screen of a report as texts: amounts, the largest differences, the likely cause.

`first_screen` has the facts, which other outputs show in other forms.
"""

from dataclasses import dataclass

from datarecs_core.comparison.results.results import Waterfall
from datarecs_reports.amount_lines import AmountLine
from datarecs_reports.figures import count, counted, visible
from datarecs_reports.first_screen import FirstScreen, MissingLine, OtherLine
from datarecs_reports.largest_lines import LargestLine

MOST_AMOUNTS = 40
"""Most lines of the table of amounts; the others are counted."""
_CELL = 60
"""Most characters of a key or value; longer ones are cut with a mark."""
_PAIR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """An amount with a smaller line below it."""

    text: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountRow:
    measure: str
    note: str
    """The two sources if there are more than two."""
    difference: Figure
    is_unknown: bool
    steps: tuple[Figure, Figure, Figure]
    """Missing in the source, missing in the reference, values that differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestRow:
    key: tuple[str, ...]
    measure: str
    values: tuple[str, ...]
    delta: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstPage:
    """The content of the first screen, section by section."""

    amounts: tuple[AmountRow, ...]
    more_amounts: int
    step_titles: tuple[str, str, str]
    missing: tuple[str, ...]
    """One sentence for each source with missing groups, if no amount shows them."""
    others: tuple[str, ...]
    """One sentence for each measure without an amount."""
    key_columns: tuple[str, ...]
    largest: tuple[LargestRow, ...]
    has_deltas: bool
    cause: str


def first_page(screen: FirstScreen, sources: tuple[str, ...]) -> FirstPage:
    """The texts of a first screen; invisible characters of names and values are escaped."""
    shown = screen.amounts[:MOST_AMOUNTS]
    is_pair = len(sources) == _PAIR
    return FirstPage(
        amounts=tuple(_amount(line, is_pair=is_pair) for line in shown),
        more_amounts=len(screen.amounts) - len(shown),
        step_titles=_titles(screen, is_pair=is_pair),
        missing=() if shown else tuple(_missing(line) for line in screen.missing),
        others=tuple(map(_other, screen.others)),
        key_columns=tuple(visible(name) for name, _ in screen.largest[0].key)
        if screen.largest
        else (),
        largest=tuple(map(_largest, screen.largest)),
        has_deltas=any(line.delta for line in screen.largest),
        cause=screen.cause,
    )


def _titles(screen: FirstScreen, *, is_pair: bool) -> tuple[str, str, str]:
    if is_pair and screen.amounts:
        line = screen.amounts[0]
        source, reference = visible(line.source), visible(line.reference)
        return f"Missing in {source}", f"Missing in {reference}", "Values that differ"
    return "Missing in the source", "Missing in the reference", "Values that differ"


def _amount(line: AmountLine, *, is_pair: bool) -> AmountRow:
    unit = f" ({line.unit})" if line.unit else ""
    return AmountRow(
        measure=f"{visible(line.measure)}{unit}",
        note="" if is_pair else f"{visible(line.source)} against {visible(line.reference)}",
        difference=Figure(text=line.difference_text, note=_totals(line)),
        is_unknown=line.difference is None,
        steps=_steps(line, line.steps),
    )


def _totals(line: AmountLine) -> str:
    """`ledger 1,590,427.50, exports 1,589,192.94`."""
    if line.totals is None:
        return ""
    named = zip((line.reference, line.source), line.totals, strict=True)
    return ", ".join(f"{visible(name)} {line.text(total)}" for name, total in named)


def _steps(line: AmountLine, steps: Waterfall | None) -> tuple[Figure, Figure, Figure]:
    groups = line.groups or (0, 0)
    outside = "" if line.outside is None else f"{counted(line.outside, 'group')} outside"
    if steps is None:
        here, there = (Figure(text="", note=_groups(number)) for number in groups)
        return here, there, Figure(text="", note=outside)
    amounts = (steps.missing_here.copy_negate(), steps.missing_in_reference)
    here, there = (
        Figure(text=line.text(amount, signed=True), note=_groups(number))
        for amount, number in zip(amounts, groups, strict=True)
    )
    return here, there, Figure(text=line.text(steps.changed, signed=True), note=outside)


def _groups(number: int) -> str:
    return counted(number, "group") if number else ""


def _missing(line: MissingLine) -> str:
    """`20 groups (25 rows) missing in ledger, 5 groups (8 rows) missing in exports`."""
    rows = line.rows or (0, 0)
    places = zip((line.source, line.reference), line.groups, rows, strict=True)
    parts = [
        f"{counted(groups, 'group')}{_rows(number, groups)} missing in {visible(name)}"
        for name, groups, number in places
        if groups
    ]
    return ", ".join(parts)


def _rows(number: int, groups: int) -> str:
    return f" ({counted(number, 'row')})" if number not in (0, groups) else ""


def _other(line: OtherLine) -> str:
    """`price: 12 groups outside tolerance, by 0.25 at most (not added up)`."""
    size = f", by {line.largest} at most" if line.largest else ""
    why = f"; {line.why}" if line.why else ""
    outside = f"{count(line.outside)} group{'' if line.outside == 1 else 's'} outside tolerance"
    return f"{visible(line.measure)}: {outside}{size}{why}"


def _largest(line: LargestLine) -> LargestRow:
    return LargestRow(
        key=tuple(visible(part, most=_CELL) for _, part in line.key),
        measure=visible(line.measure),
        values=tuple("—" if not text else visible(text, most=_CELL) for _, text in line.values),
        delta=line.delta,
        why=line.why,
    )
