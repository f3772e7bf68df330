"""The format of a text file: delimiter, lines without rows, marks of numbers, formats of dates.

It is inferred from a sample of lines. The reason of every choice is stored for the job file.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from datarecs_core.comparison.values.forms import read_date, read_moment, read_number
from datarecs_core.comparison.values.value_formats import DateFormat, NumberFormat
from datarecs_specs.shapes import IDENT

MARKS = ("\t", "|", ";", ",")
_FOOTER = re.compile(
    r"(grand\s+)?(sub)?(total|totals|sum|summe|gesamt|insgesamt|trailer|footer|records?|rows|count"
    r"|anzahl|eof|end)\b.*",
    re.IGNORECASE,
)
_COMMENT = "#"
NULL_WORDS = frozenset(
    {"n/a", "N/A", "NA", "#N/A", "NULL", "null", "None", "none", "-", "--", "?", "\\N", "nan"}
)
_NUMBERS = tuple(
    NumberFormat(decimal, thousands)
    for decimal, thousands in (
        (".", ""), (",", ""), (",", "."), (".", ","), (".", "'"), (".", "\u2019"), (",", " "),
        (",", "\u00a0"), (",", "\u202f"), (".", " "),
    )
)  # fmt: skip
_DAYS = (
    "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d-%b-%Y",
    "%d %b %Y", "%d %B %Y", "%d-%b-%y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%Y%m%d",
)  # fmt: skip
_CLOCKS = ("%H:%M:%S", "%H:%M", "%H:%M:%S.%f", "%I:%M:%S %p", "%I:%M %p", "%H:%M:%S%z")
_FORMATS = (*_DAYS, *(f"{day}{gap}{clock}" for day in _DAYS for gap in " T" for clock in _CLOCKS))
_ENOUGH = 0.5
_MOST_LAST = 5
_TRIED = 500
"""Number of values that select a format, before all values confirm it."""
_YEARS = ("19", "20")


@dataclass(slots=True, kw_only=True)
class CsvForm:
    """Options of one file, with the reason of each."""

    options: dict[str, object] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """The reason of each option."""
    names: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)

    def choose(self, option: str, value: object, reason: str) -> None:
        self.options[option] = value
        self.reasons[option] = reason

    def texts(self, at: int) -> list[str]:
        """The values of a column, without NULL."""
        nulls = {"", *self._null_words}
        return [row[at] for row in self.rows if at < len(row) and row[at] not in nulls]

    @property
    def _null_words(self) -> Sequence[str]:
        words = self.options.get("null_words", ())
        return words if isinstance(words, (list, tuple)) else ()


def can_name(column: str) -> bool:
    """Whether a name is usable in a job; a header that ends in a delimiter has an empty name."""
    return IDENT.broken(column) is None


def csv_form_of(lines: Sequence[str], *, is_whole: bool) -> CsvForm:
    """Infer the format of a file from its first lines.

    Args:
        lines: lines with their line ends.
        is_whole: whether they are the whole file, including footers.
    """
    form = CsvForm()
    delimiter = _delimiter(lines)
    shown = "tab" if delimiter == "\t" else delimiter
    form.choose("delimiter", delimiter, f"with {shown} most lines have the same number of fields")
    lines = _without_comments(form, lines)
    rows = _parsed(lines, delimiter)
    width = _width(rows)
    rows = _without_heading(form, rows, width)
    if is_whole:
        rows = _without_footers(form, rows, width)
    _name_columns(form, rows)
    if any("\n" in value or "\r" in value for row in (form.names, *form.rows) for value in row):
        form.choose("multiline", value=True, reason="a field in quotes holds a line break")
    _choose_numbers(form)
    _choose_null_words(form)
    _choose_dates(form)
    return form


def _parsed(lines: Iterable[str], delimiter: str) -> list[list[str]]:
    rows: list[list[str]] = []
    with suppress(
        csv.Error
    ):  # a field beyond the limit of this reader: the rows before it are enough
        rows.extend(csv.reader(lines, delimiter=delimiter))
    return rows


def _delimiter(lines: Sequence[str]) -> str:
    def fit(mark: str) -> tuple[bool, float, int]:
        rows = [row for row in _parsed(lines[:_TRIED], mark) if row]
        width = _width(rows)
        share = sum(len(row) == width for row in rows) / len(rows) if rows else 0.0
        return width > 1, round(share, 1), width

    fits = {mark: fit(mark) for mark in MARKS}
    best = max(MARKS, key=lambda mark: fits[mark])
    return best if fits[best][0] else ","


def _width(rows: Sequence[Sequence[str]]) -> int:
    widths = Counter(len(row) for row in rows if row)
    return max(widths, key=lambda each: (widths[each], each), default=0)


def _without_comments(form: CsvForm, lines: Sequence[str]) -> list[str]:
    lines_of_rows = [line for line in lines if not line.startswith(_COMMENT)]
    if lines_of_rows and len(lines_of_rows) < len(lines):
        count = len(lines) - len(lines_of_rows)
        form.options["skip"] = {"prefixes": [_COMMENT]}
        form.reasons["skip"] = f"lines that start with {_COMMENT}: {count}"
    return lines_of_rows or list(lines)


def _skip(form: CsvForm, name: str, count: int, reason: str) -> None:
    options = form.options.get("skip")
    before = form.reasons.get("skip")
    form.options["skip"] = {**(options if isinstance(options, Mapping) else {}), name: count}
    form.reasons["skip"] = f"{before}; {reason}" if before else reason


def _without_heading(form: CsvForm, rows: list[list[str]], width: int) -> list[list[str]]:
    first = next((at for at, row in enumerate(rows) if len(row) == width), 0)
    if first and width > 1:
        _skip(form, "first", first, f"lines before the header: {first}")
        return rows[first:]
    return rows


def _without_footers(form: CsvForm, rows: list[list[str]], width: int) -> list[list[str]]:
    while rows and not any(rows[-1]):
        rows = rows[:-1]
    count = 0
    while count < min(_MOST_LAST, len(rows) - 2):
        row = rows[-1 - count]
        first = next((value for value in row if value.strip()), "")
        if len(row) == width and not _FOOTER.fullmatch(first.strip()):
            break
        count += 1
    if not count:
        return rows
    _skip(form, "last", count, f"lines at the end that look like totals: {count}")
    return rows[:-count]


def _name_columns(form: CsvForm, rows: list[list[str]]) -> None:
    first = rows[0] if rows else []
    values = sum(1 for each in first if read_number(each) or _is_date(each))
    if first and 2 * values >= len(first):
        form.choose("header", value=False, reason="the first line holds values, not names")
        form.names = [f"c{at}" for at in range(1, len(first) + 1)]
        form.rows = [row for row in rows if row]
    else:
        form.names = first
        form.rows = [row for row in rows[1:] if row]


def _is_date(text: str) -> bool:
    return read_date(text) is not None or any(_fits(each, text) for each in _DAYS)


def _choose_numbers(form: CsvForm) -> None:
    """The marks with which most columns are numbers; plain marks if none are better."""
    columns = [texts for at in range(len(form.names)) if (texts := form.texts(at)[:_TRIED])]
    # Digits alone are numbers in every format.
    marked = [[text for text in texts if not _is_digits(text)] for texts in columns]

    def numeric(numbers: NumberFormat) -> int:
        return sum(
            len(texts) - len(others) + sum(_is_number(text, numbers) for text in others)
            > _ENOUGH * len(texts)
            for texts, others in zip(columns, marked, strict=True)
        )

    order = list(_NUMBERS)
    if form.options["delimiter"] == ",":
        order = sorted(order, key=lambda each: (each.decimal == ",", not each.is_plain))
    counts = {(each.decimal, each.thousands): numeric(each) for each in order}
    best = max(order, key=lambda each: counts[each.decimal, each.thousands])
    if best.is_plain:
        return
    example = _example(form, best)
    form.choose("decimal", best.decimal, f"format of numbers, such as {example}")
    if best.thousands:
        form.choose("thousands", best.thousands, f"format of numbers, such as {example}")


def _is_digits(text: str) -> bool:
    return text.isdigit() and read_number(text) is not None


def _is_number(text: str, numbers: NumberFormat) -> bool:
    strict = numbers.strict(text)
    return strict is not None and read_number(strict) is not None


def _example(form: CsvForm, numbers: NumberFormat) -> str:
    """The longest number, which has most marks."""
    numbers_written = [
        text
        for at in range(len(form.names))
        for text in form.texts(at)[:_TRIED]
        if _is_number(text, numbers) and not text.isdigit()
    ]
    return max(numbers_written, key=len, default="")


def _choose_null_words(form: CsvForm) -> None:
    numbers = NumberFormat(
        str(form.options.get("decimal", ".")), str(form.options.get("thousands", ""))
    )
    words: dict[str, str] = {}
    for at, name in enumerate(form.names):
        texts = form.texts(at)
        others = [text for text in texts if not _is_number(text, numbers) and not _is_date(text)]
        if texts and len(others) < _ENOUGH * len(texts):
            words |= {each: name for each in others if each in NULL_WORDS}
    if words:
        reason = ", ".join(f"{word} is a value of {name}" for word, name in words.items())
        form.choose("null_words", sorted(words), reason)


def _choose_dates(form: CsvForm) -> None:
    formats: dict[str, str] = {}
    reasons = []
    for at, name in enumerate(form.names):
        texts = form.texts(at)
        if not can_name(name) or not texts or read_date(texts[0]) or read_moment(texts[0]):
            continue
        fitting = _fitting(texts)
        if fitting:
            formats[name] = fitting[0]
            unsure = f"; {fitting[1]} also fits, check it" if len(fitting) > 1 else ""
            reasons.append(f"{name} has values such as {texts[0]}{unsure}")
    if formats:
        form.choose("formats", formats, "; ".join(reasons))


def _fitting(texts: Sequence[str]) -> list[str]:
    """Formats that fit every value; several if no day of the sample is above 12."""
    candidates = [each for each in _FORMATS if all(_fits(each, text) for text in texts[:_TRIED])]
    return [each for each in candidates if all(_fits(each, text) for text in texts[_TRIED:])]


def _fits(written: str, text: str) -> bool:
    strict = DateFormat.of(written).strict(text)
    if strict is None or (written == "%Y%m%d" and not text.startswith(_YEARS)):
        return False
    return read_date(strict[:10]) is not None and (
        len(strict) <= len("2026-01-31") or read_moment(strict) is not None
    )
