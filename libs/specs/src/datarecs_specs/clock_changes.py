"""What a change of the clocks does to a time of a schedule, in a sentence for people."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from datarecs_specs.cron import is_by_elapsed_time, wall_times
from datarecs_specs.zones import offset_of

_SECOND = timedelta(seconds=1)
_NEAR = timedelta(days=2)
"""Left-out times are noted at the next time, if that is at most so much later."""


def clock_note(cron: str, zone: str, local: datetime, *, before: datetime) -> str | None:
    """The note on a time, or None.

    Args:
        cron: the expression that fires.
        zone: its IANA name.
        local: the time, in the zone.
        before: the time before it, or where the times begin.
    """
    if is_by_elapsed_time(cron):
        return _left_out_note(cron, zone, local, before) or _repeated_note(
            zone, local, "this is the second" if local.fold else "this is the first"
        )
    return _moved_note(cron, zone, local) or _repeated_note(zone, local, "fires the first time")


def _repeated_note(zone: str, local: datetime, which: str) -> str | None:
    if local.replace(fold=0).utcoffset() == local.replace(fold=1).utcoffset():
        return None
    return f"{local:%H:%M} occurs twice on {local:%Y-%m-%d} in {zone}; {which}"


def _moved_note(cron: str, zone: str, local: datetime) -> str | None:
    """Times of day that a change skips fire when it ends."""
    skipped = _skipped_times(cron, local)
    if not skipped:
        return None
    end = f"{local:%H:%M}" if skipped[0].date() == local.date() else f"{local:%Y-%m-%d %H:%M}"
    return f"{_do_not_exist(skipped, zone)}; fires at {end}"


def _left_out_note(cron: str, zone: str, local: datetime, before: datetime) -> str | None:
    """Times that a change skips, and that do not fire at all."""
    change = _change_between(before, local)
    skipped = _skipped_times(cron, change) if change else []
    return f"{_do_not_exist(skipped, zone)}; left out" if skipped else None


def _do_not_exist(skipped: Sequence[datetime], zone: str) -> str:
    first, last = f"{skipped[0]:%H:%M}", f"{skipped[-1]:%H:%M}"
    times = f"{first} does" if len(skipped) == 1 else f"{first} to {last} do"
    return f"{times} not exist on {skipped[0]:%Y-%m-%d} in {zone}"


def _skipped_times(cron: str, local: datetime) -> list[datetime]:
    """What cron names on the clock in the hour that a change skips just before this instant."""
    earlier = (local.astimezone(UTC) - _SECOND).astimezone(local.tzinfo)
    jump = offset_of(local) - offset_of(earlier)
    end = local.replace(tzinfo=None, fold=0)
    return list(wall_times(cron, end - jump, end)) if jump > timedelta() else []


def _change_between(before: datetime, local: datetime) -> datetime | None:
    """The instant in (before, local] at which the clocks change, in the zone of `local`."""
    zone = local.tzinfo
    early, late = before.astimezone(UTC), local.astimezone(UTC)
    old = offset_of(early.astimezone(zone))
    if late - early > _NEAR or old == offset_of(local):
        return None
    while late - early > _SECOND:
        middle = early + (late - early) // 2
        if offset_of(middle.astimezone(zone)) == old:
            early = middle
        else:
            late = middle
    return late.replace(microsecond=0).astimezone(zone)
