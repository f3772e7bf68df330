"""Whether the values of one group agree, which source is the odd one, and how they differ.

One group, one measure, one value per source. Equality is that of encodings, distance that of
exact decimals; NULLs mixed with values are always outside.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from itertools import combinations
from typing import assert_never, cast

from datarecs_core.comparison.planning.plan import MIN_SOURCES_FOR_ODD, Cut, MeasurePlan
from datarecs_core.comparison.planning.tolerance import Tolerance, gap_between
from datarecs_core.comparison.values.canonical import Value, encode, number
from datarecs_core.comparison.values.float32 import shortest_float32
from datarecs_core.comparison.values.normalizing import cut_time
from datarecs_core.jobs.vocabulary import Combine, CompareTo, NanRule, Rounding
from datarecs_core.values import EXACT


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How one value per source relates to the tolerances of a measure."""

    equal: bool
    within: bool
    alone_within: tuple[bool, ...]
    """Per declared tolerance, taken alone."""


def agreement(measure: MeasurePlan, values: Sequence[Value], reference: int) -> Agreement:
    """Judge the values of the sources against each other as in `compare_to`."""
    same = equal(measure, values)
    if same or not measure.comparable:
        return Agreement(equal=same, within=same, alone_within=(same,) * len(measure.tolerances))
    sets = [
        [holds(measure, tolerance, chosen, values[reference]) for tolerance in measure.tolerances]
        for chosen in _compared(measure.compare_to, values, reference)
    ]
    together = all if measure.combine is Combine.ALL else any
    return Agreement(
        equal=False,
        within=all(together(verdicts) for verdicts in sets),
        alone_within=tuple(all(verdicts) for verdicts in zip(*sets, strict=True)),
    )


def _compared(
    compare_to: CompareTo, values: Sequence[Value], reference: int
) -> Iterator[Sequence[Value]]:
    match compare_to:
        case CompareTo.REFERENCE:
            for index, value in enumerate(values):
                if index != reference:
                    yield (values[reference], value)
        case CompareTo.ALL_PAIRS:
            yield from combinations(values, 2)
        case CompareTo.SPREAD:
            yield values
        case _:
            assert_never(compare_to)


def equal(measure: MeasurePlan, values: Sequence[Value]) -> bool:
    """Canonically equal; with `nan: unequal` a NaN equals nothing, not even itself."""
    if not measure.comparable or len({encode(value) for value in values}) > 1:
        return False
    return not (measure.rules.nan is NanRule.UNEQUAL and values[0].is_nan)


def holds(
    measure: MeasurePlan, tolerance: Tolerance, values: Sequence[Value], reference: Value
) -> bool:
    """Whether a pair, or a whole set, is within one tolerance."""
    if equal(measure, values):
        return True
    amounts = [value.amount for value in values]
    finite = [amount for amount in amounts if amount is not None]
    if len(finite) < len(amounts):
        return False
    return tolerance.allows(gap_between(finite, reference.amount), measure.bound)


def odd_one_out(measure: MeasurePlan, values: Sequence[Value], reference: int) -> int | None:
    """The one source outside to every other while the others agree pairwise; of three or more."""
    if len(values) < MIN_SOURCES_FOR_ODD or not measure.comparable:
        return None
    agree = {
        frozenset(pair): _pair_agrees(measure, values, pair, values[reference])
        for pair in combinations(range(len(values)), 2)
    }
    for index in range(len(values)):
        if all(agrees is (index not in pair) for pair, agrees in agree.items()):
            return index
    return None


def _pair_agrees(
    measure: MeasurePlan, values: Sequence[Value], pair: tuple[int, int], reference: Value
) -> bool:
    chosen = [values[index] for index in pair]
    verdicts = [holds(measure, each, chosen, reference) for each in measure.tolerances]
    return all(verdicts) if measure.combine is Combine.ALL else any(verdicts)


def odd_presence(mask: int, sources: int) -> int | None:
    """The only source with or without a group; of three or more."""
    if sources < MIN_SOURCES_FOR_ODD:
        return None
    for present in (mask, ~mask & ((1 << sources) - 1)):
        if present.bit_count() == 1:
            return present.bit_length() - 1
    return None


def equal_once_cut(cut: Cut, values: Sequence[Value]) -> bool:
    """Whether values agree at the coarsest declared precision: class PRECISION."""
    if any(value.amount is None for value in values):
        return False
    return len({encode(_cut(cut, value)) for value in values}) == 1


def _cut(cut: Cut, value: Value) -> Value:
    """What is left of a value, to be compared with what one cut leaves of others."""
    amount = cast("Decimal", value.content)
    if cut.second_digits is not None:
        return Value(value.tag, cut_time(amount, cut.second_digits, Rounding.TRUNCATE))
    if cut.float32:
        return number(shortest_float32(amount))
    return number(amount.scaleb(cut.scale or 0, EXACT).to_integral_value(rounding=ROUND_DOWN))


def deltas(values: Sequence[Value], reference: int) -> dict[int, Decimal]:
    """Other minus reference, by source index, where both can be subtracted."""
    base = values[reference].amount
    if base is None:
        return {}
    return {
        index: EXACT.subtract(value.amount, base)
        for index, value in enumerate(values)
        if index != reference and value.amount is not None and value.tag is values[reference].tag
    }
