"""Proposes the tolerance of a pair of columns from its digits and from rows with the same key."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from datarecs_cli.inference.pairing import Meeting, Pair, agreement
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs.types import TypeKind

_MOST_WORDS = 20
_FEW = Decimal("0.99")
_MICROS_OF_SECOND = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedMeasure:
    pair: Pair
    tolerance: tuple[str, str] | None = None
    """Type and value; None: the values must be equal."""
    words: tuple[tuple[str, str], ...] = ()
    """Words of the second source with their words in the first source."""
    is_folded: bool = False
    """Texts are equal without case and without blanks at their ends."""
    reason: str = ""


def measure_of(pair: Pair, meeting: Meeting) -> ProposedMeasure:
    """The measure of a pair that is not part of the key."""
    rows = [
        (one, other)
        for one, other in meeting.values(pair.left, pair.right)
        if not isinstance(one, Invalid) and not isinstance(other, Invalid)
    ]
    kinds = {pair.left.type.kind, pair.right.type.kind}
    if pair.left.type.is_number and pair.right.type.is_number:
        return _number(pair, rows)
    if kinds == {TypeKind.TEXT}:
        return _text(pair, rows)
    if kinds <= {TypeKind.LOCAL_TIMESTAMP, TypeKind.INSTANT}:
        return _time(pair, rows)
    return ProposedMeasure(pair=pair, reason=f"{_equal(rows)}; must be equal")


def _number(pair: Pair, rows: Sequence[tuple[object, object]]) -> ProposedMeasure:
    gaps = [
        abs(Decimal(str(one)) - Decimal(str(other)))
        for one, other in rows
        if one is not None and other is not None and _is_finite(one) and _is_finite(other)
    ]
    scales = [_scale(each) for each in (pair.left, pair.right)]
    least = min(scales)
    unit = Decimal(1).scaleb(-least)
    small = sum(0 < gap <= unit for gap in gaps)
    if scales[0] != scales[1] and small:
        half = unit / 2
        if all(gap <= half or gap > unit for gap in gaps):
            reason = (
                f"one source rounds to {least} digits, so half a unit of the last digit is allowed"
            )
            return _within(pair, half, reason)
    if small and least:
        reason = f"{small} of {len(gaps)} rows differ by at most one unit of the last digit"
        return _within(pair, unit, reason)
    return ProposedMeasure(pair=pair, reason=f"{_equal(rows)}; must be equal")


def _within(pair: Pair, value: Decimal, reason: str) -> ProposedMeasure:
    written = ("ABSOLUTE", format(value.normalize(), "f"))
    return ProposedMeasure(pair=pair, tolerance=written, reason=reason)


def _is_finite(value: object) -> bool:
    return Decimal(str(value)).is_finite()


def _scale(column: object) -> int:
    kind = getattr(column, "type", None)
    if kind is not None and kind.is_float:
        return 2
    return getattr(kind, "scale", None) or 0


def _text(pair: Pair, rows: Sequence[tuple[object, object]]) -> ProposedMeasure:
    texts = [(one, other) for one, other in rows if isinstance(one, str) and isinstance(other, str)]
    equal = sum(one == other for one, other in texts)
    if texts and equal < _FEW * len(texts):
        if agreement(texts) >= _FEW:
            reason = "equal without case and blanks at the ends, which are ignored"
            return ProposedMeasure(pair=pair, is_folded=True, reason=reason)
        words = _words(texts)
        if words:
            reason = f"the sources have different words for {len(words)} values; check the map"
            return ProposedMeasure(pair=pair, words=words, reason=reason)
    return ProposedMeasure(pair=pair, reason=f"{_equal(rows)}; must be equal")


def _words(texts: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """A map of words that explains nearly every row."""
    counts: dict[str, dict[str, int]] = {}
    for one, other in texts:
        counts.setdefault(other, {}).setdefault(one, 0)
        counts[other][one] += 1
    chosen = {other: max(ones, key=lambda one: ones[one]) for other, ones in counts.items()}
    explained = sum(counts[other][one] for other, one in chosen.items())
    is_small = 1 < len(chosen) <= _MOST_WORDS and len(texts) >= 2 * len(chosen)
    if not is_small or explained < _FEW * len(texts) or len(set(chosen.values())) < len(chosen):
        return ()
    return tuple(sorted((other, one) for other, one in chosen.items() if other != one))


def _time(pair: Pair, rows: Sequence[tuple[object, object]]) -> ProposedMeasure:
    gaps = [
        abs(one - other)
        for one, other in rows
        if isinstance(one, Decimal) and isinstance(other, Decimal)
    ]
    small = sum(0 < gap < _MICROS_OF_SECOND for gap in gaps)
    if small:
        reason = f"{small} of {len(gaps)} rows differ by less than a second"
        return ProposedMeasure(pair=pair, tolerance=("DURATION", "PT1S"), reason=reason)
    return ProposedMeasure(pair=pair, reason=f"{_equal(rows)}; must be equal")


def _equal(rows: Sequence[tuple[object, object]]) -> str:
    equal = sum(one == other for one, other in rows)
    return f"equal in {equal} of {len(rows)} rows of the sample"
