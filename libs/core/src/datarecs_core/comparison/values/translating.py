"""From the plain values that readers deliver to canonical values.

Separate from `canonical` because only readers of rows (the oracle, small compares) use it; engines
that work on columns do the same in SQL or native code.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import cast
from uuid import UUID

from datarecs_core.comparison.values.canonical import (
    NULL,
    Interval,
    Tag,
    Value,
    encode,
    invalid,
    number,
    text,
)
from datarecs_core.comparison.values.json_form import json_value
from datarecs_core.documents import decimal_text
from datarecs_core.jobs.types import MAX_DIGITS, CanonicalType, TypeKind

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)
MAX_MEMBERS = 65_535
"""An encoded tuple counts its members in two bytes."""
_MAX_EXPONENT = 400
"""Outside the range of double: such a number has as many digits as its exponent."""


@dataclass(frozen=True, slots=True)
class Invalid:
    """A source's value that has no canonical form, with its bytes unchanged."""

    raw: bytes


def canonical(value: object, kind: CanonicalType, source: str) -> Value:
    """The canonical value of a plain one.

    Takes None and `Invalid` for every type; bool, int, Decimal (also as text), float, str or
    UTF-8 bytes for text, bytes, UUID, date, time, datetime (aware for instants, naive for local
    timestamps), Interval, JSON text; sequences for arrays, mappings for structs, mappings or
    sequences of pairs for maps, where the last of a repeated key counts; nested values
    also as `Value`. Times beyond Python's years come as Decimal: days for dates, else microseconds
    since 1970, infinite where the source has infinity.

    Raises:
        TypeError: the reader delivered another type: a defect of the reader.
    """
    return translation(kind, source)(value)


def translation(kind: CanonicalType, source: str) -> Callable[[object], Value]:
    """The same for a whole column; its type is resolved once."""
    translate = _of_kind(kind)

    def translated(value: object) -> Value:
        if value is None:
            return NULL
        if isinstance(value, Invalid):
            return invalid(source, value.raw)
        return translate(value, kind, source)

    return translated


def _of_kind(kind: CanonicalType) -> Callable[[object, CanonicalType, str], Value]:
    if kind.is_number:
        return _number
    if kind.is_time:
        return _time
    if kind.members:
        return _nested
    return _text if kind.kind is TypeKind.TEXT else _scalar


def _number(value: object, _kind: CanonicalType, source: str) -> Value:
    match value:
        case bool():
            raise TypeError("a boolean is not a number")
        case int() | Decimal():
            exact = Decimal(value)
        case float():
            return number(Decimal(repr(value)))
        case str():
            exact = Decimal(value)
        case _:
            raise TypeError(f"{type(value).__name__} is not a number")
    if not exact.is_finite() or fits(exact):
        return number(exact)
    return invalid(source, str(value).encode())


def fits(value: Decimal, scale: int | None = None, digits: int = MAX_DIGITS) -> bool:
    """Whether a finite number can be written with so many digits, `scale` of them after the point.

    Without a scale the digits of the number decide, trailing zeros not counted.
    """
    if value == 0 or (scale is None and _is_short(value, digits)):
        return True
    if abs(value.adjusted()) > _MAX_EXPONENT:
        return False
    whole, _, fraction = decimal_text(value).lstrip("-").partition(".")
    after = len(fraction) if scale is None else scale
    return len(fraction) <= after and len(whole.lstrip("0")) <= digits - after


def _is_short(value: Decimal, digits: int) -> bool:
    """Whether it is written without exponent and with no more characters than digits."""
    written = str(value)
    return len(written) <= digits and "E" not in written


_TIME_TAGS = {
    TypeKind.DATE: Tag.DATE,
    TypeKind.TIME: Tag.TIME,
    TypeKind.INSTANT: Tag.INSTANT,
    TypeKind.LOCAL_TIMESTAMP: Tag.LOCAL,
}


