"""Canonical values in DuckDB's SQL: number texts, their order, and encodings c1.

The bytes of core's `canonical` for every form. Each function takes and returns SQL; NULL stays NULL
in texts and orders, and is the encoded NULL in encodings.
"""

from collections.abc import Sequence

from datarecs_core.comparison.values.canonical import Tag
from datarecs_kernel.forms import Form, FormKind, tag_of

_ENCODED_NULL = "unhex('0000000000')"
_DAYS = "-719162 AND 2932896"
"""The years 1 to 9999."""
_ASCII = 128
_ERAS = 20_000
"""Days of a number of 400-year cycles, added so that all computed days are positive."""
_ERA_DAYS = 146_097
_DAYS_TO_1970 = 719_468
"""Days from 0000-03-01, the origin of core's `date_of`."""
_DIGITS, _COMPLEMENT = "'0123456789'", "'9876543210'"


def blob(raw: bytes) -> str:
    """Bytes as a literal."""
    return f"unhex('{raw.hex()}')"


def plain_number(written: str) -> str:
    """Digits with or without a point as canonical text: no trailing zeros."""
    shorter = f"rtrim(rtrim({written}, '0'), '.')"
    return f"CASE WHEN contains({written}, '.') THEN {shorter} ELSE {written} END"


def number_text(form: Form, value: str) -> str:
    """The canonical text of a number; for a time, of its count."""
    written = f"CAST({value} AS VARCHAR)"
    match form.kind:
        case FormKind.NUMBER:
            return value
        case FormKind.DOUBLE:
            return double_text(value)
        case _ if not form.precision or not form.scale:
            return written
        case _ if form.precision == form.scale:
            # DuckDB writes no zero before the point of such a type.
            return plain_number(f"regexp_replace({written}, '^-?', '\\00')")
        case _:
            return plain_number(written)


def double_text(value: str) -> str:
    """DuckDB's shortest decimal of a float, without exponent."""
    written = f"CAST({value} AS VARCHAR)"
    digits = f"replace(ltrim(split_part({written}, 'e', 1), '-'), '.', '')"
    exponent = f"CAST(split_part({written}, 'e', 2) AS INTEGER)"
    large = f"rpad({digits}, {exponent} + 1, '0')"
    small = f"'0.' || repeat('0', -{exponent} - 1) || {digits}"
    sign = f"CASE WHEN {value} < 0 THEN '-' ELSE '' END"
    plain = f"{sign} || CASE WHEN {exponent} < 0 THEN {small} ELSE {large} END"
    return (
        f"CASE WHEN isnan({value}) THEN 'NaN' WHEN isinf({value}) THEN {sign} || 'Inf' "
        f"WHEN contains({written}, 'e') THEN {plain} ELSE {plain_number(written)} END"
    )


def date_text(days: str) -> str:
    """ISO text of days since 1970, signed outside the years 1 to 9999."""
    plain = f"CAST(DATE '1970-01-01' + CAST({days} AS INTEGER) AS VARCHAR)"
    return f"CASE WHEN {days} BETWEEN {_DAYS} THEN {plain} ELSE {_far_date(days)} END"


def _far_date(days: str) -> str:
    """The algorithm of core's `date_of`, with days shifted to positive values."""
    counted = f"({days} + {_DAYS_TO_1970 + _ERAS * _ERA_DAYS})"
    of_era = f"({counted} % {_ERA_DAYS})"
    year_of_era = f"(({of_era} - {of_era} // 1460 + {of_era} // 36524 - {of_era} // 146096) // 365)"
    of_year = f"({of_era} - (365 * {year_of_era} + {year_of_era} // 4 - {year_of_era} // 100))"
    shifted = f"((5 * {of_year} + 2) // 153)"
    month = f"(CASE WHEN {shifted} < 10 THEN {shifted} + 3 ELSE {shifted} - 9 END)"
    day = f"({of_year} - (153 * {shifted} + 2) // 5 + 1)"
    years = f"{year_of_era} + 400 * ({counted} // {_ERA_DAYS} - {_ERAS})"
    year = f"({years} + CASE WHEN {month} <= 2 THEN 1 ELSE 0 END)"
    sign = f"CASE WHEN {year} < 0 THEN '-' ELSE '+' END"
    return f"{sign} || printf('%04d-%02d-%02d', abs({year}), {month}, {day})"


def payload_of(form: Form, value: str) -> str:
    """The payload of a value's encoding, as BLOB; NULL of NULL."""
    match form.kind:
        case FormKind.BINARY | FormKind.UUID:
            return value
        case FormKind.BOOL:
            true, false = blob(bytes((True,))), blob(bytes((False,)))
            return f"CASE WHEN {value} THEN {true} WHEN NOT {value} THEN {false} END"
        case FormKind.TEXT | FormKind.JSON:
            written = value
        case FormKind.DATE:
            written = date_text(value)
        case _:
            written = number_text(form, value)
    return f"encode({written})"


def encoded(form: Form, payload: str, broken: str | None = None) -> str:
    """Encoding c1 of a value.

    Args:
        form: of the value.
        payload: column of `payload_of`, since it is read three times.
        broken: column of payloads of INVALID values, if there may be any.
    """
    whole = f"coalesce({_tagged(tag_of(form), payload)}, {_ENCODED_NULL})"
    if broken is None:
        return whole
    return f"coalesce({_tagged(Tag.INVALID, broken)}, {whole})"


def encoded_tuple(parts: Sequence[str]) -> str:
    """The count of encodings, followed by the encodings."""
    return " || ".join([blob(len(parts).to_bytes(2)), *parts])


def _tagged(tag: Tag, payload: str) -> str:
    """Tag, length of four bytes, payload; NULL of NULL."""
    size = f"octet_length({payload})"
    short = f"{blob(bytes((tag, 0, 0, 0)))} || encode(chr(CAST({size} AS INTEGER)))"
    long = f"{blob(bytes((tag,)))} || unhex(printf('%08x', {size}))"
    return f"(CASE WHEN {size} < {_ASCII} THEN {short} ELSE {long} END || {payload})"


def number_order(written: str) -> str:
    """The sort key, as string, of canonical texts of numbers: -Inf lowest, NaN highest."""
    size = _size_key(f"ltrim({written}, '-')")
    below = f"'1' || translate({size}, {_DIGITS}, {_COMPLEMENT}) || '~'"
    return (
        f"CASE {written} WHEN '-Inf' THEN '0' WHEN '0' THEN '2' WHEN 'Inf' THEN '4' "
        f"WHEN 'NaN' THEN '5' ELSE "
        f"CASE WHEN starts_with({written}, '-') THEN {below} ELSE '3' || ({size}) END END"
    )


def _size_key(written: str) -> str:
    """`sort_keys.size_key_of` of a positive number's text."""
    whole, fraction = f"split_part({written}, '.', 1)", f"split_part({written}, '.', 2)"
    significant = f"ltrim({fraction}, '0')"
    below_one = _key(f"strlen({significant}) - strlen({fraction}) - 1", significant)
    digits = f"rtrim({whole} || {fraction}, '0')"
    above = _key(f"strlen({whole}) - 1", digits)
    # `split_part` compared with a constant fails in DuckDB 2.0 where a column is NULL throughout.
    return f"CASE WHEN starts_with({written}, '0') THEN {below_one} ELSE {above} END"


def _key(exponent: str, digits: str) -> str:
    return f"lpad(CAST({exponent} + 1000 AS VARCHAR), 4, '0') || {digits}"
