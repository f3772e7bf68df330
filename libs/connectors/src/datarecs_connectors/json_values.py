"""Parse a line of JSON, and convert its values to plain values of a column's type.

Numbers keep their written digits until they are converted to a type, so none becomes a double. A
value that its column's type cannot hold without loss is INVALID, as in casts.
"""

import json
from collections.abc import Callable, Sequence
from decimal import Decimal

from datarecs_connectors.declared_types import converted
from datarecs_core.comparison.values.canonical import Tag, Value, number, text
from datarecs_core.comparison.values.json_form import json_value
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs.types import CanonicalType, TypeKind

MAX_DEPTH = 100
"""Objects and arrays inside one another."""
_MOST_DIGITS, _MAX_EXPONENT = 800, 400
"""More than any double or decimal has; longer numbers would take too long to convert."""
_FEW_DIGITS = 18
"""Every integer with this number of digits is an int64."""


class Number(str):
    """A JSON number as it was written; JSON strings are plain `str`."""

    __slots__ = ()


class NestedTooDeepError(ValueError):
    """More than `MAX_DEPTH` objects and arrays inside one another."""


Read = Callable[[object], object]
"""Converts a value of a line, not null, to a plain value of the column's type or `Invalid`."""


def parse_line(line: str) -> object:
    """One JSON value, without white space around it.

    Raises:
        NestedTooDeepError: more than `MAX_DEPTH` nested brackets.
        json.JSONDecodeError: not JSON, at `colno`.
        ValueError: a key occurs twice in an object, or NaN or Infinity, which are not JSON.
    """
    try:
        value, end = _DECODER.raw_decode(line)
    except RecursionError:
        raise NestedTooDeepError from None
    if end != len(line):
        raise json.JSONDecodeError("Extra data", line, end)
    if line.count("[") + line.count("{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise NestedTooDeepError
    return value


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key occurs twice in one object")
    return members


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is not JSON")


_DECODER = json.JSONDecoder(
    parse_float=Number, parse_int=Number, parse_constant=_refuse, object_pairs_hook=_object
)


def _depth(value: object) -> int:
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, dict | list)]:
        depth += 1
        level = [
            inside for one in level for inside in (one.values() if isinstance(one, dict) else one)
        ]
    return depth


def json_text(value: object) -> str:
    """A value as JSON again, numbers digit for digit."""
    match value:
        case Number():
            return str(value)
        case list():
            return f"[{','.join(map(json_text, value))}]"
        case dict():
            members = (f"{_quoted(key)}:{json_text(one)}" for key, one in value.items())
            return f"{{{','.join(members)}}}"
        case _:
            return _quoted(value)


def _quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def exact(written: Number) -> Decimal | None:
    """None for a number beyond every double and every decimal."""
    if len(written) > _MOST_DIGITS:
        return None
    value = Decimal(written)
    return None if value != 0 and abs(value.adjusted()) > _MAX_EXPONENT else value


def reader_of(kind: CanonicalType) -> Read:
    """Converts the values of a column to plain values."""

    def read(value: object) -> object:
        return _read(value, kind)

    match kind.kind:
        case TypeKind.JSON:
            return lambda value: _checked(json_text(value))
        case TypeKind.TEXT:
            return lambda value: _checked(value) if type(value) is str else read(value)
        case TypeKind.BOOL:
            return lambda value: value if type(value) is bool else read(value)
        case TypeKind.INT | TypeKind.DECIMAL:
            return lambda value: _few_digits(value, kind) or read(value)
        case _:
            return read


def _few_digits(value: object, kind: CanonicalType) -> Decimal | None:
    """Whether a number other than 0 certainly fits; a cast gives the same result but is slower."""
    if type(value) is not Number or len(value) > _FEW_DIGITS:
        return None
    whole, _, fraction = value.lstrip("-").partition(".")
    scale = kind.scale or 0
    before = _FEW_DIGITS if kind.precision is None else kind.precision - scale
    fits = len(fraction) <= scale and len(whole) <= before and (whole + fraction).isdigit()
    return Decimal(value) if fits else None


def _checked(written: str) -> str | Invalid:
    """Bytes that are not UTF-8, and halves of surrogate pairs, arrive as lone surrogates."""
    if written.isascii():
        return written
    try:
        written.encode()
    except UnicodeEncodeError:
        return Invalid(_raw(written))
    return written


def _raw(value: object) -> bytes:
    written = value if isinstance(value, str) else json_text(value)
    try:
        return written.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return written.encode(errors="surrogatepass")


def _read(value: object, kind: CanonicalType) -> object:
    """Convert by the casts of jobs."""
    return converted(_canonical_value(value), kind, _raw(value))


def _canonical_value(value: object) -> Value | None:
    match value:
        case Number():
            amount = exact(value)
            return None if amount is None else number(amount)
        case bool():
            return Value(Tag.BOOL, value)
        case str():
            return text(value) if isinstance(_checked(value), str) else None
        case _:
            written = json_value(json_text(value))
            return None if written is None else Value(Tag.JSON, written)
