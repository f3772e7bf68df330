"""Agreement in whole units: the kernel's arithmetic of tolerances, by column.

A number or time is an integer in units of its scale (`exact_amounts`). A limit is multiplied out
once, and every check compares products of integers of unlimited size (`whole_units`). Core defines
the same rules with decimals; a test compares both, and neither calls the other.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import combinations
from typing import Any, NamedTuple, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from datarecs_core.comparison.planning.plan import MIN_SOURCES_FOR_ODD, MeasurePlan
from datarecs_core.comparison.planning.tolerance import (
    AbsoluteTolerance,
    DurationTolerance,
    ExactTolerance,
    PercentageTolerance,
    Tolerance,
)
from datarecs_core.jobs.vocabulary import Bound, Combine, CompareTo, NanRule, ToleranceBase
from datarecs_kernel.columns import Flags, Numbers, Values, flags_of
from datarecs_kernel.differing import NOBODY, changes_of, largest_change
from datarecs_kernel.exact_amounts import Amounts, amounts_of
from datarecs_kernel.float32 import nearest_float32
from datarecs_kernel.forms import MICROS_DIGITS, Form, FormKind
from datarecs_kernel.whole_units import (
    Integers,
    Units,
    cut_by,
    doubles_of,
    largest_of,
    times,
    unit_key,
)

_Holds = Callable[[Sequence[Integers], Units], Flags]
"""Compares a set's numbers with those of the reference."""
_Set = tuple[int, ...]
"""Indexes of two sources to compare."""


class Judgements(NamedTuple):
    """The result of tolerances, per place."""

    within: Flags
    tolerance_within: Sequence[Flags]
    """Result per declared tolerance, each alone."""
    odd: Numbers
    """The source that is outside while all others agree; NOBODY with fewer than three sources."""
    is_cut: Flags
    """Equal after all are truncated to the coarsest declared precision."""
    sizes: NDArray[np.float64]
    """Doubles nearest to the largest |delta|."""
    has_size: Flags
    """Whether a delta exists."""
    largest: str | None
    """Size key of the largest |delta| of all places; None without deltas."""


class Agreement:
    """The tolerances of one measure.

    Args:
        measure: of the stage.
        form: of the compared values.
        sources: the number of sources.
        reference: index of the reference source.
    """

    def __init__(self, measure: MeasurePlan, form: Form, *, sources: int, reference: int) -> None:
        self.measure, self.form, self.reference = measure, form, reference
        self.together = _every if measure.combine is Combine.ALL else _any
        self.sources = sources
        self.pairs: list[_Set] = list(combinations(range(sources), 2))
        self.sets = _sets(measure.compare_to, sources, reference)
        self.is_strict = measure.rules.nan is NanRule.UNEQUAL
        """A NaN equals nothing."""
        self._tolerances: dict[int, list[_Holds]] = {}
        """Compiled, by scale."""

    def differs(self, values: Sequence[Values]) -> Flags:
        """Whether the values of all sources are not equal, at each place."""
        first, *others = values
        return _any(self._unequal(first, each) for each in others)

    def judge(self, values: Sequence[Values]) -> Judgements:
        """Compare places with the tolerances.

        Args:
            values: of every source; at each place at least two differ.
        """
        unequal: dict[_Set, Flags] = {}
        if self.sources >= MIN_SOURCES_FOR_ODD:
            unequal = {pair: self._unequal(*(values[at] for at in pair)) for pair in self.pairs}
        parts = amounts_of(self.form, values)
        return _merged(
            [(part, self._judge_part(part, unequal)) for part in parts], len(values[0].plain)
        )

    def _unequal(self, one: Values, other: Values) -> Flags:
        unequal = one.differs(other)
        if self.is_strict:
            return unequal | is_nan(self.form, one.plain)
        if self.form.kind is FormKind.DOUBLE and unequal.any():
            unequal &= ~(is_nan(self.form, one.plain) & is_nan(self.form, other.plain))
        return unequal

    def _judge_part(self, part: Amounts, unequal: Mapping[_Set, Flags]) -> Judgements:
        rows = len(part.units[0].numbers)
        equal = {pair: ~part.of(flags) for pair, flags in unequal.items()}
        sets = [self._set_within(each, part, equal) for each in self.sets]
        changes = changes_of(part.units, self.reference)
        sizes, has_size = np.zeros(rows), _any(each.known for each in changes.values())
        largest = None
        if has_size.any():
            maxima = largest_change(changes)
            sizes = doubles_of(maxima.numbers, part.scale)
            largest = unit_key(largest_of(maxima.numbers), part.scale)
        return Judgements(
            within=_every(self.together(flags) for flags in sets),
            tolerance_within=[_every(flags) for flags in zip(*sets, strict=True)],
            odd=self._odd(part, equal),
            is_cut=self._equal_once_cut(part),
            sizes=sizes,
            has_size=has_size,
            largest=largest,
        )

    def _set_within(self, chosen: _Set, part: Amounts, equal: Mapping[_Set, Flags]) -> list[Flags]:
        """Per tolerance, whether the set is within it."""
        known = _every(part.units[each].known for each in chosen)
        numbers = [part.units[each].numbers for each in chosen]
        reference = part.units[self.reference]
        within = [known & holds(numbers, reference) for holds in self._holds(part.scale)]
        if chosen in equal:
            within = [each | equal[chosen] for each in within]
        return within

    def _holds(self, scale: int) -> list[_Holds]:
        if scale not in self._tolerances:
            bound = self.measure.bound
            self._tolerances[scale] = [
                _compiled(each, scale, bound) for each in self.measure.tolerances
            ]
        return self._tolerances[scale]

    def _odd(self, part: Amounts, equal: Mapping[_Set, Flags]) -> Numbers:
        odd = np.full(len(part.units[0].numbers), NOBODY)
        if self.sources < MIN_SOURCES_FOR_ODD:
            return odd
        apart = {pair: ~self.together(self._set_within(pair, part, equal)) for pair in self.pairs}
        for index in range(self.sources):
            odd[_every(flags == (index in pair) for pair, flags in apart.items())] = index
        return odd

    def _equal_once_cut(self, part: Amounts) -> Flags:
        cut, known = self.measure.cut, _every(each.known for each in part.units)
        if cut is None or not known.any():
            return np.zeros_like(known)
        numbers = [each.numbers for each in part.units]
        if cut.float32:
            left = [nearest_float32(each, part.scale) for each in numbers]
        elif cut.second_digits is not None:
            unit = 10 ** (MICROS_DIGITS + part.scale - cut.second_digits)
            left = [cut_by(each, unit) for each in numbers]
        else:
            unit = 10 ** max(part.scale - (cut.scale or 0), 0)
            # Towards zero: digits are removed, for both signs.
            left = [cut_by(np.abs(each), unit) * np.sign(each) for each in numbers]
        return known & _every(left[0] == each for each in left[1:])


