"""Records as canonical protobuf (proto3), written from the fields of frozen dataclasses.

The fields of a class are numbered in the order of their declaration, so a field is only ever
appended. A record has two more in front: its version and its kind. The same record always has the
same bytes: fields ascend, an absent value is omitted and every other value is written, maps are
lists of pairs sorted by key. A separate module because only it knows the wire format; a test
compares its bytes with those of the official library.
"""

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import (
    Any,
    ClassVar,
    NewType,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

from datarecs_core.errors.catalogue import UnsupportedRecordError
from datarecs_core.values import aware

VARINT, LENGTH = 0, 2
"""Wire types; no other one is written."""
HEADER_FIELDS = 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MASK = 2**64 - 1
_SIGN = 2**63


class Record:
    """A class of records: its kind, and the version in which it is written.

    A field that is appended has a default and raises the version; older records are read with it.
    """

    __slots__ = ()
    kind: ClassVar[str]
    record_version: ClassVar[int] = 1


R = TypeVar("R", bound=Record)


class _MalformedError(Exception):
    """Bytes that are no canonical form of the class; becomes UnsupportedRecordError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldType:
    """How the values of a field are written."""

    item: Any
    """Class of a value, or of an item of a list."""
    is_list: bool = False
    is_map: bool = False
    is_optional: bool = False

    @property
    def wire(self) -> int:
        return VARINT if self.item in (int, bool, datetime) else LENGTH


def encode(record: Record) -> bytes:
    """The canonical bytes of a record.

    Raises:
        TypeError: a field of a type that has no written form.
        ValueError: a number beyond 64 bits, or a time without a zone.
    """
    kind = type(record)
    header = _field(1, VARINT, kind.record_version) + _field(2, LENGTH, kind.kind)
    return header + _message(record, first=HEADER_FIELDS + 1)


def decode(kind: type[R], data: bytes) -> R:
    """The record that `encode` wrote, in this or in an older version.

    Raises:
        UnsupportedRecordError: a newer version, another kind, an unknown field or value.
    """
    try:
        values = list(_values(data))
        version = _read_version(kind, values[:HEADER_FIELDS])
        record = cast("R", _object(kind, values[HEADER_FIELDS:], first=HEADER_FIELDS + 1))
        _check_canonical(record, version, data)
    except (_MalformedError, ValueError, TypeError, OverflowError) as cause:
        raise UnsupportedRecordError(kind=kind.kind, fault=str(cause)) from cause
    return record


def kind_of(data: bytes) -> str:
    """The kind that a record says it has.

    Raises:
        UnsupportedRecordError: these bytes are no record.
    """
    try:
        header = list(_values(data))[:HEADER_FIELDS]
        (_, name) = header[-1] if [number for number, _ in header] == [1, 2] else (0, 0)
        kind = name.decode() if isinstance(name, bytes) else ""
    except (_MalformedError, ValueError) as cause:
        raise UnsupportedRecordError(kind="of unknown kind", fault=str(cause)) from cause
    if not kind:
        raise UnsupportedRecordError(kind="of unknown kind", fault="it has no version and kind")
    return kind


def _check_canonical(record: Record, version: int, data: bytes) -> None:
    """Refuse another spelling of a record. An older version is written differently today."""
    if version == record.record_version and encode(record) != data:
        raise _MalformedError("it is not in its canonical form")


def _read_version(kind: type[Record], header: Sequence[tuple[int, int | bytes]]) -> int:
    if [number for number, _ in header] != [1, 2]:
        raise _MalformedError("it has no version and kind")
    (_, version), (_, name) = header
    if name != kind.kind.encode():
        raise _MalformedError("it is of another kind")
    if not isinstance(version, int) or not 1 <= version <= kind.record_version:
        raise _MalformedError(
            f"its version is {version!r}, and this release reads up to {kind.record_version}"
        )
    return version


@cache
def schema(kind: type) -> tuple[tuple[Field[Any], FieldType], ...]:
    """The fields of a class in the order of their numbers."""
    hints = get_type_hints(kind)
    return tuple((each, _field_type(hints[each.name])) for each in fields(kind))


def _field_type(hint: Any) -> FieldType:  # noqa: ANN401  any annotation
    if isinstance(hint, NewType):
        return _field_type(hint.__supertype__)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        return FieldType(item=_field_type(arguments[0]).item, is_list=True)
    if origin is Mapping:
        return FieldType(item=tuple, is_map=True)
    if origin in (Union, types.UnionType):
        return FieldType(item=_field_type(arguments[0]).item, is_optional=True)
    return FieldType(item=hint)


def _message(value: object, *, first: int) -> bytes:
    parts = []
    record_class: type = type(value)
    for number, (each, kind) in enumerate(schema(record_class), start=first):
        content = getattr(value, each.name)
        if kind.is_map:
            pairs = sorted((key.encode(), text.encode()) for key, text in content.items())
            parts += [_field(number, LENGTH, _pair(*pair)) for pair in pairs]
        elif kind.is_list:
            parts += [_field(number, kind.wire, _scalar(item)) for item in content]
        elif content is not None:
            parts.append(_field(number, kind.wire, _scalar(content)))
    return b"".join(parts)


def _pair(key: bytes, value: bytes) -> bytes:
    return _field(1, LENGTH, key) + _field(2, LENGTH, value)


def _scalar(value: object) -> int | bytes | str:
    """The number or the bytes that stand for a value."""
    match value:
        case bool() | int():
            return int(value)
        case datetime():
            return (aware(value) - _EPOCH) // _MICROSECOND
        case str() | bytes():
            return value
        case UUID():
            return str(value)
    if is_dataclass(value):
        return _message(value, first=1)
    raise TypeError(f"a {type(value).__name__} has no form in a record")


def _field(number: int, wire: int, value: int | bytes | str) -> bytes:
    tag = _varint(number << 3 | wire)
    if isinstance(value, int):
        if not -_SIGN <= value < _SIGN:
            raise ValueError(f"{value} is beyond 64 bits")
        return tag + _varint(value & _MASK)
    content = value.encode() if isinstance(value, str) else value
    return tag + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    digits = bytearray()
    while value > 0x7F:  # noqa: PLR2004  seven bits a byte
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def _values(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message, in the order of its bytes."""
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        number, wire = tag >> 3, tag & 7
        value, position = _read_varint(data, position)
        if wire == LENGTH:
            end = position + value
            if end > len(data):
                raise _MalformedError("it ends too early")
            yield number, data[position:end]
            position = end
        elif wire == VARINT:
            yield number, value - (value & _SIGN) * 2
        else:
            raise _MalformedError(f"field {number} has an unknown form")


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte <= 0x7F:  # noqa: PLR2004  the last byte
            if value > _MASK or (byte == 0 and shift):
                break
            return value, position
        shift += 7
    raise _MalformedError("a number is damaged")


def _object(kind: type, values: Sequence[tuple[int, int | bytes]], *, first: int) -> object:
    known = dict(enumerate(schema(kind), start=first))
    numbers = [number for number, _ in values]
    if numbers != sorted(numbers):
        raise _MalformedError("its fields are not in order")
    unknown = sorted(set(numbers) - known.keys())
    if unknown:
        raise _MalformedError(f"field {unknown[0]} is unknown")
    arguments: dict[str, object] = {}
    for number, (each, form) in known.items():
        content = [value for other, value in values if other == number]
        _assign(arguments, each, form, content)
    return kind(**arguments)


def _assign(
    arguments: dict[str, object], each: Field[Any], form: FieldType, content: list[int | bytes]
) -> None:
    """Set the argument of a field; an absent one has its default."""
    if form.is_map:
        arguments[each.name] = dict(_read_pair(pair) for pair in content)
    elif form.is_list:
        arguments[each.name] = tuple(_read(form, value) for value in content)
    elif len(content) == 1:
        arguments[each.name] = _read(form, content[0])
    elif content:
        raise _MalformedError(f"field {each.name} occurs twice")
    elif form.is_optional:
        arguments[each.name] = None
    elif each.default is MISSING:
        raise _MalformedError(f"field {each.name} is missing")


def _read_pair(data: int | bytes) -> tuple[str, str]:
    if isinstance(data, int):
        raise _MalformedError("a pair is damaged")
    (first, key), (second, value) = _values(data)
    if (first, second) != (1, 2) or isinstance(key, int) or isinstance(value, int):
        raise _MalformedError("a pair is damaged")
    return key.decode(), value.decode()


def _read(form: FieldType, value: int | bytes) -> object:
    kind = form.item
    if isinstance(value, int) != (form.wire == VARINT):
        raise _MalformedError("a field has another form")
    if isinstance(value, int):
        return _EPOCH + value * _MICROSECOND if kind is datetime else kind(value)
    if kind is bytes:
        return value
    if issubclass(kind, str | UUID | StrEnum):
        return kind(value.decode())
    return _object(kind, list(_values(value)), first=1)
