"""Likely causes: what the differences of a measure have in common, by rule and with evidence.

A hint never changes a number; it reports that most breaks follow one pattern and which line of the
job would declare it. Separate from `patterns`, which checks pairs of values: this module decides
what is checked, and when a pattern is reported.
"""

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import nsmallest
from itertools import combinations

from datarecs_core.comparison.insight.hint_lines import (
    accepted_line,
    key_rule_line,
    number_key_line,
    swapped_line,
)
from datarecs_core.comparison.insight.hint_stage import HintStage
from datarecs_core.comparison.insight.late_windows import late_windows
from datarecs_core.comparison.insight.patterns import PATTERNS, HintRule, Pair, Pattern, duplicated
from datarecs_core.comparison.planning.plan import PRESENCE, ROWS
from datarecs_core.comparison.results.results import Difference, DifferenceClass, Outcome

LEAST_BREAKS = 5
MAX_BREAKS = 20_000
"""Breaks per measure; of more, those with the smallest ids, which is no choice of the data."""
EXAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """One pattern with its evidence."""

    rule: HintRule
    measure: str
    """`$presence` for keys."""
    source: str
    """That is compared with the reference."""
    what: str
    """One sentence, with the detected constant."""
    explained: int
    of: int
    """Breaks of the measure that were checked."""
    examples: tuple[str, ...]
    """The smallest break ids."""
    declare: str
    """The line of a job that would declare it, for a person who knows the data to judge; empty
    where no line is accepted for this kind of source and type of column."""


def hints(rows: Iterable[Difference], stage: HintStage) -> tuple[Hint, ...]:
    """What the stored differences of one stage suggest, the most telling first.

    Args:
        rows: of one stage, in any order; those within tolerance are passed over.
        stage: they are of, with what its sources and columns accept.
    """
    by_measure = _breaks_by_measure(rows)
    others = [name for name in stage.names if name != stage.reference]
    all_hints: list[Hint] = []
    for measure, breaks in by_measure.items():
        for source in others:
            if measure == PRESENCE:
                one = _Keys(stage, source).patterns(breaks)
            else:
                one = _patterns(stage, measure, source, _pairs(breaks, stage.reference, source))
            all_hints += [_hint(measure, source, each, len(breaks)) for each in one]
    all_hints += _late(by_measure.get(PRESENCE, []), stage)
    for source in others:
        all_hints += _swapped(by_measure, stage, source)
    relevant = [each for each in all_hints if _enough(each.explained, each.of)]
    return tuple(sorted(relevant, key=lambda each: (-Fraction(each.explained, each.of), each.rule)))


def _breaks_by_measure(rows: Iterable[Difference]) -> dict[str, list[Difference]]:
    """Breaks by measure; never more than twice the limit in memory."""
    by_measure: dict[str, list[Difference]] = {}
    for row in rows:
        if row.outcome is Outcome.BREAK:
            breaks = by_measure.setdefault(row.measure, [])
            breaks.append(row)
            if len(breaks) > 2 * MAX_BREAKS:
                by_measure[row.measure] = _smallest(breaks)
    return {measure: _smallest(breaks) for measure, breaks in sorted(by_measure.items())}


def _smallest(rows: list[Difference]) -> list[Difference]:
    return nsmallest(MAX_BREAKS, rows, key=lambda row: row.break_id)


def _late(breaks: Sequence[Difference], stage: HintStage) -> Iterator[Hint]:
    """Of every source with missing keys of the reference, and of the reference itself."""
    sources, dimensions = stage.names, list(stage.dimensions)
    base = sources.index(stage.reference)
    for at, source in enumerate(sources):
        if at != base:
            for late, there in ((at, base), (base, at)):
                for each in late_windows(
                    breaks,
                    lacking=sources[late],
                    bits=(1 << late, 1 << there),
                    dimensions=dimensions,
                ):
                    line = accepted_line(each, stage, PRESENCE, source)
                    yield _hint(PRESENCE, source, each._replace(declare=line), len(breaks))


def _enough(explained: int, of: int) -> bool:
    return explained >= LEAST_BREAKS and 2 * explained >= of


def _hint(measure: str, source: str, pattern: Pattern, of: int) -> Hint:
    ids = sorted(pair.break_id for pair in pattern.pairs)
    return Hint(
        rule=pattern.rule,
        measure=measure,
        source=source,
        what=pattern.what,
        explained=len(ids),
        of=of,
        examples=tuple(ids[:EXAMPLES]),
        declare=pattern.declare,
    )


