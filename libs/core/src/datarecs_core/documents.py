"""Frozen dataclasses as JSON documents and back, by their fields and type hints.

A plan crosses a pipe, a result comes back on it, a job is hashed: one generic pair of functions
keeps the written form equal to the types. Decimals, bytes, times, lengths and ids are texts.
"""

import types
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, NewType, TypeVar, Union, cast, get_args, get_origin, get_type_hints
from uuid import UUID

from datarecs_core.hashing import JsonValue
from datarecs_core.values import EXACT, instant_text

T = TypeVar("T")
_JSON_INTEGERS = 2**53
"""From here on an integer is written as text, because JSON readers would round it."""
TAG = "$type"
"""Names the class where a field may hold one of several."""
PACKED = {"base64": True}
"""Metadata of a field with many bytes: written as base64, a third shorter than
hexadecimal digits."""


def decimal_text(value: Decimal) -> str:
    """Digits without exponent, plus sign, trailing zeros or `-0`; equal values, equal text."""
    if value == 0:
        return "0"
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def length_text(length: timedelta) -> str:
    """ISO 8601 in seconds, exactly: `PT3600S`, `PT0.5S`."""
    whole = length.days * 86_400 + length.seconds
    seconds = EXACT.add(Decimal(whole), Decimal(length.microseconds).scaleb(-6, EXACT))
    return f"PT{decimal_text(seconds)}S"


def to_document(value: object) -> JsonValue:
    """The JSON form of a frozen dataclass, or of anything that occurs inside one.

    Fields equal to their default are left out, so that a later optional field changes no
    document and no hash.

    Raises:
        TypeError: a value of a type that has no written form.
    """
    return _encode(value, type(value))


def from_document(kind: type[T], document: JsonValue) -> T:
    """The dataclass that `to_document` wrote.

    Raises:
        ValueError: an unknown field, a missing one, or a value that is not of its type.
    """
    try:
        return cast("T", _decode(document, kind))
    except (KeyError, TypeError, ArithmeticError, AttributeError) as cause:
        raise ValueError(f"not a document of {kind.__name__}: {cause!r}") from cause


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _classes(hint: object) -> list[type[Any]]:
    return [each for each in get_args(hint) if isinstance(each, type) and is_dataclass(each)]


def _key(each: Field[Any]) -> str:
    return str(each.metadata.get("yaml", each.name))


def _is_packed(each: Field[Any]) -> bool:
    return bool(each.metadata.get("base64"))


def _is_default(each: Field[Any], value: object) -> bool:
    if each.default is not MISSING:
        return bool(value == each.default)
    return each.default_factory is not MISSING and bool(value == each.default_factory())


def _encode(value: object, hint: object) -> JsonValue:
    if is_dataclass(value) and not isinstance(value, type):
        return _encode_record(value, tagged=len(_classes(hint)) > 1)
    match value:
        case Enum():
            return str(value.value)
        case None | bool() | int() | str():
            return str(value) if _is_long(value) else value
        case Mapping():
            return {
                str(key): _encode(item, _argument(hint, 1)) for key, item in sorted_items(value)
            }
        case Sequence() if not isinstance(value, bytes):
            return [_encode(item, _element(hint, at)) for at, item in enumerate(value)]
        case _:
            return _text(value)


def _is_long(value: object) -> bool:
    return isinstance(value, int) and abs(value) >= _JSON_INTEGERS


def sorted_items(value: Mapping[Any, object]) -> list[tuple[Any, object]]:
    """Items by the text of their keys."""
    return sorted(value.items(), key=lambda item: str(item[0]))


def _text(value: object) -> str:
    match value:
        case Decimal():
            return decimal_text(value)
        case bytes():
            return value.hex()
        case datetime():
            return instant_text(value)
        case timedelta():
            return length_text(value)
        case UUID():
            return str(value)
        case _:
            raise TypeError(f"{type(value).__name__} has no written form")


def _encode_record(value: Any, *, tagged: bool) -> dict[str, JsonValue]:  # noqa: ANN401 - any dataclass
    hints = _hints(type(value))  # type: ignore[arg-type]  # mypy: type[Any] is not Hashable
    document: dict[str, JsonValue] = {TAG: type(value).__name__} if tagged else {}
    for each in fields(value):
        item = getattr(value, each.name)
        if not _is_default(each, item):
            document[_key(each)] = (
                b64encode(item).decode() if _is_packed(each) else _encode(item, hints[each.name])
            )
    return document


def _argument(hint: object, at: int) -> object:
    """The hint of a mapping's key or value; anything where nothing is declared."""
    arguments = get_args(hint)
    return arguments[at] if len(arguments) > at else object


def _element(hint: object, at: int) -> object:
    """The hint of a tuple's element; anything where nothing is declared."""
    inner = get_args(hint) if get_origin(hint) is tuple else (object, Ellipsis)
    return inner[0] if inner[-1] is Ellipsis else inner[at]


def _decode(document: JsonValue, hint: Any) -> object:  # noqa: ANN401 - a type hint
    if isinstance(hint, NewType):
        return _decode(document, hint.__supertype__)
    if get_origin(hint) in (Union, types.UnionType):
        return _decode_union(document, hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _decode_record(document, hint)
    return _decode_plain(document, hint)


def _decode_plain(document: JsonValue, hint: Any) -> object:  # noqa: ANN401 - a type hint
    match document:
        case str():
            return _decode_text(document, hint)
        case Mapping():
            key_hint, inner = _argument(hint, 0), _argument(hint, 1)
            return {_decode(key, key_hint): _decode(item, inner) for key, item in document.items()}
        case Sequence():
            return tuple(_decode(item, _element(hint, at)) for at, item in enumerate(document))
        case _:
            return document


def _decode_union(document: JsonValue, hint: object) -> object:
    if document is None:
        return None
    choices = [each for each in get_args(hint) if each is not types.NoneType]
    classes = _classes(hint)
    if len(classes) > 1 and isinstance(document, Mapping):
        named = {each.__name__: each for each in classes}
        return _decode_record(
            {key: item for key, item in document.items() if key != TAG}, named[str(document[TAG])]
        )
    return _decode(document, choices[0]) if len(choices) == 1 else _decode(document, object)


def _decode_record(document: JsonValue, kind: type) -> object:
    if not isinstance(document, Mapping):
        raise TypeError(f"{kind.__name__} is written as an object")
    hints = _hints(kind)
    known = {_key(each): each for each in fields(kind)}
    unknown = sorted(set(document) - set(known))
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {unknown[0]!r}")
    arguments = {}
    for key, item in document.items():
        each = known[key]
        is_text = _is_packed(each) and isinstance(item, str)
        arguments[each.name] = _unpacked(str(item)) if is_text else _decode(item, hints[each.name])
    return kind(**arguments)


def _unpacked(text: str) -> bytes:
    """Raises ValueError for another text than `to_document` writes."""
    raw = b64decode(text, validate=True)
    if b64encode(raw).decode() != text:
        raise ValueError("not the base64 of its bytes")
    return raw


def _decode_text(text: str, hint: Any) -> object:  # noqa: ANN401 - a type hint
    if hint in (Decimal, int):
        return hint(text)
    if hint is bytes:
        return bytes.fromhex(text)
    if hint is datetime:
        return datetime.fromisoformat(text)
    if hint is timedelta:
        seconds = Decimal(text.removeprefix("PT").removesuffix("S"))
        return timedelta(microseconds=int(seconds.scaleb(6, EXACT)))
    if isinstance(hint, type) and (issubclass(hint, Enum) or hint is UUID):
        return hint(text)
    return text
