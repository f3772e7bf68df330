"""The single values of a payload: their rules, writing and reading.

Writing refuses every value that a reader would refuse. `conversion` handles records and lists and
calls this module for single values.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import assert_never
from uuid import UUID

from datarecs_core.values import aware, instant_text
from datarecs_events.shapes import (
    MAX_INTEGER,
    MAX_TEXT,
    Flag,
    Id,
    Instant,
    Integer,
    Number,
    Text,
    Word,
)

RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
    r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)
MAX_DIGITS = 38
_REFUSED = re.compile("[\0\ud800-\udfff]")

Scalar = Text | Word | Integer | Number | Flag | Id | Instant

_PLAIN: Mapping[type[object], tuple[type[object], str]] = {
    Text: (str, "a text is needed"),
    Word: (str, "a text is needed"),
    Id: (str, "a text is needed"),
    Instant: (str, "a text is needed"),
    Integer: (int, "an integer is needed"),
    Number: (Decimal, "a number is needed"),
    Flag: (bool, "true or false is needed"),
}


class MismatchError(ValueError):
    """A value does not fit its field; the message has the field and the rule, never the value."""

    def __init__(self, path: str, rule: str) -> None:
        super().__init__(f"{path or 'data'}: {rule}")
        self.path, self.rule = path, rule


def read_instant(text: str) -> datetime:
    """An RFC 3339 time in UTC; digits below a microsecond are cut.

    Raises:
        ValueError: malformed, or not an existing time.
    """
    if RFC3339.fullmatch(text) is None:
        raise ValueError("a time in RFC 3339 is needed")
    return aware(datetime.fromisoformat(text.upper()))


def read_id(text: str) -> UUID:
    """A UUID, only in canonical form: two spellings would be two keys for one object.

    Raises:
        ValueError: malformed.
    """
    identifier = UUID(text)
    if str(identifier) != text:
        raise ValueError("a UUID in lower case with hyphens is needed")
    return identifier


def read_scalar(shape: Scalar, value: object, path: str) -> object:
    """The Python value of a JSON value.

    Raises:
        MismatchError: another type, or outside the shape's limits.
    """
    if isinstance(shape, Number) and isinstance(value, int) and not isinstance(value, bool):
        value = Decimal(value)
    plain = _checked(shape, value, path)
    if not isinstance(shape, Word | Id | Instant):
        return plain
    try:
        return _from_text(shape, str(plain))
    except ValueError as cause:
        words = ", ".join(shape.words) if isinstance(shape, Word) else ""
        raise MismatchError(path, f"one of {words}" if words else str(cause)) from cause


def write_scalar(shape: Scalar, value: object, path: str) -> object:
    """The JSON value of a Python value: text, integer, boolean or Decimal.

    Raises:
        MismatchError: naive time, float, NaN, text too long or not Unicode, wrong type.
    """
    match shape:
        case Word(words=words):
            _expect(value, words, path)
            return str(value)
        case Id():
            _expect(value, UUID, path)
            return str(value)
        case Instant():
            return _written_instant(value, path)
        case Text() | Integer() | Number() | Flag():
            return _checked(shape, value, path)
    assert_never(shape)


def _from_text(shape: Word | Id | Instant, text: str) -> object:
    match shape:
        case Word(words=words):
            return words(text)
        case Id():
            return read_id(text)
        case Instant():
            return read_instant(text)
    assert_never(shape)


def _written_instant(value: object, path: str) -> str:
    if not isinstance(value, datetime):
        raise MismatchError(path, f"a datetime is needed, not {type(value).__name__}")
    try:
        return instant_text(value)
    except ValueError as cause:
        raise MismatchError(path, str(cause)) from cause


def _expect(value: object, wanted: type[object], path: str) -> None:
    if not isinstance(value, wanted):
        raise MismatchError(path, f"a {wanted.__name__} is needed, not {type(value).__name__}")


def _checked(shape: Scalar, value: object, path: str) -> object:
    wanted, words = _PLAIN[type(shape)]
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise MismatchError(path, words)
    match value:
        case bool():
            return value
        case int() if isinstance(shape, Integer):
            return _integer(shape, value, path)
        case Decimal():
            return _number(value, path)
        case _:
            return _text(str(value), path)


def _integer(shape: Integer, value: int, path: str) -> int:
    if not shape.least <= value <= MAX_INTEGER:
        raise MismatchError(path, f"an integer from {shape.least} to 2^53-1 is needed")
    return value


def _text(value: str, path: str) -> str:
    if len(value) > MAX_TEXT:
        raise MismatchError(path, f"at most {MAX_TEXT} characters")
    if _REFUSED.search(value):
        raise MismatchError(path, "NUL and halves of surrogate pairs are refused")
    return value


def _number(value: Decimal, path: str) -> Decimal:
    """Check limits before any arithmetic: a number with a huge exponent would take seconds."""
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise MismatchError(path, "a finite number is needed")
    if len(digits) > MAX_DIGITS or abs(value.adjusted()) > MAX_DIGITS:
        raise MismatchError(path, f"at most {MAX_DIGITS} digits, within 10^±{MAX_DIGITS}")
    return value
