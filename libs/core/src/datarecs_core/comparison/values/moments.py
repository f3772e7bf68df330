"""The time of `as_of`, whoever reads it: an instant that is not still to come.

A separate module because files, lake tables, commands and the API have one rule: what a source
holds at a later time is not known yet, and the same question would mean something else tomorrow.
"""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from datarecs_core.comparison.values.canonical import Tag
from datarecs_core.comparison.values.forms import read_moment
from datarecs_core.values import instant_text

AHEAD = timedelta(minutes=1)
"""How far the clock of whoever writes a time may be ahead of the one that reads it."""
_FIRST, _STEP = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def micros_of(text: str) -> int | None:
    """Microseconds since 1970, finer digits cut off; None for a text without date, time, offset."""
    moment = read_moment(text)
    if moment is None or moment.tag is not Tag.INSTANT or not isinstance(moment.content, Decimal):
        return None
    return int(moment.content)


def as_of_fault(text: str, now: datetime) -> str | None:
    """Why a text names no time whose state can be read, or None. It goes on from the field."""
    micros = micros_of(text)
    if micros is None:
        return "is not a time with its offset, such as 2026-01-31T12:00:00Z"
    return future_fault(micros, now)


def future_fault(moment: int | datetime, now: datetime) -> str | None:
    """Why a moment, a time or microseconds since 1970, is still to come, or None."""
    micros = moment if isinstance(moment, int) else (moment - _FIRST) // _STEP
    if micros <= (now + AHEAD - _FIRST) // _STEP:
        return None
    return f"is still to come: it is {instant_text(now)} now; write a time of the past"
