"""Recognise the delimiter of a CSV file by its first lines.

The header decides first, rows confirm: the mark under which most rows have as many fields as the
header, and the header most fields. A comma comes last among equals: numbers and names hold some.
"""

import csv
import io
from collections.abc import Sequence

SAMPLE_BYTES = 64 * 1024
_MARKS = ("\t", "|", ";", ",")
_MOST_ROWS = 200


def recognise_delimiter(sample: str, quote: str) -> str:
    """The delimiter of lines as they stand in a file; a comma where no mark divides the first.

    Args:
        sample: the first lines, header or first row included; a cut last line is left out.
        quote: around fields.
    """
    lines = list(io.StringIO(sample, newline=""))
    if len(sample) >= SAMPLE_BYTES and len(lines) > 1:
        lines = lines[:-1]
    fits = {mark: _fit(lines, mark, quote) for mark in _MARKS}
    best = max(_MARKS, key=lambda mark: fits[mark])  # the first of equals
    return best if fits[best][0] else ","


def _fit(lines: Sequence[str], mark: str, quote: str) -> tuple[bool, float, int]:
    """Whether the first line is divided, the share of rows that fit it, and its fields."""
    rows = []
    try:
        for row in csv.reader(lines, delimiter=mark, quotechar=quote, doublequote=True):
            if row:
                rows.append(row)
            if len(rows) > _MOST_ROWS:
                break
    except csv.Error:  # an overlong field: the mark does not divide this file
        rows = rows[:1]
    if not rows:
        return False, 0.0, 0
    width = len(rows[0])
    fitting = sum(len(row) == width for row in rows[1:])
    share = fitting / (len(rows) - 1) if len(rows) > 1 else 1.0
    return width > 1, round(share, 1), width
