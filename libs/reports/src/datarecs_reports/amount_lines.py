"""Exact amounts by which sources differ: per measure that adds up, and per currency or unit.

The first screen, the table of measures and the bridges show the same lines.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from datarecs_core.comparison.planning.plan import ROWS
from datarecs_core.comparison.results.results import StageCounts, Waterfall
from datarecs_core.documents import decimal_text
from datarecs_reports.figures import amount, visible
from datarecs_reports.model import Executed, MeasureFacts
from datarecs_reports.tables import places_of
from datarecs_reports.unreadable import unknown_gap

_SCALE = re.compile(r"decimal\([0-9]+, ?([0-9]+)\)", re.ASCII)
_MOST_DECLARED = 2
"""Decimal places of money."""
Pair = tuple[int, int]
"""Groups that only the reference has, and groups that only the other source has."""
Stages = Sequence[tuple[str, Executed]]
"""Names and results of executed stages, the most important first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountLine:
    """The difference of a source from the reference in one measure, and one unit if keys have it.

    Amounts are exact; `text` formats them for people.
    """

    stage: str
    measure: str
    unit: str
    """`USD`; empty if the key has no unit."""
    reference: str
    source: str
    difference: Decimal | None
    """Total of the source minus total of the reference; None if unknown."""
    unknown: str
    """Why the difference is unknown; empty if it is known."""
    totals: tuple[Decimal, Decimal] | None
    """Totals of the reference and of the source; None if unknown, and within a unit."""
    steps: Waterfall | None
    """The parts of the difference; None if unknown."""
    groups: Pair | None
    """Groups that only one of the two has; None if a stage has too many patterns."""
    outside: int | None
    """Groups outside tolerance; None within a unit."""
    places: int
    """Decimal places of shown amounts."""

    def text(self, value: Decimal, *, signed: bool = False) -> str:
        """`1,234.50`, with a plus sign for a change."""
        sign = "+" if signed and value > 0 else ""
        return f"{sign}{amount(decimal_text(value), places=self.places)}"

    @property
    def difference_text(self) -> str:
        """`-1,234.56 USD`, or why it is unknown."""
        if self.difference is None:
            return self.unknown
        return f"{self.text(self.difference, signed=True)} {self.unit}".rstrip()


def groups_apart(counts: StageCounts, reference: int, source: int) -> Pair | None:
    """Groups that only the reference has, and groups that only the source has."""
    if counts.presence_other:
        return None
    pairs = [
        (bool(mask >> reference & 1), bool(mask >> source & 1), groups)
        for mask, groups in counts.presence
    ]
    here = sum(groups for has_base, has, groups in pairs if has_base and not has)
    there = sum(groups for has_base, has, groups in pairs if has and not has_base)
    return here, there


def amount_places(executed: Executed, measure: MeasureFacts) -> int:
    """Decimal places: as many as occur, at least those of a column with money."""
    scales = [_SCALE.fullmatch(kind or "") for kind in measure.types]
    declared = max((int(scale[1]) for scale in scales if scale), default=0)
    occurring = places_of(executed, measure)
    return max(occurring, declared) if declared <= _MOST_DECLARED else occurring


def amount_lines(stages: Stages, sources: Sequence[str]) -> Iterator[AmountLine]:
    """Each measure once, from the stage with most groups; those outside tolerance first."""
    lines: dict[tuple[str, str, str], AmountLine] = {}
    for name, executed in stages:
        for line in stage_lines(name, executed, sources):
            lines.setdefault((line.measure, line.source, line.unit), line)
    yield from (line for line in lines.values() if _is_worth_showing(line))


def stage_lines(name: str, executed: Executed, sources: Sequence[str]) -> Iterator[AmountLine]:
    """Each measure of a stage that adds up, for each other source and unit."""
    for measure in sorted(executed.measures, key=lambda each: -each.outside):
        if measure.name != ROWS and measure.has_total and measure.adds_up:
            yield from _lines_of(name, executed, measure, sources)


def _is_worth_showing(line: AmountLine) -> bool:
    return bool(line.difference is None or line.difference or line.outside or _moves(line.steps))


def _moves(steps: Waterfall | None) -> bool:
    return steps is not None and any(
        (steps.missing_here, steps.missing_in_reference, steps.changed)
    )


def _lines_of(
    stage: str, executed: Executed, measure: MeasureFacts, sources: Sequence[str]
) -> Iterator[AmountLine]:
    reference = executed.question.reference
    for index, source in enumerate(sources):
        if source != reference:
            pair = (sources.index(reference), index)
            if executed.is_by_unit(measure):
                yield from _by_unit(stage, executed, measure, sources, pair)
            else:
                yield _line(stage, executed, measure, sources, pair)


def _line(
    stage: str,
    executed: Executed,
    measure: MeasureFacts,
    sources: Sequence[str],
    pair: tuple[int, int],
) -> AmountLine:
    base, at = pair
    gap, totals = measure.gaps[at], (measure.totals[base], measure.totals[at])
    unknown = unknown_gap(measure, sources, sources[at], sources[base])
    return AmountLine(
        stage=stage,
        measure=measure.name,
        unit="",
        reference=sources[base],
        source=sources[at],
        difference=None if gap is None else Decimal(gap),
        unknown="" if gap is not None else unknown or "unknown (more than 38 digits)",
        totals=None
        if totals[0] is None or totals[1] is None
        else (Decimal(totals[0]), Decimal(totals[1])),
        steps=measure.waterfall[at] if at < len(measure.waterfall) else None,
        groups=groups_apart(executed.counts, base, at),
        outside=measure.outside,
        places=amount_places(executed, measure),
    )


def _by_unit(
    stage: str,
    executed: Executed,
    measure: MeasureFacts,
    sources: Sequence[str],
    pair: tuple[int, int],
) -> Iterator[AmountLine]:
    """One line for each unit with a difference."""
    base, at = pair
    for unit in executed.units:
        of = next((each for each in unit.measures if each.measure == measure.name), None)
        if of is not None:
            steps = of.waterfall_by_source[at]
            unknown = unknown_gap(measure, sources, sources[at], sources[base])
            yield AmountLine(
                stage=stage,
                measure=measure.name,
                unit=unit.unit,
                reference=sources[base],
                source=sources[at],
                difference=None if steps is None else steps.gap,
                unknown="" if steps is not None else unknown or "unknown (more than 38 digits)",
                totals=None,
                steps=steps,
                groups=(unit.missing_here[at], unit.missing_in_reference[at]),
                outside=None,
                places=amount_places(executed, measure),
            )


def has_amount(executed: Executed, measure: MeasureFacts) -> bool:
    if not measure.has_total or not measure.adds_up or measure.name == ROWS:
        return False
    return bool(executed.units) or not executed.is_by_unit(measure)


def no_total_words(executed: Executed, measure: MeasureFacts) -> str:
    """Why a measure's totals are not shown; empty if they are shown, or if there are none."""
    if not measure.has_total or measure.name == ROWS:
        return ""
    if measure.mixed_by is not None:
        column = visible(measure.mixed_by)
        return f"not added up: {column} may differ by row; add {column} to the dimensions"
    if not measure.adds_up:
        return "not added up; adds_up: true in a job file shows its total"
    if executed.is_by_unit(measure) and not executed.units:
        return "not added up: the key names a currency or unit"
    return ""
