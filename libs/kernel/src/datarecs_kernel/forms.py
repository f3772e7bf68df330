"""The common column types of all sources: one per dimension or measure, injective and exact.

Two values of a form are equal in SQL exactly when they are canonically equal, so grouping and
comparing need no encoding. Times are numbers of days or microseconds; numbers of types without a
common decimal of 38 digits are compared as canonical text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from datarecs_core.comparison.values.canonical import Tag
from datarecs_core.jobs.types import MAX_DIGITS, CanonicalType, TypeKind


class FormKind(StrEnum):
    INTEGER = "integer"
    DECIMAL = "decimal"
    DOUBLE = "double"
    """Shortest decimals; only Python can write them."""
    NUMBER = "number"
    """Canonical text of a number."""
    TEXT = "text"
    BOOL = "bool"
    BINARY = "binary"
    UUID = "uuid"
    """16 bytes."""
    JSON = "json"
    """Canonical text."""
    ARRAY = "array"
    STRUCT = "struct"
    MAP = "map"
    """Payloads of canonical encodings, in canonical order; only Python can write them."""
    DATE = "date"
    """Days since 1970."""
    TIME = "time"
    INSTANT = "instant"
    LOCAL = "local"
    """Microseconds since midnight or 1970, like TIME and INSTANT; a decimal if a source has finer
    values."""


_SQL_TYPES = {
    FormKind.INTEGER: "BIGINT",
    FormKind.DOUBLE: "DOUBLE",
    FormKind.NUMBER: "STRING",
    FormKind.TEXT: "STRING",
    FormKind.BOOL: "BOOLEAN",
    FormKind.BINARY: "BINARY",
    FormKind.UUID: "BINARY",
    FormKind.JSON: "STRING",
    FormKind.ARRAY: "BINARY",
    FormKind.STRUCT: "BINARY",
    FormKind.MAP: "BINARY",
    FormKind.DATE: "BIGINT",
    FormKind.TIME: "BIGINT",
    FormKind.INSTANT: "BIGINT",
    FormKind.LOCAL: "BIGINT",
}
_OF_TYPE = {
    TypeKind.BOOL: FormKind.BOOL,
    TypeKind.TEXT: FormKind.TEXT,
    TypeKind.BINARY: FormKind.BINARY,
    TypeKind.UUID: FormKind.UUID,
    TypeKind.JSON: FormKind.JSON,
    TypeKind.ARRAY: FormKind.ARRAY,
    TypeKind.STRUCT: FormKind.STRUCT,
    TypeKind.MAP: FormKind.MAP,
    TypeKind.DATE: FormKind.DATE,
    TypeKind.TIME: FormKind.TIME,
    TypeKind.INSTANT: FormKind.INSTANT,
    TypeKind.LOCAL_TIMESTAMP: FormKind.LOCAL,
}
_TAGS = {
    FormKind.INTEGER: Tag.NUMBER,
    FormKind.DECIMAL: Tag.NUMBER,
    FormKind.DOUBLE: Tag.NUMBER,
    FormKind.NUMBER: Tag.NUMBER,
    FormKind.TEXT: Tag.TEXT,
    FormKind.BOOL: Tag.BOOL,
    FormKind.BINARY: Tag.BINARY,
    FormKind.UUID: Tag.UUID,
    FormKind.JSON: Tag.JSON,
    FormKind.ARRAY: Tag.ARRAY,
    FormKind.STRUCT: Tag.STRUCT,
    FormKind.MAP: Tag.MAP,
    FormKind.DATE: Tag.DATE,
    FormKind.TIME: Tag.TIME,
    FormKind.INSTANT: Tag.INSTANT,
    FormKind.LOCAL: Tag.LOCAL,
}
MOMENTS = frozenset({FormKind.DATE, FormKind.TIME, FormKind.INSTANT, FormKind.LOCAL})
ENCODED = frozenset({FormKind.ARRAY, FormKind.STRUCT, FormKind.MAP})
MICROS_DIGITS = 6
"""Of a second."""
_FINER = 3
"""Digits of a microsecond, down to nanoseconds."""
_MOMENT_DIGITS = 19
"""Digits of microseconds in 64 bits."""
_INT_DIGITS = 20
"""Digits of the widest integer, an unsigned one of 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A form with digits, used by decimals and by times finer than microseconds."""

    kind: FormKind
    precision: int = 0
    scale: int = 0

    @property
    def sql_type(self) -> str:
        if self.precision:
            return f"DECIMAL({self.precision},{self.scale})"
        return _SQL_TYPES[self.kind]

    @property
    def is_exact(self) -> bool:
        """Numbers that SQL subtracts exactly."""
        return self.kind in {FormKind.INTEGER, FormKind.DECIMAL}

    @property
    def is_moment(self) -> bool:
        return self.kind in MOMENTS

    @property
    def is_finer(self) -> bool:
        """Times with a fraction of a microsecond."""
        return self.is_moment and self.scale > 0

    @property
    def is_number(self) -> bool:
        return self.is_exact or self.kind in {FormKind.DOUBLE, FormKind.NUMBER}


INTEGER = Form(kind=FormKind.INTEGER)
DOUBLE = Form(kind=FormKind.DOUBLE)
NUMBER = Form(kind=FormKind.NUMBER)
TEXT = Form(kind=FormKind.TEXT)
BOOL = Form(kind=FormKind.BOOL)


def tag_of(form: Form) -> Tag:
    return _TAGS[form.kind]


def decimal(precision: int, scale: int) -> Form:
    return Form(kind=FormKind.DECIMAL, precision=precision, scale=scale)


def form_of(types: Sequence[CanonicalType], *, wide_integers: bool = False) -> Form | None:
    """The common form of columns of these types; None if there is none.

    Args:
        types: comparable ones, after casts, one per source.
        wide_integers: an integer column has unsigned values of 64 bits.
    """
    first = types[0]
    if not first.is_number:
        kind = _OF_TYPE.get(first.kind)
        if kind is None or not any(each.is_finer for each in types):
            return None if kind is None else Form(kind=kind)
        return Form(kind=kind, precision=_MOMENT_DIGITS + _FINER, scale=_FINER)
    if all(each.is_float for each in types):
        return DOUBLE
    if all(each.kind is TypeKind.INT for each in types) and not wide_integers:
        return INTEGER
    return _exact(types)


def _exact(types: Sequence[CanonicalType]) -> Form:
    digits = [_digits(each) for each in types]
    known = [each for each in digits if each is not None]
    if len(known) < len(digits):
        return NUMBER
    scale = max(scale for _, scale in known)
    whole = max(whole for whole, _ in known)
    return decimal(whole + scale, scale) if whole + scale <= MAX_DIGITS else NUMBER


def _digits(kind: CanonicalType) -> tuple[int, int] | None:
    """Digits before and after the point; None if they depend on the values."""
    if kind.kind is TypeKind.INT:
        return _INT_DIGITS, 0
    if kind.precision is None or kind.scale is None:
        return None
    return kind.precision - kind.scale, kind.scale


def summed_form(types: Sequence[CanonicalType]) -> Form:
    """The form of sums and averages over such columns: always a decimal.

    Floats and numerics without precision are added with 18 places, as defined for floats.
    """
    form = form_of(types)
    if form is not None and form.kind is FormKind.DECIMAL:
        return form
    if form is not None and form.kind is FormKind.INTEGER:
        return decimal(_INT_DIGITS, 0)
    scales = [18 if scale is None else scale for scale in (_scale(each) for each in types)]
    return decimal(MAX_DIGITS, max(scales))


def _scale(kind: CanonicalType) -> int | None:
    return 0 if kind.kind is TypeKind.INT else kind.scale
