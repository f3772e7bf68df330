"""How decimals, durations and sizes are written in declarations, read and written back exactly.

One notation for every kind, so the module is beside `values` and in no concept. No value becomes a
float, and every text is bounded before it is converted.
"""

import re
from datetime import timedelta
from decimal import Decimal

MAX_DIGITS = 38
MAX_PLACES = 18

_DECIMAL = re.compile(r"(-?)([0-9]{1,38})(?:\.([0-9]{1,18}))?", re.ASCII)
_DURATION = re.compile(
    r"P(?!$)(?:([0-9]{1,5})W)?(?:([0-9]{1,6})D)?"
    r"(?:T(?!$)(?:([0-9]{1,7})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9})(?:\.([0-9]{1,6}))?S)?)?",
    re.ASCII,
)
_SIZE = re.compile(r"([0-9]{1,9})(KiB|MiB|GiB|TiB)", re.ASCII)
_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def parse_decimal(text: str, *, signed: bool = False) -> Decimal | None:
    """Digits with a point: at most 38, of which at most 18 after it; None for anything else.

    No exponent, plus sign, comma, NaN; a minus only when `signed`. Trailing zeros are preserved.
    """
    match = _DECIMAL.fullmatch(text)
    if match is None or (match[1] and not signed):
        return None
    if len(match[2].lstrip("0")) + len(match[3] or "") > MAX_DIGITS:
        return None
    return Decimal(text)


def parse_duration(text: str) -> timedelta | None:
    """ISO 8601 weeks, days and time, such as P1D, PT15M, PT0.5S; None for anything else.

    Months and years are refused because their length varies. At most six digits after the second.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    weeks, days, hours, minutes, seconds = (int(match[part] or 0) for part in range(1, 6))
    microseconds = int((match[6] or "").ljust(6, "0"))
    return timedelta(
        weeks=weeks,
        days=days,
        hours=hours,
        minutes=minutes,
        seconds=seconds,
        microseconds=microseconds,
    )


def duration_text(duration: timedelta) -> str:
    """The shortest ISO 8601 form in days and time; equal durations give equal text.

    Raises:
        ValueError: the duration is negative.
    """
    if duration < timedelta():
        raise ValueError("a duration in a declaration is not negative")
    minutes, seconds = divmod(duration.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{duration.microseconds:06}".rstrip("0") if duration.microseconds else ""
    date = f"{duration.days}D" if duration.days else ""
    time = "".join(f"{count}{unit}" for count, unit in ((hours, "H"), (minutes, "M")) if count)
    time += f"{seconds}{fraction}S" if seconds or fraction else ""
    if not date and not time:
        return "PT0S"
    return f"P{date}T{time}" if time else f"P{date}"


def parse_size(text: str) -> int | None:
    """Bytes of an integer with KiB, MiB, GiB or TiB; None for anything else."""
    match = _SIZE.fullmatch(text)
    return int(match[1]) * _UNITS[match[2]] if match else None


def size_text(size_bytes: int) -> str:
    """The largest unit that divides the bytes.

    Raises:
        ValueError: the bytes are not a whole number of KiB, which a declaration cannot express.
    """
    for unit, factor in reversed(_UNITS.items()):
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    if size_bytes:
        raise ValueError("a size in a declaration is a whole number of KiB")
    return "0KiB"
