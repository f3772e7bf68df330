"""The facts of the first screen: how much differs, where, which rows, and why.

A pure function of a stored result, without markup, for the report and the page of runs, so that
both show the same amounts. Only measures that add up have amounts, and amounts of two currencies
are never added.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from datarecs_core.comparison.planning.plan import PRESENCE, ROWS
from datarecs_reports.amount_lines import (
    AmountLine,
    Pair,
    Stages,
    amount_lines,
    groups_apart,
    has_amount,
    no_total_words,
)
from datarecs_reports.figures import count, visible
from datarecs_reports.largest_lines import LargestLine, largest_lines
from datarecs_reports.model import Executed, MeasureFacts, RunFacts
from datarecs_reports.tables import delta_text, is_time, places_of
from datarecs_reports.words import reason

_MOST_IN_HEADLINE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherLine:
    """A measure outside tolerance without an amount: a text, a time, a price, mixed currencies."""

    stage: str
    measure: str
    outside: int
    largest: str
    """The largest |delta| as text; empty if values cannot be subtracted."""
    why: str
    """Why there is no total; empty if values are not numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingLine:
    """Groups that only one of two sources has."""

    stage: str
    reference: str
    source: str
    groups: Pair
    rows: Pair | None
    """Number of rows of these groups; None if the stage does not count them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstScreen:
    """The content of the first screen."""

    job: str
    result: str
    """MATCHED or UNMATCHED."""
    reason: str
    stage: str
    """The stage of the counts and keys: the differing stage with most groups."""
    compared: int
    agreed: int
    outside: int
    """Groups in every source with a measure outside tolerance."""
    unmatched: int
    """Groups that are missing in a source."""
    missing: tuple[MissingLine, ...]
    amounts: tuple[AmountLine, ...]
    """Measures that add up and differ; those with most groups outside first, units by name."""
    others: tuple[OtherLine, ...]
    largest: tuple[LargestLine, ...]
    """At most five; none if the reader may not see values."""
    cause: str
    """The likely cause in one sentence; empty if unknown or if the reader may not see values."""

    @property
    def headline(self) -> str:
        """`amount -1,234.56 USD, +3.00 EUR`: how much differs, for a subject or a table."""
        known = [line for line in self.amounts if line.difference]
        measures = dict.fromkeys(line.measure for line in known)
        if not measures:
            return ""
        first = next(iter(measures))
        lines = [line for line in known if line.measure == first]
        shown = ", ".join(line.difference_text for line in lines[:_MOST_IN_HEADLINE])
        more = len(lines) - _MOST_IN_HEADLINE
        return f"{visible(first)} {shown}" + (f" and {count(more)} more" if more > 0 else "")


def first_screen(facts: RunFacts, *, samples: bool) -> FirstScreen:
    """The first facts of a run with a verdict.

    Args:
        facts: from its run.json.
        samples: whether the reader may see values of rows; amounts and counts are always shown.
    """
    stages = _by_importance(facts)
    name, executed = stages[0] if stages else ("", None)
    counts = None if executed is None else executed.counts
    return FirstScreen(
        job=facts.job,
        result=facts.result,
        reason=reason(facts),
        stage=name,
        compared=counts.rows_compared if counts else 0,
        agreed=counts.rows_matched if counts else 0,
        outside=executed.outside_groups if executed else 0,
        unmatched=counts.unmatched_groups if counts else 0,
        missing=() if executed is None else tuple(_missing(name, executed, facts.source_names)),
        amounts=tuple(amount_lines(stages, facts.source_names)),
        others=tuple(_others(stages)),
        largest=tuple(largest_lines(stages, facts.source_names)) if samples else (),
        cause=_cause(stages) if samples else "",
    )


def _by_importance(facts: RunFacts) -> Stages:
    """Executed stages: differing stages first, then by number of groups."""
    executed = [(each.name, each.executed) for each in facts.stages if each.executed is not None]
    return sorted(executed, key=lambda pair: (pair[1].matched, -pair[1].counts.rows_compared))


def _missing(name: str, executed: Executed, sources: Sequence[str]) -> Iterator[MissingLine]:
    reference = sources.index(executed.question.reference)
    if not executed.question.dimensions:
        return
    rows = next((each for each in executed.measures if each.name == ROWS), None)
    for index, source in enumerate(sources):
        groups = groups_apart(executed.counts, reference, index)
        if index == reference or groups is None or not any(groups):
            continue
        steps = rows.waterfall[index] if rows and rows.waterfall else None
        yield MissingLine(
            stage=name,
            reference=sources[reference],
            source=source,
            groups=groups,
            rows=None
            if steps is None
            else (int(steps.missing_here), int(steps.missing_in_reference)),
        )


def _others(stages: Stages) -> Iterator[OtherLine]:
    listed: set[str] = set()
    for name, executed in stages:
        for measure in executed.measures:
            if measure.outside and measure.name not in listed and not has_amount(executed, measure):
                listed.add(measure.name)
                largest = measure.max_abs_delta
                shown = (
                    "" if largest is None or largest == "0" else _size(executed, measure, largest)
                )
                yield OtherLine(
                    stage=name,
                    measure="rows" if measure.name == ROWS else measure.name,
                    outside=measure.outside,
                    largest=shown,
                    why=no_total_words(executed, measure),
                )


def _size(executed: Executed, measure: MeasureFacts, largest: str) -> str:
    places = places_of(executed, measure)
    return delta_text(largest, places=places, is_time=is_time(executed, measure))


def _cause(stages: Stages) -> str:
    """The best pattern of the first stage with one, else the common class of all differences."""
    for _, executed in stages:
        if executed.hints:
            hint = executed.hints[0]
            where = "keys" if hint.measure == PRESENCE else visible(hint.measure)
            share = f"{count(hint.explained)} of {count(hint.of)} differences"
            return f"{where} of {visible(hint.source)}: {visible(hint.what, most=300)} ({share})"
    if not stages or stages[0][1].matched:
        return ""
    leading = stages[0][1]
    if leading.question.dimensions and not leading.outside_groups:
        return "every difference is a group that is missing in a source"
    return ""
