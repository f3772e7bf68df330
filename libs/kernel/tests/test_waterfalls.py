"""Steps made of sums are those that the oracle adds up group by group."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.comparison.oracle.waterfall import WaterfallOf
from datarecs_core.comparison.planning.plan import MeasurePlan
from datarecs_core.comparison.results.results import Waterfall
from datarecs_core.jobs.vocabulary import Function
from datarecs_core.values import EXACT
from datarecs_kernel.waterfalls import waterfalls

D = Decimal
PLAN = MeasurePlan(
    name="v", index=0, function=Function.SUM, inputs=(None,), has_total=True, total_scale=2
)
amounts = st.none() | st.decimals(-(10**6), 10**6, places=2, allow_nan=False)
groups = st.lists(st.lists(amounts, min_size=3, max_size=3), max_size=20)


@pytest.mark.case("F15")
@given(groups=groups, reference=st.integers(0, 2))
def test_sums_by_mask_show_the_same_steps_as_the_groups(
    groups: list[list[Decimal | None]], reference: int
) -> None:
    one_by_one = WaterfallOf(plan=PLAN, reference=reference)
    alone: dict[tuple[int, int], Decimal] = {}
    totals = [D(0), D(0), D(0)]
    for group in groups:
        one_by_one.take(group)
        mask = sum(1 << at for at, amount in enumerate(group) if amount is not None)
        for at, amount in enumerate(group):
            if amount is not None:
                totals[at] = EXACT.add(totals[at], amount)
                if mask != 0b111:
                    alone[at, mask] = EXACT.add(alone.get((at, mask), D(0)), amount)
    gaps = [EXACT.subtract(total, totals[reference]) for total in totals]
    steps = one_by_one.by_source(gaps)
    assert waterfalls(PLAN, alone, totals, reference) == steps
    assert [None if steps is None else steps.gap for steps in steps] == gaps


def test_an_unknown_total_leaves_its_source_without_steps() -> None:
    assert waterfalls(PLAN, {}, (D(1), None), 0) == (
        Waterfall(missing_here=D(0), missing_in_reference=D(0), changed=D(0)),
        None,
    )
    assert waterfalls(PLAN, {}, (None, D(1)), 0) == (None, None)
