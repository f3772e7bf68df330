"""The verdict of a finished run under other tolerances, from its stored differences only.

No source is read and the run never changes. Values are judged again with the arithmetic of the
tolerances; where the stored rows are not enough, the request is refused. Separate from
`agreement`, which judges typed values, not text.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import combinations
from typing import NamedTuple, assert_never, cast

from datarecs_core.comparison.planning.plan import PRESENCE, ROWS
from datarecs_core.comparison.planning.tolerance import (
    AbsoluteTolerance,
    DurationTolerance,
    ExactTolerance,
    Gap,
    PercentageTolerance,
    Tolerance,
    gap_between,
)
from datarecs_core.comparison.proof.sealed import SealedMeasure, SealedRun, SealedStage
from datarecs_core.comparison.results.results import (
    DifferenceClass,
    MeasureResult,
    StageResults,
    ToleranceResult,
    Verdict,
)
from datarecs_core.comparison.results.verdict import (
    Acceptance,
    SkipReason,
    accepted_within,
    run_acceptance,
    stage_verdict,
)
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunFault
from datarecs_core.jobs.definition import Accept
from datarecs_core.jobs.vocabulary import Bound, Combine, CompareTo, OnUnmatched

_ALWAYS_OUTSIDE = frozenset(
    {
        DifferenceClass.MULTIPLICITY,
        DifferenceClass.INVALID,
        DifferenceClass.NULL_MISMATCH,
        DifferenceClass.NOT_COMPARABLE,
    }
)
_WITHOUT_DISTANCE = frozenset({None, "NaN", "Inf", "-Inf"})
_RUN_INSTEAD = "run the job with these tolerances, or judge a stage without `confirm`"
_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)


class NotRejudgeableError(DatarecsError):
    """The stored differences are not enough for another verdict."""

    code = RunFault.NOT_REJUDGEABLE

    def __init__(self, *, stage: str, reason: str) -> None:
        super().__init__(f"stage {stage}: the run cannot be judged again: {reason}")
        self.stage, self.reason = stage, reason


class StoredRow(NamedTuple):
    """What judging needs of a stored difference. Maps are by source."""

    measure: str
    difference_class: str
    within: bool
    key_hash: bytes
    values: Mapping[str, str | None]
    deltas: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureChange:
    """How a measure is to be judged; None keeps the run's tolerances."""

    tolerances: tuple[Tolerance, ...] | None = None
    combine: Combine | None = None
    bound: Bound | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageChange:
    """The changes requested for one stage."""

    measures: Mapping[str, MeasureChange] = field(default_factory=dict)
    compare_to: CompareTo | None = None
    """Of all measures; None keeps the run's comparison."""
    accept: Accept | None = None
    """None keeps the run's limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageAgain:
    """A stage before and after the changes; the same twice without changes."""

    was: SealedStage
    results: StageResults
    """`odd_one_out` and the classes PRECISION and OUTSIDE are those of the run."""
    verdict: Verdict
    acceptance: Acceptance
    other_groups: bool = False
    """Whether the groups that differ are others than in the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAgain:
    """The verdict with the requested changes."""

    was: SealedRun
    stages: tuple[StageAgain, ...]
    """Those that were executed."""
    verdict: Verdict
    acceptance: Acceptance


def rejudge(
    run: SealedRun,
    changes: Mapping[str, StageChange],
    rows: Callable[[SealedStage], Iterable[StoredRow]],
) -> RunAgain:
    """Judge the stored rows of some stages again.

    Args:
        run: already verified.
        changes: by the name of an executed stage; measures that it has.
        rows: all stored differences of a stage; called once per changed stage.

    Raises:
        NotRejudgeableError: the stored rows, or a later stage, do not allow it.
    """
    stages = []
    for stage in run.stages:
        if stage.results is None:
            continue
        change = changes.get(stage.name)
        if change is None:
            again = _as_it_was(stage, stage.results)
        else:
            again = _stage(run, stage, change, rows)
            _refuse_consequences(run, again)
        stages.append(again)
    matched = all(stage.verdict is Verdict.MATCHED for stage in stages)
    return RunAgain(
        was=run,
        stages=tuple(stages),
        verdict=Verdict.MATCHED if matched else Verdict.UNMATCHED,
        acceptance=run_acceptance([(stage.verdict, stage.acceptance) for stage in stages]),
    )


