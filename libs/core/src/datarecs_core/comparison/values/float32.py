"""Single precision: the shortest decimal of the float32 nearest to a number.

A separate module because only `float32: shortest` and the class PRECISION use it.
"""

import struct
from decimal import Decimal

from datarecs_core.values import EXACT

_INFINITE_BITS = 0x7F800000
_BEYOND = Decimal(2**128)
"""The value of a float32 after the largest one: a number that rounds to it is infinite."""
_MOST_DIGITS = 9


def shortest_float32(value: Decimal) -> Decimal:
    """The shortest decimal that reads as the float32 nearest to `value` (ties to even).

    Rounded once, since a double in between would round twice. NaN and infinities stay; what is too
    large becomes infinite.
    """
    if not value.is_finite():
        return value
    bits = _nearest(value.copy_abs())
    size = _shortest(bits)
    return size.copy_negate() if value.is_signed() else size


def _shortest(bits: int) -> Decimal:
    if bits == _INFINITE_BITS:
        return Decimal("Infinity")
    single = _number(bits)
    texts = (f"{single:.{digits}g}" for digits in range(1, _MOST_DIGITS))
    return next(
        (Decimal(text) for text in texts if _nearest(Decimal(text)) == bits),
        Decimal(f"{single:.{_MOST_DIGITS}g}"),
    )


def _nearest(value: Decimal) -> int:
    """Bits of the float32 nearest to a number that is not negative."""
    try:
        guess = int.from_bytes(struct.pack(">f", float(value)))
    except OverflowError:
        guess = _INFINITE_BITS
    near = range(max(guess - 1, 0), min(guess + 1, _INFINITE_BITS) + 1)
    return min(near, key=lambda bits: (_distance(value, bits), bits & 1))


def _distance(value: Decimal, bits: int) -> Decimal:
    there = _BEYOND if bits == _INFINITE_BITS else Decimal(_number(bits))
    return EXACT.subtract(value, there).copy_abs()


def _number(bits: int) -> float:
    return float(struct.unpack(">f", bits.to_bytes(4))[0])
