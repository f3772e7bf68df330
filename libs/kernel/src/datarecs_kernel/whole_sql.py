"""Whole units in DuckDB's SQL: the integers of up to 38 digits (HUGEINT) of decimals.

Quotients and roundings are half-even and exact, unlike those of DuckDB; every function takes and
returns SQL, NULL stays NULL.
"""

from datarecs_kernel.encoding import plain_number

LARGEST = 10**38 - 1
"""Of 38 digits."""


def units_of_decimal(value: str) -> str:
    """The unscaled integer of a decimal of any precision and scale."""
    return f"CAST(replace(CAST({value} AS VARCHAR), '.', '') AS HUGEINT)"


def limited(units: str) -> str:
    """NULL for more than 38 digits."""
    return f"CASE WHEN {units} BETWEEN -{LARGEST} AND {LARGEST} THEN {units} END"


def pointed(units: str, scale: int) -> str:
    """Decimal text with `scale` digits after the point, with trailing zeros."""
    digits = f"CAST(abs({units}) AS VARCHAR)"
    sign = f"CASE WHEN {units} < 0 THEN '-' ELSE '' END"
    if not scale:
        return f"{sign} || {digits}"
    width = f"CAST(greatest(strlen({digits}), {scale + 1}) AS INTEGER)"
    padded = f"lpad({digits}, {width}, '0')"
    return f"{sign} || left({padded}, -{scale}) || '.' || right({padded}, {scale})"


def written(units: str, scale: int) -> str:
    """Canonical text of a number of units of 10^-scale."""
    return plain_number(f"({pointed(units, scale)})")


def divided(units: str, divisor: str) -> str:
    """The quotient, rounded half-even; the divisor is positive."""
    quotient, rest = f"abs({units}) // {divisor}", f"abs({units}) % {divisor}"
    return f"{_sign(units)} * ({rounded_up(quotient, rest, divisor)})"


def rounded_up(quotient: str, rest: str, divisor: str) -> str:
    """A quotient that is not negative, plus one if its remainder rounds up."""
    above = f"({rest}) > {divisor} - ({rest})"
    even = f"({rest}) = {divisor} - ({rest}) AND ({quotient}) % 2 = 1"
    return f"({quotient}) + CASE WHEN {above} OR ({even}) THEN 1 ELSE 0 END"


def average(units: str, count: str, more: int) -> str:
    """Units divided by a count, with `more` digits after the point; NULL above 38 digits.

    A negative `more` removes digits. NULL for a count of 0.
    """
    many = f"nullif({count}, 0)"
    if more <= 0:
        return divided(units, f"({many} * CAST({10**-more} AS HUGEINT))")
    whole, left = f"(abs({units}) // {many})", f"(abs({units}) % {many})"
    carried = f"({left} * CAST({10**more} AS HUGEINT))"
    room = LARGEST // 10**more
    shifted = f"CASE WHEN {whole} <= {room} THEN {whole} * {10**more} + {carried} // {many} END"
    rounded = rounded_up(f"({shifted})", f"({carried} % {many})", many)
    return f"{_sign(units)} * ({rounded})"


def _sign(units: str) -> str:
    return f"CASE WHEN {units} < 0 THEN -1 ELSE 1 END"
