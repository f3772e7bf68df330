"""JSON as this product reads and writes it: strict, exact, bounded, never raising by surprise.

Numbers with a fraction become Decimal and go out digit for digit. Duplicate keys, NaN, depth over
32 and halves of surrogate pairs are refused, since readers disagree about them. Apart from the
codec because the rules hold for any JSON that crosses the border.
"""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from json.decoder import scanstring  # type: ignore[attr-defined]  # public, missing in typeshed
from typing import NoReturn

MAX_DEPTH = 32

_STRINGS = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""A string without its end reaches to the end of the text; nothing is tried twice."""
_SPACE = re.compile(r"[ \t\n\r]*")


class JsonFaultError(ValueError):
    """The bytes are no JSON that this product accepts; the message holds no value of them."""


def _refuse_constant(name: str) -> NoReturn:
    raise JsonFaultError(f"{name} is no JSON number")


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise JsonFaultError("an object names a key twice")
    return members


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_float=Decimal, parse_constant=_refuse_constant
)


def parse_object(data: bytes) -> dict[str, object]:
    """The object that is the whole of `data`, numbers with a fraction or exponent as Decimal.

    Raises:
        JsonFaultError: not UTF-8, no JSON, no object, a duplicate key, NaN, too deep.
    """
    text = _text(data)
    try:
        value = _DECODER.decode(text)
    except (ValueError, ArithmeticError, RecursionError) as cause:
        raise _fault(cause) from cause
    if not isinstance(value, dict):
        raise JsonFaultError("it is no JSON object")
    if "\\u" in text and not _encodable(value):
        raise JsonFaultError("a text holds half of a surrogate pair")
    return value


def member_spans(data: bytes) -> Mapping[str, str]:
    """The source text of each member of an object that `parse_object` accepted, verbatim."""
    text = data.decode()
    at, spans = _skip(text, _skip(text, 0) + 1), {}
    while text[at] != "}":
        key, at = scanstring(text, at + 1)
        start = _skip(text, _skip(text, at) + 1)
        _, end = _DECODER.raw_decode(text, start)
        spans[str(key)] = text[start:end]
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return spans


def write(value: object) -> str:
    """Compact JSON of dicts, lists, text, integers, booleans and Decimals; keys in their order."""
    match value:
        case bool() | str():
            return json.dumps(value, ensure_ascii=False)
        case int():
            return str(value)
        case Decimal():
            return format(value, "f")
        case dict():
            return "{" + ",".join(f"{write(k)}:{write(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ",".join(write(item) for item in value) + "]"
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON form here")


def _text(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as cause:
        raise JsonFaultError("it is not UTF-8") from cause
    if text.count("{") + text.count("[") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise JsonFaultError(f"it nests deeper than {MAX_DEPTH}")
    return text


def _depth(text: str) -> int:
    deepest = depth = 0
    for letter in _STRINGS.sub("", text):
        if letter in "{[":
            depth += 1
            deepest = max(deepest, depth)
        elif letter in "}]":
            depth -= 1
    return deepest


def _fault(cause: Exception) -> JsonFaultError:
    if isinstance(cause, JsonFaultError):
        return cause
    if isinstance(cause, json.JSONDecodeError):
        return JsonFaultError(f"{cause.msg} at character {cause.pos}")
    return JsonFaultError("a number in it is too long")


def _encodable(value: object) -> bool:
    match value:
        case str():
            return not any("\ud800" <= letter <= "\udfff" for letter in value)
        case dict():
            return all(_encodable(k) and _encodable(v) for k, v in value.items())
        case list():
            return all(_encodable(item) for item in value)
        case _:
            return True


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()
