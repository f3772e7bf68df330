"""Agreement in whole units: the engine's own arithmetic of tolerances.

A number or time is the integer that its form counts in, a limit is multiplied out once, and every
question is a comparison of products of integers, which have no size that ends. Core's rules say
the same with decimals; both are held against each other, and neither calls the other.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import combinations
from typing import NamedTuple, assert_never

from datarecs_core.comparison.plan import MeasurePlan
from datarecs_core.comparison.results import DifferenceClass
from datarecs_core.comparison.tolerance import (
    AbsoluteTolerance,
    DurationTolerance,
    ExactTolerance,
    PercentageTolerance,
    Tolerance,
)
from datarecs_core.jobs.vocabulary import Bound, Combine, CompareTo, ToleranceBase
from datarecs_core.values import EXACT
from datarecs_spark.forms import Form, FormKind

Plain = tuple[object, bytes | None]
"""A value as Arrow holds it, NULL as None, and the payload of an INVALID one."""
Units = int | None
"""None for what cannot be subtracted: NULL and INVALID."""
_DAY_MICROS = 86_400_000_000
_SECOND_DIGITS = 6
_MIN_SOURCES_FOR_ODD = 3
_NULL: Plain = (None, None)
_Holds = Callable[[Sequence[int], int | None], bool]
"""Of a set's values and the reference's value."""


class Place(NamedTuple):
    """One value per source, and the integers behind them."""

    values: Sequence[Plain]
    units: Sequence[Units]


class Found(NamedTuple):
    """What tolerances say of a place."""

    place: Place
    within: bool
    own_within: tuple[bool, ...]
    """Per declared tolerance, taken alone."""


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
        self.is_exact = all(isinstance(each, ExactTolerance) for each in measure.tolerances)
        self.every = (True,) * len(self.tolerances)
        self.none = (False,) * len(self.tolerances)
        self.together = all if measure.combine is Combine.ALL else any
        self.pairs = list(combinations(range(sources), 2))
        self.sets = _sets(measure.compare_to, sources, reference)

    @staticmethod
    def covers(form: Form) -> bool:
        return form.kind not in {FormKind.DOUBLE, FormKind.NUMBER}

    def units(self, plain: Plain) -> Units:
        """The integer behind a value; times in microseconds."""
        value, payload = plain
        if value is None or payload is not None:
            return None
        if isinstance(value, Decimal):
            return int(EXACT.scaleb(value, self.form.scale))
        if self.form.kind is FormKind.DATE and isinstance(value, int):
            return value * _DAY_MICROS
        counted = self.form.kind is FormKind.INTEGER or self.form.is_moment
        return value if counted and isinstance(value, int) else None

    def found(self, values: Sequence[Plain]) -> Found:
        """How one value per source, not all of them equal, stands to the tolerances."""
        place = Place(values, [self.units(each) for each in values])
        sets = [self.none]
        if _NULL not in values:
            sets = [self._own(each, place) for each in self.sets]
        if len(sets) == 1:
            return Found(place, self.together(sets[0]), sets[0])
        own = tuple(map(all, zip(*sets, strict=True)))
        return Found(place, all(map(self.together, sets)), own)

    def _own(self, chosen: Sequence[int], place: Place) -> tuple[bool, ...]:
        """Per tolerance, whether it lets the set pass."""
        values = [place.values[each] for each in chosen]
        if values.count(values[0]) == len(values):
            return self.every
        if self.is_exact:
            return self.none
        found = [unit for each in chosen if (unit := place.units[each]) is not None]
        if len(found) < len(chosen):
            return self.none
        base = place.units[self.reference]
        return tuple(holds(found, base) for holds in self.tolerances)

    def odd_one_out(self, found: Found) -> int | None:
        """The one source outside to every other while the others agree; of three or more."""
        if len(found.place.values) < _MIN_SOURCES_FOR_ODD:
            return None
        apart = {pair for pair in self.pairs if not self.together(self._own(pair, found.place))}
        for index in range(len(found.place.values)):
            if apart == {pair for pair in self.pairs if index in pair}:
                return index
        return None

    def largest(self, places: Sequence[Found]) -> Decimal | None:
        """The largest |other - reference| of all places, as a number or in microseconds."""
        sizes = [
            abs(unit - base)
            for each in places
            if (base := each.place.units[self.reference]) is not None
            for index, unit in enumerate(each.place.units)
            if unit is not None and index != self.reference
        ]
        return Decimal(max(sizes)).scaleb(-self.form.scale, EXACT) if sizes else None

    def class_of(self, outside: Sequence[Found]) -> DifferenceClass:
        """The first that fits all places outside."""
        if not outside:
            return DifferenceClass.WITHIN
        if any(payload is not None for each in outside for _, payload in each.place.values):
            return DifferenceClass.INVALID
        if any(_NULL in each.place.values for each in outside):
            return DifferenceClass.NULL_MISMATCH
        if all(self._equal_once_cut(each.place.units) for each in outside):
            return DifferenceClass.PRECISION
        return DifferenceClass.OUTSIDE

    def _equal_once_cut(self, units: Sequence[Units]) -> bool:
        cut = self.measure.cut
        if cut is None or cut.float32:
            return False
        known = [unit for unit in units if unit is not None]
        if len(known) < len(units):
            return False
        if cut.second_digits is not None:
            unit = 10 ** (_SECOND_DIGITS - cut.second_digits)
            return len({each // unit for each in known}) == 1
        unit = 10 ** max(self.form.scale - (cut.scale or 0), 0)
        # Towards zero: digits are cut off, whatever the sign.
        return len({abs(each) // unit * (1 if each > 0 else -1) for each in known}) == 1


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
            return lambda _values, _reference: False
        case AbsoluteTolerance(limit=limit) | DurationTolerance(microseconds=limit):
            places, whole = _written(limit)
            factor, most = 10**places, whole * 10**form.scale - edge
            return lambda values, _: (max(values) - min(values)) * factor <= most
        case PercentageTolerance(limit=limit, base=base):
            places, whole = _written(limit)
            factor = 100 * 10**places

            def holds(values: Sequence[int], reference: int | None) -> bool:
                size = _base(base, values, reference)
                gap = (max(values) - min(values)) * factor
                return size is not None and gap <= whole * size - edge

            return holds
        case _:
            assert_never(tolerance)


def _base(base: ToleranceBase, values: Sequence[int], reference: int | None) -> int | None:
    if base is ToleranceBase.REFERENCE:
        return None if reference is None else abs(reference)
    chosen = max if base is ToleranceBase.MAX_ABS else min
    return chosen(abs(value) for value in values)


def _written(limit: Decimal) -> tuple[int, int]:
    """Digits after the point, and the number without it."""
    places = max(-int(limit.as_tuple().exponent), 0)
    return places, int(limit.scaleb(places, EXACT))
