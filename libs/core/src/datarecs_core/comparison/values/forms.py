"""The strict forms of text: what counts as a number, a date or a time in text.

Casts and the inference of CSV, JSON lines and partition names share them, so a value that was
inferred is the value that a cast reads. Only floats are never inferred: their exponents, NaN and
infinities need a cast. Nothing is trimmed and nothing is guessed.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from datarecs_core.comparison.values.calendar import MICROS_OF_DAY, MICROS_OF_SECOND, days_of
from datarecs_core.comparison.values.canonical import Tag, Value, number
from datarecs_core.jobs import types
from datarecs_core.jobs.types import MAX_DIGITS, CanonicalType, TypeKind
from datarecs_core.values import EXACT

INT64_LOW, INT64_HIGH = -(2**63), 2**63 - 1

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(?:\.(\d+))?", re.ASCII)
_FLOAT = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_MAX_FLOAT_LENGTH = 350
"""The longest doubles, written without exponent, have 326 characters."""
_MAX_FLOAT_EXPONENT = 330
"""Beyond every double; exact arithmetic has no digits for larger ones."""
_NO_NUMBERS: Mapping[str, Decimal] = {
    **dict.fromkeys(("NaN", "nan"), Decimal("NaN")),
    **dict.fromkeys(("Infinity", "inf", "Inf"), Decimal("Infinity")),
    **dict.fromkeys(("-Infinity", "-inf", "-Inf"), Decimal("-Infinity")),
}
"""PostgreSQL and Java write the first of each; Python, DuckDB and Go the others."""
_CLOCK = r"([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{1,9}))?"
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(_CLOCK, re.ASCII)
_MOMENT = re.compile(
    rf"(\d{{4}}-\d\d-\d\d)[T ]({_CLOCK})(Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)?", re.ASCII
)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def read_bool(text: str) -> Value | None:
    """`true` and `false`, in lower case."""
    return Value(Tag.BOOL, text == "true") if text in {"true", "false"} else None


def read_number(text: str) -> Value | None:
    """Digits with an optional minus and fraction, at most 38; `007`, `+7`, `1e0` are no numbers."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    digits = len(match[1]) + len(match[2] or "")
    return number(Decimal(text)) if digits - (match[1] == "0") <= MAX_DIGITS else None


def read_float(text: str) -> Value | None:
    """A number that may have an exponent, NaN or an infinity; the cast checks that a float fits."""
    special = _NO_NUMBERS.get(text)
    if special is not None:
        return number(special)
    if len(text) > _MAX_FLOAT_LENGTH or _FLOAT.fullmatch(text) is None:
        return None
    exact = Decimal(text)
    if not exact:
        return number(0)
    return None if abs(exact.adjusted()) > _MAX_FLOAT_EXPONENT else number(exact)


