"""Convert the counts of tasks to StageResults, exactly as the oracle does."""

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import cast

from datarecs_core.comparison.planning.faults import DuplicateKeysError, SumOverflowError
from datarecs_core.comparison.planning.plan import (
    MAX_PATTERNS,
    ROWS_MEASURE,
    MeasurePlan,
    StagePlan,
    Warn,
)
from datarecs_core.comparison.results.differences import digest_text, samples
from datarecs_core.comparison.results.results import (
    Closure,
    Difference,
    DifferenceClass,
    DifferenceSet,
    MeasureResult,
    StageCounts,
    StageResults,
    ToleranceResult,
)
from datarecs_core.comparison.values.translating import fits
from datarecs_core.comparison.values.unreadable import MeasureFaults, examples
from datarecs_core.documents import from_document
from datarecs_core.jobs.vocabulary import DuplicatePolicy, NullKeys
from datarecs_core.values import EXACT
from datarecs_kernel.counted import Counted, MeasureTally
from datarecs_kernel.layout import Layout
from datarecs_kernel.sort_keys import size_of
from datarecs_kernel.tallies import SourceTally
from datarecs_kernel.units import results_by_unit
from datarecs_kernel.waterfalls import waterfalls


def stage_results(
    layout: Layout, counted: Counted, tallies: Sequence[SourceTally], location: str
) -> StageResults:
    """The results of a stage.

    Raises:
        SumOverflowError: a sum needs more than 38 digits.
        DuplicateKeysError: repeated keys with `duplicates: error`.
    """
    stage = layout.stage
    if counted.candidates:
        raise RuntimeError(f"stage {stage.name}: its candidates are not settled")
    _check_overflows(layout, counted)
    counts = _counts(layout, counted, tallies)
    _check_duplicates(stage, counted, counts)
    sampled = cast(
        "list[Difference]", [from_document(Difference, each) for each in counted.samples]
    )
    measures = _Measures(layout, counted, tallies, counts.matched_groups)
    return StageResults(
        stage=stage.name,
        counts=counts,
        measures=tuple(measures.of(each.plan) for each in layout.measures),
        rows=measures.of_rows() if stage.compares_multisets else None,
        differences=DifferenceSet(
            rows=counted.stored,
            digest=digest_text(counted.digest),
            truncated=counted.truncated,
            location=location,
            samples=samples(sampled, stage.caps.sample_per_class),
        ),
        closure=tuple(
            _closure(stage, tally, grouped)
            for tally, grouped in zip(tallies, counted.grouped, strict=True)
        ),
        warnings=_warnings(stage, counted, tallies),
        unreadable=examples(stage, [tally.faults for tally in tallies]),
        units=results_by_unit(layout, counted, measures.hidden()),
        digests=counted.sealed,
        metrics=(
            ("rows_scanned", sum(tally.extracted for tally in tallies)),
            ("open_groups", counted.opened),
        ),
    )


def _excluded(stage: StagePlan, tally: SourceTally) -> int:
    return tally.null_keys if stage.null_keys is NullKeys.EXCLUDE else 0


def _closure(stage: StagePlan, tally: SourceTally, grouped: int) -> Closure:
    """Row counts: rows in groups from the groups, the others from the tallies."""
    return Closure(
        extracted=tally.extracted,
        grouped=grouped,
        excluded=_excluded(stage, tally),
        out_of_scope=tally.extracted - tally.passed,
    )


def _counts(layout: Layout, counted: Counted, tallies: Sequence[SourceTally]) -> StageCounts:
    stage = layout.stage
    masks: Counter[int] = Counter()
    repeated = [0 for _ in layout.sources]
    odd = [0 for _ in layout.sources]
    differing = 0
    for (mask, many, differs, source), times in counted.groups.items():
        masks[mask] += times
        differing += times if differs else 0
        if source is not None:
            odd[source] += times
        for index in layout.sources:
            repeated[index] += times if many >> index & 1 else 0
    patterns = sorted(masks.items(), key=lambda item: (-item[1], item[0]))
    matched, groups = masks[stage.everywhere], masks.total()
    having = [sum(n for mask, n in patterns if mask >> index & 1) for index in layout.sources]
    return StageCounts(
        source_row_counts=tuple(tally.passed for tally in tallies),
        groups_by_source=tuple(having),
        matched_groups=matched,
        unmatched_by_source=tuple(each - matched for each in having),
        missing_by_source=tuple(groups - each for each in having),
        presence=tuple(patterns[:MAX_PATTERNS]),
        presence_other=sum(n for _, n in patterns[MAX_PATTERNS:]),
        rows_compared=groups,
        rows_matched=groups - differing,
        rows_unmatched=differing,
        duplicate_keys_by_source=tuple(repeated),
        null_keys_by_source=tuple(tally.null_keys for tally in tallies),
        invalid_values_by_source=tuple(tally.invalid for tally in tallies),
        excluded_rows_by_source=tuple(_excluded(stage, tally) for tally in tallies),
        odd_one_out=tuple(odd),
    )


