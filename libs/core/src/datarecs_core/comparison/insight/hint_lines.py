"""The line of a job that would declare a pattern, or none where the job has no such field.

A line that the validator or the planner refuses, or that has no effect, is worse than none: the
pattern is then reported without a line, to be corrected in the source.
"""

from datarecs_core.comparison.insight.hint_stage import EXPRESSION_KINDS, HintStage, quoted
from datarecs_core.comparison.insight.patterns import REFERENCE, HintRule, Pattern
from datarecs_core.jobs.types import NUMBERS, TypeKind
from datarecs_core.jobs.vocabulary import Function, SourceKind

_INT_DIGITS = 18
"""Any number with so many digits fits into an `int`."""
_SCALES = frozenset({HintRule.CONSTANT_FACTOR, HintRule.SIGN_FLIP})
_OF_SCALES = frozenset({Function.VALUE, Function.SUM, Function.AVG})
"""Functions of which a factor of every value is the factor of the result."""
_OF_SINGLE_VALUES = frozenset({Function.VALUE, Function.MIN, Function.MAX, Function.AVG})


def accepted_line(pattern: Pattern, stage: HintStage, name: str, source: str) -> str:
    """The line for a pattern; empty where no line is accepted and has an effect.

    Args:
        pattern: with the line that would declare it for a source and column of any kind.
        stage: where it was found.
        name: of the measure or dimension.
        source: that is compared with the reference.
    """
    if pattern.rule is HintRule.ZONE_SHIFT:
        return _zones(stage, name)
    line = pattern.declare.replace(REFERENCE, stage.reference)
    return line if _is_accepted(pattern, stage, name, source) else ""


def _is_accepted(pattern: Pattern, stage: HintStage, name: str, source: str) -> bool:
    kind = stage.column(name).kind
    match pattern.rule:
        case HintRule.NULL_FOR_ZERO:
            return stage.normalizes(name) and (kind is None or kind in NUMBERS)
        case HintRule.NULL_FOR_EMPTY:
            return stage.normalizes(name) and kind in (None, TypeKind.TEXT)
        case HintRule.ROUNDED | HintRule.CUT:
            return stage.normalizes(name)
        case HintRule.LATE_WINDOW:
            return any(each.kind is not SourceKind.EXTRACT for each in stage.sources)
        case _:
            return "{expr:" not in pattern.declare or _computes(pattern, stage, name, source)


def _computes(pattern: Pattern, stage: HintStage, name: str, source: str) -> bool:
    """Whether the source computes the column, and the same arithmetic holds for its function."""
    function = stage.column(name).function
    if pattern.rule in _SCALES and function not in _OF_SCALES:
        return False
    if pattern.rule is HintRule.CONSTANT_OFFSET and function not in _OF_SINGLE_VALUES:
        return False
    changed = {source} if REFERENCE not in pattern.declare else {source, stage.reference}
    return stage.reads_columns(name) and all(_is_computed(stage, name, each) for each in changed)


def _is_computed(stage: HintStage, name: str, source: str) -> bool:
    """Floats have no arithmetic, and an expression names the source's own columns."""
    hint_source, column = stage.source(source), stage.place(name).column
    kind = hint_source.types.get(column)
    return (
        hint_source.kind in EXPRESSION_KINDS
        and (kind is None or not kind.is_float)
        and hint_source.physical.get(column, column) == column
    )


def _zones(stage: HintStage, name: str) -> str:
    """A zone for every source with times without zone: one zone would not cover the others."""
    if not stage.reads_columns(name):
        return ""
    naive = stage.typed(stage.place(name).column, TypeKind.LOCAL_TIMESTAMP)
    return "; ".join(f"sources[{each.name}].timezone: <zone>" for each in naive)


def key_rule_line(stage: HintStage, dimension: str, rule: str) -> str:
    """A rule of texts for the column of a key; empty where the key is no text."""
    if stage.column(dimension).kind not in (None, TypeKind.TEXT):
        return ""
    column = stage.place(dimension).column
    return (
        f"normalize.columns: {{{quoted(column)}: {{{rule}}}}}"
        if stage.normalizes(dimension)
        else ""
    )


def number_key_line(stage: HintStage, dimension: str, keys: list[str]) -> str:
    """A cast to numbers in every source that delivers texts: in one alone they do not compare."""
    place = stage.place(dimension)
    if not stage.reads_columns(dimension):
        return ""
    kind = "int" if max(map(len, keys), default=0) <= _INT_DIGITS else '"decimal(38,0)"'
    texts, column = stage.typed(place.column, TypeKind.TEXT), quoted(place.column)
    return "; ".join(f"sources[{each.name}].cast: {{{column}: {kind}}}" for each in texts)


def swapped_line(stage: HintStage, source: str, one: str, other: str) -> str:
    """Two columns of a source swapped, under the source's names."""
    hint_source = stage.source(source)
    first, second = stage.place(one).column, stage.place(other).column
    physical = [hint_source.physical.get(column) for column in (second, first)]
    if not all(physical) or not (stage.reads_columns(one) and stage.reads_columns(other)):
        return ""
    if stage.column(one).function is not stage.column(other).function or first == second:
        return ""
    pairs = ", ".join(
        f"{quoted(column)}: {{column: {quoted(name or '')}}}"
        for column, name in zip((first, second), physical, strict=True)
    )
    return f"sources[{source}].columns: {{{pairs}}}"
