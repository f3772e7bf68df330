"""Stored key texts back to canonical bytes, so that a digest can be computed from files alone.

A difference file holds the parts of a key as text, the digest is over their encoding; only here is
the reverse. Separate from `canonical` because engines never need it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from datarecs_core.comparison.values.calendar import MICROS_OF_DAY, days_of
from datarecs_core.comparison.values.canonical import (
    NULL,
    Interval,
    Tag,
    Value,
    encode_tuple,
    invalid,
    number,
    text,
)
from datarecs_core.comparison.values.forms import read_bool, read_time, read_uuid
from datarecs_core.jobs.types import NESTED, CanonicalType, TypeKind, parse_type
from datarecs_core.values import EXACT

_DATE = re.compile(r"([+-]?\d{4,9})-(\d\d)-(\d\d)", re.ASCII)
_INVALID = re.compile(r"INVALID\(0x([0-9a-f]*)\)", re.ASCII)
_INFINITE = {"Inf": Decimal("Infinity"), "-Inf": Decimal("-Infinity")}
_MOMENTS = {TypeKind.INSTANT: Tag.INSTANT, TypeKind.LOCAL_TIMESTAMP: Tag.LOCAL}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyForm:
    """How the keys of a stage were encoded before they became text."""

    kinds: tuple[CanonicalType, ...]
    """One per dimension."""
    sources: tuple[str, ...]

    @property
    def readable(self) -> bool:
        """Whether a text names one value only: arrays, structs and maps do not."""
        return not any(kind.kind in NESTED for kind in self.kinds)

    def encoded(self, key: Sequence[str | None], presence: int) -> bytes:
        """The key tuple in encoding c1.

        Raises:
            ValueError: a text that no value of its type has.
        """
        pairs = zip(self.kinds, key, strict=True)
        return encode_tuple([self._value(kind, part, presence) for kind, part in pairs])

    def _value(self, kind: CanonicalType, part: str | None, presence: int) -> Value:
        if part is None:
            return NULL
        broken = _INVALID.fullmatch(part)
        if broken and presence.bit_count() == 1:  # an invalid key is one source's alone
            return invalid(self.sources[presence.bit_length() - 1], bytes.fromhex(broken[1]))
        return value_of(kind, part)


def masked_key(key: Sequence[str | None]) -> bytes:
    """The encoding of a key with a masked part: its texts unchanged."""
    return encode_tuple([NULL if part is None else text(part) for part in key])


def key_form(types: Sequence[str], sources: Sequence[str]) -> KeyForm:
    """The form of keys with dimensions of these types, as run.json writes them."""
    return KeyForm(kinds=tuple(map(type_of, types)), sources=tuple(sources))


def type_of(written: str) -> CanonicalType:
    """The type as run.json writes it; nested ones without members, which are not read back."""
    nested = next((kind for kind in NESTED if written.startswith(f"{kind.value}<")), None)
    return parse_type(written) if nested is None else CanonicalType(kind=nested)


def value_of(kind: CanonicalType, written: str) -> Value:
    """The value of which `canonical_text` is this text.

    Raises:
        ValueError: a text that no value of the type has.
    """
    value = _plain(kind, written)
    if value is None:
        raise ValueError(f"{written[:64]!r} is no {kind}")
    return value


def _plain(kind: CanonicalType, written: str) -> Value | None:
    if kind.is_number:
        return _number(written)
    reader = _READERS.get(kind.kind)
    return _time(kind, written) if reader is None else reader(written)


_READERS: Mapping[TypeKind, Callable[[str], Value | None]] = {
    TypeKind.TEXT: text,
    TypeKind.JSON: lambda written: Value(Tag.JSON, written),
    TypeKind.BOOL: read_bool,
    TypeKind.UUID: read_uuid,
    TypeKind.BINARY: lambda written: Value(Tag.BINARY, bytes.fromhex(written)),
    TypeKind.INTERVAL: lambda written: Value(Tag.INTERVAL, Interval(*map(int, written.split(",")))),
}


def _number(written: str) -> Value | None:
    if written in _INFINITE:
        return Value(Tag.NUMBER, _INFINITE[written])
    try:
        return number(Decimal(written))
    except InvalidOperation:
        return None


def _time(kind: CanonicalType, written: str) -> Value | None:
    tag = _MOMENTS.get(kind.kind, Tag.DATE if kind.kind is TypeKind.DATE else Tag.TIME)
    if written in _INFINITE:
        return Value(tag, _INFINITE[written])
    if tag is Tag.TIME:
        return read_time(written)
    if tag is Tag.DATE:
        days = _days(written)
        return None if days is None else Value(tag, days)
    day, _, clock = written.removesuffix("Z").partition("T")
    days, time = _days(day), read_time(clock)
    if days is None or time is None or not isinstance(time.content, Decimal):
        return None
    return Value(tag, EXACT.add(EXACT.multiply(days, MICROS_OF_DAY), time.content))


def _days(written: str) -> Decimal | None:
    match = _DATE.fullmatch(written)
    return Decimal(days_of(*map(int, match.groups()))) if match else None
