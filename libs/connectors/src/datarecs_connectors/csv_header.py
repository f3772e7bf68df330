"""What is wrong with the first record of a CSV file, and how to mend it.

Separate from the reader because these faults are found in the lines, before columns are known.
"""

import csv
import re
from collections.abc import Sequence

_BREAK = re.compile("\r\n|\n|\r")
_SHORTEST = len("sep=")


def has_other_breaks(names: Sequence[str], lines: Sequence[str]) -> bool:
    """Whether a field of the first record holds another line break than the one that ends it.

    DuckDB takes the first line break of a file for the end of every line, and would read no rows.
    """
    breaks = {each for name in names for each in _BREAK.findall(name)}
    return bool(_end_of(lines)) and bool(breaks - {_end_of(lines)})


def plain_header(width: int, delimiter: str, lines: Sequence[str]) -> str:
    """A line of as many fields, which ends like the lines of the file."""
    return delimiter.join(["c"] * width) + _end_of(lines)


def _end_of(lines: Sequence[str]) -> str:
    """The line break of the last line; empty without one."""
    ends = [ending for ending in ("\r\n", "\n") if lines and lines[-1].endswith(ending)]
    return ends[0] if ends else ""


def record_fault(
    names: Sequence[str], lines: Sequence[str], *, at: int, is_header: bool
) -> str | None:
    """Why the first record cannot be used, or None.

    Args:
        names: its fields.
        lines: of the file, with their ends, as letters; more than one if a name has line breaks.
        at: the number of the first line in the file.
        is_header: whether it holds names, not values.
    """
    if not names:
        if lines:
            return f"line {at} is empty; skip it with options.skip.first, or write a header line"
        return (
            "has no line to read column names from; write a header line, or leave the file out of "
            "the path"
        )
    first = lines[0].rstrip("\r\n")
    if first.startswith("sep=") and len(first) == _SHORTEST + 1:
        return f"line {at} names the delimiter for Excel; skip it with options.skip.first: 1"
    if not is_header and has_other_breaks(names, lines):
        return (
            f"line {at}: a field of the first record holds another line break than the one that "
            "ends lines; remove it from the field, or save the file with one kind of line break"
        )
    return None


def unreadable_fault(cause: csv.Error) -> str:
    """What the parser of Python found in the first record."""
    text = str(cause)
    if "new-line" in text:
        return "lines end with CR only, or a name holds a CR; save the file with LF line endings"
    if "expected after" in text:
        return (
            "text follows a closing quote; write a quote inside a name twice, and nothing between "
            "a closing quote and the delimiter"
        )
    return "a quote is not closed; close it, or set options.quote to a character that is not used"
