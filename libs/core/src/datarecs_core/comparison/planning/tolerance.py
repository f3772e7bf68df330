"""When two different values still agree: one class per kind, each with `allows`.

Arithmetic is exact and uses products, so there is no division and zero needs no special case.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import assert_never

from datarecs_core.jobs.definition import Tolerance as DeclaredTolerance
from datarecs_core.jobs.vocabulary import Bound, ToleranceBase, ToleranceType
from datarecs_core.values import EXACT, HUNDRED


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The input of a tolerance: two different, finite values of one group.

    Numbers are numbers, times are microseconds. Equal values are within without this check, and
    NULL, NaN, infinities and INVALID are judged before.
    """

    size: Decimal
    """|a - b|; under `spread` the largest minus the smallest of all."""
    values: tuple[Decimal, ...]
    """The pair, or the whole set under `spread`."""
    reference: Decimal | None
    """The group's value in the reference source; None when that is not a finite number."""


def gap_between(values: Sequence[Decimal], reference: Decimal | None) -> Gap:
    """The gap of a pair, or of a set: its largest minus its smallest value."""
    size = EXACT.subtract(max(values), min(values))
    return Gap(size=size, values=tuple(values), reference=reference)


def _reaches(size: Decimal, limit: Decimal, bound: Bound) -> bool:
    return size <= limit if bound is Bound.INCLUSIVE else size < limit


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactTolerance:
    """Agree when the canonical encodings are equal; a gap never is. Any type."""

    def allows(self, gap: Gap, bound: Bound) -> bool:  # noqa: ARG002 - the kinds share one signature
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsoluteTolerance:
    """Agree when |a - b| <= limit; the edge agrees unless the bound is exclusive. Numbers."""

    limit: Decimal

    def allows(self, gap: Gap, bound: Bound) -> bool:
        return _reaches(gap.size, self.limit, bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class PercentageTolerance:
    """Agree when 100 x |a - b| <= limit x |base|. Numbers; limit in percent, 0 to 100.

    The base is the reference source's value, or the largest or smallest absolute value of the
    pair (under `spread`: of the set).
    """

    limit: Decimal
    base: ToleranceBase = ToleranceBase.REFERENCE

    def allows(self, gap: Gap, bound: Bound) -> bool:
        base = self._base(gap)
        if base is None:
            return False
        return _reaches(EXACT.multiply(gap.size, HUNDRED), EXACT.multiply(self.limit, base), bound)

    def _base(self, gap: Gap) -> Decimal | None:
        if self.base is ToleranceBase.REFERENCE:
            return None if gap.reference is None else gap.reference.copy_abs()
        sizes = [value.copy_abs() for value in gap.values]
        return max(sizes) if self.base is ToleranceBase.MAX_ABS else min(sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationTolerance:
    """Agree when two times differ by at most `microseconds`. Date, instant, local, time."""

    microseconds: Decimal

    def allows(self, gap: Gap, bound: Bound) -> bool:
        return _reaches(gap.size, self.microseconds, bound)

    @property
    def seconds(self) -> Decimal:
        """As events carry it; exact."""
        return self.microseconds.scaleb(-6, EXACT)


Tolerance = ExactTolerance | AbsoluteTolerance | PercentageTolerance | DurationTolerance


def duration_microseconds(length: timedelta) -> Decimal:
    """A length in microseconds, exactly."""
    return Decimal((length.days * 86_400 + length.seconds) * 1_000_000 + length.microseconds)


def tolerance_of(declared: DeclaredTolerance) -> Tolerance:
    """The rule of a declared tolerance.

    Raises:
        ValueError: value and type do not belong together; validation refuses such a job before.
    """
    match declared.type, declared.value:
        case ToleranceType.EXACT, None:
            return ExactTolerance()
        case ToleranceType.ABSOLUTE, Decimal() as limit:
            return AbsoluteTolerance(limit=limit)
        case ToleranceType.PERCENTAGE, Decimal() as limit:
            return PercentageTolerance(limit=limit, base=declared.base)
        case ToleranceType.DURATION, timedelta() as length:
            return DurationTolerance(microseconds=duration_microseconds(length))
        case _:
            raise ValueError(f"{declared.type} does not take {declared.value!r}")


def tolerance_type(tolerance: Tolerance) -> ToleranceType:
    """The name in events, reports and job files."""
    match tolerance:
        case ExactTolerance():
            return ToleranceType.EXACT
        case AbsoluteTolerance():
            return ToleranceType.ABSOLUTE
        case PercentageTolerance():
            return ToleranceType.PERCENTAGE
        case DurationTolerance():
            return ToleranceType.DURATION
    assert_never(tolerance)


def tolerance_value(tolerance: Tolerance) -> Decimal:
    """The number of events: percent, plain number, seconds of a DURATION, 0 of EXACT."""
    match tolerance:
        case ExactTolerance():
            return Decimal(0)
        case AbsoluteTolerance(limit=limit) | PercentageTolerance(limit=limit):
            return limit
        case DurationTolerance():
            return tolerance.seconds
    assert_never(tolerance)
