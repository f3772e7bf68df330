"""The oracle: a stage over plain lists, as in the specification, without optimisation.

Engines are compared with it (D23). It shares only the plan types with them; up to
100,000 rows a source.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import islice

from datarecs_core.comparison.oracle.aggregating import OverflowedError, add, aggregate
from datarecs_core.comparison.oracle.bucketing import group_buckets
from datarecs_core.comparison.oracle.grouping import (
    MAX_ROWS,
    Cell,
    Group,
    Grouped,
    Outside,
    Rows,
    group_rows,
)
from datarecs_core.comparison.oracle.judging import (
    DifferenceWriter,
    GroupJudgement,
    MeasureJudgement,
    agreed_group,
    agrees,
    judge_group,
)
from datarecs_core.comparison.oracle.units import results_by_unit
from datarecs_core.comparison.oracle.waterfall import WaterfallOf
from datarecs_core.comparison.planning.cataloguing import column_rows, over_columns
from datarecs_core.comparison.planning.faults import DuplicateKeysError, SumOverflowError
from datarecs_core.comparison.planning.plan import (
    MAX_PATTERNS,
    ROWS_MEASURE,
    MeasurePlan,
    StagePlan,
    Warn,
)
from datarecs_core.comparison.results.differences import (
    RankedDifference,
    difference_set,
    group_rank,
)
from datarecs_core.comparison.results.fingerprints import FINGERPRINT_BYTES, key_hash
from datarecs_core.comparison.results.results import (
    BucketSum,
    Difference,
    DifferenceClass,
    MeasureResult,
    Outcome,
    StageCounts,
    StageResults,
    ToleranceResult,
    UnitResult,
    Waterfall,
)
from datarecs_core.comparison.results.row_digests import bucket_sums
from datarecs_core.comparison.values.canonical import canonical_order, encode_tuple, number
from datarecs_core.comparison.values.normalizing import on_result
from datarecs_core.comparison.values.translating import fits
from datarecs_core.comparison.values.unreadable import MeasureFaults, examples
from datarecs_core.jobs.vocabulary import DuplicatePolicy, StageType
from datarecs_core.values import EXACT

SHOWN_KEYS = 3
_KEYED = frozenset({StageType.ROW, StageType.CUSTOM_SQL})
"""Stages with groups that may have several rows of a source, without a function over them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleStage:
    """The result of the oracle: the results, the rows to store, and the groups that differ."""

    results: StageResults
    differences: tuple[Difference, ...]
    """In the order of break ids, cut to the stage's caps."""
    differing: frozenset[bytes]
    """Encoded keys, for stages that are scoped to this one."""


def compare_stage(stage: StagePlan, rows: Sequence[Rows], outside: Outside) -> OracleStage:
    """Run one stage over plain rows, one list per source in declaration order.

    A schema stage reads no rows, so any are ignored.

    Raises:
        SumOverflowError: a sum needs more than 38 digits.
        DuplicateKeysError: repeated keys under `duplicates: error`.
        TooManyRowsError: a source has more than 100,000 rows.
        ConditionNotSupportedError: `where` needs an SQL engine.
    """
    grouped = _grouped(stage, rows, outside)
    return _Oracle(stage=stage, grouped=grouped, key=outside.key).run()


def sums_of_source(
    stage: StagePlan, index: int, rows: Iterable[tuple[object, ...]], outside: Outside
) -> tuple[BucketSum, ...]:
    """The row digests of one source alone, from its rows: what a proof of rows seals of it.

    Rows of row and digest stages are added up piece by piece, however many there are; groups of
    other stages need all their rows at once.

    Args:
        stage: with `seal_rows` and without a scope.
        index: of the source.
        rows: as its scan delivers them, in any order.
        outside: key and zones.

    Raises:
        TooManyRowsError: more than 100,000 rows in another kind of stage.
        ConditionNotSupportedError: `where` needs an SQL engine.
    """
    sums: dict[int, BucketSum] = {}
    left = iter(rows)
    while True:
        piece = list(islice(left, MAX_ROWS if stage.fingerprints_rows else None))
        rows_by_source = [piece if at == index else [] for at in range(len(stage.scans))]
        for each in _sums(stage, rows_by_source, outside):
            if each.source == index:
                before = sums.get(each.bucket, replace(each, rows=0, total=0))
                sums[each.bucket] = replace(
                    each,
                    rows=before.rows + each.rows,
                    total=(before.total + each.total) % 2 ** (8 * FINGERPRINT_BYTES),
                )
        if len(piece) < MAX_ROWS or not stage.fingerprints_rows:
            return tuple(sums[bucket] for bucket in sorted(sums))


