"""The largest differences as lines of a first screen: key, values of all sources, delta, kind.

The tables instead show every column of one measure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from datarecs_core.comparison.planning.plan import PRESENCE, ROWS
from datarecs_reports.amount_lines import Stages, amount_places, has_amount
from datarecs_reports.figures import amount
from datarecs_reports.model import DifferenceFacts, Executed
from datarecs_reports.tables import delta_text, is_time, largest_first
from datarecs_reports.unreadable import key_texts, readable
from datarecs_reports.words import class_words, presence_words

MOST_LARGEST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestLine:
    """One of the largest differences. Texts are as in the sources: escape them."""

    stage: str
    measure: str
    """`rows` if the group is missing in a source."""
    key: tuple[tuple[str, str], ...]
    values: tuple[tuple[str, str], ...]
    """By source; `missing` if the source does not have the group."""
    delta: str
    """Other minus reference; empty if values cannot be subtracted."""
    why: str
    """The kind of difference: `outside`, `only in ledger`, `invalid value`."""


def largest_lines(stages: Stages, sources: Sequence[str]) -> Iterator[LargestLine]:
    """Lines of the first stage with any: measures that add up, then others, then missing keys."""
    for name, executed in stages:
        rows = [row for row in executed.samples if row.is_break]
        if rows:
            adding = {each.name for each in executed.measures if has_amount(executed, each)}
            ranked = sorted(largest_first(rows), key=lambda row: _rank(row, adding))
            for row in _one_per_group(ranked)[:MOST_LARGEST]:
                yield _largest_line(name, executed, row, sources)
            return


def _one_per_group(rows: Sequence[DifferenceFacts]) -> list[DifferenceFacts]:
    """The first difference of each group, so that five lines are five groups, not one."""
    first: dict[tuple[str | None, ...], DifferenceFacts] = {}
    for row in rows:
        first.setdefault(row.key, row)
    return list(first.values())


def _rank(row: DifferenceFacts, adding: set[str]) -> int:
    if row.measure in adding and row.deltas:
        return 0
    return 2 if row.is_missing else 1


def _largest_line(
    stage: str, executed: Executed, row: DifferenceFacts, sources: Sequence[str]
) -> LargestLine:
    measure = next((each for each in executed.measures if each.name == row.measure), None)
    kinds = dict(zip(sources, measure.types, strict=False)) if measure else {}
    places = amount_places(executed, measure) if measure else 0
    timed = measure is not None and is_time(executed, measure)
    names = [each.name for each in executed.question.dimensions]
    deltas = [each for each in row.deltas.values() if each is not None]
    largest = max(deltas, key=lambda each: Decimal(each).copy_abs(), default=None)
    return LargestLine(
        stage=stage,
        measure="rows" if row.measure in (PRESENCE, ROWS) else row.measure,
        key=tuple(zip(names, key_texts(executed, row.key), strict=True)),
        values=tuple((name, _value(row, name, kinds.get(name), places)) for name in sources),
        delta="" if largest is None else delta_text(largest, places=places, is_time=timed),
        why=presence_words(row.presence, sources)
        if row.is_missing
        else class_words(row.difference_class),
    )


def _value(row: DifferenceFacts, source: str, kind: str | None, places: int) -> str:
    value = row.values.get(source)
    if row.is_missing:
        return "missing" if value in (None, "0") else f"{value} row" + ("" if value == "1" else "s")
    if source not in row.values:
        return ""
    if value is None:
        return "NULL"
    return amount(value, places=places) if row.deltas else readable(value, kind)
