"""How text files write numbers, dates and times: from a declared format to the strict form.

Formats are those of strptime, in the directives below. A value that does not have its format has
no strict form; it is never read in another one, so that 03/04/2026 is one day and not two.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType, TypeKind

_MONTHS = "january february march april may june july august september october november december"
_MONTH_NUMBERS = {name[:3]: at for at, name in enumerate(_MONTHS.split(), start=1)}
_DIRECTIVES: Mapping[str, str] = {
    "Y": r"(?P<Y>\d{4})",
    "y": r"(?P<y>\d{2})",
    "m": r"(?P<m>\d{1,2})",
    "b": r"(?P<b>[A-Za-z]{3})",
    "B": r"(?P<b>[A-Za-z]{3,9})",
    "d": r"(?P<d>\d{1,2})",
    "H": r"(?P<H>\d{1,2})",
    "I": r"(?P<I>\d{1,2})",
    "p": r"(?P<p>[AaPp][Mm])",
    "M": r"(?P<M>\d{2})",
    "S": r"(?P<S>\d{2})",
    "f": r"(?P<f>\d{1,9})",
    "z": r"(?P<z>Z|[+-]\d{2}:?\d{2})",
    "%": "%",
}
DIRECTIVES = ", ".join(f"%{letter}" for letter in _DIRECTIVES)
_FIRST_YEAR_OF_1900S = 69
_NOON = 12
_NEEDS = "year, month and day, or hour and minute, or both"


@dataclass(frozen=True, slots=True)
class DateFormat:
    """A compiled format; made by `of`."""

    text: str
    pattern: re.Pattern[str]
    kind: CanonicalType
    """date, time, local_timestamp, or instant where it has an offset."""

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, text: str) -> "DateFormat":
        """Raises ValueError for a directive that is not known, repeated or missing."""
        parts, letters = [], []
        at = 0
        while at < len(text):
            if text[at] != "%":
                parts.append(re.escape(text[at]))
                at += 1
                continue
            letter = text[at + 1 : at + 2]
            if letter not in _DIRECTIVES:
                raise ValueError(f"%{letter} is not known; known are {DIRECTIVES}")
            parts.append(_DIRECTIVES[letter])
            letters.append(letter.lower() if letter == "B" else letter)
            at += 2
        if len(set(letters) - {"%"}) != len([each for each in letters if each != "%"]):
            raise ValueError("a directive occurs twice")
        return cls(text, re.compile("".join(parts), re.ASCII), _kind_of(frozenset(letters)))

    def strict(self, text: str) -> str | None:
        """The value in ISO 8601, or None when it does not have this format."""
        match = self.pattern.fullmatch(text)
        if match is None:
            return None
        part = match.groupdict()
        day = _day(part) if self.kind.kind is not TypeKind.TIME else ""
        clock = _clock(part) if self.kind.kind is not TypeKind.DATE else ""
        if day is None or clock is None:
            return None
        return f"{day} {clock}".strip() + _offset(part.get("z"))


def _kind_of(letters: frozenset[str]) -> CanonicalType:
    has_day = bool(letters & set("Yy")) and bool(letters & set("mb")) and "d" in letters
    has_clock = ("H" in letters or {"I", "p"} <= letters) and "M" in letters
    is_mixed = {"Y", "y"} <= letters or {"m", "b"} <= letters or {"H", "I"} <= letters
    spare_day = bool(letters & set("Yymbd")) and not has_day
    spare_clock = bool(letters & set("HIpMSfz")) and not has_clock
    loose = ("f" in letters and "S" not in letters) or ("p" in letters and "I" not in letters)
    if is_mixed or spare_day or spare_clock or loose or not (has_day or has_clock):
        raise ValueError(f"the format needs {_NEEDS}")
    if has_day and has_clock:
        return types.INSTANT if "z" in letters else types.LOCAL_TIMESTAMP
    if "z" in letters:
        raise ValueError("an offset needs a date and a time")
    return types.DATE if has_day else types.TIME


def _day(part: Mapping[str, str | None]) -> str | None:
    year = part.get("Y")
    if year is None:
        short = int(part.get("y") or 0)
        year = f"{1900 + short if short >= _FIRST_YEAR_OF_1900S else 2000 + short:04}"
    month = int(part.get("m") or 0) or _month(part.get("b") or "")
    return None if not month else f"{year}-{month:02}-{int(part.get('d') or 0):02}"


def _month(name: str) -> int:
    is_whole = name.lower() in _MONTHS.split() or len(name) == len("Jan")
    return _MONTH_NUMBERS.get(name[:3].lower(), 0) if is_whole else 0


def _clock(part: Mapping[str, str | None]) -> str | None:
    hour = int(part.get("H") or part.get("I") or 0)
    if part.get("p"):
        if not 1 <= hour <= _NOON:
            return None
        hour = hour % _NOON + (_NOON if (part.get("p") or "").lower() == "pm" else 0)
    second, fraction = part.get("S") or "00", part.get("f")
    return f"{hour:02}:{part.get('M')}:{second}" + (f".{fraction}" if fraction else "")


def _offset(zone: str | None) -> str:
    if zone is None or zone == "Z":
        return zone or ""
    return f"{zone[:3]}:{zone[-2:]}"


THOUSANDS_MARKS = ("", ",", ".", "'", "\u2019", " ", "\u00a0", "\u202f", "_")


@dataclass(frozen=True)
class NumberFormat:
    """Which marks a file writes into numbers."""

    decimal: str = "."
    thousands: str = ""

    @property
    def is_plain(self) -> bool:
        return self.decimal == "." and not self.thousands

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        mark, point = re.escape(self.thousands), re.escape(self.decimal)
        whole = rf"\d{{1,3}}(?:{mark}\d{{3}})+|\d+" if mark else r"\d+"
        return re.compile(rf"(-?)({whole})(?:{point}(\d+))?", re.ASCII)

    def strict(self, text: str) -> str | None:
        """The number with a point and without other marks, or None when it is none."""
        if self.is_plain:
            return text
        match = self._pattern.fullmatch(text)
        if match is None:
            return None
        sign, whole, fraction = match.groups()
        whole = whole.replace(self.thousands, "") if self.thousands else whole
        return f"{sign}{whole}" + (f".{fraction}" if fraction is not None else "")


PLAIN_NUMBERS = NumberFormat()
Strict = Callable[[str], str | None]


def strict_reader(kind: CanonicalType, numbers: NumberFormat, date_format: str) -> Strict | None:
    """How values of a column become the strict form of its type; None where they have it."""
    if kind.is_number and not numbers.is_plain:
        return numbers.strict
    if date_format and kind.is_time:
        return DateFormat.of(date_format).strict
    return None
