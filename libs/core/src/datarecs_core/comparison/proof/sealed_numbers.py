"""The numbers of a stage in run.json, read back: counts, measures, closure.

Separate from `sealed`, which reads the declaration of the stage.
"""

from typing import assert_never

from datarecs_core.comparison.planning.tolerance import (
    AbsoluteTolerance,
    DurationTolerance,
    ExactTolerance,
    PercentageTolerance,
    Tolerance,
)
from datarecs_core.comparison.proof.reading import Part
from datarecs_core.comparison.results.results import (
    Closure,
    DifferenceSet,
    MeasureResult,
    StageCounts,
    StageResults,
    ToleranceResult,
    UnitAmounts,
    UnitResult,
    Waterfall,
)
from datarecs_core.jobs.vocabulary import ToleranceBase, ToleranceType
from datarecs_core.values import EXACT


def read_closure(part: Part) -> Closure:
    return Closure(
        extracted=part.count("extracted"),
        grouped=part.count("grouped"),
        excluded=part.count("excluded"),
        out_of_scope=part.count("out_of_scope"),
    )


def read_results(part: Part, sources: int) -> StageResults:
    measured = [(each, _numbers(each, sources)) for each in part.parts("measures")]
    rows = [result for each, result in measured if "function" not in each.content]
    differences = part.part("differences")
    return StageResults(
        stage=part.text("name"),
        counts=read_counts(part.part("counts"), sources),
        measures=tuple(result for each, result in measured if "function" in each.content),
        rows=rows[0] if rows else None,
        differences=DifferenceSet(
            rows=differences.count("rows"),
            digest=differences.text("digest"),
            truncated=differences.flag("truncated"),
        ),
        closure=tuple(read_closure(each) for each in part.parts("closure")),
    )


def read_counts(part: Part, sources: int) -> StageCounts:
    counts = StageCounts(
        source_row_counts=part.by_source("source_row_counts", sources),
        groups_by_source=part.by_source("groups_by_source", sources),
        matched_groups=part.count("matched_groups"),
        unmatched_by_source=part.by_source("unmatched_by_source", sources),
        missing_by_source=part.by_source("missing_by_source", sources),
        presence=tuple(
            (each.count("mask"), each.count("groups")) for each in part.parts("presence")
        ),
        presence_other=part.count("presence_other"),
        rows_compared=part.count("rows_compared"),
        rows_matched=part.count("rows_matched"),
        rows_unmatched=part.count("rows_unmatched"),
        duplicate_keys_by_source=part.by_source("duplicate_keys_by_source", sources),
        null_keys_by_source=part.by_source("null_keys_by_source", sources),
        invalid_values_by_source=part.by_source("invalid_values_by_source", sources),
        excluded_rows_by_source=part.by_source("excluded_rows_by_source", sources),
        odd_one_out=part.by_source("odd_one_out", sources),
    )
    if part.count("unmatched_groups") != counts.unmatched_groups:
        raise part.wrong("unmatched_groups", "rows_compared without matched_groups")
    return counts


def _numbers(part: Part, sources: int) -> MeasureResult:
    result = MeasureResult(
        name=part.text("name"),
        tolerances=tuple(
            ToleranceResult(tolerance=_tolerance(each), alone_within=each.count("own_within"))
            for each in part.parts("tolerances")
        ),
        within=part.count("within"),
        outside=part.count("outside"),
        equal=part.count("equal"),
        within_not_equal=part.count("within_not_equal"),
        null_mismatch=part.count("null_mismatch"),
        invalid=part.count("invalid"),
        precision=part.count("precision"),
        multiplicity=part.count("multiplicity"),
        not_comparable=part.count("not_comparable"),
        total_by_source=part.decimals("total_by_source", sources),
        gap_by_source=part.decimals("gap_by_source", sources),
        unreadable_by_source=_maybe_by_source(part, "unreadable_by_source", sources),
        not_finite_by_source=_maybe_by_source(part, "not_finite_by_source", sources),
        waterfall_by_source=_waterfalls(part, sources),
        max_abs_delta=part.decimal("max_abs_delta"),
    )
    if part.flag("passed") is not result.passed:
        raise part.wrong("passed", "consistent with `outside` (F06)")
    return result


def _maybe_by_source(part: Part, name: str, sources: int) -> tuple[int, ...]:
    return part.by_source(name, sources) if name in part.content else (0,) * sources


def read_unit(part: Part, sources: int) -> UnitResult:
    """Groups and amounts of one currency or unit, outside the proof."""
    return UnitResult(
        unit=part.text("unit"),
        differing=part.count("differing"),
        missing_here=part.by_source("missing_here", sources),
        missing_in_reference=part.by_source("missing_in_reference", sources),
        measures=tuple(
            UnitAmounts(measure=each.text("name"), waterfall_by_source=_waterfalls(each, sources))
            for each in part.parts("measures")
        ),
    )


def _waterfalls(part: Part, sources: int) -> tuple[Waterfall | None, ...]:
    steps = part.part("waterfall_by_source")
    names = [f"source_{index}" for index in range(sources)]
    return tuple(
        None if steps.content.get(name) is None else _waterfall(steps.part(name)) for name in names
    )


def _waterfall(part: Part) -> Waterfall:
    steps = {}
    for name in ("missing_here", "missing_in_reference", "changed"):
        amount = part.decimal(name)
        if amount is None:
            raise part.wrong(name, "a decimal number")
        steps[name] = amount
    return Waterfall(**steps)


def _tolerance(part: Part) -> Tolerance:
    limit = part.decimal("value")
    if limit is None:
        raise part.wrong("value", "a decimal number")
    kind = part.word("type", ToleranceType)
    match kind:
        case ToleranceType.EXACT:
            return ExactTolerance()
        case ToleranceType.ABSOLUTE:
            return AbsoluteTolerance(limit=limit)
        case ToleranceType.DURATION:
            return DurationTolerance(microseconds=limit.scaleb(6, EXACT))
        case ToleranceType.PERCENTAGE:
            return PercentageTolerance(limit=limit, base=part.word("base", ToleranceBase))
    assert_never(kind)
