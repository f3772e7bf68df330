"""Groups and amounts of a stage by the currency or unit that its key names, group by group.

Amounts of two currencies are never added. Separate from the totals, which are of all groups.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal

from datarecs_core.comparison.oracle.grouping import Cell, Group
from datarecs_core.comparison.oracle.judging import GroupJudgement
from datarecs_core.comparison.oracle.waterfall import WaterfallOf
from datarecs_core.comparison.planning.additivity import unit_label
from datarecs_core.comparison.planning.plan import MeasurePlan, StagePlan
from datarecs_core.comparison.results.results import (
    MAX_UNITS,
    UnitAmounts,
    UnitResult,
)
from datarecs_core.comparison.values.canonical import canonical_text

Judged = tuple[Group, GroupJudgement]
AmountOf = Callable[[Sequence[tuple[Cell, ...]], MeasurePlan], Decimal | None]
_NOTHING = Decimal(0)


def results_by_unit(
    stage: StagePlan,
    judged: Sequence[Judged],
    amount_of: AmountOf,
    is_hidden: Callable[[MeasurePlan, int], bool],
) -> tuple[UnitResult, ...]:
    """One entry per unit with a difference, sorted; none where a unit is not a short word.

    Args:
        stage: with `unit_dimensions`.
        judged: every group of the stage.
        amount_of: the sum of a measure over the rows of one source in a group.
        is_hidden: whether a source has values of a measure that are not numbers.
    """
    by_unit: dict[str, list[Judged]] = {}
    for group, judgement in judged:
        parts = [canonical_text(group.key[at]) for at in stage.unit_dimensions]
        label = unit_label(parts)
        if label is None:
            return ()
        by_unit.setdefault(label, []).append((group, judgement))
    results = [_result(stage, unit, groups, amount_of) for unit, groups in sorted(by_unit.items())]
    shown = tuple(_hidden(stage, each, is_hidden) for each in results if _has_difference(each))
    return shown if len(shown) <= MAX_UNITS else ()


def _result(
    stage: StagePlan, unit: str, judged: Sequence[Judged], amount_of: AmountOf
) -> UnitResult:
    sources, reference = range(len(stage.scans)), stage.reference
    masks = [judgement.mask for _, judgement in judged]
    has_base = [bool(mask >> reference & 1) for mask in masks]
    pairs = list(zip(masks, has_base, strict=True))
    measures = []
    for plan in stage.measures:
        if plan.has_total:
            steps = WaterfallOf(plan=plan, reference=reference)
            for group, _ in judged:
                steps.take([amount_of(group.rows[index], plan) for index in sources])
            waterfalls = steps.by_source([_NOTHING] * len(sources))
            measures.append(UnitAmounts(measure=plan.name, waterfall_by_source=waterfalls))
    return UnitResult(
        unit=unit,
        differing=sum(judgement.differs for _, judgement in judged),
        missing_here=tuple(sum(b and not m >> at & 1 for m, b in pairs) for at in sources),
        missing_in_reference=tuple(sum(not b and m >> at & 1 for m, b in pairs) for at in sources),
        measures=tuple(measures),
    )


def _has_difference(result: UnitResult) -> bool:
    """Whether a group differs, or values within tolerance do."""
    steps = [one for each in result.measures for one in each.waterfall_by_source]
    moves = any(
        one is None or one.missing_here or one.missing_in_reference or one.changed for one in steps
    )
    return moves or result.differing > 0


def _hidden(
    stage: StagePlan, result: UnitResult, is_hidden: Callable[[MeasurePlan, int], bool]
) -> UnitResult:
    """The same without the steps of sources, or of a reference, with unknown totals."""
    plans = {plan.name: plan for plan in stage.measures}
    measures = []
    for each in result.measures:
        plan = plans[each.measure]
        unknown = [is_hidden(plan, index) for index in range(len(stage.scans))]
        known = tuple(
            None if unknown[index] or unknown[stage.reference] else steps
            for index, steps in enumerate(each.waterfall_by_source)
        )
        measures.append(UnitAmounts(measure=each.measure, waterfall_by_source=known))
    return UnitResult(
        unit=result.unit,
        differing=result.differing,
        missing_here=result.missing_here,
        missing_in_reference=result.missing_in_reference,
        measures=tuple(measures),
    )
