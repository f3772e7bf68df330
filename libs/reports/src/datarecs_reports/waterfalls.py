"""From the reference's total to another source's, step by step, as a report draws it.

Apart from the tables because steps must add up: they are exact amounts, and a drawing whose steps
miss its end is refused. Lengths are whole thousandths, so nothing here rounds an amount.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from datarecs_core.comparison.planning.plan import ROWS
from datarecs_core.comparison.results.results import Waterfall
from datarecs_core.documents import decimal_text
from datarecs_core.values import EXACT
from datarecs_reports.figures import amount, visible
from datarecs_reports.model import Executed, MeasureFacts
from datarecs_reports.tables import places_of

MAX_WATERFALLS = 12
"""Of a stage; those with the largest gaps."""
_FULL, _MARGIN = 1000, 40
Total = tuple[str, Decimal]
"""Label and amount of a source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line: a total, or what is added to get nearer to the other one."""

    label: str
    amount: str
    kind: str
    """`total`, `up`, `down` or `none`."""
    start: int
    width: int
    """Of the bar, in thousandths of the drawing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaterfallPage:
    title: str
    steps: tuple[Step, ...]


def waterfall_pages(executed: Executed, sources: Sequence[str]) -> tuple[WaterfallPage, ...]:
    """Of every measure and other source whose totals differ, or whose steps cancel out.

    None for a stage without dimensions, whose one group everybody has.
    """
    if not executed.question.dimensions:
        return ()
    reference = executed.question.reference
    found: list[tuple[Decimal, WaterfallPage]] = []
    for measure in executed.measures:
        for index, name in enumerate(sources):
            steps = measure.waterfall[index] if index < len(measure.waterfall) else None
            if name != reference and steps is not None and measure.name != ROWS and _moves(steps):
                page = _page(executed, measure, (reference, name), sources, steps)
                found.append((steps.gap.copy_abs(), page))
    ranked = sorted(found, key=lambda each: each[0].copy_negate())
    return tuple(page for _, page in ranked[:MAX_WATERFALLS])


def _moves(steps: Waterfall) -> bool:
    return any((steps.missing_here, steps.missing_in_reference, steps.changed))


def _page(
    executed: Executed,
    measure: MeasureFacts,
    pair: tuple[str, str],
    sources: Sequence[str],
    steps: Waterfall,
) -> WaterfallPage:
    base, other = (Decimal(measure.totals[sources.index(name)] or "0") for name in pair)
    reference, name = map(visible, pair)
    places = places_of(executed, measure)
    drawn = drawing(
        (f"total of {reference}", base),
        (
            (f"groups that {name} lacks", steps.missing_here.copy_negate()),
            (f"groups that {reference} lacks", steps.missing_in_reference),
            ("values that differ", steps.changed),
        ),
        (f"total of {name}", other),
        places=places,
    )
    title = visible(measure.name) if len(sources) == 2 else f"{visible(measure.name)} of {name}"  # noqa: PLR2004  a pair
    return WaterfallPage(title=title, steps=drawn)


def drawing(
    first: Total, changes: Sequence[Total], last: Total, *, places: int = 0
) -> tuple[Step, ...]:
    """The steps with their bars; the axis spans what the steps move over, not zero.

    Raises:
        ValueError: the steps do not lead from the first total to the last.
    """
    at = [first[1]]
    for _, change in changes:
        at.append(EXACT.add(at[-1], change))
    if at[-1] != last[1]:
        raise ValueError(f"the steps lead to {at[-1]}, not to {last[1]}")
    axis = _Axis(min(at), max(at))
    steps = [_total(first, axis, places)]
    for (label, change), (before, after) in zip(changes, pairwise(at), strict=True):
        low, high = sorted((axis.place(before), axis.place(after)))
        steps.append(
            Step(
                label=label,
                amount=("+" if change > 0 else "") + amount(decimal_text(change), places=places),
                kind="none" if change == 0 else "up" if change > 0 else "down",
                start=low,
                width=max(high - low, 3 if change else 0),
            )
        )
    return (*steps, _total(last, axis, places))


def _total(total: Total, axis: "_Axis", places: int) -> Step:
    label, value = total
    shown = amount(decimal_text(value), places=places)
    return Step(label=label, amount=shown, kind="total", start=0, width=axis.place(value))


@dataclass(frozen=True, slots=True)
class _Axis:
    low: Decimal
    high: Decimal

    def place(self, value: Decimal) -> int:
        """From the margin to the full width."""
        span = EXACT.subtract(self.high, self.low)
        if span == 0:
            return _FULL
        room = _FULL - 2 * _MARGIN
        moved = EXACT.multiply(EXACT.subtract(value, self.low), Decimal(room))
        return _MARGIN + int(EXACT.divide_int(moved, span))
