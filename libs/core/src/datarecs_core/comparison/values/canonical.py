"""Canonical values, version c1: one typed, injective form for keys, equality and fingerprints.

Every source's values are translated into `Value`s; two of them are equal exactly when their
encodings are. Engines reproduce these bytes; rules and tolerances do not apply here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from typing import NamedTuple, cast

from datarecs_core.comparison.values.calendar import date_text, moment_text
from datarecs_core.documents import decimal_text
from datarecs_core.values import EXACT

DAY_MICROS = Decimal(86_400_000_000)


class Tag(IntEnum):
    """First byte of an encoding; also the order of kinds."""

    NULL = 0x00
    BOOL = 0x01
    NUMBER = 0x02
    TEXT = 0x10
    BINARY = 0x11
    DATE = 0x20
    INSTANT = 0x21
    LOCAL = 0x22
    TIME = 0x23
    INTERVAL = 0x24
    UUID = 0x30
    JSON = 0x40
    ARRAY = 0x50
    STRUCT = 0x51
    MAP = 0x52
    INVALID = 0x7F


_NULL, _NUMBER, _TEXT, _DATE, _INVALID = Tag.NULL, Tag.NUMBER, Tag.TEXT, Tag.DATE, Tag.INVALID
"""Looked up once: Python calls a property for each member of an enumeration."""


class Interval(NamedTuple):
    """Months, days and microseconds, separate since none is a fixed number of another."""

    months: int
    days: int
    microseconds: int


@dataclass(frozen=True, slots=True)
class Value:
    """A canonical value. Compare by `encode`, never with `==`: NaN differs from itself there.

    Contents: NULL None; BOOL bool; NUMBER Decimal; TEXT, JSON str; BINARY, UUID bytes; DATE days
    since 1970 and INSTANT, LOCAL, TIME microseconds as Decimal, infinite where the source has
    infinity; INTERVAL Interval; ARRAY, STRUCT a tuple of Values; MAP a tuple of pairs, sorted by
    key; INVALID (source name, raw bytes).
    """

    tag: Tag
    content: object = None

    @property
    def is_null(self) -> bool:
        return self.tag is _NULL

    @property
    def is_invalid(self) -> bool:
        return self.tag is _INVALID

    @property
    def is_nan(self) -> bool:
        return isinstance(self.content, Decimal) and self.content.is_nan()

    @property
    def amount(self) -> Decimal | None:
        """What can be subtracted: a finite number, a time in microseconds; None for the rest."""
        if not isinstance(self.content, Decimal) or not self.content.is_finite():
            return None
        if self.tag is _DATE:
            return EXACT.multiply(self.content, DAY_MICROS)
        return self.content


NULL = Value(_NULL)


def number(value: Decimal | int) -> Value:
    """A number; -0 is 0, every NaN is the same."""
    exact = Decimal(value)
    if exact.is_nan():
        return Value(_NUMBER, Decimal("NaN"))
    return Value(_NUMBER, exact or exact.copy_abs())


def text(value: str) -> Value:
    return Value(_TEXT, value)


def invalid(source: str, raw: bytes) -> Value:
    """A value that equals no other source's value."""
    return Value(Tag.INVALID, (source, raw))


def encode(value: Value) -> bytes:
    """Tag, length (uint32, big-endian), payload: equal exactly for canonically equal values."""
    payload = payload_of(value)
    return bytes((value.tag,)) + len(payload).to_bytes(4) + payload


def encode_tuple(values: Sequence[Value]) -> bytes:
    """Count (uint16, big-endian) and the values, in order."""
    return len(values).to_bytes(2) + b"".join(encode(value) for value in values)


def payload_of(value: Value) -> bytes:
    """The content of an encoding after tag and length."""
    match value.content:
        case None:
            return b""
        case bytes() as raw:
            return raw
        case Decimal() | str() | Interval():
            return _plain_text(value).encode()
        case bool() as flag:
            return bytes((flag,))
        case content:
            return _nested_payload(value.tag, cast("tuple[object, ...]", content))


def _plain_text(value: Value) -> str:
    match value.content:
        case Decimal() as amount:
            return date_text(amount) if value.tag is Tag.DATE else number_text(amount)
        case Interval() as span:
            return ",".join(map(str, span))
        case content:
            return str(content)


def _nested_payload(tag: Tag, content: tuple[object, ...]) -> bytes:
    if tag is Tag.INVALID:
        source, raw = cast("tuple[str, bytes]", content)
        return encode(text(source)) + raw
    if tag is Tag.MAP:
        pairs = cast("tuple[tuple[Value, Value], ...]", content)
        return len(pairs).to_bytes(2) + b"".join(encode_tuple(pair) for pair in pairs)
    return encode_tuple(cast("tuple[Value, ...]", content))


def number_text(value: Decimal) -> str:
    """ASCII without exponent, `+` or surplus zeros; `NaN`, `Inf`, `-Inf`."""
    if value.is_nan():
        return "NaN"
    if value.is_infinite():
        return "-Inf" if value.is_signed() else "Inf"
    return decimal_text(value)


def canonical_text(value: Value) -> str | None:
    """The value as a person reads it in differences, maps and reports; None for NULL.

    Numbers as in the encoding, booleans `true` and `false`, times in ISO 8601 (instants in UTC
    with `Z`), uuids in lower case with dashes, bytes as hexadecimal digits.
    """
    match value.tag:
        case Tag.NULL:
            return None
        case Tag.BOOL:
            return "true" if value.content else "false"
        case Tag.INSTANT | Tag.LOCAL | Tag.TIME:
            return _moment_text(value)
        case Tag.BINARY | Tag.UUID | Tag.INVALID:
            return _bytes_text(value)
        case Tag.ARRAY | Tag.STRUCT | Tag.MAP:
            return _nested_text(cast("tuple[object, ...]", value.content))
        case _:
            return _plain_text(value)


def _moment_text(value: Value) -> str:
    micros = cast("Decimal", value.content)
    written = moment_text(micros, of_day=value.tag is Tag.TIME)
    return f"{written}Z" if value.tag is Tag.INSTANT and micros.is_finite() else written


def _bytes_text(value: Value) -> str:
    if value.tag is Tag.INVALID:
        _, raw = cast("tuple[str, bytes]", value.content)
        return f"INVALID(0x{raw.hex()})"
    digits = cast("bytes", value.content).hex()
    if value.tag is Tag.BINARY:
        return digits
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _nested_text(content: tuple[object, ...]) -> str:
    parts = (
        _nested_text(each) if isinstance(each, tuple) else canonical_text(cast("Value", each))
        for each in content
    )
    return f"[{', '.join('NULL' if part is None else part for part in parts)}]"


def canonical_order(value: Value) -> tuple[int, int, Decimal, bytes]:
    """Sort key: by tag, then by value or bytes.

    NULL first; numbers and times by value, -Inf lowest, NaN highest; the rest by payload bytes,
    which for text is code point order.
    """
    if isinstance(value.content, Decimal):
        if value.content.is_nan():
            return (value.tag, 1, Decimal(0), b"")
        return (value.tag, 0, value.content, b"")
    return (value.tag, 0, Decimal(0), payload_of(value))
