"""Which rules a column gets: those of its type, overridden by those of the column.

The planner's third step. A rule that cannot act on a type is dropped, so that plans and reports
show only relaxations that exist.
"""

from collections.abc import Sequence
from dataclasses import replace

from datarecs_core.comparison.planning.plan import Cut, InputPlan
from datarecs_core.comparison.planning.rules import STRICT, Rules
from datarecs_core.jobs.definition import ColumnRules, Normalize
from datarecs_core.jobs.types import CLOCK_TIMES, CanonicalType, TypeKind
from datarecs_core.jobs.vocabulary import Float32Rule, NanRule, NullAs, TimePrecision

_NO_OVERRIDES = ColumnRules()
_DIGITS = {TimePrecision.SECONDS: 0, TimePrecision.MILLIS: 3, TimePrecision.MICROS: 6}
_FLOAT_SCALE = 18
"""Digits after the point that float sums and averages keep."""


def rules_for(
    column: str, inputs: Sequence[InputPlan], normalize: Normalize, *, measure: bool
) -> Rules:
    """The resolved rules of a column; `null` and `nan` act on measures alone."""
    overrides = normalize.columns.get(column, _NO_OVERRIDES)
    kind = inputs[0].result.kind
    if kind is TypeKind.TEXT:
        rules = _text_rules(overrides, normalize)
    elif inputs[0].result.is_number:
        rules = _number_rules(overrides, normalize, inputs)
    elif kind in CLOCK_TIMES:
        rules = _time_rules(overrides, normalize, inputs)
    elif kind is TypeKind.JSON:
        rules = Rules(arrays=overrides.arrays or normalize.json.arrays)
    else:
        rules = STRICT
    return rules if measure else replace(rules, null=NullAs.KEEP, nan=NanRule.EQUAL)


def _text_rules(overrides: ColumnRules, normalize: Normalize) -> Rules:
    strings = normalize.strings
    null = overrides.null or strings.null
    return Rules(
        trim=overrides.trim or strings.trim,
        case=overrides.case or strings.case,
        unicode=overrides.unicode or strings.unicode,
        empty=overrides.empty or strings.empty,
        null=null if null is NullAs.EMPTY else NullAs.KEEP,
    )


def _number_rules(
    overrides: ColumnRules, normalize: Normalize, inputs: Sequence[InputPlan]
) -> Rules:
    numbers = normalize.numbers
    null = overrides.null or numbers.null
    places = numbers.round if overrides.round is None else overrides.round
    single = any(each.result.kind is TypeKind.FLOAT32 for each in inputs)
    whole = all(each.result.kind is TypeKind.INT for each in inputs)
    return Rules(
        null=null if null is NullAs.ZERO else NullAs.KEEP,
        round=None if places == "none" else places,
        nan=NanRule.EQUAL if whole else overrides.nan or numbers.nan,
        float32=(overrides.float32 or numbers.float32) if single else Float32Rule.EXACT,
    )


def _time_rules(overrides: ColumnRules, normalize: Normalize, inputs: Sequence[InputPlan]) -> Rules:
    wanted = overrides.precision or normalize.timestamps.precision
    if wanted is TimePrecision.EXACT:
        return STRICT
    coarsest = min(each.result.second_digits for each in inputs)
    return Rules(
        precision=_DIGITS.get(wanted, coarsest),
        rounding=overrides.rounding or normalize.timestamps.rounding,
    )


def scale_of(kind: CanonicalType) -> int | None:
    """Declared digits after the point; None where nothing is declared (floats, bare numerics)."""
    return 0 if kind.kind is TypeKind.INT else kind.scale


def cut_of(inputs: Sequence[InputPlan]) -> Cut | None:
    """The coarsest declaration of a column, when the sources declare different ones."""
    results = [each.result for each in inputs]
    if all(result.kind in CLOCK_TIMES for result in results):
        digits = {result.second_digits for result in results}
        return Cut(second_digits=min(digits)) if len(digits) > 1 else None
    if not all(result.is_number for result in results):
        return None
    scales = {scale_of(result) for result in results}
    declared = [scale for scale in scales if scale is not None]
    if declared:
        return Cut(scale=min(declared)) if len(scales) > 1 else None
    kinds = {result.kind for result in results}
    return Cut(float32=True) if len(kinds) > 1 and TypeKind.FLOAT32 in kinds else None


def average_places(inputs: Sequence[InputPlan]) -> int:
    """Six digits more than the largest scale over all sources, at most 18; floats 18."""
    scales = [scale_of(each.result) for each in inputs]
    largest = max(_FLOAT_SCALE if scale is None else scale for scale in scales)
    return min(largest + 6, _FLOAT_SCALE)


def total_scale(inputs: Sequence[InputPlan], rules: Rules) -> int | None:
    """Digits after the point of a sum over the column; None where the values decide."""
    results = [each.result for each in inputs]
    if any(result.is_float for result in results):
        scale: int | None = _FLOAT_SCALE
    else:
        scales = [scale_of(result) for result in results]
        scale = None if None in scales else max(each for each in scales if each is not None)
    return scale if rules.round is None or scale is None else min(scale, rules.round)


def reduces(rules: Rules, inputs: Sequence[InputPlan]) -> bool:
    """Whether a declared rule may drop digits that some source declares: PRECISION_REDUCED."""
    results = [each.result for each in inputs]
    if rules.round is not None:
        scales = [scale_of(result) for result in results]
        return any(scale is None or scale > rules.round for scale in scales)
    if rules.precision is not None:
        return any(result.second_digits > rules.precision for result in results)
    return rules.float32 is Float32Rule.SHORTEST