def _as_it_was(stage: SealedStage, results: StageResults) -> StageAgain:
    return StageAgain(
        was=stage,
        results=results,
        verdict=stage_verdict(results),
        acceptance=stage.acceptance,
    )


def _stage(
    run: SealedRun,
    stage: SealedStage,
    change: StageChange,
    rows: Callable[[SealedStage], Iterable[StoredRow]],
) -> StageAgain:
    results = again = cast("StageResults", stage.results)
    other_groups = False
    judging = _Again(run, stage, results, change)
    if judging.judges:
        again = judging.judged(rows(stage))
        other_groups = judging.outside != judging.was_outside
        _refuse_rechecks(run, stage, again)
    limits = stage.accept if change.accept is None else change.accept
    return StageAgain(
        was=stage,
        results=again,
        verdict=stage_verdict(again),
        acceptance=accepted_within(limits, again),
        other_groups=other_groups,
    )


def _refuse_rechecks(run: SealedRun, stage: SealedStage, again: StageResults) -> None:
    """Groups that `confirm` would read again, or would keep from the first reading.

    Their values are unknown, unless no source has changed since or nothing is read again.
    """
    if stage.confirm is None:
        return
    if stage.confirmed is not None:
        if all(_same_reads(run.pins, recheck.pins) for recheck in stage.confirmed.rechecks):
            return
        reason = (
            f"`confirm` read {stage.confirmed.first.rows_unmatched} differing groups again at "
            "newer pins; other tolerances would select other groups, and the values of the "
            f"first reading are not stored; {_RUN_INSTEAD}"
        )
        raise NotRejudgeableError(stage=stage.name, reason=reason)
    most, was = stage.confirm.max_keys, cast("StageResults", stage.results).counts.rows_unmatched
    differ = again.counts.rows_unmatched
    # Fewer than `max_keys` that were not read again: a source could not be read as before.
    if differ == 0 or differ > most or 0 < was <= most:
        return
    reason = (
        f"{differ} groups differ under these tolerances, and `confirm` would read them "
        f"again; {_RUN_INSTEAD}"
    )
    raise NotRejudgeableError(stage=stage.name, reason=reason)


def _same_reads(
    first: Sequence[Mapping[str, object]], then: Sequence[Mapping[str, object]]
) -> bool:
    """Whether a recheck read every source unchanged; unknown for a database."""
    return all(
        _lasting(one) == _lasting(other) != {} for one, other in zip(first, then, strict=True)
    )


def _lasting(pin: Mapping[str, object]) -> Mapping[str, object]:
    """What two pins of the same rows share."""
    match pin["kind"]:
        case "file_list":
            return {"digest": pin["digest"]}
        case "table_snapshot" | "topic_offsets":
            return {name: value for name, value in pin.items() if name != "taken_at"}
        case _:
            return {}


def _refuse_consequences(run: SealedRun, again: StageAgain) -> None:
    """Later stages that other differing groups would have started, stopped or widened."""
    stage = again.was
    later = run.stages[run.stages.index(stage) + 1 :]
    if again.other_groups:
        for each in later:
            if each.scope == stage.name or each.skipped is SkipReason.NOTHING_IN_SCOPE:
                reason = f"the rows that {each.name} reads depend on which groups differ here"
                raise NotRejudgeableError(stage=stage.name, reason=reason)
    if later and stage.on_unmatched is OnUnmatched.STOP and stage.verdict is not again.verdict:
        reason = f"`on_unmatched: stop` decides here whether {later[0].name} is executed"
        raise NotRejudgeableError(stage=stage.name, reason=reason)


