"""Values of a csv source: decoded, brought to the strict form, typed.

The input is Latin-1, one character per byte, so no byte is lost before this; here it becomes UTF-8.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datarecs_connectors.column_inference import (
    ColumnInference,
    ColumnRules,
    Place,
    remedy,
    with_declared_format,
)
from datarecs_connectors.csv_options import CsvOptions
from datarecs_connectors.csv_text import CsvText
from datarecs_connectors.declared_types import text_column, text_value
from datarecs_connectors.skipped_lines import SkippedLines
from datarecs_connectors.text_files import UnpackedBytes
from datarecs_connectors.typed_text import TypedColumn
from datarecs_core.comparison.planning.scan import ColumnNote, PinnedFile
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.comparison.values.value_formats import NumberFormat, Strict
from datarecs_core.jobs.types import CanonicalType

_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvReading:
    """The files of a pin and how their lines are divided."""

    files: tuple[PinnedFile, ...]
    text: CsvText
    delimiter: str
    names: list[str]
    """Column names of the first file."""
    unpacked: UnpackedBytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnValues:
    """How the values of one column are read."""

    kind: CanonicalType
    strict: Strict | None

    def value(self, letters: str) -> object:
        """A plain value, or `Invalid` with its bytes."""
        raw = letters.encode("latin-1")
        text = utf8_of(letters)
        strict = text if text is None or self.strict is None else self.strict(text)
        if strict is None:
            return Invalid(raw)
        value = text_value(strict, self.kind)
        return Invalid(raw) if isinstance(value, Invalid) else value


def letters_of(text: str) -> str:
    """The UTF-8 bytes of a text as Latin-1 characters."""
    return text.encode().decode("latin-1")


def utf8_of(letters: str) -> str | None:
    """Latin-1 characters decoded as UTF-8; None when the bytes are not UTF-8."""
    if letters.isascii():
        return letters
    try:
        return letters.encode("latin-1").decode()
    except UnicodeDecodeError:
        return None


def typed_column(column: pa.Array, read: ColumnValues) -> TypedColumn:
    """A Latin-1 column as a column of an extract."""
    if read.strict is None and pc.all(pc.string_is_ascii(column)).as_py() is not False:
        return text_column(column, read.kind)
    encoded = column.dictionary_encode()
    words = encoded.dictionary.to_pylist()
    texts = [utf8_of(each) for each in words]
    if read.strict is not None:
        texts = [None if each is None else read.strict(each) for each in texts]
    broken = [
        None if text is not None else word.encode("latin-1")
        for word, text in zip(words, texts, strict=True)
    ]
    made = text_column(pa.array(texts, pa.string()), read.kind)
    raw = made.invalid if made.invalid is None else _written(made.invalid, words)
    if any(each is not None for each in broken):
        both = pa.array(broken, pa.binary())
        raw = both if raw is None else pc.coalesce(both, raw)
    invalid = None if raw is None else raw.take(encoded.indices)
    return TypedColumn(made.values.take(encoded.indices), invalid)


def _written(invalid: pa.Array, words: Sequence[str]) -> pa.Array:
    """Bytes as in the file, not those of the strict form."""
    return pa.array(
        [
            None if raw is None else word.encode("latin-1")
            for raw, word in zip(invalid.to_pylist(), words, strict=True)
        ],
        pa.binary(),
    )


def column_rules(options: CsvOptions, name: str, declared: CanonicalType | None) -> ColumnRules:
    """The options of one column."""
    formats = tuple(each for each in (options.date_format, options.timestamp_format) if each)
    rules = ColumnRules(
        name=name,
        declared=declared,
        numbers=NumberFormat(options.decimal, options.thousands),
        formats=formats,
    )
    written = options.formats.get(name)
    return rules if written is None else with_declared_format(rules, written)


def see_values(inference: ColumnInference, column: pa.Array, rows_before: int) -> None:
    """Pass a column's distinct values to its inference, each with its first row."""
    if inference.is_settled or column.null_count == len(column):
        return
    encoded = column.dictionary_encode()
    filled = np.flatnonzero(encoded.indices.is_valid().to_numpy(zero_copy_only=False))[::-1]
    codes = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    firsts = np.zeros(len(encoded.dictionary), np.int64)
    firsts[codes[filled]] = filled  # the last assignment remains: the first row
    for letters, row in zip(encoded.dictionary.to_pylist(), firsts.tolist(), strict=True):
        text = utf8_of(letters)
        inference.see(letters if text is None else text, rows_before + row)


def read_as(
    options: CsvOptions,
    files: Sequence[PinnedFile],
    delimiter: str,
    skipped: Mapping[str, SkippedLines],
) -> tuple[str, ...]:
    """Notes on the detected delimiter and the skipped lines."""
    words = []
    if options.delimiter is None:
        shown = {"\t": "tab"}.get(delimiter, f"'{delimiter}'")
        words.append(f"delimiter {shown}, detected in the first lines of {files[0].path}")
    every = list(skipped.values())
    for count, what in (
        (sum(each.first for each in every), "before the header"),
        (sum(each.last for each in every), "at the end"),
    ):
        if count:
            words.append(f"skipped {_lines(count)} {what} (options.skip)")
    for prefix in options.skip.prefixes:
        count = sum(each.by_prefix.get(prefix, 0) for each in every)
        words.append(f"skipped {_lines(count)} beginning with '{prefix}' (options.skip)")
    return tuple(words)


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"


def column_notes(
    columns: Sequence[ColumnInference], starts: Sequence[int], reading: CsvReading
) -> tuple[ColumnNote, ...]:
    """The value that makes a column text, or that its declared type cannot hold, with its line."""
    reasons = {each.rules.name: place for each in columns if (place := each.reason())}
    invalid = {each.rules.name: each.invalid for each in columns if each.invalid is not None}
    lines = _lines_of([*reasons.values(), *invalid.values()], starts, reading)
    notes = []
    for name, place in reasons.items():
        message = f"column {name} is text because of {_shown(place)} in {lines[place.row]}"
        notes.append(ColumnNote(column=name, message=message, hint=remedy(place.text, name)))
    kinds = {each.rules.name: each.column().type for each in columns}
    for name, place in invalid.items():
        message = (
            f"column {name}: {_shown(place)} in {lines[place.row]} is INVALID, not {kinds[name]}"
        )
        notes.append(ColumnNote(column=name, message=message, hint=remedy(place.text, name)))
    return tuple(notes)


def _shown(place: Place) -> str:
    text = place.text
    return f"'{text[:_SHOWN]}{'…' if len(text) > _SHOWN else ''}'"


def _lines_of(
    places: Sequence[Place], starts: Sequence[int], reading: CsvReading
) -> dict[int, str]:
    """Text that names the line of each row; `starts` are the first rows of the files."""
    named: dict[int, str] = {}
    ends = [*starts[1:], max((place.row for place in places), default=0) + 1]
    for file, start, end in zip(reading.files, starts, ends, strict=True):
        rows = {place.row - start for place in places if start <= place.row < end}
        if not rows:
            continue
        lines = reading.text.lines_of(file, reading.delimiter, rows, width=len(reading.names))
        of = f" of {file.path}" if len(reading.files) > 1 else ""
        for row in rows:
            place = f"line {lines[row]}" if row in lines else f"row {row + 1}"
            named[start + row] = f"{place}{of}"
    return named
