"""The sort keys of `canonical` in Python: strings that sort in canonical order.

SQL and Python must sort in the same order, so the two versions are as similar as possible.
"""

from decimal import Decimal

from datarecs_core.comparison.values.canonical import Tag, Value, encode, number_text, payload_of
from datarecs_core.documents import decimal_text

_COMPLEMENT = str.maketrans("0123456789", "9876543210")
_SPECIAL = {"-Inf": "0", "0": "2", "Inf": "4", "NaN": "5"}
VALID, BROKEN = "v", "x"
"""Prefixes of the sort keys of texts before rules: INVALID comes last."""
KEY_SHIFT, KEY_DIGITS = 1000, 4
"""Offset of the exponent at the start of a size key, and its number of digits."""


def size_key_of(size: Decimal) -> str:
    """`canonical.size_key` of a number that is not negative."""
    if size == 0:
        return "0"
    digits = decimal_text(size).replace(".", "").strip("0")
    return f"{size.adjusted() + KEY_SHIFT:0{KEY_DIGITS}}{digits}"


def size_of(key: str) -> Decimal:
    """The number of a size key."""
    if key == "0":
        return Decimal(0)
    exponent, digits = int(key[:KEY_DIGITS]) - KEY_SHIFT, key[KEY_DIGITS:]
    return Decimal(f"{digits}E{exponent - len(digits) + 1}")


def number_order_of(number: Decimal) -> str:
    """`canonical.number_order`."""
    special = _SPECIAL.get(number_text(number))
    if special is not None:
        return special
    size = size_key_of(number.copy_abs())
    return f"1{size.translate(_COMPLEMENT)}~" if number.is_signed() else f"3{size}"


def sort_key_of(value: Value) -> str | None:
    """`canonical.sort_key` after the prefix for valid or INVALID; None for NULL."""
    match value.tag, value.content:
        case Tag.NULL, _:
            return None
        case Tag.INVALID, _:
            return f"{BROKEN}{encode(value)[5:].hex().upper()}"
        case _, Decimal() as number:
            return f"{VALID}{number_order_of(number)}"
        case _, bool() as flag:
            return f"{VALID}{int(flag)}"
        case _, bytes() | tuple():
            return f"{VALID}{payload_of(value).hex().upper()}"
        case _, content:
            return f"{VALID}{content}"
