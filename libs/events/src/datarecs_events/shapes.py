"""The shape of a payload, read once from an event's dataclass.

One tree has three uses, so that they cannot disagree: the codec checks and converts with it, the
published JSON Schema is made from it, and the compatibility check compares these schemas. Limits
that types cannot express come from `datarecs_core.fields`.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, NewType, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from datarecs_core.fields import AtLeast, Known

MAX_TEXT = 2_000
MAX_INTEGER = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Text:
    """At most `MAX_TEXT` characters; `known` documents the words of an open enum."""

    known: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Word:
    """A closed enum: its words never change within a type."""

    words: type[StrEnum]


@dataclass(frozen=True, slots=True)
class Integer:
    least: int = 0


@dataclass(frozen=True, slots=True)
class Number:
    """An exact decimal: at most 38 digits, within 10^±38."""


@dataclass(frozen=True, slots=True)
class Flag:
    pass


@dataclass(frozen=True, slots=True)
class Id:
    """A UUID in canonical lower case."""


@dataclass(frozen=True, slots=True)
class Instant:
    """RFC 3339; written in UTC with microseconds and `Z`."""


@dataclass(frozen=True, slots=True)
class ListOf:
    item: "Shape"


@dataclass(frozen=True, slots=True)
class PerSourceMap:
    """An object with the keys `source_<n>`."""

    item: "Shape"


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    shape: "Shape"
    required: bool


@dataclass(frozen=True, slots=True)
class Record:
    """An object, its fields in the order of the wire."""

    event_class: type[object]
    fields: tuple[Field, ...]


Shape = Text | Word | Integer | Number | Flag | Id | Instant | ListOf | PerSourceMap | Record

_PLAIN: Mapping[object, Shape] = {
    str: Text(),
    int: Integer(),
    Decimal: Number(),
    bool: Flag(),
    UUID: Id(),
    datetime: Instant(),
}


_KNOWN: dict[type[object], Record] = {}
"""A cache, because reading the type hints of a class takes longer than coding an event."""


def shape_of(event_class: type[object]) -> Record:
    """The shape of a frozen dataclass.

    Raises:
        TypeError: the type of a field has no form on the wire, which is a defect of the class.
    """
    if event_class not in _KNOWN:
        _KNOWN[event_class] = _read(event_class)
    return _KNOWN[event_class]


def _read(event_class: type[object]) -> Record:
    hints = get_type_hints(event_class, include_extras=True)
    return Record(
        event_class,
        tuple(
            Field(one.name, _shape(hints[one.name]), one.default is dataclasses.MISSING)
            for one in dataclasses.fields(event_class)  # type: ignore[arg-type]  # events are dataclasses
        ),
    )


def _shape(hint: object) -> Shape:
    if isinstance(hint, NewType):
        return _shape(hint.__supertype__)
    if get_origin(hint) is Annotated:
        base, *marks = get_args(hint)
        return _marked(_shape(base), marks)
    if get_origin(hint) in {Union, UnionType}:
        return _shape(next(one for one in get_args(hint) if one is not NoneType))
    if get_origin(hint) is tuple:
        return ListOf(_shape(get_args(hint)[0]))
    if get_origin(hint) is Mapping:
        return PerSourceMap(_shape(get_args(hint)[1]))
    return _class_shape(hint)


def _class_shape(hint: object) -> Shape:
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return Word(hint)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return shape_of(hint)
    raise TypeError(f"{hint!r} has no form on the wire")


def _marked(shape: Shape, marks: list[object]) -> Shape:
    for mark in marks:
        match mark:
            case AtLeast(value=value):
                shape = Integer(value)
            case Known(values=values):
                shape = Text(values)
            case _:
                pass  # a mapping is always a PerSource
    return shape