def _sums(stage: StagePlan, rows: Sequence[Rows], outside: Outside) -> Sequence[BucketSum]:
    if stage.fingerprints_rows:
        return bucket_sums(stage, _grouped(stage, rows, outside).groups, outside.key)
    return compare_stage(stage, rows, outside).results.digests


def _grouped(stage: StagePlan, rows: Sequence[Rows], outside: Outside) -> Grouped:
    """Groups of columns, of buckets or of keys."""
    if stage.type is StageType.SCHEMA:
        return group_rows(over_columns(stage), column_rows(stage), outside)
    if stage.type is StageType.DIGEST:
        return group_buckets(stage, rows, outside)
    return group_rows(stage, rows, outside)


class _Oracle:
    """One stage from its groups to its results."""

    def __init__(self, *, stage: StagePlan, grouped: Grouped, key: bytes) -> None:
        self.stage, self.tallies, self.key = stage, grouped.tallies, key
        self.ambiguous_times = grouped.ambiguous_times
        self.sources = range(len(stage.scans))
        self.rounded = [0 for _ in self.sources]
        self.groups = grouped.groups
        self.always_present = stage.always_present
        if self.always_present:
            self.groups.setdefault(encode_tuple(()), Group((), [[] for _ in self.sources]))

    def run(self) -> OracleStage:
        stage = self.stage
        duplicates = self._duplicate_keys() if stage.type in _KEYED else []
        if stage.collapses:
            self.groups = {name: self._collapsed(each) for name, each in self.groups.items()}
        agreed = agreed_group(stage)
        judged = {
            name: agreed if agrees(stage, each) else judge_group(stage, each, each.mask)
            for name, each in self.groups.items()
        }
        writer = DifferenceWriter(stage=stage, key=self.key)
        differences = [
            [] if each.equal else writer.rows(name, self.groups[name], each)
            for name, each in judged.items()
        ]
        ranked = [
            RankedDifference(group_rank(self.groups[name].key), row)
            for name, rows in zip(judged, differences, strict=True)
            for row in rows
        ]
        summary, stored = difference_set(ranked, stage.caps)
        groups = list(judged.values())
        results = StageResults(
            stage=stage.name,
            counts=self._counts(groups, differences, duplicates),
            measures=tuple(self._measure(plan, groups) for plan in stage.measures),
            rows=self._rows(groups) if stage.compares_multisets else None,
            differences=summary,
            closure=tuple(tally.closure for tally in self.tallies),
            warnings=self._warnings(),
            unreadable=examples(stage, self._faults()),
            units=self._units(judged),
            digests=self._sealed(),
        )
        differing = frozenset(name for name, each in judged.items() if each.differs)
        return OracleStage(results=results, differences=stored, differing=differing)

    def _sealed(self) -> tuple[BucketSum, ...]:
        """Sums of fingerprints, where they are requested."""
        if not self.stage.seal_rows:
            return ()
        return tuple(bucket_sums(self.stage, self.groups, self.key))

    def _duplicate_keys(self) -> list[int]:
        """Keys with several rows, per source; refused where the policy requires it."""
        repeated = [
            [group for group in self.groups.values() if len(group.rows[index]) > 1]
            for index in self.sources
        ]
        for index, groups in enumerate(repeated):
            if groups and self.stage.duplicates is DuplicatePolicy.ERROR:
                raise DuplicateKeysError(
                    stage=self.stage.name,
                    source=self.stage.sources[index],
                    keys=len(groups),
                    examples=self._examples(groups),
                )
        return [len(groups) for groups in repeated]

    def _examples(self, groups: Sequence[Group]) -> list[str]:
        """The three smallest keys; an error's text shows no key in clear."""
        smallest = sorted(groups, key=lambda group: [canonical_order(part) for part in group.key])
        return [
            f"#{key_hash(self.key, encode_tuple(group.key)).hex()}"
            for group in smallest[:SHOWN_KEYS]
        ]

    def _collapsed(self, group: Group) -> Group:
        """One row per source that has the group, its cells the functions' results."""
        rows = [
            [self._aggregated(group, index)] if rows or self.always_present else []
            for index, rows in enumerate(group.rows)
        ]
        return replace(group, rows=rows, collapsed_from=group.sizes)

    def _aggregated(self, group: Group, index: int) -> tuple[Cell, ...]:
        return tuple(
            self._result(plan, index, [row[plan.index] for row in group.rows[index]])
            for plan in self.stage.measures
        )

    def _result(self, plan: MeasurePlan, index: int, cells: Sequence[Cell]) -> Cell:
        source = plan.inputs[index]
        if source is None:
            return Cell(number(len(cells)), number(len(cells)))
        values = [cell.value for cell in cells]
        try:
            made = aggregate(plan.function, values, source.result, plan.places)
        except OverflowedError as cause:
            raise SumOverflowError(
                stage=self.stage.name, measure=plan.name, source=self.stage.sources[index]
            ) from cause
        self.rounded[index] += made.rounded
        return Cell(made.value, on_result(made.value, plan.rules))

    def _counts(
        self,
        groups: Sequence[GroupJudgement],
        differences: Sequence[Sequence[Difference]],
        duplicates: Sequence[int],
    ) -> StageCounts:
        masks = Counter(group.mask for group in groups)
        patterns = sorted(masks.items(), key=lambda item: (-item[1], item[0]))
        matched = masks[self.stage.everywhere]
        having = [sum(n for mask, n in patterns if mask >> index & 1) for index in self.sources]
        differing = sum(group.differs for group in groups)
        odd = Counter(_common_odd_one(rows) for rows in differences)
        return StageCounts(
            source_row_counts=tuple(tally.seen for tally in self.tallies),
            groups_by_source=tuple(having),
            matched_groups=matched,
            unmatched_by_source=tuple(groups_of - matched for groups_of in having),
            missing_by_source=tuple(len(groups) - groups_of for groups_of in having),
            presence=tuple(patterns[:MAX_PATTERNS]),
            presence_other=sum(n for _, n in patterns[MAX_PATTERNS:]),
            rows_compared=len(groups),
            rows_matched=len(groups) - differing,
            rows_unmatched=differing,
            duplicate_keys_by_source=tuple(duplicates) or (0,) * len(self.sources),
            null_keys_by_source=tuple(tally.null_keys for tally in self.tallies),
            invalid_values_by_source=tuple(tally.invalid_values for tally in self.tallies),
            excluded_rows_by_source=tuple(tally.excluded for tally in self.tallies),
            odd_one_out=tuple(odd[source] for source in self.stage.sources),
        )

    def _measure(self, plan: MeasurePlan, groups: Sequence[GroupJudgement]) -> MeasureResult:
        judged = [group.measures[plan.index] for group in groups if group.matched]
        if not plan.has_total:
            return self._noted(plan, _summed(plan, judged, _Totals.absent(len(self.sources))))
        amounts = [
            [self._amount(group.rows[index], plan) for index in self.sources]
            for group in self.groups.values()
        ]
        return self._noted(plan, _summed(plan, judged, self._totals(plan, amounts)))

    def _hides(self, plan: MeasurePlan, index: int) -> bool:
        faults = self._faults()[index].get(plan.index)
        return faults is not None and faults.hides_total

    def _noted(self, plan: MeasurePlan, result: MeasureResult) -> MeasureResult:
        noted = [faults.get(plan.index, MeasureFaults()) for faults in self._faults()]
        return replace(
            result,
            unreadable_by_source=tuple(each.unreadable for each in noted),
            not_finite_by_source=tuple(each.not_finite for each in noted),
        )

    def _rows(self, groups: Sequence[GroupJudgement]) -> MeasureResult:
        judged = [group.rows for group in groups if group.rows is not None]
        amounts = [
            [Decimal(size) if size else None for size in group.sizes]
            for group in self.groups.values()
        ]
        rows_measure = _summed(ROWS_MEASURE, judged, self._totals(ROWS_MEASURE, amounts))
        none = (0,) * len(self.sources)
        return replace(rows_measure, unreadable_by_source=none, not_finite_by_source=none)

    def _amount(self, rows: Sequence[tuple[Cell, ...]], plan: MeasurePlan) -> Decimal | None:
        """Of one group and source; values that are not finite numbers add nothing."""
        if len(rows) == 1:
            return rows[0][plan.index].value.amount or Decimal(0)
        amounts = [row[plan.index].value.amount for row in rows]
        return add([amount for amount in amounts if amount is not None]) if rows else None

    def _totals(self, plan: MeasurePlan, amounts: Sequence[Sequence[Decimal | None]]) -> "_Totals":
        """Over all groups: totals, their gaps to the reference's, and the steps of each gap."""
        summed = [add([group[index] or Decimal(0) for group in amounts]) for index in self.sources]
        hidden = [plan is not ROWS_MEASURE and self._hides(plan, index) for index in self.sources]
        totals = [
            total if fits(total, plan.total_scale) and not is_hidden else None
            for total, is_hidden in zip(summed, hidden, strict=True)
        ]
        gaps = [_gap(total, totals[self.stage.reference], plan) for total in totals]
        waterfall = WaterfallOf(plan=plan, reference=self.stage.reference)
        for group in amounts:
            waterfall.take(group)
        return _Totals(totals=tuple(totals), gaps=tuple(gaps), waterfall=waterfall.by_source(gaps))

    def _units(self, judged: Mapping[bytes, GroupJudgement]) -> tuple[UnitResult, ...]:
        """Groups and amounts by currency or unit, where the key names it."""
        if not self.stage.unit_dimensions:
            return ()
        judgements = [(self.groups[name], each) for name, each in judged.items()]
        return results_by_unit(self.stage, judgements, self._amount, self._hides)

    def _faults(self) -> list[Mapping[int, MeasureFaults]]:
        """By source, of the stage's measures: a digest stage has none of its rows' measures."""
        if self.stage.hashed is not None:
            return [{} for _ in self.sources]
        return [tally.faults for tally in self.tallies]

    def _warnings(self) -> tuple[Warn, ...]:
        """Facts that only the reading of rows has."""
        noticed = (
            ("FLOAT_SUM_ROUNDED", self.rounded, "float values rounded to 18 places in sums"),
            ("DST_AMBIGUOUS", self._ambiguous(), "local times at a change of offset"),
        )
        return tuple(
            Warn(code=code, message=f"{times} {what}", stage=self.stage.name, source=source)
            for code, numbers, what in noticed
            for source, times in zip(self.stage.sources, numbers, strict=True)
            if times
        )

    def _ambiguous(self) -> list[int]:
        return [self.ambiguous_times.get(source, 0) for source in self.stage.sources]


