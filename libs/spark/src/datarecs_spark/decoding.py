"""Values of forms in Python: from Arrow and from texts to canonical values, and back to Arrow.

Only the Arrow steps meet single values: `python_columns` before grouping, `judging` after it.
"""

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

from datarecs_core.comparison.canonical import (
    NULL,
    Tag,
    Value,
    canonical_text,
    encode,
    number,
    number_text,
)
from datarecs_spark.canonical import tag_of
from datarecs_spark.forms import Form, FormKind

_WRITTEN_OUT = frozenset(
    {
        FormKind.INTEGER,
        FormKind.DECIMAL,
        FormKind.DOUBLE,
        FormKind.NUMBER,
        FormKind.TEXT,
        FormKind.JSON,
        FormKind.DATE,
    }
)
"""Forms whose encoding holds the canonical text."""
_ENCODED_NULL = encode(NULL)
FINER = "a time finer than a microsecond, or none at all"
"""In the message of a failed step: what no column of Spark holds."""
_NATIVE = {
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "BINARY": pa.binary(),
}


def native(form: Form) -> pa.DataType:
    """The Arrow type in which Spark hands over a column of the form."""
    if form.kind is FormKind.DECIMAL:
        return pa.decimal128(form.precision, form.scale)
    return _NATIVE[form.sql_type]


def decoded(form: Form, plain: object) -> Value:
    """The canonical value of what Arrow holds; never NULL."""
    match plain:
        case bool():
            return Value(Tag.BOOL, plain)
        case float():
            return number(Decimal(repr(plain)))
        case int() | Decimal():
            return _counted(form, Decimal(plain))
        case str() if form.kind is FormKind.NUMBER:
            return number(Decimal(plain))
        case _:
            return Value(tag_of(form), plain)


def from_text(form: Form, written: str) -> Value:
    """The canonical value of a text that `canonical.lossless` wrote."""
    match form.kind:
        case FormKind.DOUBLE:
            return decoded(form, float(written))
        case FormKind.BOOL:
            return Value(Tag.BOOL, written == "true")
        case FormKind.TEXT | FormKind.JSON:
            return Value(tag_of(form), written)
        case FormKind.BINARY | FormKind.UUID:
            return Value(tag_of(form), bytes.fromhex(written))
        case _:
            return _counted(form, Decimal(written))


def _counted(form: Form, amount: Decimal) -> Value:
    """Numbers are normalised, counts of days and microseconds stay as they are."""
    return Value(tag_of(form), amount) if form.is_moment else number(amount)


def invalid_of(payload: bytes) -> Value:
    """The INVALID value behind its encoding's payload: the source's encoded name, raw bytes."""
    size = 5 + int.from_bytes(payload[1:5])
    return Value(Tag.INVALID, (payload[5:size].decode(), payload[size:]))


def cell(form: Form, plain: object, payload: bytes | None) -> Value:
    """The canonical value of a cell that Arrow holds: INVALID, NULL or a value."""
    if payload is not None:
        return invalid_of(payload)
    return NULL if plain is None else decoded(form, plain)


def texts(
    form: Form, plain: Sequence[object], payloads: Sequence[bytes | None] | None
) -> list[str | None]:
    """Canonical texts of what Arrow holds; payloads where some value may be INVALID."""
    if payloads is not None:
        return [canonical_text(cell(form, *each)) for each in zip(plain, payloads, strict=True)]
    if form.kind in {FormKind.TEXT, FormKind.INTEGER}:
        return [None if each is None else str(each) for each in plain]
    known = {each: canonical_text(cell(form, each, None)) for each in set(plain)}
    return [known[each] for each in plain]


def encodings(
    form: Form,
    plain: Sequence[object],
    payloads: Sequence[bytes | None] | None,
    written: Sequence[str | None],
) -> list[bytes]:
    """Canonical encodings of the same values, whose texts are known."""
    if payloads is not None:
        return [encode(cell(form, *each)) for each in zip(plain, payloads, strict=True)]
    if form.kind in _WRITTEN_OUT:
        return encoded_texts(tag_of(form), written)
    known = {each: encode(cell(form, each, None)) for each in set(plain)}
    return [known[each] for each in plain]


def encoded_texts(tag: Tag, written: Sequence[str | None]) -> list[bytes]:
    """`canonical.encode` of values of one tag whose payload is their text."""
    head = bytes((tag,))
    raw = [None if each is None else each.encode() for each in written]
    return [_ENCODED_NULL if each is None else head + len(each).to_bytes(4) + each for each in raw]


def represented(value: Value, form: Form) -> object:
    """What Arrow holds for a value of the form.

    Raises:
        ArithmeticError: a time that is infinite or has a fraction of a microsecond.
    """
    content = value.content
    if not isinstance(content, Decimal):
        return content
    match form.kind:
        case FormKind.NUMBER:
            return number_text(content)
        case FormKind.DOUBLE:
            return float(content)
        case FormKind.DECIMAL:
            return content
        case _:
            if not content.is_finite() or content != content.to_integral_value():
                raise ArithmeticError(FINER)
            return int(content)
