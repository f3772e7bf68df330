"""Detect the delimiter of a CSV file in its first lines.

The delimiter is the mark with which most rows have as many fields as the header, then the mark with
the most fields in the header. Among equals a comma comes last: numbers and names contain commas.
"""

import csv
import io
from collections.abc import Sequence

SAMPLE_BYTES = 64 * 1024
_MARKS = ("\t", "|", ";", ",")
_MOST_ROWS = 200


def recognise_delimiter(sample: str, quote: str) -> str:
    """The delimiter of the lines; a comma if no mark divides the first line.

    Args:
        sample: the first lines, with the header or first row; an incomplete last line is ignored.
        quote: around fields.
    """
    lines = list(io.StringIO(sample, newline=""))
    if len(sample) >= SAMPLE_BYTES and len(lines) > 1:
        lines = lines[:-1]
    fits = {mark: _fit(lines, mark, quote) for mark in _MARKS}
    best = max(_MARKS, key=lambda mark: fits[mark])  # the first of equals
    return best if fits[best][0] else ","


def _fit(lines: Sequence[str], mark: str, quote: str) -> tuple[bool, float, int]:
    """Whether the mark divides the first line, the share of rows that fit, and its fields."""
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
