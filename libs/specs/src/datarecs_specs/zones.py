"""Time zones from the pinned `tzdata` package, never from the tables of the machine.

The search path of `zoneinfo` belongs to the whole process, so it stays as it is: each zone is read
from the files of the package.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from zoneinfo import ZoneInfo

_PACKAGE = "tzdata"
_PLACEHOLDER = "Factory"
"""In the list of zones, for machines without a zone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneTables:
    """Zones by name, and the version of their rules."""

    version: str
    """Such as 2026.6."""
    zone: Callable[[str], tzinfo]
    """The zone of a name that `zone_fault` accepts."""


def zone_fault(name: str) -> str | None:
    """Why the name is no zone, or None."""
    return None if name in zone_names() else "no such time zone"


@cache
def zone_names() -> frozenset[str]:
    """The names of the IANA list, links included."""
    names = files(_PACKAGE).joinpath("zones").read_text(encoding="utf-8").split()
    return frozenset(names) - {_PLACEHOLDER}


@cache
def pinned_tables() -> ZoneTables:
    return ZoneTables(version=version(_PACKAGE), zone=_pinned_zone)


@cache
def _pinned_zone(name: str) -> tzinfo:
    """The zone of this name; UTC is the one of `datetime`, which is faster.

    Raises:
        ValueError: there is no such zone.
    """
    if fault := zone_fault(name):
        raise ValueError(f"{fault}: {name}")
    if name == "UTC":
        return UTC
    with files(_PACKAGE).joinpath("zoneinfo", *name.split("/")).open("rb") as table:
        return ZoneInfo.from_file(table, name)


def offset_of(local: datetime) -> timedelta:
    """How far the clock of an aware time is ahead of UTC."""
    return local.utcoffset() or timedelta()
