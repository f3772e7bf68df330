"""Values of Avro that JSON has no form for, and their form in JSON text.

The decoder makes plain Python values; what is defined here marks those that a column must not take
for something else: a decimal is no number that a double may round.
"""

import base64
import json
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID


class ExactDecimal(Decimal):
    """A value of the logical type decimal."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Unfit:
    """A value that no column and no text can hold; the reason does not contain it."""

    reason: str


class NoTextError(ValueError):
    """A value has no form in JSON; the text is the reason."""


def json_text(value: object) -> str:
    """Compact JSON of equal value; the spelling of numbers and texts can be another one.

    Raises NoTextError.
    """
    match value:
        case dict():
            members = (f"{_quoted(name)}:{json_text(member)}" for name, member in value.items())
            return f"{{{','.join(members)}}}"
        case list():
            return f"[{','.join(map(json_text, value))}]"
        case Decimal():
            return str(value)
        case float():
            return str(float_form(value))
    return _quoted(text_form(value))


def float_form(value: float) -> Decimal:
    """The fewest digits that name the double. Raises NoTextError."""
    if not math.isfinite(value):
        raise NoTextError("NaN and infinity have no form in JSON")
    return Decimal(repr(value))


def text_form(value: object) -> object:
    """The text of values that JSON does not know; any other value as it is.

    Raises NoTextError.
    """
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case UUID():
            return str(value)
        case Unfit(reason=reason):
            raise NoTextError(reason)
    return value


def _quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
