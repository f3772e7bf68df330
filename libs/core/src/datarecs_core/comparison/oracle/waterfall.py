"""The steps from the reference's total to another one: groups only one has, values that differ.

They add up to the gap exactly (F15). The oracle adds group by group; engines deliver one sum per
source and presence mask, from which the same steps follow. One module, so that both cut alike.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from datarecs_core.comparison.planning.plan import MeasurePlan
from datarecs_core.comparison.results.results import Waterfall
from datarecs_core.comparison.values.translating import fits
from datarecs_core.values import EXACT

Sums = Mapping[tuple[int, int], Decimal]
"""Of one measure, by source and presence mask: the finite amounts of the source in the groups that
have the mask. Matched groups need not be among them."""
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


def waterfalls(
    plan: MeasurePlan, alone: Sums, totals: Sequence[Decimal | None], reference: int
) -> tuple[Waterfall | None, ...]:
    """The same from sums: for engines, which never hold all groups.

    Args:
        plan: the measure, for the digits that an amount may have.
        alone: of groups that some source lacks.
        totals: by source over all groups; None where unknown or of more than 38 digits.
        reference: index.
    """
    base = totals[reference]
    here, there = _sums(alone, reference, len(totals))
    found: list[Waterfall | None] = []
    for source, total in enumerate(totals):
        if total is None or base is None:
            found.append(None)
            continue
        shared = EXACT.subtract(total, there[source]), EXACT.subtract(base, here[source])
        changed = EXACT.subtract(*shared)
        found.append(_written(plan, Steps(here[source], there[source], changed)))
    return tuple(found)


def _sums(alone: Sums, reference: int, sources: int) -> tuple[list[Decimal], list[Decimal]]:
    """By source: the reference's amounts that it lacks, its own that the reference lacks."""
    here, there = [_NOTHING] * sources, [_NOTHING] * sources
    for (source, mask), amount in alone.items():
        if source == reference:
            for lacking in _lacking(mask, sources):
                here[lacking] = EXACT.add(here[lacking], amount)
        elif not mask >> reference & 1:
            there[source] = EXACT.add(there[source], amount)
    return here, there


def _lacking(mask: int, sources: int) -> Iterable[int]:
    return (index for index in range(sources) if not mask >> index & 1)


def _written(plan: MeasurePlan, steps: Steps) -> Waterfall | None:
    made = Waterfall(
        missing_here=steps.missing_here,
        missing_in_reference=steps.missing_in_reference,
        changed=steps.changed,
    )
    amounts = (made.missing_here, made.missing_in_reference, made.changed, made.gap)
    return made if all(fits(each, plan.total_scale) for each in amounts) else None
