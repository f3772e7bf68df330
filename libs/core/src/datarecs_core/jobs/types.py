"""Canonical types: the common vocabulary for the types of all sources.

Separate from the job definition because schemas, scans, plans and casts share them.
"""

import re
from dataclasses import dataclass
from enum import StrEnum


class TypeKind(StrEnum):
    BOOL = "bool"
    INT = "int"
    DECIMAL = "decimal"
    FLOAT64 = "float64"
    FLOAT32 = "float32"
    TEXT = "text"
    BINARY = "binary"
    UUID = "uuid"
    DATE = "date"
    TIME = "time"
    INTERVAL = "interval"
    INSTANT = "instant"
    LOCAL_TIMESTAMP = "local_timestamp"
    JSON = "json"
    ARRAY = "array"
    STRUCT = "struct"
    MAP = "map"
    NULL = "null"
    """Of a column without any value: it has every type, and takes the one of its partners."""


NUMBERS = frozenset({TypeKind.INT, TypeKind.DECIMAL, TypeKind.FLOAT64, TypeKind.FLOAT32})
FLOATS = frozenset({TypeKind.FLOAT64, TypeKind.FLOAT32})
TIMES = frozenset({TypeKind.DATE, TypeKind.TIME, TypeKind.INSTANT, TypeKind.LOCAL_TIMESTAMP})
CLOCK_TIMES = TIMES - {TypeKind.DATE}
_MICROS = 6
"""Digits of a second."""
"""The kinds with a fraction of a second."""
NESTED = frozenset({TypeKind.ARRAY, TypeKind.STRUCT, TypeKind.MAP})


@dataclass(frozen=True, slots=True, kw_only=True)
class CanonicalType:
    """A canonical type. Two of them are equal exactly when `schema: strict` calls them equal."""

    kind: TypeKind
    precision: int | None = None
    """Digits of a decimal, 1-38, None for a bare numeric; for clock times the declared digits of
    the fraction of a second, 0-9, None for the usual six."""
    scale: int | None = None
    """Digits after the point of a decimal; None together with `precision`."""
    members: tuple[tuple[str, "CanonicalType"], ...] = ()
    """Of an array ("element"), a map ("key", "value"), a struct its fields by logical name."""

    @property
    def is_number(self) -> bool:
        return self.kind in NUMBERS

    @property
    def is_float(self) -> bool:
        return self.kind in FLOATS

    @property
    def is_time(self) -> bool:
        """Date, time of day, instant or local timestamp: what a DURATION applies to."""
        return self.kind in TIMES

    @property
    def second_digits(self) -> int:
        """Declared digits after the second of a clock time."""
        return _MICROS if self.precision is None else self.precision

    @property
    def is_finer(self) -> bool:
        """Clock times that may have a fraction of a microsecond."""
        return self.kind in CLOCK_TIMES and self.second_digits > _MICROS

    @property
    def is_known(self) -> bool:
        """Whether there is a value of every part."""
        return self.kind is not TypeKind.NULL and all(each.is_known for _, each in self.members)

    def __str__(self) -> str:
        if self.kind in NESTED:
            inner = ", ".join(
                f"{name}: {member}" if self.kind is TypeKind.STRUCT else str(member)
                for name, member in self.members
            )
            return f"{self.kind.value}<{inner}>"
        if self.precision is None:
            return self.kind.value
        if self.kind is TypeKind.DECIMAL:
            return f"decimal({self.precision},{self.scale})"
        return f"{self.kind.value}({self.precision})"


BOOL = CanonicalType(kind=TypeKind.BOOL)
INT = CanonicalType(kind=TypeKind.INT)
FLOAT64 = CanonicalType(kind=TypeKind.FLOAT64)
FLOAT32 = CanonicalType(kind=TypeKind.FLOAT32)
NUMERIC = CanonicalType(kind=TypeKind.DECIMAL)
"""A decimal without declared digits: exact to 38, wider values are INVALID."""
TEXT = CanonicalType(kind=TypeKind.TEXT)
BINARY = CanonicalType(kind=TypeKind.BINARY)
UUID = CanonicalType(kind=TypeKind.UUID)
DATE = CanonicalType(kind=TypeKind.DATE)
TIME = CanonicalType(kind=TypeKind.TIME)
INTERVAL = CanonicalType(kind=TypeKind.INTERVAL)
INSTANT = CanonicalType(kind=TypeKind.INSTANT)
LOCAL_TIMESTAMP = CanonicalType(kind=TypeKind.LOCAL_TIMESTAMP)
JSON = CanonicalType(kind=TypeKind.JSON)
NULL = CanonicalType(kind=TypeKind.NULL)

MAX_DIGITS = 38

_SIMPLE = {kind.value: kind for kind in TypeKind if kind not in NESTED | {TypeKind.NULL}}
_SHAPE = re.compile(r"([a-z_0-9]+)(?:\((\d{1,2})(?:, ?(\d{1,2}))?\))?", re.ASCII)


def decimal(precision: int, scale: int) -> CanonicalType:
    """`decimal(precision,scale)`; 1 to 38 digits, of which `scale` after the point."""
    return CanonicalType(kind=TypeKind.DECIMAL, precision=precision, scale=scale)


def array_of(element: CanonicalType) -> CanonicalType:
    return CanonicalType(kind=TypeKind.ARRAY, members=(("element", element),))


def parse_type(text: str) -> CanonicalType:
    """Read a type as a job writes it: `int`, `decimal(20,4)`, `instant(3)`, `array<text>`.

    Raises:
        ValueError: no such type, or digits out of range; the message lists the types.
    """
    if text.startswith("array<") and text.endswith(">"):
        return array_of(parse_type(text[6:-1]))
    shape = _SHAPE.fullmatch(text)
    kind = _SIMPLE.get(shape[1]) if shape else None
    if shape is None or kind is None:
        raise ValueError(f"no canonical type {text!r}; there are {', '.join(_SIMPLE)}, array<…>")
    digits = int(shape[2]) if shape[2] else None
    scale = int(shape[3]) if shape[3] else None
    if kind is TypeKind.DECIMAL and digits is not None:
        scale = scale or 0
        if not (1 <= digits <= MAX_DIGITS and scale <= digits):
            raise ValueError(f"{text}: a decimal has 1 to 38 digits, its scale at most as many")
        return decimal(digits, scale)
    if digits is not None and (kind not in CLOCK_TIMES or scale is not None or digits > 9):  # noqa: PLR2004 - nanoseconds
        raise ValueError(f"{text}: only decimals and clock times (0 to 9) take digits")
    return CanonicalType(kind=kind, precision=digits)


def comparable(one: CanonicalType, other: CanonicalType) -> bool:
    """Whether two types compare without a cast: numbers among each other, or the same kind.

    Text against uuid and naive against aware times need a step first, which the planner adds.
    """
    if one.is_number and other.is_number:
        return True
    if one.kind is not other.kind or len(one.members) != len(other.members):
        return False
    return all(
        name == other_name and comparable(member, other_member)
        for (name, member), (other_name, other_member) in zip(
            sorted(one.members), sorted(other.members), strict=True
        )
    )