def _common_odd_one(rows: Sequence[Difference]) -> str | None:
    """The source that all breaks of a group name; None when they differ or there is none."""
    named = {row.odd_one_out for row in rows if row.outcome is Outcome.BREAK}
    return named.pop() if len(named) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Totals:
    """One entry per source in each."""

    totals: tuple[Decimal | None, ...]
    gaps: tuple[Decimal | None, ...]
    waterfall: tuple[Waterfall | None, ...]

    @classmethod
    def absent(cls, sources: int) -> "_Totals":
        nothing = (None,) * sources
        return cls(totals=nothing, gaps=nothing, waterfall=nothing)


def _summed(
    plan: MeasurePlan, judged: Sequence[MeasureJudgement], totals: _Totals
) -> MeasureResult:
    """A measure over its matched groups."""
    classes = Counter(each.difference_class for each in judged)
    within = sum(each.within for each in judged)
    equal = sum(each.equal for each in judged)
    sizes = [each.largest_delta for each in judged if each.largest_delta is not None]
    nothing = Decimal(0) if equal else None  # without a finite pair nothing can be subtracted
    return MeasureResult(
        name=plan.name,
        tolerances=tuple(
            ToleranceResult(
                tolerance=tolerance, alone_within=sum(each.alone_within[at] for each in judged)
            )
            for at, tolerance in enumerate(plan.tolerances)
        ),
        within=within,
        outside=len(judged) - within,
        equal=equal,
        within_not_equal=within - equal,
        null_mismatch=classes[DifferenceClass.NULL_MISMATCH],
        invalid=classes[DifferenceClass.INVALID],
        precision=classes[DifferenceClass.PRECISION],
        multiplicity=classes[DifferenceClass.MULTIPLICITY],
        not_comparable=classes[DifferenceClass.NOT_COMPARABLE],
        total_by_source=totals.totals,
        gap_by_source=totals.gaps,
        waterfall_by_source=totals.waterfall,
        max_abs_delta=max(sizes, default=nothing) if plan.subtractable and judged else None,
    )


def _gap(total: Decimal | None, base: Decimal | None, plan: MeasurePlan) -> Decimal | None:
    """Other minus reference; None where either is unknown or the gap needs over 38 digits."""
    if total is None or base is None:
        return None
    gap = EXACT.subtract(total, base)
    return gap if fits(gap, plan.total_scale) else None