def _pairs(breaks: Sequence[Difference], reference: str, source: str) -> list[Pair]:
    """One pair per break that shows a value of both sources."""
    pairs = []
    for row in breaks:
        values = dict(row.values)
        if reference in values and source in values:
            pair = (values[reference], values[source], dict(row.deltas).get(source))
            pairs.append(Pair(row.break_id, row.key_hash, *pair))
    return pairs


def _patterns(
    stage: HintStage, measure: str, source: str, pairs: Sequence[Pair]
) -> Iterator[Pattern]:
    if measure == ROWS:
        yield from duplicated(source, pairs)
        return
    for rule in PATTERNS:
        pattern = rule(stage.place(measure), source, pairs)
        if pattern is not None:
            yield pattern._replace(declare=accepted_line(pattern, stage, measure, source))


class _Keys:
    """Keys that are alone in two sources and would be one under a rule."""

    def __init__(self, stage: HintStage, source: str) -> None:
        self.source, self.stage = source, stage
        self.base_bit = 1 << stage.names.index(stage.reference)
        self.source_bit = 1 << stage.names.index(source)

    def patterns(self, breaks: Sequence[Difference]) -> Iterator[Pattern]:
        alone = [row for row in breaks if row.difference_class is DifferenceClass.MISSING]
        for at, dimension in enumerate(self.stage.dimensions):
            head = f"keys of {self.source} match those of the reference"
            for rule, (words, normal) in _TEXT_RULES.items():
                chosen = self._meeting(alone, at, normal)
                if chosen:
                    line = key_rule_line(self.stage, dimension, rule)
                    yield Pattern(HintRule.KEYS_MEET, f"{head} {words} {dimension}", chosen, line)
            parts = [row.key[at] or "" for row in alone]
            numbers = [part for part in parts if part.isdecimal() and part.isascii()]
            chosen = self._meeting(alone, at, _without_zeros) if numbers == parts else []
            if chosen:
                line = number_key_line(self.stage, dimension, numbers)
                what = f"{head} without leading zeros in {dimension}"
                yield Pattern(HintRule.KEYS_MEET, what, chosen, line)

    def _meeting(
        self, rows: Sequence[Difference], at: int, normal: Callable[[str], str]
    ) -> list[Pair]:
        sides: dict[tuple[str | None, ...], list[Difference]] = {}
        for row in rows:
            part = row.key[at]
            key = (*row.key[:at], None if part is None else normal(part), *row.key[at + 1 :])
            sides.setdefault(key, []).append(row)
        return [
            Pair(row.break_id, row.key_hash, None, None, None)
            for met in sides.values()
            if self._both(met)
            for row in met
        ]

    def _both(self, rows: Sequence[Difference]) -> bool:
        """Whether some have the reference without the source, and others the source without it."""
        alone = {row.presence & (self.base_bit | self.source_bit) for row in rows}
        return self.base_bit in alone and self.source_bit in alone


_TEXT_RULES: dict[str, tuple[str, Callable[[str], str]]] = {
    "trim: both": ("after trimming", str.strip),
    "case: fold": ("ignoring case in", str.casefold),
    "unicode: NFC": (
        "in one Unicode form of",
        lambda text: unicodedata.normalize("NFC", text),
    ),
}
"""The rule that declares a form: its words, and how it changes a key."""


def _without_zeros(text: str) -> str:
    return text.lstrip("0") or "0"


def _swapped(
    by_measure: dict[str, list[Difference]], stage: HintStage, source: str
) -> Iterator[Hint]:
    """Two measures of which each holds the other's value, group by group."""
    pairs = {
        measure: {pair.group: pair for pair in _pairs(breaks, stage.reference, source)}
        for measure, breaks in by_measure.items()
        if measure not in (PRESENCE, ROWS)
    }
    for one, other in combinations(pairs, 2):
        crossed = [
            pair
            for group, pair in pairs[one].items()
            if (across := pairs[other].get(group)) is not None
            and (pair.base, pair.value) == (across.value, across.base)
            and pair.base != pair.value
        ]
        if crossed:
            line = swapped_line(stage, source, one, other)
            what = f"{source} has {one} and {other} the other way round"
            pattern = Pattern(HintRule.SWAPPED_MEASURES, what, crossed, line)
            yield _hint(one, source, pattern, len(by_measure[one]))
