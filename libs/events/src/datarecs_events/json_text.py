"""Reads and writes JSON: strict, exact, with limits, and with defined errors.

Numbers with a fraction become Decimal and are written with all digits. Duplicate keys, NaN, depth
over 32 and halves of surrogate pairs are refused, since readers treat them differently. The rules
hold for all incoming and outgoing JSON.
"""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from json.decoder import scanstring  # type: ignore[attr-defined]  # public, missing in typeshed
from typing import NoReturn

MAX_DEPTH = 32

_STRINGS = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""Matches a string, or from an unclosed string to the end of the text; without backtracking."""
_SPACE = re.compile(r"[ \t\n\r]*")


class JsonFaultError(ValueError):
    """The bytes are not accepted JSON; the message has none of their values."""


def _refuse_constant(name: str) -> NoReturn:
    raise JsonFaultError(f"{name} is not a JSON number")


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise JsonFaultError("an object repeats a key")
    return members


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_float=Decimal, parse_constant=_refuse_constant
)


def parse_object(data: bytes) -> dict[str, object]:
    """Parse `data` as one object; numbers with a fraction or exponent become Decimal.

    Raises:
        JsonFaultError: not UTF-8, not JSON, not an object, a duplicate key, NaN, or too deep.
    """
    text = _text(data)
    try:
        value = _DECODER.decode(text)
    except (ValueError, ArithmeticError, RecursionError) as cause:
        raise _fault(cause) from cause
    if not isinstance(value, dict):
        raise JsonFaultError("it is not a JSON object")
    if "\\u" in text and not _encodable(value):
        raise JsonFaultError("a text has half of a surrogate pair")
    return value


def member_spans(data: bytes) -> Mapping[str, str]:
    """The exact source text of each member of an object that `parse_object` accepted."""
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
    """Write compact JSON of dicts, lists, text, integers, booleans and Decimals, in key order."""
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
    return JsonFaultError("it has a number that is too long")


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
