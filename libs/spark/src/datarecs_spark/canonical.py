"""Canonical values in SQL: texts, encodings c1 and orders.

The oracle's `comparison.canonical` in Spark's own functions, byte for byte. Every function takes
SQL and gives SQL; what SQL cannot write (floats, nested values, years beyond 9999) comes out as
NULL.
"""

import re
from collections.abc import Sequence

from datarecs_core.comparison.values.canonical import Tag, encode, text
from datarecs_kernel.forms import Form, FormKind, tag_of

_DAYS = "-719162 AND 2932896"
_YEAR_0 = "-719528 AND -719163"
_MOMENTS = (-62135596800000000, 253402300800000000)
"""The first of the years 1 to 9999, which Spark writes as we do, and the first after them."""
_PLAIN = re.compile(r"[A-Za-z0-9_ .:,$*#()|-]*")
ENCODED_NULL = "X'0000000000'"


def name(column: str) -> str:
    """An identifier, whatever is in it."""
    return f"`{column.replace('`', '``')}`"


def binary_literal(raw: bytes) -> str:
    return f"X'{raw.hex()}'"


def text_literal(written: str) -> str:
    """A string, whatever is in it: no quoting rule can be wrong where bytes are given."""
    if _PLAIN.fullmatch(written):
        return f"'{written}'"
    return f"CAST({binary_literal(written.encode())} AS STRING)"


def plain_number(written: str) -> str:
    """Digits with a point as canonical text: no trailing zeros."""
    shorter = f"trim(TRAILING '.' FROM trim(TRAILING '0' FROM {written}))"
    return f"CASE WHEN instr({written}, '.') > 0 THEN {shorter} ELSE {written} END"


def text_of(form: Form, value: str) -> str:  # noqa: PLR0911  one per kind
    """As people read it in differences; NULL for NULL, and for what SQL cannot write."""
    match form.kind:
        case FormKind.DECIMAL:
            return plain_number(f"CAST({value} AS STRING)")
        case FormKind.DOUBLE | FormKind.ARRAY | FormKind.STRUCT | FormKind.MAP:
            return "CAST(NULL AS STRING)"
        case FormKind.NUMBER | FormKind.TEXT | FormKind.JSON:
            return value
        case FormKind.BINARY:
            return f"lower(hex({value}))"
        case FormKind.UUID:
            return _uuid_text(f"lower(hex({value}))")
        case FormKind.DATE | FormKind.TIME | FormKind.INSTANT | FormKind.LOCAL:
            return _moment_text(form, value)
        case _:
            return f"CAST({value} AS STRING)"


def _uuid_text(digits: str) -> str:
    parts = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
    cut = ", '-', ".join(f"substr({digits}, {at}, {size})" for at, size in parts)
    return f"concat({cut})"


def _moment_text(form: Form, value: str) -> str:
    if form.kind is FormKind.DATE:
        written = f"CAST(date_from_unix_date(CAST({value} AS INT)) AS STRING)"
        return f"CASE WHEN {value} BETWEEN {_DAYS} THEN {written} END"
    moment = _finer_text(value) if form.is_finer else f"CAST(timestamp_micros({value}) AS STRING)"
    if form.kind is FormKind.TIME:
        return f"CASE WHEN {value} >= 0 AND {value} < 86400000000 THEN substr({moment}, 12) END"
    zone = "Z" if form.kind is FormKind.INSTANT else ""
    written = f"concat(replace({moment}, ' ', 'T'), '{zone}')"
    first, after = _MOMENTS
    return f"CASE WHEN {value} >= {first} AND {value} < {after} THEN {written} END"


def _finer_text(value: str) -> str:
    """As Spark writes a timestamp, with up to nine digits of the second."""
    rest = f"pmod({value}, 1000000L)"
    second = f"CAST(timestamp_micros(CAST({value} - {rest} AS BIGINT)) AS STRING)"
    digits = f"lpad(CAST(CAST({rest} * 1000L AS BIGINT) AS STRING), 9, '0')"
    fraction = f"concat('.', trim(TRAILING '0' FROM {digits}))"
    return f"concat({second}, IF({rest} = 0, '', {fraction}))"


def _micros_text(form: Form, value: str) -> str:
    written = f"CAST({value} AS STRING)"
    return plain_number(written) if form.is_finer else written


def invalid_text(payload: str) -> str:
    """Of the payload of an INVALID value: the bytes behind the source's name, in hexadecimal."""
    return f"concat('INVALID(0x', lower(hex(substr({payload}, {_name_size(payload)} + 6))), ')')"


def invalid_size(payload: str) -> str:
    """Of the same: how many bytes stand behind the source's name."""
    return f"(octet_length({payload}) - {_name_size(payload)} - 5)"


