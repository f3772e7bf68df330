"""What pairs of values have in common: one small function per pattern.

Separate from `hints`, which decides what is checked and when a pattern is reported. Everything
here uses texts and exact deltas; a masked value follows no pattern.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple

from datarecs_core.comparison.insight.hint_stage import Place, quoted
from datarecs_core.documents import decimal_text
from datarecs_core.values import EXACT

_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
_DATE = re.compile(r"[+-]?\d{4,}-\d\d-\d\d", re.ASCII)
_MOMENT = re.compile(rf"{_DATE.pattern}T.+", re.ASCII)
_DAY = Decimal(86_400_000_000)
_LONGEST_TOLERANCE = 366 * _DAY
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)
REFERENCE = "<reference>"
"""Placeholder in a line for the name of the reference source."""
_QUARTER_HOUR = Decimal(900_000_000)
_HOUR = 4 * _QUARTER_HOUR
_WIDEST_ZONES = 26 * _HOUR
_MOST_PLACES = 9


class HintRule(StrEnum):
    """What most breaks of a measure follow."""

    CONSTANT_FACTOR = "CONSTANT_FACTOR"
    SIGN_FLIP = "SIGN_FLIP"
    CONSTANT_OFFSET = "CONSTANT_OFFSET"
    ZONE_SHIFT = "ZONE_SHIFT"
    ROUNDED = "ROUNDED"
    CUT = "CUT"
    NULL_FOR_ZERO = "NULL_FOR_ZERO"
    NULL_FOR_EMPTY = "NULL_FOR_EMPTY"
    CUT_TEXT = "CUT_TEXT"
    KEYS_MEET = "KEYS_MEET"
    SWAPPED_MEASURES = "SWAPPED_MEASURES"
    DUPLICATED_LOAD = "DUPLICATED_LOAD"
    LATE_WINDOW = "LATE_WINDOW"


class Pair(NamedTuple):
    """The values of one break in the reference and in one other source."""

    break_id: str
    group: bytes
    base: str | None
    value: str | None
    delta: Decimal | None


class Pattern(NamedTuple):
    """A pattern, the pairs that follow it, and the line that would declare it (`hint_lines`)."""

    rule: HintRule
    what: str
    pairs: Sequence[Pair]
    declare: str


def _most(
    pairs: Iterable[Pair], answer_of: Callable[[Pair], Fraction | Decimal | None]
) -> tuple[Fraction | Decimal, list[Pair]] | None:
    """The pattern of most pairs, with these pairs; None where only one value has it."""
    by_answer: dict[Fraction | Decimal, list[Pair]] = {}
    for pair in pairs:
        answer = answer_of(pair)
        if answer is not None:
            by_answer.setdefault(answer, []).append(pair)
    if not by_answer:
        return None
    answer = max(by_answer, key=lambda each: (len(by_answer[each]), -abs(Fraction(each))))
    chosen = by_answer[answer]
    return (answer, chosen) if len({pair.base for pair in chosen}) > 1 else None


def _number(text: str | None) -> Decimal | None:
    return Decimal(text) if text is not None and _NUMBER.fullmatch(text) else None


def _numbers(pairs: Iterable[Pair]) -> list[tuple[Pair, Decimal, Decimal]]:
    """Pairs of numbers; a text that looks like a number has no delta and is not one."""
    numbers = []
    for pair in pairs:
        base, value = _number(pair.base), _number(pair.value)
        if pair.delta is not None and base is not None and value is not None:
            numbers.append((pair, base, value))
    return numbers


def _factor(at: Place, source: str, pairs: Sequence[Pair]) -> Pattern | None:
    measure = at.column
    ratios = {
        pair.break_id: Fraction(value) / Fraction(base)
        for pair, base, value in _numbers(pairs)
        if base != 0
    }
    most = _most(pairs, lambda pair: ratios.get(pair.break_id))
    if most is None or not most[0]:
        return None
    ratio, chosen = Fraction(most[0]), most[1]
    if ratio == -1:
        what = f"{source} has the opposite sign"
        return Pattern(
            HintRule.SIGN_FLIP, what, chosen, _expr(source, measure, f"-{_name(measure)}")
        )
    what = f"{source} is exactly {_ratio(ratio)} times the reference"
    return Pattern(HintRule.CONSTANT_FACTOR, what, chosen, _scaling(source, measure, ratio))


def _scaling(source: str, measure: str, ratio: Fraction) -> str:
    """Products that make both sides equal: of the source by the reciprocal, where that ends."""
    column, reciprocal = _name(measure), _ratio(1 / ratio)
    if "/" not in reciprocal:
        return _expr(source, measure, f"{column} * {reciprocal}")
    lines = [(source, ratio.denominator), (REFERENCE, ratio.numerator)]
    return "; ".join(
        _expr(name, measure, f"{column} * {factor}") for name, factor in lines if factor != 1
    )


def _name(measure: str) -> str:
    """As expressions name a column."""
    if _PLAIN_NAME.fullmatch(measure):
        return measure
    escaped = measure.replace("`", "``")
    return f"`{escaped}`"


def _ratio(ratio: Fraction) -> str:
    """As a decimal where it ends, else as a fraction."""
    rest = ratio.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest > 1:
        return f"{ratio.numerator}/{ratio.denominator}"
    return decimal_text(EXACT.divide(Decimal(ratio.numerator), Decimal(ratio.denominator)))


def _expr(source: str, measure: str, expression: str) -> str:
    return f'sources[{source}].columns: {{{quoted(measure)}: {{expr: "{expression}"}}}}'


def _offset(at: Place, source: str, pairs: Sequence[Pair]) -> Pattern | None:
    measure = at.column
    most = _most(pairs, lambda pair: pair.delta)
    if most is None:
        return None
    offset, chosen = Decimal(str(most[0])), most[1]
    if _number(chosen[0].base) is None:
        if _MOMENT.fullmatch(chosen[0].base or "") and _is_zone_shift(offset):
            return None
        what = f"{source} differs by exactly {_length(chosen[0].base or '', offset)}"
        return Pattern(HintRule.CONSTANT_OFFSET, what, chosen, _duration_line(at, offset))
    shown = decimal_text(offset)
    line = _expr(source, measure, f"{_name(measure)} - ({shown})")
    return Pattern(HintRule.CONSTANT_OFFSET, f"{source} differs by exactly {shown}", chosen, line)


def _length(base: str, offset: Decimal) -> str:
    """Days between dates, seconds between times."""
    if _DATE.fullmatch(base) is None:
        return f"{decimal_text(offset.scaleb(-6, EXACT))} s"
    days = decimal_text(EXACT.divide(offset, _DAY))
    return f"{days} {'day' if days in ('1', '-1') else 'days'}"


def _duration_line(at: Place, offset: Decimal) -> str:
    """A tolerance of so long; empty where no tolerance may be that long or that fine."""
    size = offset.copy_abs()
    if size > _LONGEST_TOLERANCE or size != size.to_integral_value():
        return ""
    if EXACT.remainder(size, _DAY) == 0:
        length = f"P{decimal_text(EXACT.divide_int(size, _DAY))}D"
    else:
        length = f"PT{decimal_text(size.scaleb(-6, EXACT))}S"
    bound = f"[{{type: DURATION, value: {length}}}]"
    return f"stages[{at.stage}].measures[{at.name}].tolerances: {bound}"


def _is_zone_shift(delta: Decimal | None) -> bool:
    return (
        delta is not None
        and delta != 0
        and delta.copy_abs() <= _WIDEST_ZONES
        and EXACT.remainder(delta, _QUARTER_HOUR) == 0
    )


def _zone(at: Place, source: str, pairs: Sequence[Pair]) -> Pattern | None:
    """One shift of whole quarter hours, or two that summer time sets one hour apart.

    Of moments alone: a date and a time of day have no zone.
    """
    times = [
        pair for pair in pairs if _MOMENT.fullmatch(pair.base or "") and _is_zone_shift(pair.delta)
    ]
    counted = Counter(pair.delta for pair in times if pair.delta is not None).most_common(2)
    if not counted:
        return None
    shifts = [delta for delta, _ in counted]
    if len(shifts) > 1 and EXACT.subtract(max(shifts), min(shifts)) != _HOUR:
        shifts = shifts[:1]
    chosen = [pair for pair in times if pair.delta in shifts]
    hours = " and ".join(_hours(shift) for shift in sorted(shifts))
    what = f"{source} is shifted by {hours} h in {at.name}"
    return Pattern(HintRule.ZONE_SHIFT, what, chosen, f"sources[{source}].timezone: <zone>")


def _hours(shift: Decimal) -> str:
    return decimal_text(EXACT.divide(shift, _HOUR))


_WAYS = (
    (HintRule.ROUNDED, ROUND_HALF_EVEN),
    (HintRule.ROUNDED, ROUND_HALF_UP),
    (HintRule.CUT, ROUND_DOWN),
)


def _places(at: Place, source: str, pairs: Sequence[Pair]) -> Pattern | None:
    """One side is the other with fewer places; the way that explains most pairs."""
    measure = at.column
    numbers = _numbers(pairs)
    best: Pattern | None = None
    for places in range(_MOST_PLACES + 1):
        for rule, way in _WAYS:
            for cut_reference in (False, True):
                chosen = [
                    pair
                    for pair, base, value in numbers
                    if _shortened(*((value, base) if cut_reference else (base, value)), places, way)
                ]
                if len(chosen) > (len(best.pairs) if best else 0):
                    who = "the reference" if cut_reference else source
                    verb = "rounded" if rule is HintRule.ROUNDED else "cut"
                    what = f"{who} is {verb} to {places} places"
                    line = f"normalize.columns: {{{quoted(measure)}: {{round: {places}}}}}"
                    best = Pattern(rule, what, chosen, line)
    return best


def _shortened(long: Decimal, short: Decimal, places: int, way: str) -> bool:
    shifted = long.scaleb(places, EXACT).to_integral_value(rounding=way)
    return shifted.scaleb(-places, EXACT) == short


def _nulls(at: Place, source: str, pairs: Sequence[Pair]) -> Iterator[Pattern]:
    for rule, filler, line in (
        (HintRule.NULL_FOR_ZERO, "0", "zero"),
        (HintRule.NULL_FOR_EMPTY, "", "empty"),
    ):
        chosen = [pair for pair in pairs if {pair.base, pair.value} == {None, filler}]
        if chosen:
            shown = filler or "an empty text"
            what = f"{source} and the reference have NULL against {shown}"
            declare = f"normalize.columns: {{{quoted(at.column)}: {{null: {line}}}}}"
            yield Pattern(rule, what, chosen, declare)


def _null(at: Place, source: str, pairs: Sequence[Pair]) -> Pattern | None:
    patterns = list(_nulls(at, source, pairs))
    return max(patterns, key=lambda each: len(each.pairs), default=None)


def _cut_text(at: Place, source: str, pairs: Sequence[Pair]) -> Pattern | None:
    """Texts of one source end at one length, those of the other continue."""
    measure = at.column
    texts = [pair for pair in pairs if pair.delta is None and pair.base and pair.value]
    best: Pattern | None = None
    for cut_reference in (False, True):
        short = [(pair.base if cut_reference else pair.value) or "" for pair in texts]
        length = max(map(len, short), default=0)
        chosen = [
            pair
            for pair, text in zip(texts, short, strict=True)
            if len(text) == length and _goes_on(text, pair.value if cut_reference else pair.base)
        ]
        if len(chosen) > (len(best.pairs) if best else 0):
            who = "the reference" if cut_reference else source
            line = _expr(source, measure, f"LEFT({_name(measure)}, {length})")
            what = f"texts of {who} end after {length} characters"
            best = Pattern(HintRule.CUT_TEXT, what, chosen, line)
    return best


def _goes_on(short: str, long: str | None) -> bool:
    return long is not None and len(long) > len(short) and long.startswith(short)


_Rule = Callable[[Place, str, Sequence[Pair]], Pattern | None]
PATTERNS: tuple[_Rule, ...] = (_factor, _offset, _zone, _places, _null, _cut_text)


def duplicated(source: str, pairs: Sequence[Pair]) -> Iterator[Pattern]:
    """Rows of a key occur the same whole number of times as often."""
    times: dict[int, list[Pair]] = {}
    for pair in pairs:
        base, value = int(pair.base or 0), int(pair.value or 0)
        if base and value > base and value % base == 0:
            times.setdefault(value // base, []).append(pair)
    if times:
        factor = max(times, key=lambda each: len(times[each]))
        what = f"{source} has every row of these keys {factor} times"
        line = f"sources[{source}].filter: <one load of {source}>"
        yield Pattern(HintRule.DUPLICATED_LOAD, what, times[factor], line)
