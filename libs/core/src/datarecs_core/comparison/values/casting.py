"""Declared casts: a value is either exact in the other type or becomes INVALID.

Rounding is declared by `round`, never done by a cast. The table of possible casts is here, so
that the planner refuses the others before anything is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from typing import cast

from datarecs_core.comparison.values.calendar import MICROS_OF_DAY, whole
from datarecs_core.comparison.values.canonical import (
    Tag,
    Value,
    canonical_text,
    invalid,
    text,
)
from datarecs_core.comparison.values.float32 import shortest_float32
from datarecs_core.comparison.values.forms import INT64_HIGH, INT64_LOW, read_text
from datarecs_core.comparison.values.json_form import json_value
from datarecs_core.comparison.values.translating import fits
from datarecs_core.jobs.types import NUMBERS, CanonicalType, TypeKind
from datarecs_core.values import EXACT

_FROM_TEXT = NUMBERS | {
    TypeKind.BOOL,
    TypeKind.UUID,
    TypeKind.DATE,
    TypeKind.TIME,
    TypeKind.INSTANT,
    TypeKind.LOCAL_TIMESTAMP,
    TypeKind.JSON,
}
_TO_TEXT = _FROM_TEXT | {TypeKind.INTERVAL}
_AMONG_TIMES = frozenset(
    {
        (TypeKind.DATE, TypeKind.LOCAL_TIMESTAMP),
        (TypeKind.LOCAL_TIMESTAMP, TypeKind.DATE),
        (TypeKind.DATE, TypeKind.INSTANT),
        (TypeKind.INSTANT, TypeKind.DATE),
        (TypeKind.LOCAL_TIMESTAMP, TypeKind.INSTANT),
        (TypeKind.INSTANT, TypeKind.LOCAL_TIMESTAMP),
    }
)


def castable(source: CanonicalType, target: CanonicalType) -> bool:
    """Whether a cast between two types exists at all; single values may still not fit."""
    one, other = source.kind, target.kind
    if one is other or (source.is_number and target.is_number):
        return True
    if one is TypeKind.TEXT:
        return other in _FROM_TEXT
    if other is TypeKind.TEXT:
        return one in _TO_TEXT
    return (one, other) in _AMONG_TIMES


def needs_zone(source: CanonicalType, target: CanonicalType) -> bool:
    """Whether a cast between naive and aware times depends on the source's zone."""
    kinds = {source.kind, target.kind}
    return len(kinds) > 1 and TypeKind.INSTANT in kinds and TypeKind.TEXT not in kinds


@dataclass(slots=True)
class Zones:
    """Time zones by name, passed in by the caller, and the ambiguous times they found."""

    known: Mapping[str, tzinfo]
    ambiguous: dict[str, int] = field(default_factory=dict)
    """Local times by source that an offset change made ambiguous or skipped."""

    def to_instant(self, local: Decimal, zone: str, source: str) -> Decimal:
        """UTC microseconds of a local time.

        In an overlap the offset in force before the change counts; a time in a gap moves forward
        by the gap's length.
        """
        if not local.is_finite():
            return local
        moment = _moment(local)
        before = _offset(moment, self.known[zone], fold=0)
        if before != _offset(moment, self.known[zone], fold=1):
            self.ambiguous[source] = self.ambiguous.get(source, 0) + 1
        return EXACT.subtract(local, before)

    def to_local(self, instant: Decimal, zone: str) -> Decimal:
        if not instant.is_finite():
            return instant
        moment = _moment(instant).replace(tzinfo=self.known[zone])
        offset = self.known[zone].fromutc(moment).utcoffset() or timedelta()
        return EXACT.add(instant, _micros(offset))


_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - local times have no zone
_FIRST, _LAST = Decimal(-62_135_510_400_000_000), Decimal(253_402_214_400_000_000)
"""One day inside the years 1 and 9999; the zone's offset there is used for times beyond."""


def _moment(micros: Decimal) -> datetime:
    inside = whole(min(max(micros, _FIRST), _LAST))
    return _EPOCH + timedelta(microseconds=inside)


def _offset(moment: datetime, zone: tzinfo, *, fold: int) -> Decimal:
    return _micros(moment.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta())


def _micros(length: timedelta) -> Decimal:
    return Decimal(length // timedelta(microseconds=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """One declared cast of one source."""

    target: CanonicalType
    zone: str | None
    source: str
    zones: Zones

    def apply(self, value: Value) -> Value:
        """The value in the target type; NULL and INVALID pass, what does not fit is INVALID."""
        if value.is_null or value.is_invalid:
            return value
        made = self._convert(value)
        if made is None or not self._holds(made):
            return invalid(self.source, (canonical_text(value) or "").encode())
        return made

    def _convert(self, value: Value) -> Value | None:
        kind = self.target.kind
        if value.tag is Tag.TEXT:
            return self._from_text(cast("str", value.content))
        if kind is TypeKind.TEXT:
            return text(canonical_text(value) or "")
        if value.tag in _TIME_KINDS and _TIME_KINDS[value.tag] is not kind:
            return self._among_times(value)
        return value

    def _from_text(self, plain: str) -> Value | None:
        if self.target.kind is TypeKind.JSON:
            written = json_value(plain)
            return None if written is None else Value(Tag.JSON, written)
        made = read_text(plain, self.target)
        if made is None or made.tag not in _TIME_KINDS or _TIME_KINDS[made.tag] is self.target.kind:
            return made
        naive = made.tag is Tag.LOCAL and self.zone is not None
        return self._among_times(made) if naive else None

    def _among_times(self, value: Value) -> Value | None:
        content = cast("Decimal", value.content)
        local = EXACT.multiply(content, MICROS_OF_DAY) if value.tag is Tag.DATE else content
        if value.tag is Tag.INSTANT and self.zone is not None:
            local = self.zones.to_local(content, self.zone)
        match self.target.kind:
            case TypeKind.INSTANT if self.zone is not None:
                return Value(Tag.INSTANT, self.zones.to_instant(local, self.zone, self.source))
            case TypeKind.LOCAL_TIMESTAMP:
                return Value(Tag.LOCAL, local)
            case _:
                return _midnight(local)

    def _holds(self, value: Value) -> bool:
        amount = value.content
        if value.tag is not Tag.NUMBER or not isinstance(amount, Decimal):
            return True
        match self.target.kind:
            case TypeKind.INT:
                integral = amount.is_finite() and amount == amount.to_integral_value()
                return integral and INT64_LOW <= amount <= INT64_HIGH
            case TypeKind.DECIMAL:
                return amount.is_finite() and fits(
                    amount, self.target.scale, self.target.precision or 38
                )
            case TypeKind.FLOAT32:
                return amount.is_nan() or shortest_float32(amount) == amount
            case _:
                return amount.is_nan() or Decimal(repr(float(amount))) == amount


_TIME_KINDS = {
    Tag.DATE: TypeKind.DATE,
    Tag.TIME: TypeKind.TIME,
    Tag.INSTANT: TypeKind.INSTANT,
    Tag.LOCAL: TypeKind.LOCAL_TIMESTAMP,
}


def _midnight(local: Decimal) -> Value | None:
    """The date of a timestamp that is exactly midnight; any other would lose its time."""
    if not local.is_finite():
        return Value(Tag.DATE, local)
    days = whole(EXACT.divide_int(local, MICROS_OF_DAY))
    exact = EXACT.multiply(Decimal(days), MICROS_OF_DAY) == local
    return Value(Tag.DATE, Decimal(days)) if exact else None