class _Again:
    """One pass over the stored rows of one stage."""

    def __init__(
        self,
        run: SealedRun,
        stage: SealedStage,
        results: StageResults,
        change: StageChange,
    ) -> None:
        self.run, self.stage, self.results = run, stage, results
        pairs = list(zip(stage.measures, results.measures, strict=True))
        questions = [
            (_question_of(*pair, StageChange()), _question_of(*pair, change)) for pair in pairs
        ]
        self.judges = {now.name: _Judge(stage, now, run) for was, now in questions if now != was}
        self.stored: Counter[str] = Counter()
        self.within: Counter[str] = Counter()
        self.unpairable: Counter[str] = Counter()
        """By source: groups with several rows that cannot be paired, so nothing is hidden."""
        self.outside: set[bytes] = set()
        self.was_outside: set[bytes] = set()

    def judged(self, rows: Iterable[StoredRow]) -> StageResults:
        if self.results.differences.truncated:
            raise self._refused("not every difference was stored (BREAKS_TRUNCATED)")
        for row in rows:
            self._take(row)
        self._check_complete()
        self._check_single_rows()
        measures = tuple(self._measure(each) for each in self.results.measures)
        counts = self.results.counts
        differing = counts.unmatched_groups + len(self.outside)
        counts = replace(
            counts, rows_matched=counts.rows_compared - differing, rows_unmatched=differing
        )
        return replace(self.results, counts=counts, measures=measures)

    def _take(self, row: StoredRow) -> None:
        self.stored[row.measure] += 1
        if row.measure in (PRESENCE, ROWS):
            self.unpairable.update(
                source for source, rows in row.values.items() if rows not in ("0", "1", None)
            )
            if row.measure == PRESENCE:
                return
        if not row.within:
            self.was_outside.add(row.key_hash)
        judge = self.judges.get(row.measure)
        within = row.within if judge is None else judge.within(row)
        if within:
            self.within[row.measure] += 1
        else:
            self.outside.add(row.key_hash)

    def _check_complete(self) -> None:
        """Every difference that the run counted is there, those within included."""
        wanted = {
            each.name: each.outside + each.within_not_equal for each in self.results.all_measures
        }
        wanted[PRESENCE] = self.results.counts.unmatched_groups
        for name, count in wanted.items():
            if self.stored[name] != count:
                reason = (
                    f"{self.stored[name]} differences of {name} are stored, the run counted "
                    f"{count}; `deltas: true` stores those within tolerance"
                )
                raise self._refused(reason)

    def _check_single_rows(self) -> None:
        """Of a key with several rows only the first that differs is stored."""
        if not self.stage.compares_multisets:
            return
        counts = self.results.counts
        pairs = zip(self.run.sources, counts.duplicate_keys_by_source, strict=True)
        hidden = min(repeated - self.unpairable[source] for source, repeated in pairs)
        if hidden > 0:
            reason = (
                f"{hidden} keys have several rows in every source, and only one of them is stored"
            )
            raise self._refused(reason)

    def _measure(self, was: MeasureResult) -> MeasureResult:
        judge = self.judges.get(was.name)
        if judge is None:
            return was
        within = self.within[was.name]
        return replace(
            was,
            tolerances=tuple(
                ToleranceResult(tolerance=tolerance, alone_within=was.equal + count)
                for tolerance, count in zip(judge.tolerances, judge.alone_within, strict=True)
            ),
            within=was.equal + within,
            outside=was.within + was.outside - was.equal - within,
            within_not_equal=within,
        )

    def _refused(self, reason: str) -> NotRejudgeableError:
        return NotRejudgeableError(stage=self.stage.name, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """All that one measure is judged by."""

    name: str
    tolerances: tuple[Tolerance, ...]
    combine: Combine
    bound: Bound
    compare_to: CompareTo


def _question_of(measure: SealedMeasure, result: MeasureResult, change: StageChange) -> _Question:
    declared = change.measures.get(measure.name, MeasureChange())
    return _Question(
        name=measure.name,
        tolerances=declared.tolerances or tuple(each.tolerance for each in result.tolerances),
        combine=declared.combine or measure.combine,
        bound=declared.bound or measure.bound,
        compare_to=change.compare_to or measure.compare_to,
    )


class _Judge:
    """One measure's rows under its new tolerances; counts the groups within each tolerance."""

    def __init__(self, stage: SealedStage, question: _Question, run: SealedRun) -> None:
        self.stage, self.name = stage.name, question.name
        self.tolerances, self.bound = question.tolerances, question.bound
        self.compare_to = question.compare_to
        self.together = all if question.combine is Combine.ALL else any
        self.alone_within = [0] * len(self.tolerances)
        self.reference = run.sources[stage.reference]
        self.others = [name for name in run.sources if name != self.reference]
        self.measures_distance = any(
            not isinstance(each, ExactTolerance) for each in self.tolerances
        )
        self.uses_values = any(isinstance(each, PercentageTolerance) for each in self.tolerances)
        self.kind_checked = False

    def within(self, row: StoredRow) -> bool:
        if row.difference_class in _ALWAYS_OUTSIDE or not self.measures_distance:
            return False
        if len(row.deltas) < len(self.others):
            self._check_distances(row)
            return False
        if not self.kind_checked:
            self._check_kind(row.values[self.reference])
        if len(self.others) == 1:
            return self._pair_within(row, self.others[0])
        held = [
            [gap.size == 0 or each.allows(gap, self.bound) for each in self.tolerances]
            for gap in self._gaps(row)
        ]
        for at, verdicts in enumerate(zip(*held, strict=True)):
            self.alone_within[at] += all(verdicts)
        return all(self.together(verdicts) for verdicts in held)

    def _pair_within(self, row: StoredRow, other: str) -> bool:
        """The same for two sources, where every way to compare is one pair; millions of times."""
        size = Decimal(row.deltas[other] or "").copy_abs()
        values: tuple[Decimal, ...] = ()
        if self.uses_values:
            values = (
                Decimal(row.values[self.reference] or ""),
                Decimal(row.values[other] or ""),
            )
        gap = Gap(size=size, values=values, reference=values[0] if values else None)
        verdicts = [each.allows(gap, self.bound) for each in self.tolerances]
        for at, allowed in enumerate(verdicts):
            self.alone_within[at] += allowed
        return self.together(verdicts)

    def _gaps(self, row: StoredRow) -> Iterator[Gap]:
        """What is compared with what, as distances from the reference or as the values."""
        if self.uses_values:
            base = Decimal(row.values[self.reference] or "")
            others = [Decimal(row.values[name] or "") for name in self.others]
        else:
            base = Decimal(0)
            others = [Decimal(row.deltas[name] or "") for name in self.others]
        return (gap_between(each, base) for each in _compared(self.compare_to, base, others))

    def _check_distances(self, row: StoredRow) -> None:
        """A value without a distance is NULL, NaN or infinite; else nothing can be subtracted."""
        held = [row.values.get(name) for name in (self.reference, *self.others)]
        if not any(value in _WITHOUT_DISTANCE for value in held):
            reason = f"the values of {self.name} are masked, or cannot be subtracted"
            raise NotRejudgeableError(stage=self.stage, reason=reason)

    def _check_kind(self, value: str | None) -> None:
        """ABSOLUTE and PERCENTAGE are for numbers, DURATION for times."""
        self.kind_checked = True
        number = _NUMBER.fullmatch(value or "") is not None
        unfit = DurationTolerance if number else (AbsoluteTolerance, PercentageTolerance)
        if any(isinstance(each, unfit) for each in self.tolerances):
            wanted = "ABSOLUTE, PERCENTAGE or EXACT" if number else "DURATION or EXACT"
            reason = f"{self.name} holds {'numbers' if number else 'times'}, which take {wanted}"
            raise NotRejudgeableError(stage=self.stage, reason=reason)


def _compared(
    compare_to: CompareTo, base: Decimal, others: Sequence[Decimal]
) -> Iterable[Sequence[Decimal]]:
    match compare_to:
        case CompareTo.REFERENCE:
            return ((base, each) for each in others)
        case CompareTo.ALL_PAIRS:
            return combinations((base, *others), 2)
        case CompareTo.SPREAD:
            return ((base, *others),)
    assert_never(compare_to)
