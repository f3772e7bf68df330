"""Decode the value of a record: strict JSON, exact numbers; or the whole value as one column.

Strict, because a value that two readers understand differently must not land in a table: a name
twice, NaN, text after the value and text that is no Unicode are all refused.
"""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Never

from datarecs_application.ports.sinking import DecodedValue
from datarecs_core.errors.sink import BadRecordError, SinkCode
from datarecs_core.sink.definition import MIB

VALUE_COLUMN = "value"
"""Of values that are not decoded into columns."""
MOST_BYTES = 16 * MIB
MOST_LEVELS = 64
"""Of objects and lists inside each other; the value itself is level 1."""

_BLANK = " \t\n\r"
_STRUCTURE = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
"""Texts as a whole, and brackets outside of them. Linear: an open text runs to the end."""


class RecordTooLargeError(BadRecordError):
    """The value is longer than `MOST_BYTES`."""

    code = SinkCode.RECORD_TOO_LARGE

    def __init__(self, *, size: int) -> None:
        super().__init__(
            path="", reason=f"the value has {size} bytes, and a sink reads at most {MOST_BYTES}"
        )
        self.size = size


class _RefusedError(ValueError):
    """A rule that JSON itself does not have."""


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _RefusedError("a name occurs twice in an object")
    return value


def _no_constant(name: str) -> Never:
    raise _RefusedError(f"{name} is no number of JSON")


_parse = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=Decimal, parse_constant=_no_constant
).raw_decode


def decode_object(value: bytes) -> DecodedValue:
    """Port ValueDecoder over JSON."""
    return DecodedValue(decode_json(value))


def decode_text(value: bytes) -> DecodedValue:
    """Port ValueDecoder: the whole value is the text of one column."""
    check_size(value)
    try:
        return DecodedValue({VALUE_COLUMN: value.decode()})
    except UnicodeDecodeError as cause:
        raise BadRecordError(path=VALUE_COLUMN, reason="the value is not Unicode text") from cause


def decode_bytes(value: bytes) -> DecodedValue:
    """Port ValueDecoder: the whole value is that of one column."""
    check_size(value)
    return DecodedValue({VALUE_COLUMN: value})


def check_size(value: bytes) -> None:
    """Raises RecordTooLargeError."""
    if len(value) > MOST_BYTES:
        raise RecordTooLargeError(size=len(value))


def decode_json(value: bytes) -> Mapping[str, object]:
    """The object; numbers with a fraction or an exponent are Decimal, others int.

    Raises:
        BadRecordError: the value is no JSON object, or ambiguous; the message has none of it.
        RecordTooLargeError: it is longer than 16 MiB.
    """
    check_size(value)
    try:
        text = value.decode()
        # A search for one character costs a fraction of a count.
        if ("[" in text or text.find("{", 1) > 0) and _brackets(text) > MOST_LEVELS:
            _require_flat(value)
        return _decode(text)
    except (ValueError, ArithmeticError) as cause:
        raise BadRecordError(path="", reason=_reason(cause)) from cause


def _decode(text: str) -> Mapping[str, object]:
    begin = 0 if text[:1] == "{" else len(text) - len(text.lstrip(_BLANK))
    value, end = _parse(text, begin)
    if end != len(text) and text[end:].strip(_BLANK):
        raise _RefusedError(f"text after the value at character {end}")
    if not isinstance(value, dict):
        raise _RefusedError("the value is not a JSON object")
    if "\\" in text and ("\\ud" in text or "\\uD" in text):
        # Half of a surrogate pair cannot be encoded.
        json.dumps(value, ensure_ascii=False, default=str).encode()
    return value


def _reason(cause: Exception) -> str:
    match cause:
        case _RefusedError():
            return str(cause)
        case UnicodeError():
            return "the value is not Unicode text"
        case json.JSONDecodeError(pos=position):
            return f"the value is not JSON at character {position}"
        case _:
            return "a number has too many digits"


def _brackets(text: str) -> int:
    return text.count("[") + text.count("{")


def _require_flat(value: bytes) -> None:
    level = 0
    for token in _STRUCTURE.finditer(value):
        match token[0]:
            case b"{" | b"[":
                level += 1
                if level > MOST_LEVELS:
                    raise _RefusedError(f"more than {MOST_LEVELS} levels")
            case b"}" | b"]":
                level -= 1