def has_nulls(values: Sequence[Values]) -> Flags:
    """Places where at least one source has NULL."""
    none = np.zeros(len(values[0].plain), np.bool_)
    return reduce(np.logical_or, (each.is_null for each in values if each.plain.null_count), none)


def has_invalid(values: Sequence[Values]) -> Flags:
    """Places where at least one source has an INVALID value."""
    none = np.zeros(len(values[0].plain), np.bool_)
    return reduce(np.logical_or, (each.is_invalid for each in values if each.has_invalid), none)


def is_nan(form: Form, values: pa.Array) -> Flags:
    match form.kind:
        case FormKind.DOUBLE:
            flags = pc.is_nan(values)
        case FormKind.NUMBER:
            flags = pc.equal(values, "NaN")
        case _:
            return np.zeros(len(values), dtype=np.bool_)
    return flags_of(pc.fill_null(flags, fill_value=False))


def _merged(parts: Sequence[tuple[Amounts, Judgements]], rows: int) -> Judgements:
    """One check of all places; a single part has them all, in order."""
    if len(parts) == 1:
        return parts[0][1]
    keys = [judged.largest for _, judged in parts if judged.largest is not None]

    def column(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
        made = np.zeros(rows, columns[0].dtype)
        for (part, _), one in zip(parts, columns, strict=True):
            made[part.at] = one
        return made

    every = [judged for _, judged in parts]
    tolerances = zip(*(each.tolerance_within for each in every), strict=True)
    return Judgements(
        within=column([each.within for each in every]),
        tolerance_within=[column(each) for each in tolerances],
        odd=column([each.odd for each in every]),
        is_cut=column([each.is_cut for each in every]),
        sizes=column([each.sizes for each in every]),
        has_size=column([each.has_size for each in every]),
        largest=max(keys, default=None),
    )


def _every(flags: Iterable[Flags]) -> Flags:
    return reduce(np.logical_and, flags)


def _any(flags: Iterable[Flags]) -> Flags:
    return reduce(np.logical_or, flags)


def _sets(compare_to: CompareTo, sources: int, reference: int) -> list[_Set]:
    match compare_to:
        case CompareTo.REFERENCE:
            others = (index for index in range(sources) if index != reference)
            return [(min(reference, index), max(reference, index)) for index in others]
        case CompareTo.ALL_PAIRS:
            return list(combinations(range(sources), 2))
        case CompareTo.SPREAD:
            return [tuple(range(sources))]
        case _:
            assert_never(compare_to)


def _compiled(tolerance: Tolerance, scale: int, bound: Bound) -> _Holds:
    """A check of unequal values, in integers."""
    edge = 0 if bound is Bound.INCLUSIVE else 1
    match tolerance:
        case ExactTolerance():
            return lambda numbers, _: np.zeros(len(numbers[0]), np.bool_)
        case AbsoluteTolerance(limit=limit) | DurationTolerance(microseconds=limit):
            whole, part = limit.as_integer_ratio()
            most = whole * 10**scale - edge
            return lambda numbers, _: times(_gap(numbers), part) <= most
        case PercentageTolerance(limit=limit, base=base):
            whole, part = limit.as_integer_ratio()

            def holds(numbers: Sequence[Integers], reference: Units) -> Flags:
                size, known = _base(base, numbers, reference)
                return known & (times(_gap(numbers), 100 * part) <= times(size, whole) - edge)

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
