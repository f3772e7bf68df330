"""The `{{ }}` expressions of parameter defaults: dates and times computed from a run's moment.

A small language: a base, offsets, the ends of a month. The moment is the
nominal slot of a scheduled run and the trigger of any other, so a repeated run gets the same value.
"""

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from typing import assert_never

_WHOLE = re.compile(r"\{\{(.{0,200})\}\}", re.DOTALL)
_STEP = re.compile(
    r"\s*(?:(?P<sign>[+-])\s*(?P<count>[0-9]{1,6})(?P<unit>[wdhm])\b|(?P<end>month_start|month_end)\b)",
    re.ASCII,
)
_BASE = re.compile(r"\s*run\.(date|timestamp|scheduled_at)\b", re.ASCII)
_MICROSECOND = timedelta(microseconds=1)


class Base(StrEnum):
    DATE = "date"
    """The day of the moment in the job's zone."""
    TIMESTAMP = "timestamp"
    SCHEDULED_AT = "scheduled_at"
    """The same instant as `timestamp`, with a clearer name."""


class MonthEnd(StrEnum):
    START = "month_start"
    """The first day; of a time, its first instant in the job's zone."""
    END = "month_end"
    """The last day; of a time, its last microsecond in the job's zone."""


@dataclass(frozen=True, slots=True)
class Offset:
    """Weeks and days move the calendar date and keep the wall clock, hours and minutes do not."""

    count: int
    unit: str


Step = Offset | MonthEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentExpression:
    base: Base
    steps: tuple[Step, ...] = ()

    @property
    def is_date(self) -> bool:
        return self.base is Base.DATE


def is_expression(text: str) -> bool:
    """Whether the text is meant as an expression, well formed or not."""
    return "{{" in text


def parse_moment(text: str) -> MomentExpression | None:
    """Read `{{ run.date - 1d }}`; None when it is anything else.

    Hours and minutes on `run.date` are refused: a date has no clock.
    """
    whole = _WHOLE.fullmatch(text.strip())
    base = _BASE.match(whole[1]) if whole else None
    if whole is None or base is None:
        return None
    inner = whole[1].rstrip()
    steps: list[Step] = []
    at = base.end()
    while at < len(inner):
        step = _STEP.match(inner, at)
        if step is None:
            return None
        steps.append(_step(step))
        at = step.end()
    expression = MomentExpression(base=Base(base[1]), steps=tuple(steps))
    return None if expression.is_date and _uses_clock(expression.steps) else expression


def _step(match: re.Match[str]) -> Step:
    if match["end"]:
        return MonthEnd(match["end"])
    count = int(match["count"])
    return Offset(-count if match["sign"] == "-" else count, match["unit"])


def _uses_clock(steps: tuple[Step, ...]) -> bool:
    return any(isinstance(step, Offset) and step.unit in "hm" for step in steps)


def evaluate(expression: MomentExpression, moment: datetime, zone: tzinfo) -> date | datetime:
    """The date, or the aware UTC time, of the expression for a run of this moment.

    Args:
        expression: as parsed.
        moment: nominal slot or trigger, aware.
        zone: the job's; decides the day and the start of a month.

    Raises:
        OverflowError: the result is outside the years 1 to 9999.
    """
    if expression.is_date:
        day = moment.astimezone(zone).date()
        for step in expression.steps:
            day = _moved_date(day, step)
        return day
    instant = moment.astimezone(UTC)
    for step in expression.steps:
        instant = _moved_instant(instant, step, zone)
    return instant


def _moved_date(day: date, step: Step) -> date:
    match step:
        case MonthEnd.START:
            return day.replace(day=1)
        case MonthEnd.END:
            return day.replace(day=monthrange(day.year, day.month)[1])
        case Offset(count=count, unit="w"):
            return day + timedelta(weeks=count)
        case Offset(count=count):
            return day + timedelta(days=count)
    assert_never(step)


def _moved_instant(instant: datetime, step: Step, zone: tzinfo) -> datetime:
    match step:
        case Offset(count=count, unit="h"):
            return instant + timedelta(hours=count)
        case Offset(count=count, unit="m"):
            return instant + timedelta(minutes=count)
        case MonthEnd.END:
            local = instant.astimezone(zone)
            last = date(local.year, local.month, monthrange(local.year, local.month)[1])
            return local_instant(last + timedelta(days=1), time(), zone) - _MICROSECOND
        case MonthEnd.START:
            local = instant.astimezone(zone)
            return local_instant(local.date().replace(day=1), time(), zone)
        case Offset():
            local = instant.astimezone(zone)
            return local_instant(_moved_date(local.date(), step), local.time(), zone)
    assert_never(step)


def local_instant(day: date, clock: time, zone: tzinfo) -> datetime:
    """The UTC instant of a wall clock time.

    A repeated hour takes the offset in force before the change, a gap shifts forward by its length.
    """
    return datetime.combine(day, clock.replace(fold=0), tzinfo=zone).astimezone(UTC)
