"""Open groups by the currency or unit in their keys: their number and amounts.

Equal groups add nothing to a difference, so open groups are enough. Separate from the judge because
amounts of two units are never added.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal

import numpy as np
import pyarrow.compute as pc

from datarecs_core.comparison.planning.additivity import unit_label
from datarecs_core.comparison.planning.plan import MeasurePlan
from datarecs_core.comparison.results.results import (
    MAX_UNITS,
    UnitAmounts,
    UnitResult,
    Waterfall,
)
from datarecs_core.values import EXACT
from datarecs_kernel.columns import Flags, Numbers, Values
from datarecs_kernel.counted import Counted
from datarecs_kernel.decoding import texts
from datarecs_kernel.exact_amounts import amounts_of
from datarecs_kernel.forms import Form
from datarecs_kernel.layout import Layout
from datarecs_kernel.measures import MeasureJudge
from datarecs_kernel.open_groups import OpenGroups, Shape
from datarecs_kernel.waterfalls import fitting
from datarecs_kernel.whole_units import summed

MOST_SEEN = 5_000
"""Maximum number of units that a task counts; with more the column is not a unit."""


class UnitCounter:
    """Counts the groups of one stage by unit while they stream."""

    def __init__(
        self, layout: Layout, measures: Sequence[MeasureJudge], counted: Counted, shape: Shape
    ) -> None:
        """Create it for a stage with `unit_dimensions`; the numbers are added to `counted`."""
        self.layout, self.counted, self.shape = layout, counted, shape
        self.fields = [layout.keys[at] for at in layout.stage.unit_dimensions]
        self.measures = [each for each in measures if each.columns and each.plan.has_total]

    def add(self, groups: OpenGroups, differs: Flags) -> None:
        """Count these groups."""
        if not self.fields or not len(groups) or self.counted.units_are_no_words:
            return
        units, places = self._units(groups)
        if units is None:
            self.counted.refuse_units()
            return
        kinds, kind_of_group = np.unique(
            np.stack([places, groups.masks]), axis=1, return_inverse=True
        )
        kind_of_group = kind_of_group.reshape(-1)
        named = [(units[place], mask) for place, mask in kinds.T.tolist()]
        counts = np.bincount(kind_of_group, minlength=len(named)).tolist()
        differing = np.bincount(kind_of_group[differs], minlength=len(named)).tolist()
        for (unit, mask), many, differ in zip(named, counts, differing, strict=True):
            self.counted.unit_groups[unit, mask] += many
            self.counted.unit_differing[unit] += differ
        if len(self.counted.unit_differing) > MOST_SEEN:
            self.counted.refuse_units()
            return
        self._add_amounts(groups, named, kind_of_group[groups.group_of_row])

    def _units(self, groups: OpenGroups) -> tuple[list[str] | None, Numbers]:
        """Labels, None if one is not a short word, and the label index of each group."""
        columns = groups.first(self.layout.key_names)
        parts = [
            pc.fill_null(
                texts(
                    field.form,
                    Values(
                        columns.column(field.name),
                        columns.column(field.payload) if field.may_be_invalid else None,
                    ),
                ),
                "NULL",
            )
            for field in self.fields
        ]
        labels = pc.binary_join_element_wise(*parts, "/").dictionary_encode()
        names = [str(each) for each in labels.dictionary.to_pylist()]
        places = np.asarray(labels.indices.to_numpy(zero_copy_only=False), np.int64)
        return (names if all(unit_label([each]) for each in names) else None), places

    def _add_amounts(
        self, groups: OpenGroups, named: Sequence[tuple[str, int]], kind_of_row: Numbers
    ) -> None:
        for index in self.layout.sources:
            if self.shape is Shape.TUPLES:
                copies = groups.numbers(f"c{index}")
            else:
                copies = (groups.sizes[:, index] > 0).astype(np.int64)
            for each in self.measures:
                values = each.columns[index].of(groups.rows)
                for at, amount in _sums(each.form, values, copies, kind_of_row):
                    unit, mask = named[at]
                    if mask >> index & 1:
                        self.counted.add_in_unit((each.plan.index, index, mask, unit), amount)


def _sums(
    form: Form, values: Values, copies: Numbers, kind_of_row: Numbers
) -> Iterator[tuple[int, Decimal]]:
    """The finite amounts of each kind of row, each multiplied by its copies."""
    for part in amounts_of(form, [values]):
        (units,) = part.units
        kinds, often = part.of(kind_of_row), part.of(copies)
        numbers = np.where(units.known, units.numbers, 0)
        order = np.argsort(kinds, kind="stable")
        present, starts = np.unique(kinds[order], return_index=True)
        ends = np.append(starts[1:], len(order))
        for kind, start, end in zip(present.tolist(), starts, ends, strict=True):
            rows = order[start:end]
            amount = Decimal(summed(numbers[rows], often[rows]))
            yield kind, amount.scaleb(-part.scale, EXACT)


def results_by_unit(
    layout: Layout, counted: Counted, hidden: Sequence[Sequence[bool]]
) -> tuple[UnitResult, ...]:
    """One entry per unit with a difference, sorted; none if a unit is not a short word.

    Args:
        layout: of the stage.
        counted: of all tasks.
        hidden: by measure and source, whether there are values that are not numbers.
    """
    results = [_result(layout, counted, unit) for unit in sorted(counted.unit_differing)]
    shown = tuple(_hidden(layout, each, hidden) for each in results if _has_difference(each))
    return shown if len(shown) <= MAX_UNITS else ()


def _result(layout: Layout, counted: Counted, unit: str) -> UnitResult:
    base = layout.stage.reference
    masks = [(mask, many) for (name, mask), many in counted.unit_groups.items() if name == unit]
    plans = [each.plan for each in layout.measures if each.plan.has_total]
    return UnitResult(
        unit=unit,
        differing=counted.unit_differing[unit],
        missing_here=tuple(
            sum(many for mask, many in masks if _is_only_in(mask, base, index))
            for index in layout.sources
        ),
        missing_in_reference=tuple(
            sum(many for mask, many in masks if _is_only_in(mask, index, base))
            for index in layout.sources
        ),
        measures=tuple(
            UnitAmounts(
                measure=plan.name,
                waterfall_by_source=tuple(
                    _steps(plan, counted, unit, (base, index)) for index in layout.sources
                ),
            )
            for plan in plans
        ),
    )


def _is_only_in(mask: int, one: int, other: int) -> bool:
    return bool(mask >> one & 1) and not mask >> other & 1


def _steps(
    plan: MeasurePlan, counted: Counted, unit: str, pair: tuple[int, int]
) -> Waterfall | None:
    """The steps from the reference to the other source."""
    base, index = pair
    here = there = changed = Decimal(0)
    for (measure, source, mask, name), amount in counted.unit_amounts.items():
        if measure != plan.index or name != unit or base == index:
            continue
        if source == base and _is_only_in(mask, base, index):
            here = EXACT.add(here, amount)
        elif source == index and _is_only_in(mask, index, base):
            there = EXACT.add(there, amount)
        elif source == index and mask >> base & 1:
            changed = EXACT.add(changed, amount)
        elif source == base and mask >> index & 1:
            changed = EXACT.subtract(changed, amount)
    return fitting(plan, here, there, changed)


def _has_difference(result: UnitResult) -> bool:
    """Whether a group differs, also within tolerance."""
    steps = [one for each in result.measures for one in each.waterfall_by_source]
    moves = any(
        one is None or one.missing_here or one.missing_in_reference or one.changed for one in steps
    )
    return moves or result.differing > 0


def _hidden(layout: Layout, result: UnitResult, hidden: Sequence[Sequence[bool]]) -> UnitResult:
    """The same without the steps of sources, or of a reference, with unknown totals."""
    places = {each.plan.name: each.plan.index for each in layout.measures}
    base = layout.stage.reference
    return UnitResult(
        unit=result.unit,
        differing=result.differing,
        missing_here=result.missing_here,
        missing_in_reference=result.missing_in_reference,
        measures=tuple(
            UnitAmounts(
                measure=each.measure,
                waterfall_by_source=tuple(
                    None if unknown[index] or unknown[base] else steps
                    for index, steps in enumerate(each.waterfall_by_source)
                ),
            )
            for each in result.measures
            for unknown in [hidden[places[each.measure]]]
        ),
    )
