"""Values of forms in Python: from Arrow and from texts to canonical values, and back to Arrow.

Two modules handle single values: `prepared_values` before grouping, and `judging` after it, where
texts and encodings are made by columns.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from datarecs_core.comparison.values.canonical import (
    NULL,
    Tag,
    Value,
    canonical_text,
    encode,
    number,
    number_text,
    payload_of,
)
from datarecs_core.comparison.values.encoded import decode_payload
from datarecs_core.values import EXACT
from datarecs_kernel.columns import Values
from datarecs_kernel.forms import ENCODED, Form, FormKind, tag_of
from datarecs_kernel.sort_keys import number_order_of
from datarecs_kernel.value_texts import number_texts, valid_texts

_ENCODED_NULL = encode(NULL)
FINER = "a time is infinite or finer than its column"
"""Part of the message of a failed step: a time that no column can hold."""
_NATIVE = {
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "BINARY": pa.binary(),
}


def native(form: Form) -> pa.DataType:
    """The Arrow type of a column of the form."""
    if form.precision:
        return pa.decimal128(form.precision, form.scale)
    return _NATIVE[form.sql_type]


def decoded(form: Form, plain: object) -> Value:
    """The canonical value of an Arrow value; never NULL."""
    match plain:
        case bool():
            return Value(Tag.BOOL, plain)
        case float():
            return number(Decimal(repr(plain)))
        case int() | Decimal():
            return _counted(form, Decimal(plain))
        case str() if form.kind is FormKind.NUMBER:
            return number(Decimal(plain))
        case bytes() if form.kind in ENCODED:
            return decode_payload(tag_of(form), plain)
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
        case _ if form.sql_type == "BINARY":
            return decoded(form, bytes.fromhex(written))
        case _:
            return _counted(form, Decimal(written))


def _counted(form: Form, amount: Decimal) -> Value:
    """Normalise numbers; counts of days and microseconds do not change."""
    return Value(tag_of(form), amount) if form.is_moment else number(amount)


def invalid_of(payload: bytes) -> Value:
    """The INVALID value of an encoding's payload: the source's encoded name, raw bytes."""
    size = 5 + int.from_bytes(payload[1:5])
    return Value(Tag.INVALID, (payload[5:size].decode(), payload[size:]))


def cell(form: Form, plain: object, payload: bytes | None) -> Value:
    """The canonical value of an Arrow cell: INVALID, NULL or a value."""
    if payload is not None:
        return invalid_of(payload)
    return NULL if plain is None else decoded(form, plain)


def texts(form: Form, values: Values) -> pa.Array:
    """Canonical texts of Arrow values."""
    if form.kind in ENCODED:
        written = _by_value(lambda each: canonical_text(cell(form, each, None)), values.plain)
    else:
        written = valid_texts(form, values.plain)
    if values.payloads is None:
        return written
    broken = _by_value(lambda each: canonical_text(invalid_of(each)), values.payloads)
    return pc.coalesce(broken, written)


def lossless_texts(form: Form, written: pa.Array) -> pa.Array:
    """Canonical texts of texts that `canonical.lossless` wrote."""
    return _by_value(lambda each: canonical_text(from_text(form, each)), written)


def number_orders(texts: pa.Array) -> pa.Array:
    """`sort_keys.number_order_of` numbers as texts."""
    return _by_value(lambda each: number_order_of(Decimal(each)), texts)


def _by_value(made: Callable[[Any], str | None], values: pa.Array) -> pa.Array:
    """The result for each value, computed once per distinct value; NULL of NULL."""
    known = values.dictionary_encode()
    texts = [made(each) for each in known.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(known.indices)


def encodings(form: Form, values: Values, written: pa.Array) -> pa.Array:
    """Canonical encodings of values with known texts."""
    plain = values.plain
    match form.kind:
        case FormKind.TIME | FormKind.INSTANT | FormKind.LOCAL:
            payloads = number_texts(form, plain)
        case _ if form.sql_type == "BINARY":
            payloads = plain
        case FormKind.BOOL:
            payloads = pc.if_else(plain, b"\1", b"\0")
        case _:
            payloads = written
    encoded = encoded_payloads(tag_of(form), payloads)
    if values.payloads is None:
        return encoded
    broken = encoded_payloads(Tag.INVALID, values.payloads)
    return pc.if_else(pc.is_valid(values.payloads), broken, encoded)


def encoded_payloads(tag: Tag, payloads: pa.Array) -> pa.Array:
    """`canonical.encode` of values of one tag, from their payloads as bytes or UTF-8."""
    sizes = pc.fill_null(pc.binary_length(payloads), 0)
    heads = fixed_width(sizes.to_numpy().astype(">u4"))
    encoded = pc.binary_join_element_wise(bytes((tag,)), heads, payloads.cast(pa.binary()), b"")
    return pc.fill_null(encoded, _ENCODED_NULL)


def fixed_width(rows: NDArray[Any]) -> pa.Array:
    """The bytes of each row."""
    width = rows.nbytes // max(len(rows), 1)
    offsets = pa.py_buffer(np.arange(len(rows) + 1, dtype=np.int32) * width)
    return pa.Array.from_buffers(
        pa.binary(), len(rows), [None, offsets, pa.py_buffer(rows.tobytes())]
    )


def represented(value: Value, form: Form) -> object:
    """The Arrow value of a value of the form.

    Raises:
        ArithmeticError: a time that is infinite or finer than the form.
    """
    content = value.content
    if not isinstance(content, Decimal):
        return payload_of(value) if form.kind in ENCODED else content
    match form.kind:
        case FormKind.NUMBER:
            return number_text(content)
        case FormKind.DOUBLE:
            return float(content)
        case FormKind.DECIMAL:
            return content
        case _:
            counted = EXACT.scaleb(content, form.scale)
            if not content.is_finite() or counted != counted.to_integral_value():
                raise ArithmeticError(FINER)
            return content if form.is_finer else int(content)
