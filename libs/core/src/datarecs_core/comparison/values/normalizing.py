"""The declared rules, applied to one value; without any they change nothing.

Order: map, cast, trim, unicode, case, empty, null, round or precision. An aggregate applies
`null` and `round` to the function's result and everything else to its input, so there are two
functions.
"""

import unicodedata
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Literal, cast

from datarecs_core.comparison.planning.rules import Rules
from datarecs_core.comparison.values.canonical import Tag, Value, number, text
from datarecs_core.comparison.values.float32 import shortest_float32
from datarecs_core.comparison.values.json_form import json_value
from datarecs_core.jobs.vocabulary import (
    ArrayRule,
    Case,
    EmptyText,
    Float32Rule,
    NullAs,
    Rounding,
    Trim,
    UnicodeForm,
)
from datarecs_core.values import EXACT

WHITE_SPACE = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""Unicode White_Space; `str.strip` would also take the separators U+001C to U+001F."""


def on_input(value: Value, rules: Rules) -> Value:
    """The value after trim, unicode, case and empty, `float32`, `precision` and `arrays`."""
    match value.tag:
        case Tag.TEXT:
            return _text(cast("str", value.content), rules)
        case Tag.NUMBER if rules.float32 is Float32Rule.SHORTEST:
            return number(shortest_float32(cast("Decimal", value.content)))
        case Tag.INSTANT | Tag.LOCAL | Tag.TIME if rules.precision is not None:
            micros = cut_time(cast("Decimal", value.content), rules.precision, rules.rounding)
            return Value(value.tag, micros)
        case Tag.JSON if rules.arrays is ArrayRule.SET:
            return Value(Tag.JSON, json_value(cast("str", value.content), arrays_as_sets=True))
        case _:
            return value


def _text(plain: str, rules: Rules) -> Value:
    if rules.trim in (Trim.BOTH, Trim.LEFT):
        plain = plain.lstrip(WHITE_SPACE)
    if rules.trim in (Trim.BOTH, Trim.RIGHT):
        plain = plain.rstrip(WHITE_SPACE)
    if rules.unicode is not UnicodeForm.NONE:
        form: Literal["NFC", "NFKC"] = "NFC" if rules.unicode is UnicodeForm.NFC else "NFKC"
        plain = unicodedata.normalize(form, plain)
    if rules.case is Case.FOLD:
        plain = plain.casefold()
    if not plain and rules.empty is EmptyText.NULL:
        return Value(Tag.NULL)
    return text(plain)


def on_result(value: Value, rules: Rules) -> Value:
    """The value after `null` and `round`."""
    if value.is_null:
        return {NullAs.KEEP: value, NullAs.ZERO: number(0), NullAs.EMPTY: text("")}[rules.null]
    if rules.round is None or value.tag is not Tag.NUMBER:
        return value
    return number(round_half_even(cast("Decimal", value.content), rules.round))


def round_half_even(value: Decimal, places: int) -> Decimal:
    """Rounded to so many digits after the point; NaN and infinities stay."""
    if not value.is_finite():
        return value
    return _quantized(value, places, ROUND_HALF_EVEN)


def cut_time(micros: Decimal, second_digits: int, rounding: Rounding) -> Decimal:
    """Microseconds with so many digits of the second; truncation goes to the earlier moment."""
    if not micros.is_finite():
        return micros
    how = ROUND_FLOOR if rounding is Rounding.TRUNCATE else ROUND_HALF_EVEN
    return _quantized(micros, second_digits - 6, how)


def _quantized(value: Decimal, places: int, how: str) -> Decimal:
    """Moves the point, cuts, moves it back: `quantize` is bound to a context's precision."""
    shifted = value.scaleb(places, EXACT).to_integral_value(rounding=how)
    return shifted.scaleb(-places, EXACT)