class _Measures:
    """Results of the measures over the matched groups."""

    def __init__(
        self,
        layout: Layout,
        counted: Counted,
        tallies: Sequence[SourceTally],
        matched: int,
    ) -> None:
        self.layout, self.counted, self.tallies, self.matched = layout, counted, tallies, matched
        self.reference = layout.stage.reference

    def of(self, plan: MeasurePlan) -> MeasureResult:
        totals = tuple(self._total(plan, index) for index in self.layout.sources)
        tally = self.counted.measures.get(plan.index, MeasureTally())
        return self._result(plan, tally, totals, plan.index)

    def of_rows(self) -> MeasureResult:
        """`$rows`: numbers of rows, compared exactly."""
        stage = self.layout.stage
        totals = tuple(Decimal(each.passed - _excluded(stage, each)) for each in self.tallies)
        at = len(self.layout.measures)
        tally = self.counted.measures.get(at, MeasureTally())
        return self._result(ROWS_MEASURE, tally, totals, at)

    def _total(self, plan: MeasurePlan, index: int) -> Decimal | None:
        if not plan.has_total:
            return None
        if self._faults(plan, index).hides_total:
            return None
        if self.layout.pairs_rows:
            total = self.tallies[index].totals.get(plan.index, Decimal(0))
        else:
            total = self.counted.totals.get((plan.index, index), Decimal(0))
        return total if fits(total, plan.total_scale) else None

    def _faults(self, plan: MeasurePlan, index: int) -> MeasureFaults:
        if plan is ROWS_MEASURE:
            return MeasureFaults()
        return self.tallies[index].faults.get(plan.index, MeasureFaults())

    def hidden(self) -> list[list[bool]]:
        """By measure and source, whether there are values that are not numbers."""
        return [
            [self._faults(each.plan, index).hides_total for index in self.layout.sources]
            for each in self.layout.measures
        ]

    def _gap(
        self, plan: MeasurePlan, total: Decimal | None, base: Decimal | None
    ) -> Decimal | None:
        if total is None or base is None:
            return None
        gap = EXACT.subtract(total, base)
        return gap if fits(gap, plan.total_scale) else None

    def _result(
        self, plan: MeasurePlan, tally: MeasureTally, totals: tuple[Decimal | None, ...], at: int
    ) -> MeasureResult:
        alone = {
            (source, mask): amount
            for (measure, source, mask), amount in self.counted.alone.items()
            if measure == at
        }
        faults = [self._faults(plan, index) for index in self.layout.sources]
        classes = tally.classes
        within = self.matched - tally.outside
        equal = self.matched - tally.unequal
        return MeasureResult(
            name=plan.name,
            tolerances=tuple(
                ToleranceResult(tolerance=each, alone_within=self.matched - tally.alone_outside[at])
                for at, each in enumerate(plan.tolerances)
            ),
            within=within,
            outside=tally.outside,
            equal=equal,
            within_not_equal=within - equal,
            null_mismatch=classes[DifferenceClass.NULL_MISMATCH],
            invalid=classes[DifferenceClass.INVALID],
            precision=classes[DifferenceClass.PRECISION],
            multiplicity=classes[DifferenceClass.MULTIPLICITY],
            not_comparable=classes[DifferenceClass.NOT_COMPARABLE],
            total_by_source=totals,
            gap_by_source=tuple(self._gap(plan, total, totals[self.reference]) for total in totals),
            unreadable_by_source=tuple(each.unreadable for each in faults),
            not_finite_by_source=tuple(each.not_finite for each in faults),
            waterfall_by_source=waterfalls(plan, alone, totals, self.reference),
            max_abs_delta=_largest(tally, equal) if plan.subtractable and self.matched else None,
        )


def _largest(tally: MeasureTally, equal: int) -> Decimal | None:
    """None without a finite pair."""
    if tally.largest is not None:
        return size_of(tally.largest)
    return Decimal(0) if equal else None


def _check_overflows(layout: Layout, counted: Counted) -> None:
    for measure, source in sorted(counted.overflows):
        raise SumOverflowError(
            stage=layout.stage.name,
            measure=layout.measures[measure].plan.name,
            source=layout.stage.sources[source],
        )


def _check_duplicates(stage: StagePlan, counted: Counted, counts: StageCounts) -> None:
    if stage.duplicates is not DuplicatePolicy.ERROR:
        return
    for source, keys in zip(stage.sources, counts.duplicate_keys_by_source, strict=True):
        if keys:
            raise DuplicateKeysError(
                stage=stage.name,
                source=source,
                keys=keys,
                examples=[f"#{each}" for each in counted.repeated_keys],
            )


def _warnings(
    stage: StagePlan, counted: Counted, tallies: Sequence[SourceTally]
) -> tuple[Warn, ...]:
    noticed = (
        ("FLOAT_SUM_ROUNDED", counted.rounded, "float values rounded to 18 places in sums"),
        (
            "DST_AMBIGUOUS",
            [tally.ambiguous for tally in tallies],
            "local times at a change of offset",
        ),
    )
    return tuple(
        Warn(code=code, message=f"{times} {what}", stage=stage.name, source=source)
        for code, numbers, what in noticed
        for source, times in zip(stage.sources, numbers, strict=True)
        if times
    )
