"""The steps from the reference's total to another source's total, as drawn in a report.

Only measures that add up have a bridge, one per currency. The axis starts at 0; if the steps would
be too small to see, it has a visible break, and the report shows which part is enlarged. Lengths
are whole thousandths, so no amount is rounded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from datarecs_core.documents import decimal_text
from datarecs_core.values import EXACT
from datarecs_reports.amount_lines import AmountLine, stage_lines
from datarecs_reports.figures import amount, visible
from datarecs_reports.model import Executed

MAX_WATERFALLS = 12
"""Most waterfalls of a stage; those with the largest gaps."""
_FULL = 1000
_PAIR = 2
_SMALLEST = 20
"""The axis has a break if all steps together span less than this part of the largest total."""
BREAK_FROM, BREAK_TO = 80, 120
"""Position of the gap of a broken axis, from 0, in thousandths."""
_LEAST = 4
"""Least length of the bar of a step that is not 0."""
Total = tuple[str, Decimal]
"""Label and amount of a source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A rectangle, in thousandths of the drawing."""

    start: int
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line: a total, or a step from one total to the other."""

    label: str
    amount: str
    kind: str
    """`total`, `up`, `down` or `none`."""
    bars: tuple[Bar, ...]
    """None for a step of 0; two for a total on a broken axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Steps on one axis."""

    steps: tuple[Step, ...]
    is_broken: bool
    is_negative: bool
    """Whether all amounts are below 0, so that 0 is on the right."""
    low: str
    high: str
    """Labels of both ends of the axis, or of its enlarged part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaterfallPage:
    title: str
    drawing: Drawing

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.drawing.steps


def waterfall_pages(executed: Executed, sources: Sequence[str]) -> tuple[WaterfallPage, ...]:
    """The waterfalls of measures that add up, per other source and unit with a step that is not 0.

    None for a stage without dimensions, because every source has its one group.
    """
    if not executed.question.dimensions:
        return ()
    lines = [line for line in stage_lines("", executed, sources) if _moves(line)]
    ranked = sorted(
        lines, key=lambda line: (line.difference or Decimal(0)).copy_abs(), reverse=True
    )
    return tuple(_page(line, sources) for line in ranked[:MAX_WATERFALLS])


def _moves(line: AmountLine) -> bool:
    steps = line.steps
    if steps is None:
        return False
    return any((steps.missing_here, steps.missing_in_reference, steps.changed))


def _page(line: AmountLine, sources: Sequence[str]) -> WaterfallPage:
    reference, source = visible(line.reference), visible(line.source)
    steps = line.steps
    if steps is None:
        raise ValueError(f"{line.measure} has no steps")
    base, other = line.totals or (Decimal(0), steps.gap)
    drawn = drawing(
        (f"total of {reference}" if line.totals else f"as in {reference}", base),
        (
            (f"missing in {source}", steps.missing_here.copy_negate()),
            (f"missing in {reference}", steps.missing_in_reference),
            ("values that differ", steps.changed),
        ),
        (f"total of {source}" if line.totals else "difference", other),
        places=line.places,
    )
    unit = f" in {line.unit}" if line.unit else ""
    of = "" if len(sources) == _PAIR else f" of {source}"
    return WaterfallPage(title=f"{visible(line.measure)}{unit}{of}", drawing=drawn)


def drawing(first: Total, changes: Sequence[Total], last: Total, *, places: int = 0) -> Drawing:
    """The steps with their bars on one axis.

    Raises:
        ValueError: the steps do not lead from the first total to the last.
    """
    at = [first[1]]
    for _, change in changes:
        at.append(EXACT.add(at[-1], change))
    if at[-1] != last[1]:
        raise ValueError(f"the steps lead to {at[-1]}, not to {last[1]}")
    axis = axis_of(at)
    steps = [_total(first, axis, places)]
    for (label, change), (before, after) in zip(changes, pairwise(at), strict=True):
        steps.append(
            Step(
                label=label,
                amount=("+" if change > 0 else "") + amount(decimal_text(change), places=places),
                kind="none" if change == 0 else "up" if change > 0 else "down",
                bars=axis.step(before, after) if change else (),
            )
        )
    steps.append(_total(last, axis, places))
    return Drawing(
        steps=tuple(steps),
        is_broken=axis.is_broken,
        is_negative=axis.is_negative,
        low=amount(decimal_text(axis.low), places=places),
        high=amount(decimal_text(axis.high), places=places),
    )


def _total(total: Total, axis: "Axis", places: int) -> Step:
    label, value = total
    shown = amount(decimal_text(value), places=places)
    return Step(label=label, amount=shown, kind="total", bars=axis.total(value))


def axis_of(amounts: Sequence[Decimal]) -> "Axis":
    """An axis from 0 over all amounts; with a break if their differences would be invisible."""
    low, high = min(amounts), max(amounts)
    span = EXACT.subtract(high, low)
    nearest = low if low > 0 else high.copy_negate() if high < 0 else Decimal(0)
    farthest = max(low.copy_abs(), high.copy_abs())
    if nearest > 0 and span and EXACT.multiply(span, Decimal(_SMALLEST)) < farthest:
        return Axis(low=low, high=high, is_broken=True)
    zero = Decimal(0)
    return Axis(low=min(low, zero), high=max(high, zero), is_broken=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Positions of amounts: in proportion from `low` to `high`, after the gap if there is one."""

    low: Decimal
    high: Decimal
    is_broken: bool

    @property
    def is_negative(self) -> bool:
        return self.high <= 0 and self.low < 0

    def place(self, value: Decimal) -> int:
        """Thousandths from the left."""
        room = (BREAK_TO + _FULL // 20, _FULL - _FULL // 20) if self.is_broken else (0, _FULL)
        if self.is_broken and self.is_negative:
            room = (_FULL - room[1], _FULL - room[0])
        span = EXACT.subtract(self.high, self.low)
        if span == 0:
            return room[0]
        moved = EXACT.multiply(EXACT.subtract(value, self.low), Decimal(room[1] - room[0]))
        return room[0] + int(EXACT.divide_int(moved, span))

    def step(self, before: Decimal, after: Decimal) -> tuple[Bar, ...]:
        low, high = sorted((self.place(before), self.place(after)))
        width = max(high - low, _LEAST)
        return (Bar(start=min(low, _FULL - width), width=width),)

    def total(self, value: Decimal) -> tuple[Bar, ...]:
        """Bars from 0 to the amount, two parts if the axis has a break."""
        place = self.place(value)
        if not self.is_broken:
            start, end = sorted((self.place(Decimal(0)), place))
            return (Bar(start=start, width=end - start),) if end > start else ()
        if self.is_negative:
            far = Bar(start=place, width=_FULL - BREAK_TO - place)
            return far, Bar(start=_FULL - BREAK_FROM, width=BREAK_FROM)
        return Bar(start=0, width=BREAK_FROM), Bar(start=BREAK_TO, width=place - BREAK_TO)
