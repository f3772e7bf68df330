"""The steps from the reference's total to another one: groups only one has, values that differ.

They add up to the gap exactly (F15). The oracle adds group by group; the kernel makes the same
steps of one sum per source and presence mask.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from datarecs_core.comparison.planning.plan import MeasurePlan
from datarecs_core.comparison.results.results import Waterfall
from datarecs_core.comparison.values.translating import fits
from datarecs_core.values import EXACT

_NOTHING = Decimal(0)


@dataclass(slots=True)
class Steps:
    """What is added up for one source, group by group."""

    missing_here: Decimal = _NOTHING
    missing_in_reference: Decimal = _NOTHING
    changed: Decimal = _NOTHING

    def take(self, own: Decimal | None, base: Decimal | None) -> None:
        """A group with its amounts; None for a source that lacks it."""
        if own is None and base is not None:
            self.missing_here = EXACT.add(self.missing_here, base)
        elif base is None and own is not None:
            self.missing_in_reference = EXACT.add(self.missing_in_reference, own)
        elif own is not None and base is not None:
            self.changed = EXACT.add(self.changed, EXACT.subtract(own, base))


@dataclass(slots=True, kw_only=True)
class WaterfallOf:
    """The steps of every source of one measure, made of its groups."""

    plan: MeasurePlan
    reference: int
    steps: list[Steps] = field(default_factory=list)

    def take(self, amounts: Sequence[Decimal | None]) -> None:
        """One group: the sum of its finite amounts by source, None for a source without it."""
        self.steps = self.steps or [Steps() for _ in amounts]
        base = amounts[self.reference]
        for own, amount in zip(self.steps, amounts, strict=True):
            if amount != base:  # else the group adds no step
                own.take(amount, base)

    def told(self, gaps: Sequence[Decimal | None]) -> tuple[Waterfall | None, ...]:
        """One entry per source; None where the gap or one of the steps is unknown."""
        steps = self.steps or [Steps() for _ in gaps]
        pairs = zip(steps, gaps, strict=True)
        return tuple(None if gap is None else _written(self.plan, own) for own, gap in pairs)


def _written(plan: MeasurePlan, steps: Steps) -> Waterfall | None:
    made = Waterfall(
        missing_here=steps.missing_here,
        missing_in_reference=steps.missing_in_reference,
        changed=steps.changed,
    )
    amounts = (made.missing_here, made.missing_in_reference, made.changed, made.gap)
    return made if all(fits(each, plan.total_scale) for each in amounts) else None
