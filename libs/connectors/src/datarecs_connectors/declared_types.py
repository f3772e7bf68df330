"""Text and JSON values of a file, converted to the type of their column.

One rule for all such files and both engines: a value is valid if the type holds it without loss, in
the forms of casts; every other value is INVALID with its raw bytes. A whole column is cast at once
only if its form is certain, because Arrow's casts accept `007`, `1` as true and `nan`.
"""

import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import cast
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from datarecs_connectors.errors import SourceUnsupportedError
from datarecs_connectors.typed_text import TypedColumn, arrow_type
from datarecs_core.comparison.values.canonical import Tag, Value, number_text
from datarecs_core.comparison.values.casting import Cast, Zones, castable
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType, TypeKind, parse_type
from datarecs_core.values import EXACT

_READABLE = types.NUMBERS | {
    TypeKind.BOOL,
    TypeKind.TEXT,
    TypeKind.UUID,
    TypeKind.DATE,
    TypeKind.TIME,
    TypeKind.INSTANT,
    TypeKind.LOCAL_TIMESTAMP,
    TypeKind.JSON,
}
_TAG_TYPES = {
    Tag.BOOL: types.BOOL,
    Tag.NUMBER: types.NUMERIC,
    Tag.TEXT: types.TEXT,
    Tag.JSON: types.JSON,
}
_INT64 = 2**63
_DAY = "[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?"
_OFFSET = "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
_FORMS: Mapping[TypeKind, str] = {
    TypeKind.BOOL: "true|false",
    TypeKind.INT: "-?(0|[1-9][0-9]{0,17})",
    TypeKind.UUID: "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    TypeKind.DATE: _DAY,
    TypeKind.TIME: _CLOCK,
    TypeKind.INSTANT: f"{_DAY}[T ]{_CLOCK}{_OFFSET}",
    TypeKind.LOCAL_TIMESTAMP: f"{_DAY}[T ]{_CLOCK}",
}
"""Types that Arrow casts by the same rules, or not at all; numbers depend on their digits."""


def declared_types(source: str, written: Mapping[str, str]) -> dict[str, CanonicalType]:
    """The types of `options.schema`, by column.

    Raises SourceUnsupportedError for a type that has no text form.
    """
    declared = {name: parse_type(kind) for name, kind in written.items()}
    for name, kind in declared.items():
        if kind.kind not in _READABLE:
            raise SourceUnsupportedError(
                source, f"options.schema: column {name!r}: a text file has no values of type {kind}"
            )
    return declared


def converted(value: Value | None, kind: CanonicalType, raw: bytes) -> object:
    """A plain value of the type, or `Invalid`; None means a value without any form."""
    if value is None or not castable(_TAG_TYPES[value.tag], kind):
        return Invalid(raw)
    made = Cast(target=kind, zone=None, source="", zones=Zones(known={})).apply(value)
    plain = None if made.is_invalid else _plain(made, kind)
    return Invalid(raw) if plain is None else plain


def _plain(value: Value, kind: CanonicalType) -> object:
    """None for a time that an extract cannot hold: too fine, or nanoseconds outside 1677-2262."""
    match value.content:
        case Decimal() as amount if kind.is_float:
            wide = float(amount)
            narrow = kind.kind is TypeKind.FLOAT32
            return struct.unpack("f", struct.pack("f", wide))[0] if narrow else wide
        case Decimal() as amount if kind.is_time:
            ticks = _ticks(amount, kind)
            fits = ticks == ticks.to_integral_value() and -_INT64 <= ticks < _INT64
            return amount if fits else None
        case bytes() as digits:
            return UUID(bytes=digits)
        case content:
            return content


def _ticks(micros: Decimal, kind: CanonicalType) -> Decimal:
    """The time in the unit of the type's column in an extract."""
    return micros.scaleb(3, EXACT) if kind.is_finer else micros


def text_value(text: str, kind: CanonicalType) -> object:
    """The plain value of a text."""
    return converted(Value(Tag.TEXT, text), kind, text.encode(errors="surrogatepass"))


def text_column(texts: pa.Array, kind: CanonicalType) -> TypedColumn:
    """A column of texts as a column of an extract."""
    if kind == types.TEXT:
        return TypedColumn(texts, None)
    form = _form(kind)
    if form and pc.all(pc.match_substring_regex(texts, f"^({form})$")).as_py() is not False:
        try:
            return TypedColumn(pc.cast(texts, arrow_type(kind)), None)
        except pa.ArrowException:
            pass  # a day that does not exist: the cast value by value finds it
    return typed_values(
        [None if text is None else text_value(text, kind) for text in texts.to_pylist()], kind
    )


def _form(kind: CanonicalType) -> str | None:
    if kind.kind is not TypeKind.DECIMAL or kind.precision is None or kind.scale is None:
        return _FORMS.get(kind.kind)
    more = kind.precision - kind.scale - 1
    whole = "0" if more < 0 else f"(0|[1-9][0-9]{{0,{more}}})"
    return f"-?{whole}" + (rf"(\.[0-9]{{1,{kind.scale}}})?" if kind.scale else "")


def typed_values(values: Sequence[object], kind: CanonicalType) -> TypedColumn:
    """Plain values as a column of an extract."""
    raw = [one.raw if isinstance(one, Invalid) else None for one in values]
    broken = any(one is not None for one in raw)
    stored = [None if one is None or isinstance(one, Invalid) else _stored(one) for one in values]
    return TypedColumn(_array(stored, kind), pa.array(raw, pa.binary()) if broken else None)


def _stored(value: object) -> object:
    return str(value) if isinstance(value, UUID) else value


def _array(stored: list[object], kind: CanonicalType) -> pa.Array:
    wanted = arrow_type(kind)
    if kind.is_time:
        numbers = [cast("Decimal | None", one) for one in stored]
        whole = [None if one is None else int(_ticks(one, kind)) for one in numbers]
        days = kind.kind is TypeKind.DATE
        return pa.array(whole, pa.int32() if days else pa.int64()).cast(wanted)
    if kind.kind is TypeKind.INT:
        return pa.array([None if one is None else int(cast("int", one)) for one in stored], wanted)
    if kind.kind is TypeKind.DECIMAL and kind.scale is not None:
        return pa.array([_scaled(one, kind.scale) for one in stored], wanted)
    if kind == types.NUMERIC:
        texts = [None if one is None else number_text(cast("Decimal", one)) for one in stored]
        return pa.array(texts, wanted)
    return pa.array(stored, wanted)


def _scaled(value: object, scale: int) -> Decimal | None:
    """Of more than 38 digits, and of exponents, Arrow makes other numbers without an error."""
    if value is None:
        return None
    return cast("Decimal", value).quantize(Decimal(1).scaleb(-scale), context=EXACT)
