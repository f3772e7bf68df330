"""The steps from the reference's total to another total, from sums only.

The kernel never has all groups in memory: it has one sum per source and presence mask of the groups
missing in a source; the rest of the gap comes from values that differ. The sum of the steps is
exactly the gap (F15).
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from datarecs_core.comparison.planning.plan import MeasurePlan
from datarecs_core.comparison.results.results import Waterfall
from datarecs_core.comparison.values.translating import fits
from datarecs_core.values import EXACT

Sums = Mapping[tuple[int, int], Decimal]
"""Of one measure, by source and presence mask: the finite amounts of the source in the groups with
the mask. Matched groups may be missing."""
_NOTHING = Decimal(0)


def waterfalls(
    plan: MeasurePlan, alone: Sums, totals: Sequence[Decimal | None], reference: int
) -> tuple[Waterfall | None, ...]:
    """The steps of every source of one measure; None if its total or a step is unknown.

    Args:
        plan: the measure, for the maximum digits of an amount.
        alone: of groups missing in a source.
        totals: by source over all groups; None if unknown or of more than 38 digits.
        reference: index.
    """
    base = totals[reference]
    here, there = _sums(alone, reference, len(totals))
    steps: list[Waterfall | None] = []
    for source, total in enumerate(totals):
        if total is None or base is None:
            steps.append(None)
            continue
        shared = EXACT.subtract(total, there[source]), EXACT.subtract(base, here[source])
        changed = EXACT.subtract(*shared)
        steps.append(fitting(plan, here[source], there[source], changed))
    return tuple(steps)


def _sums(alone: Sums, reference: int, sources: int) -> tuple[list[Decimal], list[Decimal]]:
    """By source: reference amounts missing in it, and its amounts missing in the reference."""
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


def fitting(
    plan: MeasurePlan, missing_here: Decimal, missing_in_reference: Decimal, changed: Decimal
) -> Waterfall | None:
    """None if a step has more digits than an amount may have."""
    made = Waterfall(
        missing_here=missing_here, missing_in_reference=missing_in_reference, changed=changed
    )
    amounts = (made.missing_here, made.missing_in_reference, made.changed, made.gap)
    return made if all(fits(each, plan.total_scale) for each in amounts) else None
