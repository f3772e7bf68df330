"""From encodings back to canonical values: engines carry nested values encoded.

Separate from `canonical`, which encodes, because only texts for people and the oracle's reading of
extracts decode.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal

from datarecs_core.comparison.values.calendar import days_of
from datarecs_core.comparison.values.canonical import Interval, Tag, Value

_HEAD = 5
"""Bytes of tag and length."""
_COUNT = 2
"""Bytes of the count with which tuples and maps begin."""


def decode(encoding: bytes) -> Value:
    """The value that `canonical.encode` encoded."""
    return _decode(encoding, 0)[0]


def decode_payload(tag: Tag, payload: bytes) -> Value:
    """The same of the payload alone."""
    return Value(tag, _content(tag, payload))


def _decode(raw: bytes, at: int) -> tuple[Value, int]:
    """The value that starts at a place, and the place after it."""
    tag, begin = Tag(raw[at]), at + _HEAD
    end = begin + int.from_bytes(raw[at + 1 : begin])
    return Value(tag, _content(tag, raw[begin:end])), end


def _content(tag: Tag, payload: bytes) -> object:
    read = _READERS.get(tag)
    return Decimal(payload.decode()) if read is None else read(payload)


def _members(payload: bytes) -> tuple[Value, ...]:
    return _tuple(payload, 0)[0]


def _tuple(payload: bytes, at: int) -> tuple[tuple[Value, ...], int]:
    count, at = int.from_bytes(payload[at : at + _COUNT]), at + _COUNT
    values = []
    for _ in range(count):
        value, at = _decode(payload, at)
        values.append(value)
    return tuple(values), at


def _pairs(payload: bytes) -> tuple[tuple[Value, ...], ...]:
    at, pairs = _COUNT, []
    for _ in range(int.from_bytes(payload[:_COUNT])):
        pair, at = _tuple(payload, at)
        pairs.append(pair)
    return tuple(pairs)


def _invalid(payload: bytes) -> tuple[object, bytes]:
    source, end = _decode(payload, 0)
    return source.content, payload[end:]


def _days(payload: bytes) -> Decimal:
    written = payload.decode()
    if written.endswith("Inf"):
        return Decimal(written)
    year, month, day = written.rsplit("-", 2)
    return Decimal(days_of(int(year), int(month), int(day)))


def _interval(payload: bytes) -> Interval:
    return Interval(*map(int, payload.decode().split(",")))


_READERS: Mapping[Tag, Callable[[bytes], object]] = {
    Tag.NULL: lambda _: None,
    Tag.BOOL: lambda payload: payload == b"\1",
    Tag.TEXT: bytes.decode,
    Tag.JSON: bytes.decode,
    Tag.BINARY: bytes,
    Tag.UUID: bytes,
    Tag.DATE: _days,
    Tag.INTERVAL: _interval,
    Tag.ARRAY: _members,
    Tag.STRUCT: _members,
    Tag.MAP: _pairs,
    Tag.INVALID: _invalid,
}
"""Numbers and microseconds are decimals."""
