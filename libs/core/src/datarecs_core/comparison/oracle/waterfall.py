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

    def take(self, amount: Decimal | None, base: Decimal | None) -> None:
        """A group with its amounts; None for a source without it."""
        if amount is None and base is not None:
            self.missing_here = EXACT.add(self.missing_here, base)
        elif base is None and amount is not None:
            self.missing_in_reference = EXACT.add(self.missing_in_reference, amount)
        elif amount is not None and base is not None:
            self.changed = EXACT.add(self.changed, EXACT.subtract(amount, base))


@dataclass(slots=True, kw_only=True)
class WaterfallOf:
    """The steps of every source of one measure, from its groups."""

    plan: MeasurePlan
    reference: int
    steps: list[Steps] = field(default_factory=list)

    def take(self, amounts: Sequence[Decimal | None]) -> None:
        """One group: the sum of its finite amounts by source, None for a source without it."""
        self.steps = self.steps or [Steps() for _ in amounts]
        base = amounts[self.reference]
        for source_steps, amount in zip(self.steps, amounts, strict=True):
            if amount != base:  # else the group adds no step
                source_steps.take(amount, base)

    def by_source(self, gaps: Sequence[Decimal | None]) -> tuple[Waterfall | None, ...]:
        """One entry per source; None where the gap or one of the steps is unknown."""
        steps = self.steps or [Steps() for _ in gaps]
        pairs = zip(steps, gaps, strict=True)
        return tuple(
            None if gap is None else _written(self.plan, source_steps)
            for source_steps, gap in pairs
        )


def _written(plan: MeasurePlan, steps: Steps) -> Waterfall | None:
    made = Waterfall(
        missing_here=steps.missing_here,
        missing_in_reference=steps.missing_in_reference,
        changed=steps.changed,
    )
    amounts = (made.missing_here, made.missing_in_reference, made.changed, made.gap)
    return made if all(fits(each, plan.total_scale) for each in amounts) else None