def _name_size(payload: str) -> str:
    return f"CAST(conv(hex(substr({payload}, 2, 4)), 16, 10) AS INT)"


def invalid_payload(source: str, raw: str) -> str:
    """The encoding's payload of an INVALID value of a source: it equals no other source's."""
    return f"concat({binary_literal(encode(text(source)))}, {raw})"


def encoded(form: Form, value: str, payload: str | None = None) -> str:
    """Encoding c1 of a value; `payload` is not NULL where the value is INVALID."""
    tagged = _tagged(tag_of(form), _payload(form, value))
    valid = f"CASE WHEN {value} IS NULL THEN {ENCODED_NULL} ELSE {tagged} END"
    if payload is None:
        return valid
    return f"CASE WHEN {payload} IS NOT NULL THEN {_tagged(Tag.INVALID, payload)} ELSE {valid} END"


def _payload(form: Form, value: str) -> str:
    match form.kind:
        case FormKind.BINARY | FormKind.UUID | FormKind.ARRAY | FormKind.STRUCT | FormKind.MAP:
            return value
        case FormKind.BOOL:
            return f"IF({value}, X'01', X'00')"
        case FormKind.TIME | FormKind.INSTANT | FormKind.LOCAL:
            return f"CAST({_micros_text(form, value)} AS BINARY)"
        case FormKind.DATE:
            return f"CAST({_any_date(value)} AS BINARY)"
        case _:
            return f"CAST({text_of(form, value)} AS BINARY)"


def _any_date(value: str) -> str:
    """ISO text, signed outside the years 1 to 9999; Spark leaves the year 0 without a sign."""
    written = f"CAST(date_from_unix_date(CAST({value} AS INT)) AS STRING)"
    return f"IF({value} BETWEEN {_YEAR_0}, concat('+', {written}), {written})"


def _tagged(tag: Tag, payload: str) -> str:
    return f"concat(X'{tag:02x}', {_uint32(f'octet_length({payload})')}, {payload})"


def _uint32(number: str) -> str:
    return f"unhex(lpad(hex({number}), 8, '0'))"


def encoded_tuple(parts: Sequence[str]) -> str:
    """Encodings after one another, behind their count."""
    count = f"X'{len(parts):04x}'"
    return f"concat({', '.join([count, *parts])})"


def lossless(form: Form, value: str) -> str:
    """A text from which `decoding.from_text` makes the same canonical value."""
    if form.sql_type == "BINARY":
        return f"hex({value})"
    return f"CAST({value} AS STRING)"


def sort_key(form: Form, value: str) -> str:
    """What sorts values of a form canonically as strings; NULL for NULL."""
    match form.kind:
        case FormKind.TEXT | FormKind.JSON:
            return value
        case FormKind.BOOL:
            return f"CAST(CAST({value} AS INT) AS STRING)"
        case FormKind.BINARY | FormKind.UUID | FormKind.ARRAY | FormKind.STRUCT | FormKind.MAP:
            return f"hex({value})"
        case FormKind.DECIMAL | FormKind.NUMBER:
            return number_order(text_of(form, value))
        case _:
            return number_order(_micros_text(form, value))


def size_key(written: str) -> str:
    """Sorts canonical texts of numbers that are not negative by size, as strings."""
    whole = f"substring_index({written}, '.', 1)"
    fraction = f"IF(instr({written}, '.') > 0, substring_index({written}, '.', -1), '')"
    significant = f"trim(LEADING '0' FROM {fraction})"
    below_one = _key(
        f"length({significant}) - length({fraction}) - 1",
        significant,
    )
    above = _key(f"length({whole}) - 1", f"trim(TRAILING '0' FROM concat({whole}, {fraction}))")
    return (
        f"CASE WHEN {written} = '0' THEN '0' WHEN {whole} = '0' THEN {below_one} ELSE {above} END"
    )


def _key(exponent: str, digits: str) -> str:
    return f"concat(lpad(CAST({exponent} + 1000 AS STRING), 4, '0'), {digits})"


def number_order(written: str) -> str:
    """Sorts canonical texts of any numbers by value, as strings: -Inf lowest, NaN highest."""
    size = size_key(f"trim(LEADING '-' FROM {written})")
    below = f"concat('1', translate({size}, '0123456789', '9876543210'), '~')"
    return (
        f"CASE {written} WHEN '-Inf' THEN '0' WHEN '0' THEN '2' WHEN 'Inf' THEN '4' "
        f"WHEN 'NaN' THEN '5' ELSE IF(startswith({written}, '-'), {below}, concat('3', {size})) END"
    )
