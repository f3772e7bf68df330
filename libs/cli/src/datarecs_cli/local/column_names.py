"""Names of columns on the command line: `A,B` and `COLUMN=LIMIT`, with quotes as in CSV.

A name with a comma or an equals sign is written in double quotes, and a quote in it twice.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from datarecs_cli.invocation import UsageFault

_QUOTED = r'"((?:[^"]|"")*)"'
_NAME = re.compile(rf"\s*(?:{_QUOTED}\s*(?=,|$)|([^,]*))(?:,|$)")
_MEASURE = re.compile(rf"\s*{_QUOTED}\s*(?:=(.*))?", re.DOTALL)
_LIMIT = re.compile(r"\s*[-+.\dP].*", re.DOTALL)


class MeasureFlag(NamedTuple):
    """A column to compare, and the text of its limit."""

    name: str
    limit: str | None = None

    def __str__(self) -> str:
        """As on the command line."""
        name = name_text(self.name, marks=',"=')
        return name if self.limit is None else f"{name}={self.limit}"


def name_text(name: str, *, marks: str = ',"') -> str:
    """The name as on the command line: in quotes if it has one of the marks."""
    if name == name.strip() and not any(mark in name for mark in marks):
        return name
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def column_names(values: Sequence[str]) -> tuple[str, ...]:
    """The names of a flag that may be repeated; names without quotes have no outer spaces."""
    return tuple(name for value in values for name in _names(value) if name)


def _names(value: str) -> list[str]:
    names, at = list[str](), 0
    while at <= len(value):
        match = _NAME.match(value, at)
        if match is None:
            raise TypeError("every text is a list of names")
        quoted, plain = match.groups()
        names.append(plain.strip() if quoted is None else quoted.replace('""', '"'))
        at = match.end() if value[match.start() : match.end()].endswith(",") else len(value) + 1
    return names


def measure_flag(text: str) -> MeasureFlag:
    """`amount=0.01`, `qty=1%`, `booked_at=PT1S`, or a bare column, which must be equal.

    Raises:
        UsageFault: the limit is neither a number nor a length of time.
    """
    match = _MEASURE.fullmatch(text)
    if match is not None:
        return MeasureFlag(match[1].replace('""', '"'), match[2])
    name, equals, limit = text.rpartition("=")
    if not equals:
        return MeasureFlag(text)
    if not _LIMIT.fullmatch(limit):
        quoted = name_text(text, marks="=")
        raise UsageFault(
            f"--measure {text}: {limit!r} is no limit, such as 0.01, 1% or PT1S; a column with = "
            f"in its name is written in double quotes: --measure '{quoted}'"
        )
    return MeasureFlag(name, limit)
