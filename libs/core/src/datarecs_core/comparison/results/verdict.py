"""From counts to verdicts: stage, run, acceptance and the warnings that counts imply.

Engines count, this module judges; nothing else sets MATCHED. Counts that contradict each other, or
rows that do not add up, end the run instead of becoming a verdict.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from datarecs_core.comparison.planning.faults import (
    ClosureFailedError,
    EmptySourceError,
    InconsistentCountsError,
    NothingExecutedError,
    NullKeysError,
)
from datarecs_core.comparison.planning.plan import StagePlan, Warn
from datarecs_core.comparison.results.results import MeasureResult, StageResults, Verdict
from datarecs_core.comparison.results.row_digests import expected_rows
from datarecs_core.jobs.definition import Accept
from datarecs_core.jobs.vocabulary import EmptyPolicy, NullKeys, OnUnmatched
from datarecs_core.values import EXACT, HUNDRED

BREAKS_TRUNCATED = "BREAKS_TRUNCATED"
EMPTY_SOURCES = "EMPTY_SOURCES"
"""Warning with the numbers of stored and of all differences of a stage."""


class Acceptance(StrEnum):
    """Declared limits beside the verdict; never the verdict itself."""

    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"
    NOT_CONFIGURED = "NOT_CONFIGURED"


class SkipReason(StrEnum):
    """Why a stage of a run was not executed."""

    STOPPED_BY = "STOPPED_BY"
    """An earlier stage was UNMATCHED and stops the run."""
    NOTHING_IN_SCOPE = "NOTHING_IN_SCOPE"
    """The stage it is scoped to has no differing group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOutcome:
    """A stage of a run after it: judged, or skipped with its reason. Exactly one of both."""

    plan: StagePlan
    results: StageResults | None = None
    verdict: Verdict | None = None
    acceptance: Acceptance = Acceptance.NOT_CONFIGURED
    warnings: tuple[Warn, ...] = ()
    skipped: SkipReason | None = None
    stopped_by: str | None = None
    """The stage in STOPPED_BY."""

    @property
    def executed(self) -> bool:
        return self.results is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The verdict of a run over its stages."""

    stages: tuple[StageOutcome, ...]
    verdict: Verdict
    acceptance: Acceptance
    warnings: tuple[Warn, ...] = ()


def stage_verdict(results: StageResults) -> Verdict:
    """MATCHED when every group is in every source and every measure is within everywhere."""
    matched = results.counts.unmatched_groups == 0 and all(
        measure.passed for measure in results.all_measures
    )
    return Verdict.MATCHED if matched else Verdict.UNMATCHED


def judge_stage(plan: StagePlan, results: StageResults) -> StageOutcome:
    """Check the counts, then judge them.

    Raises:
        ClosureFailedError: rows were lost or invented.
        InconsistentCountsError: the counts contradict each other.
        NullKeysError: NULL keys under `reject`.
        EmptySourceError: a source without rows under `error`.
    """
    _check_closure(plan, results)
    broken = broken_rule(plan, results)
    if plan.seal_rows and not _every_row_is_sealed(plan, results):
        broken = "F17"
    if broken is not None:
        raise InconsistentCountsError(stage=plan.name, rule=broken)
    _check_policies(plan, results)
    verdict = stage_verdict(results)
    return StageOutcome(
        plan=plan,
        results=results,
        verdict=verdict,
        acceptance=stage_acceptance(plan, results),
        warnings=(*results.warnings, *count_warnings(plan, results)),
    )


def judge_run(stages: Sequence[StageOutcome], warnings: Sequence[Warn] = ()) -> RunOutcome:
    """The run's verdict: MATCHED when every executed stage is.

    Raises:
        NothingExecutedError: no stage was executed, so nothing was compared.
    """
    executed = [stage for stage in stages if stage.executed]
    if not executed:
        raise NothingExecutedError
    matched = all(stage.verdict is Verdict.MATCHED for stage in executed)
    return RunOutcome(
        stages=tuple(stages),
        verdict=Verdict.MATCHED if matched else Verdict.UNMATCHED,
        acceptance=run_acceptance([(stage.verdict, stage.acceptance) for stage in executed]),
        warnings=(*warnings, *(each for stage in stages for each in stage.warnings)),
    )


def skip_of(plan: StagePlan, before: Sequence[StageOutcome]) -> StageOutcome | None:
    """The skipped outcome of a stage that must not run after these; None when it must."""
    for stage in before:
        stops = stage.plan.on_unmatched is OnUnmatched.STOP
        if stops and stage.verdict is Verdict.UNMATCHED:
            return StageOutcome(
                plan=plan, skipped=SkipReason.STOPPED_BY, stopped_by=stage.plan.name
            )
    if plan.scope is None:
        return None
    origin = next(stage for stage in before if stage.plan.name == plan.scope.from_stage)
    if origin.results is not None and origin.results.counts.rows_unmatched > 0:
        return None
    return StageOutcome(plan=plan, skipped=SkipReason.NOTHING_IN_SCOPE)


def _check_closure(plan: StagePlan, results: StageResults) -> None:
    for source, closure in zip(plan.sources, results.closure, strict=True):
        if not closure.closed:
            raise ClosureFailedError(stage=plan.name, source=source)


def _every_row_is_sealed(plan: StagePlan, results: StageResults) -> bool:
    sealed = [0] * len(plan.scans)
    for each in results.digests:
        sealed[each.source] += each.rows
    return tuple(sealed) == expected_rows(plan.type, results)


def _check_policies(plan: StagePlan, results: StageResults) -> None:
    counts = results.counts
    if plan.null_keys is NullKeys.REJECT:
        for source, rows in zip(plan.sources, counts.null_keys_by_source, strict=True):
            if rows:
                raise NullKeysError(stage=plan.name, source=source, rows=rows)
    if plan.empty is EmptyPolicy.ERROR and plan.scope is None:
        empty = [
            source
            for source, rows in zip(plan.sources, counts.source_row_counts, strict=True)
            if rows == 0
        ]
        if empty:
            raise EmptySourceError(stage=plan.name, sources=empty)


def broken_rule(plan: StagePlan, results: StageResults) -> str | None:
    """The first invariant (F01 to F07, F15, F18) that the numbers break; None when they hold."""
    return broken_count_rule(results, grand_total=_grand_total(plan))


def broken_count_rule(results: StageResults, *, grand_total: bool) -> str | None:
    """The same for counts without a plan.

    Args:
        results: of one stage.
        grand_total: its one group is in every source, rows or not.
    """
    counts = results.counts
    total = sum(groups for _, groups in counts.presence) + counts.presence_other
    by_source = list(
        zip(
            counts.groups_by_source,
            counts.unmatched_by_source,
            counts.missing_by_source,
            strict=True,
        )
    )
    unmatched_sum = sum(counts.unmatched_by_source)
    outside = [measure.outside for measure in results.all_measures]
    rules = {
        "F01": counts.rows_compared == total == counts.matched_groups + counts.unmatched_groups,
        "F02": all(
            groups == counts.matched_groups + unmatched == counts.rows_compared - missing
            for groups, unmatched, missing in by_source
        ),
        "F03": unmatched_sum == counts.unmatched_groups
        if len(by_source) == 2  # noqa: PLR2004 - with two sources an unmatched group has one source
        else unmatched_sum >= counts.unmatched_groups,
        "F04": all(_adds_up(measure, counts.matched_groups) for measure in results.all_measures),
        "F05": counts.rows_matched + counts.rows_unmatched == counts.rows_compared
        and max([0, *outside])
        <= counts.rows_unmatched - counts.unmatched_groups
        <= min(sum(outside), counts.matched_groups),
        "F07": grand_total or _rows_cover_groups(results),
        "F15": all(_steps_add_up(measure) for measure in results.all_measures),
        "F18": all(_totals_are_whole(measure) for measure in results.all_measures),
    }
    return next((rule for rule, holds in rules.items() if not holds), None)


def _adds_up(measure: MeasureResult, matched_groups: int) -> bool:
    return (
        measure.within + measure.outside == matched_groups
        and measure.equal + measure.within_not_equal == measure.within
    )


def _steps_add_up(measure: MeasureResult) -> bool:
    pairs = zip(measure.waterfall_by_source, measure.gap_by_source, strict=False)
    return all(steps is None or steps.gap == gap for steps, gap in pairs)


def _totals_are_whole(measure: MeasureResult) -> bool:
    """No total exists where values could not be added up."""
    return all(
        total is None
        for numbers in (measure.unreadable_by_source, measure.not_finite_by_source)
        for total, values in zip(measure.total_by_source, numbers, strict=False)
        if values
    )


def _grand_total(plan: StagePlan) -> bool:
    return plan.always_present


def _rows_cover_groups(results: StageResults) -> bool:
    pairs = zip(results.counts.groups_by_source, results.counts.source_row_counts, strict=True)
    return all(groups <= rows for groups, rows in pairs)


def outside_groups(results: StageResults) -> int:
    """Matched groups with any measure outside."""
    return results.counts.rows_unmatched - results.counts.unmatched_groups


def largest_gap(measure: MeasureResult) -> Decimal | None:
    """The largest |gap| over the sources; None when a gap is unknown."""
    gaps = [gap for gap in measure.gap_by_source if gap is not None]
    if len(gaps) < len(measure.gap_by_source):
        return None
    return max(gap.copy_abs() for gap in gaps)


def _within_percent(groups: int, percent: Decimal, compared: int) -> bool:
    """Groups <= percent of compared, as a product."""
    share = EXACT.multiply(Decimal(groups), HUNDRED)
    return share <= EXACT.multiply(percent, Decimal(compared))


def _gap_over(results: StageResults, limits: Mapping[str, Decimal]) -> list[str]:
    """Measures with an unknown gap or one above its limit."""
    over = []
    for measure in results.measures:
        if measure.name in limits:
            gap = largest_gap(measure)
            if gap is None or gap > limits[measure.name]:
                over.append(measure.name)
    return over


def stage_acceptance(plan: StagePlan, results: StageResults) -> Acceptance:
    """ACCEPTED when every declared limit holds; limits are inclusive."""
    return accepted_within(plan.accept, results)


def accepted_within(limits: Accept | None, results: StageResults) -> Acceptance:
    """The same for results without a plan."""
    if limits is None:
        return Acceptance.NOT_CONFIGURED
    counts = results.counts
    bounded = (
        (outside_groups(results), limits.max_outside, limits.max_outside_percent),
        (counts.unmatched_groups, limits.max_unmatched, limits.max_unmatched_percent),
    )
    holds = not _gap_over(results, limits.max_gap) and all(
        (most is None or groups <= most)
        and (percent is None or _within_percent(groups, percent, counts.rows_compared))
        for groups, most, percent in bounded
    )
    return Acceptance.ACCEPTED if holds else Acceptance.REJECTED


def run_acceptance(executed: Sequence[tuple[Verdict | None, Acceptance]]) -> Acceptance:
    """ACCEPTED when each executed stage is MATCHED or accepted by its own limits."""
    if all(acceptance is Acceptance.NOT_CONFIGURED for _, acceptance in executed):
        return Acceptance.NOT_CONFIGURED
    accepted = all(
        verdict is Verdict.MATCHED or acceptance is Acceptance.ACCEPTED
        for verdict, acceptance in executed
    )
    return Acceptance.ACCEPTED if accepted else Acceptance.REJECTED


def count_warnings(plan: StagePlan, results: StageResults) -> tuple[Warn, ...]:
    """Warnings that follow from the counts alone; percentages are of rows_compared."""
    counts = results.counts
    warnings: list[Warn] = []
    if plan.empty is not EmptyPolicy.OK and plan.scope is None:
        warnings.extend(_empty_sources(plan, results))
    by_source = (
        ("INVALID_VALUES", counts.invalid_values_by_source, "values without a canonical form"),
        ("NULL_KEYS_PRESENT", counts.null_keys_by_source, "rows with NULL in a dimension"),
        ("DUPLICATE_KEYS_PRESENT", counts.duplicate_keys_by_source, "keys with several rows"),
    )
    for code, numbers, what in by_source:
        warnings.extend(
            Warn(code=code, message=f"{amount} {what}", stage=plan.name, source=source)
            for source, amount in zip(plan.sources, numbers, strict=True)
            if amount
        )
    if results.confirmed is not None and results.confirmed.in_flight_resolved:
        resolved = f"{results.confirmed.in_flight_resolved} groups agreed when they were read again"
        warnings.append(_warn(plan, "IN_FLIGHT_RESOLVED", resolved))
    if results.differences.truncated:
        within = results.within_differences if plan.caps.deltas else 0
        shares = f"{results.differences.rows} of {results.breaks + within} differences are stored"
        warnings.append(_warn(plan, BREAKS_TRUNCATED, shares))
    return (*warnings, *_declared_warnings(plan, results))


def _empty_sources(plan: StagePlan, results: StageResults) -> Iterator[Warn]:
    """Sources without a row in the stage by name, or all at once where none has any."""
    extracted = [each.extracted for each in results.closure]
    if not any(extracted):
        yield _warn(plan, EMPTY_SOURCES, "every source is empty")
        return
    counts = results.counts.source_row_counts
    for scan, rows, before in zip(plan.scans, counts, extracted, strict=True):
        if rows:
            continue
        message = f"{scan.source} has no rows"
        if before:
            message = f"none of the {before} rows of {scan.source} passes `where`"
        elif scan.filter is not None:
            message = f"{scan.source} has no rows that pass its `filter`"
        yield Warn(code=EMPTY_SOURCES, message=message, stage=plan.name, source=scan.source)


def _declared_warnings(plan: StagePlan, results: StageResults) -> list[Warn]:
    limits = plan.warn_at
    if limits is None:
        return []
    counts = results.counts
    shares = (
        ("outside_percent", outside_groups(results), limits.outside_percent),
        ("unmatched_percent", counts.unmatched_groups, limits.unmatched_percent),
    )
    above = [
        name
        for name, groups, percent in shares
        if percent is not None and not _within_percent(groups, percent, counts.rows_compared)
    ]
    above.extend(f"gap of {name}" for name in _gap_over(results, limits.gap))
    return [_warn(plan, "WARN_AT", f"{name} is above its limit") for name in above]


def _warn(plan: StagePlan, code: str, message: str) -> Warn:
    return Warn(code=code, message=message, stage=plan.name)
