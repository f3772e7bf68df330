"""Cron expressions: which are accepted, and at which instants one fires in a zone.

cronsim parses them and counts on a clock without a zone. Here is the rest: exactly five fields,
aliases, no expression that never fires, and the rules of Debian's cron for changes of the clocks.
cronsim has them as well, but loops for ever where clocks change off the full hour.
"""

import re
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import dropwhile

from cronsim import CronSim, CronSimError

from datarecs_specs.zones import offset_of

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
MAX_CRON_CHARACTERS = 200

_SECOND, _MINUTE = timedelta(seconds=1), timedelta(minutes=1)
_FIELDS = (
    ("minute", 60, "0 to 59"),
    ("hour", 24, "0 to 23"),
    ("day of month", 31, "1 to 31, L for the last day, LW for the last weekday"),
    ("month", 12, "1 to 12 or JAN to DEC"),
    ("day of week", 7, "0 to 7 or SUN to SAT, MON#2 for the second, 5L for the last one"),
)
"""Name, number of values, and what is allowed."""
_STEP = re.compile(r"/([0-9]+)", re.ASCII)
_ANY_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)
"""Where the search for a first time begins; cronsim gives up after 50 years."""


@lru_cache(maxsize=4_096)
def cron_fault(text: str) -> str | None:
    """Why a schedule cannot have this expression, in words that do not repeat it, or None."""
    if text in ALIASES:
        return None
    if text.startswith("@"):
        return f"no such alias; the aliases are {', '.join(ALIASES)}"
    if len(text) > MAX_CRON_CHARACTERS:
        return f"{len(text)} characters; at most {MAX_CRON_CHARACTERS} are allowed"
    fields = text.split()
    if len(fields) != len(_FIELDS):
        names = ", ".join(name for name, _, _ in _FIELDS)
        count = "one field" if len(fields) == 1 else f"{len(fields)} fields"
        return f"{count}; exactly five are allowed: {names}"
    if "?" in text:
        return "'?' is not allowed; write '*'"
    return _field_fault(fields) or _never_fault(text)


def _field_fault(fields: list[str]) -> str | None:
    for position, (field, (name, size, allowed)) in enumerate(zip(fields, _FIELDS, strict=True)):
        alone = ["*"] * len(fields)
        alone[position] = field
        try:
            CronSim(" ".join(alone), _ANY_MOMENT)
        except CronSimError:
            return f"{name}: write {allowed}, or lists, ranges and steps such as 1,3 or 1-5 or */2"
        if any(int(step) > size for step in _STEP.findall(field)):
            return f"{name}: a step is at most {size}; for longer periods write `interval`"
    return None


def _never_fault(text: str) -> str | None:
    """Each field alone is good, but no date has all of them."""
    try:
        first = next(CronSim(text, _ANY_MOMENT), None)
    except CronSimError:
        first = None
    return None if first else "never fires: no date of the calendar matches"


def five_fields(cron: str) -> str:
    return ALIASES.get(cron, cron)


def is_by_elapsed_time(cron: str) -> bool:
    """Whether minute or hour begin with `*`, so that the times follow the hours that pass.

    Otherwise each time of day fires once on each date: in a skipped hour at its end, in a repeated
    hour the first time.
    """
    minute, hour, *_ = five_fields(cron).split()
    return minute.startswith("*") or hour.startswith("*")


def cron_times(cron: str, zone: tzinfo, after: datetime) -> Iterator[datetime]:
    """The instants strictly after another at which the expression fires, ascending, in UTC.

    Raises:
        ValueError: the expression cannot be read; `cron_fault` says why.
    """
    if fault := cron_fault(cron):
        raise ValueError(f"cron: {fault}")
    after = after.astimezone(UTC)
    local = after.astimezone(zone)
    start = local.replace(tzinfo=None, fold=0)
    if not local.fold:
        start -= max(timedelta(), _change(start, zone))  # the hour will occur a second time
    walls = CronSim(five_fields(cron), start)
    times = _elapsed_times if is_by_elapsed_time(cron) else _times_of_day
    return dropwhile(lambda moment: moment <= after, times(walls, zone))


def _elapsed_times(walls: Iterator[datetime], zone: tzinfo) -> Iterator[datetime]:
    """What the clock shows fires as often as it is shown: never, once or twice."""
    repeated = deque[datetime]()
    for wall in walls:
        change = _change(wall, zone)
        if change < timedelta():
            continue
        moment = _instant(wall, zone)
        while repeated and repeated[0] < moment:
            yield repeated.popleft()
        yield moment
        if change:
            repeated.append(moment + change)
    yield from repeated


def _times_of_day(walls: Iterator[datetime], zone: tzinfo) -> Iterator[datetime]:
    """Each fires once: the first time it is shown, or at the end of the hour that is skipped."""
    newest = None
    for wall in walls:
        shown = wall
        while _change(shown, zone) < timedelta():
            shown += _MINUTE
        moment = _instant(shown, zone)
        if moment != newest:
            newest = moment
            yield moment


def _change(wall: datetime, zone: tzinfo) -> timedelta:
    """How much later the clock shows this again; negative if it skips it, else zero."""
    local = wall.replace(tzinfo=zone)
    return offset_of(local) - offset_of(local.replace(fold=1))


def _instant(wall: datetime, zone: tzinfo) -> datetime:
    """The first instant at which the clock shows this."""
    return wall.replace(tzinfo=UTC) - offset_of(wall.replace(tzinfo=zone))


def wall_times(cron: str, start: datetime, end: datetime) -> Iterator[datetime]:
    """What the expression names on the clock in [start, end), both without a zone."""
    for wall in CronSim(five_fields(cron), start - _SECOND):
        if wall >= end:
            return
        yield wall