def _time(value: object, kind: CanonicalType, _source: str) -> Value:
    tag = _TIME_TAGS[kind.kind]
    match value:
        case Decimal():
            return Value(tag, value)
        case datetime() if tag is Tag.INSTANT:
            return Value(tag, _micros(value - _EPOCH))
        case datetime() if tag is Tag.LOCAL and value.tzinfo is None:
            return Value(tag, _micros(value.replace(tzinfo=UTC) - _EPOCH))
        case date() if tag is Tag.DATE and not isinstance(value, datetime):
            return Value(tag, Decimal(value.toordinal() - _EPOCH_DAY))
        case time() if tag is Tag.TIME:
            seconds = (value.hour * 60 + value.minute) * 60 + value.second
            return Value(tag, Decimal(seconds * 1_000_000 + value.microsecond))
        case _:
            raise TypeError(f"{type(value).__name__} is no {kind}")


def _micros(length: timedelta) -> Decimal:
    return Decimal(length // _MICROSECOND)


def _scalar(value: object, kind: CanonicalType, source: str) -> Value:
    match kind.kind, value:
        case TypeKind.JSON, str():
            written = json_value(value)
            return _bad_text(value, source) if written is None else Value(Tag.JSON, written)
        case TypeKind.BOOL, bool():
            return Value(Tag.BOOL, value)
        case TypeKind.BINARY, bytes():
            return Value(Tag.BINARY, value)
        case TypeKind.UUID, UUID():
            return Value(Tag.UUID, value.bytes)
        case TypeKind.INTERVAL, Interval():
            return Value(Tag.INTERVAL, value)
        case _:
            raise TypeError(f"{type(value).__name__} is no {kind}")


def _text(value: object, kind: CanonicalType, source: str) -> Value:
    """Valid UTF-8 only: a lone surrogate is as invalid as a broken byte."""
    match value:
        case str():
            return text(value) if _is_unicode(value) else _bad_text(value, source)
        case bytes():
            try:
                return text(value.decode())
            except UnicodeError:
                return invalid(source, value)
        case _:
            raise TypeError(f"{type(value).__name__} is no {kind}")


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeError:
        return False
    return True


def _bad_text(value: str, source: str) -> Value:
    return invalid(source, value.encode(errors="surrogatepass"))


def _nested(value: object, kind: CanonicalType, source: str) -> Value:
    """A member without canonical form makes the whole value INVALID: it equals nothing."""
    members = dict(kind.members)
    match kind.kind, value:
        case _, Value():
            return value
        case TypeKind.ARRAY, Sequence():
            made = [canonical(item, members["element"], source) for item in value]
            nested = Value(Tag.ARRAY, tuple(made))
        case TypeKind.STRUCT, Mapping():
            made = [canonical(value[name], members[name], source) for name in sorted(members)]
            nested = Value(Tag.STRUCT, tuple(made))
        case TypeKind.MAP, Mapping() | Sequence():
            pairs = _pairs(value, members, source)
            made = [part for pair in pairs for part in pair]
            nested = Value(Tag.MAP, tuple(pairs))
        case _:
            raise TypeError(f"{type(value).__name__} is no {kind}")
    if len(made) > MAX_MEMBERS:
        return invalid(source, f"{len(made)} members".encode())
    broken = [part for part in made if part.is_invalid]
    return invalid(source, cast("tuple[str, bytes]", broken[0].content)[1]) if broken else nested


def _pairs(
    value: Mapping[object, object] | Sequence[object],
    members: Mapping[str, CanonicalType],
    source: str,
) -> list[tuple[Value, Value]]:
    """Of a map, by the encoding of the key."""
    entries = (
        value.items()
        if isinstance(value, Mapping)
        else cast("Sequence[tuple[object, object]]", value)
    )
    by_key: dict[bytes, tuple[Value, Value]] = {}
    for key, item in entries:
        made = canonical(key, members["key"], source)
        by_key[encode(made)] = (made, canonical(item, members["value"], source))
    return [by_key[key] for key in sorted(by_key)]
