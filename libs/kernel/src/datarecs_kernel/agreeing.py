"""Agreement in whole units: the engine's own arithmetic of tolerances, a column at a time.

A number or time is the integer that its form counts in, a limit is multiplied out once, and every
question is a comparison of products of integers, which have no size that ends (`whole_units`).
Core's rules say the same with decimals; both are held against each other, and neither calls the
other.
"""

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import reduce
from itertools import combinations
from typing import NamedTuple, assert_never

import numpy as np

from datarecs_core.comparison.oracle.agreement import MIN_SOURCES_FOR_ODD
from datarecs_core.comparison.planning.plan import MeasurePlan
from datarecs_core.comparison.planning.tolerance import (
    AbsoluteTolerance,
    DurationTolerance,
    ExactTolerance,
    PercentageTolerance,
    Tolerance,
)
from datarecs_core.jobs.vocabulary import Bound, Combine, CompareTo, ToleranceBase
from datarecs_core.values import EXACT
from datarecs_kernel.columns import Flags, Numbers, Values
from datarecs_kernel.forms import MICROS_DIGITS, Form, FormKind
from datarecs_kernel.keyless import NOBODY
from datarecs_kernel.whole_units import Integers, Units, cut_by, times, units_of

_Holds = Callable[[Sequence[Integers], Units], Flags]
"""Of a set's numbers and the reference's."""


class Found(NamedTuple):
    """What tolerances say, place by place."""

    units: Sequence[Units]
    within: Flags
    own_within: Sequence[Flags]
    """Per declared tolerance, taken alone."""
    odd: Numbers
    """The one source outside to every other while the others agree; NOBODY of fewer than three."""
    is_invalid: Flags
    is_null: Flags
    """Some value is NULL, and some other is not."""
    is_cut: Flags
    """Equal once both sides are cut to the coarser declaration."""


class Agreeing:
    """One measure whose form SQL and integers hold exactly: anything but floats and bare numerics.

    Args:
        measure: of the stage.
        form: of what is compared.
        sources: how many there are.
        reference: index of the reference source.
    """

    def __init__(self, measure: MeasurePlan, form: Form, *, sources: int, reference: int) -> None:
        self.measure, self.form, self.reference = measure, form, reference
        self.tolerances = [_compiled(each, form, measure.bound) for each in measure.tolerances]
        self.together = _every if measure.combine is Combine.ALL else _any
        self.pairs = list(combinations(range(sources), 2))
        self.sets = _sets(measure.compare_to, sources, reference)

    @staticmethod
    def covers(form: Form) -> bool:
        return form.kind not in {FormKind.DOUBLE, FormKind.NUMBER}

    def found(self, values: Sequence[Values]) -> Found:
        """How places stand to the tolerances, from the values of every source.

        At no place are all of them equal.
        """
        invalid = [each.is_invalid for each in values]
        counted = [units_of(self.form, each.plain) for each in values]
        units = [
            Units(numbers, known & ~broken)
            for (numbers, known), broken in zip(counted, invalid, strict=True)
        ]
        is_null = _any(each.is_null for each in values)
        sets = [self._own(each, values, units) for each in self.sets]
        within = _every(self.together(own) for own in sets) & ~is_null
        return Found(
            units=units,
            within=within,
            own_within=[_every(each) & ~is_null for each in zip(*sets, strict=True)],
            odd=self._odd(values, units),
            is_invalid=_any(invalid),
            is_null=is_null,
            is_cut=self._equal_once_cut(units),
        )

    def _own(
        self, chosen: Sequence[int], values: Sequence[Values], units: Sequence[Units]
    ) -> list[Flags]:
        """Per tolerance, whether it lets the set pass."""
        first, *others = (values[each] for each in chosen)
        equal = ~_any(first.differs(each) for each in others)
        known = _every(units[each].known for each in chosen)
        numbers = [units[each].numbers for each in chosen]
        return [
            equal | (known & holds(numbers, units[self.reference])) for holds in self.tolerances
        ]

    def _odd(self, values: Sequence[Values], units: Sequence[Units]) -> Numbers:
        odd = np.full(len(values[0].plain), NOBODY)
        if len(values) < MIN_SOURCES_FOR_ODD:
            return odd
        apart = {pair: ~self.together(self._own(pair, values, units)) for pair in self.pairs}
        for index in range(len(values)):
            odd[_every(flags == (index in pair) for pair, flags in apart.items())] = index
        return odd

    def _equal_once_cut(self, units: Sequence[Units]) -> Flags:
        cut, known = self.measure.cut, _every(each.known for each in units)
        if cut is None or cut.float32:
            return np.zeros_like(known)
        if cut.second_digits is not None:
            unit = 10 ** (MICROS_DIGITS + self.form.scale - cut.second_digits)
            left = [cut_by(each.numbers, unit) for each in units]
        else:
            unit = 10 ** max(self.form.scale - (cut.scale or 0), 0)
            # Towards zero: digits are cut off, whatever the sign.
            left = [cut_by(np.abs(each.numbers), unit) * np.sign(each.numbers) for each in units]
        return known & _every(left[0] == each for each in left[1:])


def _every(told: Iterable[Flags]) -> Flags:
    return reduce(np.logical_and, told)


def _any(told: Iterable[Flags]) -> Flags:
    return reduce(np.logical_or, told)


def _sets(compare_to: CompareTo, sources: int, reference: int) -> list[tuple[int, ...]]:
    match compare_to:
        case CompareTo.REFERENCE:
            return [(reference, index) for index in range(sources) if index != reference]
        case CompareTo.ALL_PAIRS:
            return list(combinations(range(sources), 2))
        case CompareTo.SPREAD:
            return [tuple(range(sources))]
        case _:
            assert_never(compare_to)


def _compiled(tolerance: Tolerance, form: Form, bound: Bound) -> _Holds:
    """A question about unequal values, in integers."""
    edge = 0 if bound is Bound.INCLUSIVE else 1
    match tolerance:
        case ExactTolerance():
            return lambda numbers, _: np.zeros(len(numbers[0]), np.bool_)
        case AbsoluteTolerance(limit=limit) | DurationTolerance(microseconds=limit):
            places, whole = _written(limit)
            factor, most = 10**places, whole * 10**form.scale - edge
            return lambda numbers, _: times(_gap(numbers), factor) <= most
        case PercentageTolerance(limit=limit, base=base):
            places, whole = _written(limit)
            factor = 100 * 10**places

            def holds(numbers: Sequence[Integers], reference: Units) -> Flags:
                size, known = _base(base, numbers, reference)
                return known & (times(_gap(numbers), factor) <= times(size, whole) - edge)

            return holds
        case _:
            assert_never(tolerance)


def _gap(numbers: Sequence[Integers]) -> Integers:
    return reduce(np.maximum, numbers) - reduce(np.minimum, numbers)


def _base(base: ToleranceBase, numbers: Sequence[Integers], reference: Units) -> Units:
    if base is ToleranceBase.REFERENCE:
        return Units(np.abs(reference.numbers), reference.known)
    chosen = np.maximum if base is ToleranceBase.MAX_ABS else np.minimum
    return Units(reduce(chosen, map(np.abs, numbers)), np.ones(len(numbers[0]), np.bool_))


def _written(limit: Decimal) -> tuple[int, int]:
    """Digits after the point, and the number without it."""
    places = max(-int(limit.as_tuple().exponent), 0)
    return places, int(limit.scaleb(places, EXACT))
