"""The tables of a mail: exact differences per measure, and missing groups per source.

Mails of every kind have these facts of a report's first screen; they come from the run's summary,
so they contain no values of rows.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from datarecs_core.comparison.insight.patterns import HintRule
from datarecs_core.comparison.planning.plan import PRESENCE
from datarecs_core.runs.model import LikelyCause, MeasureGap, MissingGroups, RunSummary
from datarecs_reports.figures import amount, common_places, count

_UNSHOWN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_NONE = "\N{EN DASH}"
"""For no total: it is unknown, or it would add up prices, rates or several currencies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers_from: int = 1
    """Columns from this index are numbers and right-aligned."""
    more: int = 0
    """Number of cut rows."""


def clean(text: str) -> str:
    """The text without control, format and unassigned characters; line ends become spaces."""
    spaced = " ".join(text.split())
    return "".join(one for one in spaced if unicodedata.category(one) not in _UNSHOWN)


def cut_table(
    title: str,
    head: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    most_rows: int,
    *,
    numbers_from: int = 1,
) -> Table:
    """The table with its first rows; further rows are counted."""
    shown = tuple(rows[:most_rows])
    more = len(rows) - len(shown)
    return Table(title=title, head=head, rows=shown, numbers_from=numbers_from, more=more)


def single_gap(summary: RunSummary | None) -> str | None:
    """`-1,234.50 USD`: the difference of the totals, if the run has exactly one.

    None with several measures, units or sources, because their gaps must not be added up. None for
    equal totals, because then the number of groups is more useful.
    """
    gaps = [] if summary is None else [gap for gap in summary.measures or () if gap.gap is not None]
    names = {(gap.measure_name, gap.source, gap.unit) for gap in gaps}
    texts = {with_unit(amount(gap.gap), gap) for gap in gaps if gap.gap not in {None, "0"}}
    return next(iter(texts)) if len(names) == 1 == len(texts) else None


def with_unit(text: str, gap: MeasureGap) -> str:
    """The amount with its currency or unit, if it has one."""
    return text if gap.unit is None else f"{text} {clean(gap.unit)}"


def difference_tables(summary: RunSummary, most_rows: int) -> Iterator[Table]:
    """The tables of differences per measure and of missing groups per source, if any."""
    gaps = summary.measures or ()
    is_staged = len({gap.stage_name for gap in gaps}) > 1
    if gaps:
        yield _measures(summary, gaps, most_rows, is_staged=is_staged)
    rows = [_missing_row(entry, gaps) for entry in summary.missing or ()]
    if rows:
        yield cut_table(
            "Missing", ("Missing in", "Stage", "Groups", "Amount"), rows, most_rows, numbers_from=2
        )


def _measures(
    summary: RunSummary, gaps: Sequence[MeasureGap], most_rows: int, *, is_staged: bool
) -> Table:
    table = cut_table(
        "Differences",
        ("Measure", "Compared", "Difference", "In changed values", "Groups outside"),
        [_measure_row(gap, is_staged=is_staged) for gap in gaps],
        most_rows,
        numbers_from=2,
    )
    uncounted = max((summary.measures_total or 0) - len(gaps), 0)
    return replace(table, more=table.more + uncounted)


def _measure_row(gap: MeasureGap, *, is_staged: bool) -> tuple[str, ...]:
    name = with_unit(clean(gap.measure_name), gap)
    places = common_places((gap.gap, gap.changed))
    outside = gap.outside_tolerance_count
    return (
        f"{name} ({clean(gap.stage_name)})" if is_staged else name,
        f"{clean(gap.source)} minus {clean(gap.reference)}",
        _NONE if gap.gap is None else amount(gap.gap, places=places),
        _NONE if gap.changed is None else amount(gap.changed, places=places),
        _NONE if outside is None else count(outside),
    )


def _missing_row(entry: MissingGroups, gaps: Sequence[MeasureGap]) -> tuple[str, ...]:
    amounts = "; ".join(_missing_amounts(entry, gaps))
    return clean(entry.source), clean(entry.stage_name), count(entry.groups), amounts or _NONE


def _missing_amounts(entry: MissingGroups, gaps: Sequence[MeasureGap]) -> Iterator[str]:
    """The amounts of the other source in these groups, by measure."""
    for gap in gaps:
        if gap.stage_name != entry.stage_name:
            continue
        name = clean(gap.measure_name)
        if gap.source == entry.source and gap.missing_in_source is not None:
            yield f"{name} {with_unit(amount(gap.missing_in_source), gap)}"
        if gap.reference == entry.source and gap.missing_in_reference is not None:
            missing = with_unit(amount(gap.missing_in_reference), gap)
            yield f"{name} {missing} of {clean(gap.source)}"


_PATTERNS = {
    HintRule.CONSTANT_FACTOR: "values differ by a constant factor",
    HintRule.SIGN_FLIP: "the sign is reversed",
    HintRule.CONSTANT_OFFSET: "values differ by a constant amount",
    HintRule.ZONE_SHIFT: "times differ by a time zone",
    HintRule.ROUNDED: "one source is rounded",
    HintRule.CUT: "digits are cut off",
    HintRule.NULL_FOR_ZERO: "one source has NULL for zero",
    HintRule.NULL_FOR_EMPTY: "one source has NULL for empty text",
    HintRule.CUT_TEXT: "texts are cut off",
    HintRule.KEYS_MEET: "keys differ only in spelling",
    HintRule.SWAPPED_MEASURES: "two columns are swapped",
    HintRule.DUPLICATED_LOAD: "rows were loaded twice",
    HintRule.LATE_WINDOW: "the newest rows have not arrived",
}
"""Patterns in words, without values."""


def cause_words(cause: LikelyCause) -> str:
    """One sentence: the pattern, its place, and the number of its differences."""
    known = {rule.value: words for rule, words in _PATTERNS.items()}
    what = known.get(cause.pattern) or clean(cause.pattern)
    measure = "keys" if cause.measure_name == PRESENCE else clean(cause.measure_name)
    share = f"{count(cause.explained)} of {count(cause.of)} differences"
    return f"Likely cause: {what} ({measure} of {clean(cause.source)}; {share})."
