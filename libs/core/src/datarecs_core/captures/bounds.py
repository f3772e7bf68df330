"""Smallest and largest values as canonical texts, and the order of these texts.

The one place for both, so that a value has the same text from every source, and the statistics of
files can be merged without their rows. Spec queue-capture 16.
"""

import base64
import re
import struct
from decimal import Decimal
from uuid import UUID

from datarecs_core.comparison.values.calendar import date_text, moment_text
from datarecs_core.documents import decimal_text
from datarecs_core.jobs.types import CanonicalType, TypeKind

MAX_BOUND_BYTES = 1024
"""A longer text is no bound: statistics stay small, and a cut text would not be exact."""
ORDERED = frozenset(
    {
        *(TypeKind.BOOL, TypeKind.INT, TypeKind.DECIMAL, TypeKind.FLOAT64, TypeKind.FLOAT32),
        *(TypeKind.TEXT, TypeKind.BINARY, TypeKind.UUID, TypeKind.DATE, TypeKind.TIME),
        *(TypeKind.INSTANT, TypeKind.LOCAL_TIMESTAMP),
    }
)
"""Kinds with bounds. Intervals, JSON and nested values have none."""
_NAN_ORDER = (1, 0.0)
_FLOAT32_DIGITS = 9
"""Digits that always distinguish two of them."""
_DATE = re.compile(r"([+-]?\d+)-(.*)", re.ASCII)
_ENDLESS = {"Infinity": 1, "-Infinity": -1}


def bound_text(content: object, kind: CanonicalType) -> str | None:
    """The canonical text of a value.

    Args:
        content: bool, int, Decimal, float, str, bytes or UUID as the kind needs; of a date its days
            since 1970 and of a clock time its microseconds since 1970 or midnight, as Decimal or
            int, infinite where the source has infinity.
        kind: of the column.

    Returns:
        None for a kind without order, and for a text longer than `MAX_BOUND_BYTES`.
    """
    if kind.kind not in ORDERED:
        return None
    text = _text(content, kind)
    return text if len(text.encode(errors="surrogatepass")) <= MAX_BOUND_BYTES else None


def _text(content: object, kind: CanonicalType) -> str:
    match content:
        case bool():
            return "true" if content else "false"
        case float():
            return float_text(content, is_narrow=kind.kind is TypeKind.FLOAT32)
        case bytes() | UUID():
            return _bytes_text(content, kind)
        case int() | Decimal():
            return _amount_text(content, kind)
        case _:
            return str(content).lower() if kind.kind is TypeKind.UUID else str(content)


def _bytes_text(content: bytes | UUID, kind: CanonicalType) -> str:
    if isinstance(content, UUID):
        return str(content)
    is_uuid = kind.kind is TypeKind.UUID
    return str(UUID(bytes=content)) if is_uuid else base64.b64encode(content).decode()


def _amount_text(content: int | Decimal, kind: CanonicalType) -> str:
    amount = Decimal(content)
    if not amount.is_finite():
        return "NaN" if amount.is_nan() else _endless_text(amount)
    return _time_text(amount, kind) if kind.is_time else decimal_text(amount)


def float_text(value: float, *, is_narrow: bool = False) -> str:
    """The shortest digits that are read back as the same number; `NaN`, `Infinity`, no `-0`.

    `is_narrow`: the number has 32 bits.
    """
    if value != value:  # noqa: PLR0124 - only NaN differs from itself
        return "NaN"
    if value in {float("inf"), float("-inf")}:
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0.0"
    if not is_narrow:
        return repr(value)
    texts = (format(value, f".{digits}g") for digits in range(1, _FLOAT32_DIGITS + 1))
    wanted = struct.pack("<f", value)
    return repr(float(next(text for text in texts if _is_read_back(text, wanted))))


def _is_read_back(text: str, wanted: bytes) -> bool:
    try:
        return struct.pack("<f", float(text)) == wanted
    except OverflowError:
        return False


def _time_text(value: Decimal, kind: CanonicalType) -> str:
    """ISO 8601 with at least the declared digits of the second; instants in UTC with `Z`."""
    if kind.kind is TypeKind.DATE:
        return date_text(value)
    text = moment_text(value, of_day=kind.kind is TypeKind.TIME)
    if kind.second_digits:
        head, _, fraction = text.partition(".")
        text = f"{head}.{fraction:0<{kind.second_digits}}"
    return f"{text}Z" if kind.kind is TypeKind.INSTANT else text


def _endless_text(value: Decimal) -> str:
    return "-Infinity" if value.is_signed() else "Infinity"


Order = bool | int | Decimal | str | bytes | tuple[int, float] | tuple[int, str]


def bound_order(text: str, kind: str) -> Order:
    """What to compare: texts of one type are ordered as their values.

    Text is ordered by code points, and NaN is greater than every other number.

    Args:
        text: of `bound_text`.
        kind: the canonical type as text, such as `decimal(10,2)`.
    """
    match kind.partition("(")[0]:
        case "int":
            return int(text)
        case "decimal":
            return Decimal("Infinity") if text == "NaN" else Decimal(text)
        case "float32" | "float64":
            return _NAN_ORDER if text == "NaN" else (0, float(text))
        case "binary":
            return base64.b64decode(text)
        case "date" | "instant" | "local_timestamp":
            return _time_order(text)
        case _:
            return text.encode(errors="surrogatepass")


def _time_order(text: str) -> tuple[int, str]:
    if text in _ENDLESS:
        return (_ENDLESS[text] * 2**62, "")
    parts = _DATE.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} is not the text of a date or a time")
    return int(parts[1]), parts[2]