def read_date(text: str) -> Value | None:
    """`YYYY-MM-DD`, a day that exists, years 1 to 9999."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day = (int(part) for part in match.groups())
    if not (year and 1 <= month <= 12 and 1 <= day <= _days_in(year, month)):  # noqa: PLR2004 - months
        return None
    return Value(Tag.DATE, Decimal(days_of(year, month, day)))


def _days_in(year: int, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return _MONTH_DAYS[month - 1] + (month == 2 and leap)  # noqa: PLR2004 - February


def read_time(text: str) -> Value | None:
    """`HH:MM:SS` with up to nine digits after the second."""
    match = _TIME.fullmatch(text)
    return None if match is None else Value(Tag.TIME, _clock(*match.groups()))


def _clock(hour: str, minute: str, second: str, fraction: str | None) -> Decimal:
    whole = Decimal((int(hour) * 60 + int(minute)) * 60 + int(second))
    seconds = EXACT.add(whole, Decimal(f"0.{fraction or 0}"))
    return EXACT.multiply(seconds, MICROS_OF_SECOND)


def read_moment(text: str) -> Value | None:
    """ISO 8601 with `T` or one blank: an instant with `Z` or an offset, else a local timestamp."""
    match = _MOMENT.fullmatch(text)
    day = read_date(match[1]) if match else None
    if match is None or day is None or not isinstance(day.content, Decimal):
        return None
    local = EXACT.add(
        EXACT.multiply(day.content, MICROS_OF_DAY),
        _clock(match[3], match[4], match[5], match[6]),
    )
    zone = match[7]
    if zone is None:
        return Value(Tag.LOCAL, local)
    return Value(Tag.INSTANT, EXACT.subtract(local, _offset(zone)))


def _offset(zone: str) -> Decimal:
    if zone == "Z":
        return Decimal(0)
    minutes = int(zone[1:3]) * 60 + int(zone[4:6])
    return Decimal((-minutes if zone[0] == "-" else minutes) * 60_000_000)


def read_uuid(text: str) -> Value | None:
    """8-4-4-4-12 hexadecimal digits in any case."""
    match = _UUID.fullmatch(text)
    return Value(Tag.UUID, bytes.fromhex(text.replace("-", ""))) if match else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """The common type of the texts of a column so far; start empty and `see` each value.

    Only bool, int, decimal, date, instant and local_timestamp are inferred, everything else stays
    text. Moments finer than a microsecond make a column of nanoseconds, which must hold them all.
    NULL does not count: a column without a value has every type.
    """

    type: CanonicalType | None = None
    """None before the first value."""
    whole_digits: int = 0
    scale: int = 0
    far: bool = False
    """Whether some moment is out of nanoseconds' reach, the years 1677 to 2262."""

    def see(self, text: str | None) -> "Inference":
        """The inference after one more value."""
        if text is None or self.type == types.TEXT:
            return self
        kind = _kind_of(text)
        if kind is None:
            return self._see_moment(read_moment(text))
        if kind.is_number:
            return self._see_number(text, kind)
        return Inference(type=kind if self.type in (None, kind) else types.TEXT)

    def _see_number(self, text: str, kind: CanonicalType) -> "Inference":
        if self.type is not None and not self.type.is_number:
            return Inference(type=types.TEXT)
        whole, _, fraction = text.lstrip("-").partition(".")
        digits, scale = max(self.whole_digits, len(whole)), max(self.scale, len(fraction))
        both_int = kind == types.INT and self.type in (None, types.INT)
        return Inference(
            type=types.INT if both_int else _decimal(digits, scale),
            whole_digits=digits,
            scale=scale,
        )

    def _see_moment(self, moment: Value | None) -> "Inference":
        """Nanoseconds once a moment needs them, or text where one is out of their reach."""
        if moment is None or not isinstance(moment.content, Decimal):
            return Inference(type=types.TEXT)
        kind = types.INSTANT if moment.tag is Tag.INSTANT else types.LOCAL_TIMESTAMP
        finer = replace(kind, precision=9)
        if self.type not in (None, kind, finer):
            return Inference(type=types.TEXT)
        micros = moment.content
        far = self.far or not INT64_LOW <= micros.scaleb(3, EXACT) <= INT64_HIGH
        if self.type == finer or micros != micros.to_integral_value():
            return Inference(type=types.TEXT if far else finer)
        return Inference(type=kind, far=far)


def _decimal(whole_digits: int, scale: int) -> CanonicalType:
    """`decimal(38,0)` for integers beyond int64; a bare numeric where no scale holds them all."""
    if scale == 0:
        return types.decimal(MAX_DIGITS, 0)
    if whole_digits + scale > MAX_DIGITS:
        return types.NUMERIC
    return types.decimal(whole_digits + scale, scale)


def _kind_of(text: str) -> CanonicalType | None:
    """For all but moments; the type of moments depends on the other values."""
    if read_bool(text):
        return types.BOOL
    value = read_number(text)
    if value is not None and isinstance(value.content, Decimal):
        small = "." not in text and INT64_LOW <= value.content <= INT64_HIGH
        return types.INT if small else types.NUMERIC
    return types.DATE if read_date(text) else None


def read_text(text: str, target: CanonicalType) -> Value | None:
    """A text in the strict form of a type, unchecked against its digits; None when it is not.

    There are forms for bool, numbers, text, uuid, date, time, instant and local_timestamp.
    """
    if target.kind is TypeKind.TEXT:
        return Value(Tag.TEXT, text)
    if target.is_number:
        return read_float(text) if target.is_float else read_number(text)
    reader = _READERS.get(target.kind)
    return None if reader is None else reader(text)


_READERS: Mapping[TypeKind, Callable[[str], Value | None]] = {
    TypeKind.BOOL: read_bool,
    TypeKind.UUID: read_uuid,
    TypeKind.DATE: read_date,
    TypeKind.TIME: read_time,
    TypeKind.INSTANT: read_moment,
    TypeKind.LOCAL_TIMESTAMP: read_moment,
}
