"""The forms of times: a time of day, and an instant.

Separate from `shapes`, which has the values that every kind shares.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from datarecs_core.errors.faults import Fault, Gap, Path
from datarecs_core.errors.spec import SpecCode
from datarecs_core.hashing import JsonValue
from datarecs_core.values import instant_text
from datarecs_specs.nodes import Node, Scalar
from datarecs_specs.reading import JsonSchema, Reading
from datarecs_specs.shapes import Single, wrong_type

_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_STEP = timedelta(microseconds=1)
_LAST = datetime.max.replace(tzinfo=UTC)


class Clock(Single):
    """A time of day, `HH:MM`."""

    __slots__ = ()
    _form = r"([01][0-9]|2[0-3]):[0-5][0-9]"

    def read(self, node: Node, at: Path, reading: Reading) -> str | Gap:
        # Without quotes YAML takes 22:00 for a number; the source text is what was meant.
        if not isinstance(node, Scalar):
            return wrong_type(node, at, reading, "a time of day such as 07:30")
        if re.fullmatch(self._form, node.text, re.ASCII) is None:
            message, hint = "not a time of day", "write HH:MM, 00:00 to 23:59"
            return reading.fault(Fault(code=SpecCode.BAD_TEXT, path=at, message=message, hint=hint))
        return node.text

    def schema(self) -> JsonSchema:
        return {"type": "string", "pattern": f"^{self._form}$", "examples": ["07:30"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment(Single):
    """An instant in [1970, `before`), RFC 3339 with an offset."""

    before: datetime = _LAST

    def read(self, node: Node, at: Path, reading: Reading) -> datetime | Gap:
        if not isinstance(node, Scalar):
            return wrong_type(node, at, reading, "a moment such as 2027-01-04T08:00:00Z")
        moment = _instant(node.text)
        if moment is None:
            message, hint = "not a moment with an offset", "write for instance 2027-01-04T08:00:00Z"
            return reading.fault(Fault(code=SpecCode.BAD_TEXT, path=at, message=message, hint=hint))
        if not _FIRST <= moment < self.before:
            message = f"from {_FIRST.year} to {(self.before - _STEP).year} are allowed"
            hint = "write for instance 2027-01-04T08:00:00Z"
            return reading.fault(
                Fault(code=SpecCode.NOT_IN_ENUM, path=at, message=message, hint=hint)
            )
        return moment

    def plain(self, value: object) -> JsonValue:
        return instant_text(value) if isinstance(value, datetime) else str(value)

    def schema(self) -> JsonSchema:
        return {"type": "string", "format": "date-time"}


def _instant(text: str) -> datetime | None:
    """In UTC; None without an offset, and at the ends of the calendar."""
    try:
        moment = datetime.fromisoformat(text)
        return None if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


CLOCK, MOMENT = Clock(), Moment()
START = Moment(before=datetime(3000, 1, 1, tzinfo=UTC))
"""So that the times that follow stay in the calendar."""
