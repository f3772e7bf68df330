"""Infer the type of one text column from all values, and record the value that prevents it.

A column of 10,000 amounts and one `n/a` is text. To explain this, the first value that does not
fit the others is recorded with its row; the reader of the file turns the row into a line number.
"""

import re
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from datarecs_connectors.declared_types import text_value
from datarecs_core.comparison.planning.scan import SourceColumn
from datarecs_core.comparison.values.forms import (
    Inference,
    read_bool,
    read_date,
    read_moment,
    read_number,
)
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.comparison.values.value_formats import (
    PLAIN_NUMBERS,
    DateFormat,
    NumberFormat,
    strict_reader,
)
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType

_WORDS = "words"
_ENOUGH_WORDS = 200
"""A column with this many words, and fewer other values, is text without a warning."""
_OTHER_NUMBER = re.compile(r"[+-]?\d{1,3}(?:[.,' \u00a0]?\d{3})*(?:[.,]\d+)?-?", re.ASCII)
_OTHER_DATE = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}(?:[ T].*)?", re.ASCII)


class Place(NamedTuple):
    """A value and the first row that contains it, counted from 0 over all files."""

    row: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRules:
    """What a job declares about the values of one column."""

    name: str
    declared: CanonicalType | None = None
    numbers: NumberFormat = PLAIN_NUMBERS
    formats: tuple[str, ...] = ()
    """Formats of dates and of timestamps, tried in this order for a whole column."""


@dataclass(slots=True, kw_only=True)
class ColumnInference:
    """Inference for one column; call `see` with each distinct value of a batch."""

    rules: ColumnRules
    plain: Inference = field(default_factory=Inference)
    """Number of values per form, without formats of dates."""
    by_format: dict[str, bool] = field(default_factory=dict)
    """Whether every value so far has the format."""
    counts: dict[str, int] = field(default_factory=dict)
    """Number of distinct values of all batches, per form."""
    firsts: dict[str, Place] = field(default_factory=dict)
    invalid: Place | None = None
    """The first value that the declared type cannot hold."""

    def __post_init__(self) -> None:
        self.by_format = dict.fromkeys(self.rules.formats, True)

    @property
    def is_settled(self) -> bool:
        """No further value can change type or reason."""
        if self.rules.declared is not None:
            return self.invalid is not None
        words = self.counts.get(_WORDS, 0)
        return words > _ENOUGH_WORDS and 2 * words > sum(self.counts.values())

    def see(self, text: str, row: int) -> None:
        """Add one value that is not NULL, and its row."""
        if self.rules.declared is not None:
            self._check(text, row)
            return
        self.by_format = {
            each: fits and DateFormat.of(each).strict(text) is not None
            for each, fits in self.by_format.items()
        }
        strict = self._strict_number(text)
        self.plain = self.plain.see(strict)
        kind = _class_of(strict)
        if kind == _WORDS:
            kind = self._format_of(text) or _WORDS
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if kind not in self.firsts or self.firsts[kind].row > row:
            self.firsts[kind] = Place(row, text)

    def column(self) -> SourceColumn:
        """The type of all values, and their date format if it is declared."""
        kind, written = self._type()
        return SourceColumn(
            name=self.rules.name, type=kind, native_type="text", date_format=written
        )

    def reason(self) -> Place | None:
        """The first value that makes the column text although the others are not text."""
        kind, _ = self._type()
        if kind != types.TEXT or self.rules.declared is not None or not self.firsts:
            return None
        main = max(self.counts, key=lambda each: self.counts[each])
        if main == _WORDS:
            first = self.firsts[_WORDS]
            return first if is_number_like(first.text) or is_date_like(first.text) else None
        return min(place for each, place in self.firsts.items() if each != main)

    def _type(self) -> tuple[CanonicalType, str]:
        if self.rules.declared is not None:
            fitting = [
                each
                for each in self.rules.formats
                if DateFormat.of(each).kind.kind is self.rules.declared.kind
            ]
            return self.rules.declared, fitting[0] if fitting else ""
        if self.plain.type is not None:
            for written, fits in self.by_format.items():
                if fits:
                    return DateFormat.of(written).kind, written
        return self.plain.type or types.NULL, ""

    def _strict_number(self, text: str) -> str:
        """Write a number with standard marks; a number with other marks is a word."""
        strict = self.rules.numbers.strict(text)
        if strict is not None:
            return strict
        return text if read_number(text) is None else f"'{text}"

    def _format_of(self, text: str) -> str | None:
        for each in self.rules.formats:
            if DateFormat.of(each).strict(text) is not None:
                return each
        return None

    def _check(self, text: str, row: int) -> None:
        kind, written = self._type()
        read = strict_reader(kind, self.rules.numbers, written)
        strict = text if read is None else read(text)
        if strict is None or isinstance(text_value(strict, kind), Invalid):
            place = Place(row, text)
            self.invalid = place if self.invalid is None else min(self.invalid, place)


def _class_of(strict: str) -> str:
    """The form of a value in strict notation."""
    if read_bool(strict):
        return "bool"
    if read_number(strict):
        return "number"
    if read_date(strict):
        return "date"
    moment = read_moment(strict)
    return _WORDS if moment is None else moment.tag.name


def is_number_like(text: str) -> bool:
    """Whether the value is a number in a national notation, or has its sign at the end."""
    return _OTHER_NUMBER.fullmatch(text) is not None


def is_date_like(text: str) -> bool:
    """Whether the value is three groups of digits, optionally followed by a time."""
    return _OTHER_DATE.fullmatch(text) is not None


def remedy(text: str, column: str) -> str:
    """The declaration that gives a column with this value a better type."""
    if text.strip() != text:
        return "remove the spaces around it, or trim the column in an `expr`"
    if re.fullmatch(r"-?0\d+", text):
        return "a code with leading zeros stays text; compare it with text"
    if is_number_like(text) and sum(map(str.isdigit, text)) > types.MAX_DIGITS:
        return f"numbers have at most {types.MAX_DIGITS} digits; cast {column} to text"
    if is_date_like(text):
        return f"declare options.formats: {{{column}: '%d.%m.%Y'}} with the format of its dates"
    if is_number_like(text):
        return "declare options.decimal and options.thousands with the marks of its numbers"
    return "add it to options.null_words, or skip its line with options.skip"


def with_declared_format(rules: ColumnRules, written: str) -> ColumnRules:
    """The type of a column with a declared format."""
    return replace(
        rules, declared=rules.declared or DateFormat.of(written).kind, formats=(written,)
    )
