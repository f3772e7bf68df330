"""PostgreSQL types as canonical types, and the texts of COPY as values."""

from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from struct import pack, unpack
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from datarecs_connectors.typed_text import arrow_type
from datarecs_core.comparison.values.forms import read_text
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType, TypeKind

_BY_OID = {
    16: types.BOOL,
    17: types.BINARY,
    18: types.TEXT,
    19: types.TEXT,
    20: types.INT,
    21: types.INT,
    23: types.INT,
    25: types.TEXT,
    26: types.INT,
    700: types.FLOAT32,
    701: types.FLOAT64,
    1042: types.TEXT,
    1043: types.TEXT,
    1082: types.DATE,
    2950: types.UUID,
    114: types.JSON,
    3802: types.JSON,
}
_NUMERIC = 1700
_CLOCKS = {
    1083: TypeKind.TIME,
    1114: TypeKind.LOCAL_TIMESTAMP,
    1184: TypeKind.INSTANT,
}
_USUAL_DIGITS = 6
_CAST_AT_ONCE = frozenset({TypeKind.DATE, TypeKind.INSTANT, TypeKind.LOCAL_TIMESTAMP})


def canonical_type(oid: int, precision: int | None, scale: int | None) -> CanonicalType | None:
    """None for a type without a canonical type (arrays, composites, intervals, …)."""
    if oid == _NUMERIC:
        if precision is None or precision > types.MAX_DIGITS or (scale or 0) < 0:
            return types.NUMERIC
        return types.decimal(precision, scale or 0)
    if oid in _CLOCKS:
        digits = None if precision in (None, _USUAL_DIGITS) else precision
        return CanonicalType(kind=_CLOCKS[oid], precision=digits)
    return _BY_OID.get(oid)


def _bool(text: str) -> bool:
    if text not in {"t", "f"}:
        raise ValueError(text)
    return text == "t"


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("\\x"))


def text_reader(kind: CanonicalType) -> Callable[[str], object] | None:
    """The reader for texts of COPY that Arrow does not cast; None if Arrow casts them.

    Dates beyond year 9999, before year 1 and the infinities have no column type: ValueError.
    """
    match kind.kind:
        case TypeKind.BOOL:
            return _bool
        case TypeKind.BINARY:
            return _bytes
        case TypeKind.DATE:
            return date.fromisoformat
        case TypeKind.TIME:
            return time.fromisoformat
        case TypeKind.INSTANT | TypeKind.LOCAL_TIMESTAMP:
            return datetime.fromisoformat
        case _:
            return None


def cast_at_once(texts: pa.Array, kind: CanonicalType) -> pa.Array | None:
    """Texts of COPY as a column of an extract, if all have their usual form.

    None if one has another form, or if it saves no time: then `text_reader` reads value by value.
    """
    if kind.kind is TypeKind.BOOL:
        known = pc.is_in(texts.drop_null(), value_set=pa.array(["t", "f"]))
        return pc.equal(texts, "t") if pc.all(known, min_count=0).as_py() else None
    if kind.kind not in _CAST_AT_ONCE:
        return None
    try:
        return pc.cast(texts, arrow_type(kind))
    except pa.ArrowException:
        return None


def _float(text: str, kind: CanonicalType) -> float:
    """Widen a 32-bit float, also from the shorter text that the server writes for it."""
    value = float(text)
    return float(unpack("f", pack("f", value))[0]) if kind.kind is TypeKind.FLOAT32 else value


def _number(text: str, kind: CanonicalType) -> object:
    """A column with declared digits has no form for NaN, for every reader."""
    number = Decimal(text)
    return number if kind.scale is None or number.is_finite() else Invalid(text.encode())


def plain_reader(kind: CanonicalType) -> Callable[[str], object]:
    """A text of COPY as a plain value of the oracle."""
    reader = text_reader(kind)

    def read(text: str) -> object:
        try:
            if reader is not None:
                return reader(text)
            if kind.is_float:
                return _float(text, kind)
            if kind.kind in {TypeKind.INT, TypeKind.DECIMAL}:
                return _number(text, kind)
        except (ValueError, ArithmeticError):
            return Invalid(text.encode())
        if kind.kind is TypeKind.UUID:
            value = read_text(text, kind)
            known = None if value is None else value.content
            return UUID(bytes=known) if isinstance(known, bytes) else Invalid(text.encode())
        return text

    return read
