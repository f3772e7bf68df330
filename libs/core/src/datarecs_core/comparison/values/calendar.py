"""Days and microseconds since 1970 as ISO texts and back, for every year, proleptic Gregorian.

Python's own dates end at the years 1 and 9999; sources do not.
"""

from decimal import ROUND_FLOOR, Decimal

from datarecs_core.values import EXACT

MICROS_OF_SECOND = Decimal(1_000_000)
MICROS_OF_DAY = Decimal(86_400_000_000)
_DAYS_TO_1970 = 719_468
"""From 0000-03-01, where the arithmetic begins because leap days then end a year."""
_DAYS_OF_400_YEARS = 146_097


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01; year 0 is 1 BC. The parts must be a real date."""
    shifted = year - (month <= 2)  # noqa: PLR2004 - January and February end the year before
    era, year_of_era = divmod(shifted, 400)
    day_of_year = (153 * ((month - 3) % 12) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * _DAYS_OF_400_YEARS + day_of_era - _DAYS_TO_1970


def date_of(days: int) -> tuple[int, int, int]:
    """Year, month and day of a count of days since 1970-01-01."""
    era, day_of_era = divmod(days + _DAYS_TO_1970, _DAYS_OF_400_YEARS)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_of_year = (5 * day_of_year + 2) // 153
    month = month_of_year + 3 if month_of_year < 10 else month_of_year - 9  # noqa: PLR2004 - March is month 0
    year = year_of_era + era * 400 + (month <= 2)  # noqa: PLR2004 - January and February
    return year, month, day_of_year - (153 * month_of_year + 2) // 5 + 1


def date_text(days: Decimal) -> str:
    """`YYYY-MM-DD`, signed outside the years 1 to 9999; `Inf` and `-Inf`."""
    if not days.is_finite():
        return "-Inf" if days.is_signed() else "Inf"
    year, month, day = date_of(int(days))
    if 1 <= year <= 9999:  # noqa: PLR2004 - the years of four digits
        return f"{year:04}-{month:02}-{day:02}"
    return f"{year:+05}-{month:02}-{day:02}"


def moment_text(microseconds: Decimal, *, of_day: bool = False) -> str:
    """`YYYY-MM-DDTHH:MM:SS`, with a fraction when there is one; a time of day without its date."""
    if not microseconds.is_finite():
        return "-Inf" if microseconds.is_signed() else "Inf"
    seconds = whole(EXACT.multiply(microseconds, Decimal("0.000001")))
    rest = EXACT.subtract(microseconds, EXACT.multiply(Decimal(seconds), MICROS_OF_SECOND))
    days, second = (0, seconds) if of_day else divmod(seconds, 86_400)
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}{_fraction(rest)}"
    return clock if of_day else f"{date_text(Decimal(days))}T{clock}"


def whole(value: Decimal) -> int:
    """The largest integer not above a number: truncation goes to the earlier moment."""
    return int(value.to_integral_value(rounding=ROUND_FLOOR))


def _fraction(microseconds: Decimal) -> str:
    if microseconds == 0:
        return ""
    digits = format(microseconds.scaleb(-6, EXACT), "f").partition(".")[2]
    return f".{digits.rstrip('0')}"
