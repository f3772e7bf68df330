"""The oracle's judgement of one group: ranks, measures, classes, and the differences it leaves.

Rows of a key are a multiset: what every source has cancels with its smallest multiplicity, the
rest is put in canonical order and compared rank by rank. No product of duplicates is formed.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

from datarecs_core.comparison.oracle.agreement import (
    agreement,
    deltas,
    equal_once_cut,
    odd_one_out,
    odd_presence,
)
from datarecs_core.comparison.oracle.grouping import Cell, Group, Spelling
from datarecs_core.comparison.planning.plan import (
    PRESENCE,
    ROWS,
    ROWS_MEASURE,
    MeasurePlan,
    StagePlan,
)
from datarecs_core.comparison.results.differences import (
    SHOWN_SPELLINGS,
    break_id,
    delta_percent,
    masked,
)
from datarecs_core.comparison.results.fingerprints import key_hash
from datarecs_core.comparison.results.results import Difference, DifferenceClass, Outcome
from datarecs_core.comparison.values.canonical import (
    NULL,
    Value,
    canonical_order,
    canonical_text,
    encode_tuple,
    number,
    text,
)
from datarecs_core.jobs.vocabulary import MaskRule, NanRule

Rank = tuple[tuple[Cell, ...], ...]
"""One row of every source, at the same place of the canonical order; one cell per measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureJudgement:
    """One measure of one matched group, over all its ranks."""

    equal: bool
    within: bool
    alone_within: tuple[bool, ...]
    difference_class: DifferenceClass | None = None
    """None when equal."""
    shown: tuple[Cell, ...] = ()
    """The first rank that is outside, else the first that is not equal; empty when none is."""
    odd_one_out: int | None = None
    largest_delta: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupJudgement:
    """A group: unmatched, or matched with one judgement per measure."""

    mask: int
    matched: bool
    measures: tuple[MeasureJudgement, ...] = ()
    rows: MeasureJudgement | None = None
    """`$rows`, in stages that compare multisets."""

    @property
    def all_measures(self) -> tuple[MeasureJudgement, ...]:
        return self.measures if self.rows is None else (*self.measures, self.rows)

    @property
    def equal(self) -> bool:
        """None of it is stored."""
        return self.matched and all(each.equal for each in self.all_measures)

    @property
    def differs(self) -> bool:
        """Counted in rows_unmatched, and part of the scope of later stages."""
        return not self.matched or not all(each.within for each in self.all_measures)


def judge_group(stage: StagePlan, group: Group, mask: int) -> GroupJudgement:
    """Judge one group, with collapsed rows where the stage requires it."""
    if mask != stage.everywhere:
        return GroupJudgement(mask=mask, matched=False)
    lengths = [len(rows) for rows in group.rows]
    if stage.compares_multisets and len(set(lengths)) > 1:
        rows = _unequal_rows(stage, lengths)
        measures = tuple(_unequal_lengths(each, rows) for each in stage.measures)
        return GroupJudgement(mask=mask, matched=True, measures=measures, rows=rows)
    ranks = remaining_ranks(stage, group)
    judged = [
        judge_measure(each, [[row[each.index] for row in rank] for rank in ranks], stage.reference)
        for each in stage.measures
    ]
    return matched_group(stage, judged)


def agrees(stage: StagePlan, group: Group) -> bool:
    """Whether every source has the same rows in the same order, so that nothing is judged.

    Only a shortcut: `==` is stricter than equality of encodings, so other rows may still
    agree.
    """
    first, *others = group.rows
    if not first or any(each.rules.nan is NanRule.UNEQUAL for each in stage.measures):
        return False
    return all(len(rows) == len(first) and all(map(_equal_rows, first, rows)) for rows in others)


def _equal_rows(row: tuple[Cell, ...], other: tuple[Cell, ...]) -> bool:
    return [cell.value for cell in row] == [cell.value for cell in other]


def agreed_group(stage: StagePlan) -> GroupJudgement:
    """The judgement of a group that agrees."""
    return matched_group(
        stage, [judge_measure(each, (), stage.reference) for each in stage.measures]
    )


def matched_group(stage: StagePlan, measures: Sequence[MeasureJudgement]) -> GroupJudgement:
    """The judgement of a group that every source has, with equally many rows."""
    return GroupJudgement(
        mask=stage.everywhere,
        matched=True,
        measures=tuple(measures),
        rows=_EQUAL_ROWS if stage.compares_multisets else None,
    )


@cache
def not_comparable(tolerances: int) -> MeasureJudgement:
    """The judgement of a measure that is missing in a source or has another type there."""
    return MeasureJudgement(
        equal=False,
        within=False,
        alone_within=(False,) * tolerances,
        difference_class=DifferenceClass.NOT_COMPARABLE,
    )


@cache
def equal_measure(tolerances: int) -> MeasureJudgement:
    """The judgement of a measure with this number of tolerances and equal values at every rank."""
    return MeasureJudgement(equal=True, within=True, alone_within=(True,) * tolerances)


_EQUAL_ROWS = MeasureJudgement(
    equal=True, within=True, alone_within=(True,), largest_delta=Decimal(0)
)


def _unequal_rows(stage: StagePlan, lengths: Sequence[int]) -> MeasureJudgement:
    counts = [number(length) for length in lengths]
    gaps = deltas(counts, stage.reference).values()
    return MeasureJudgement(
        equal=False,
        within=False,
        alone_within=(False,),
        difference_class=DifferenceClass.MULTIPLICITY,
        shown=tuple(Cell(count, count) for count in counts),
        odd_one_out=odd_one_out(ROWS_MEASURE, counts, stage.reference),
        largest_delta=max(gap.copy_abs() for gap in gaps),
    )


def _unequal_lengths(measure: MeasurePlan, rows: MeasureJudgement) -> MeasureJudgement:
    """Rows that cannot be paired: outside, and the odd one is that of `$rows`."""
    return MeasureJudgement(
        equal=False,
        within=False,
        alone_within=(False,) * len(measure.tolerances),
        difference_class=DifferenceClass.MULTIPLICITY,
        odd_one_out=rows.odd_one_out,
    )


def remaining_ranks(stage: StagePlan, group: Group) -> list[Rank]:
    """The remaining rows after cancelling, in canonical order of the measures by name.

    Rows whose values agree after their rules are ordered by the values before, so that the
    shown rows do not depend on the reading order; of equal copies the first ones cancel.
    """
    by_name = sorted(
        (each for each in stage.measures if each.comparable), key=lambda each: each.name
    )
    columns = [each.index for each in by_name]
    strict_nan = {each.index for each in by_name if each.rules.nan is NanRule.UNEQUAL}

    def identity(row: tuple[Cell, ...]) -> bytes | None:
        if any(row[index].value.is_nan for index in strict_nan):
            return None
        return encode_tuple([row[index].value for index in columns])

    def order(row: tuple[Cell, ...]) -> list[tuple[int, int, Decimal, bytes]]:
        cells = [row[index] for index in columns]
        after, before = [cell.value for cell in cells], [cell.raw for cell in cells]
        return [canonical_order(value) for value in (*after, *before)]

    ordered = [sorted(rows, key=order) if len(rows) > 1 else rows for rows in group.rows]
    named = [[(identity(row), row) for row in rows] for rows in ordered]
    counters = [Counter(name for name, _ in rows) for rows in named]
    common = {
        name: min(counter[name] for counter in counters) for name in counters[0] if name is not None
    }
    remaining = []
    for rows in named:
        cancelled: Counter[bytes | None] = Counter(common)
        leftover = []
        for name, row in rows:
            if cancelled[name] > 0:
                cancelled[name] -= 1
            else:
                leftover.append(row)
        remaining.append(leftover)
    return list(zip(*remaining, strict=True))


def judge_measure(
    measure: MeasurePlan, cells: Sequence[Sequence[Cell]], reference: int
) -> MeasureJudgement:
    """Judge one measure of a matched group.

    Args:
        measure: of the stage.
        cells: per rank one cell per source; without any the sources agree.
        reference: index of the reference source.
    """
    if not measure.comparable:
        return not_comparable(len(measure.tolerances))
    if not cells:
        return equal_measure(len(measure.tolerances))
    values = [[cell.value for cell in rank] for rank in cells]
    judged = [agreement(measure, each, reference) for each in values]
    outside = [at for at, each in enumerate(judged) if not each.within]
    unequal = [at for at, each in enumerate(judged) if not each.equal]
    shown = next(iter((*outside, *unequal)), None)
    sizes = [
        delta.copy_abs()
        for each in values
        if measure.subtractable
        for delta in deltas(each, reference).values()
    ]
    return MeasureJudgement(
        equal=not unequal,
        within=not outside,
        alone_within=tuple(
            all(each.alone_within[at] for each in judged) for at in range(len(measure.tolerances))
        ),
        difference_class=_class_of(measure, [values[at] for at in outside]) if unequal else None,
        shown=() if shown is None else tuple(cells[shown]),
        odd_one_out=odd_one_out(measure, values[outside[0]], reference) if outside else None,
        largest_delta=max(sizes, default=None),
    )


def _class_of(measure: MeasurePlan, outside: Sequence[Sequence[Value]]) -> DifferenceClass:
    """The first class that fits; PRECISION when it explains every rank that is outside."""
    values = [value for rank in outside for value in rank]
    if not outside:
        return DifferenceClass.WITHIN
    if any(value.is_invalid for value in values):
        return DifferenceClass.INVALID
    if any(len({value.is_null for value in rank}) > 1 for rank in outside):
        return DifferenceClass.NULL_MISMATCH
    cut = measure.cut
    if cut is not None and all(equal_once_cut(cut, rank) for rank in outside):
        return DifferenceClass.PRECISION
    return DifferenceClass.OUTSIDE


def _key_text(spelling: Spelling) -> str:
    return ", ".join("NULL" if part is None else part for part in spelling)


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceWriter:
    """Makes the stored rows of judged groups."""

    stage: StagePlan
    key: bytes

    def rows(self, encoded: bytes, group: Group, judged: GroupJudgement) -> list[Difference]:
        """One per measure that is not equal, or one for an unmatched group."""
        if not judged.matched:
            counts = tuple(Cell(number(size), number(size)) for size in group.sizes)
            missing = MeasureJudgement(
                equal=False,
                within=False,
                alone_within=(),
                difference_class=DifferenceClass.MISSING,
                shown=counts,
                odd_one_out=odd_presence(judged.mask, len(self.stage.scans)),
            )
            return [self._row(encoded, group, judged.mask, (PRESENCE, None, missing))]
        named = [
            (plan.name, plan, each)
            for plan, each in zip(self.stage.measures, judged.measures, strict=True)
        ]
        if judged.rows is not None:
            named.append((ROWS, ROWS_MEASURE, judged.rows))
        return [self._row(encoded, group, judged.mask, each) for each in named if not each[2].equal]

    def _row(
        self,
        encoded: bytes,
        group: Group,
        mask: int,
        judged: tuple[str, MeasurePlan | None, MeasureJudgement],
    ) -> Difference:
        name, plan, judgement = judged
        rule = None if plan is None else plan.mask
        key = tuple(
            masked(self.key, dimension.mask, canonical_text(part))
            for dimension, part in zip(self.stage.dimensions, group.key, strict=True)
        )
        odd = judgement.odd_one_out
        changes = self._deltas(plan, judgement)
        reference = judgement.shown[self.stage.reference].value if judgement.shown else NULL
        percents = {index: delta_percent(each, reference.amount) for index, each in changes.items()}
        return Difference(
            break_id=break_id(
                self.key,
                job_uid=self.stage.job_uid,
                stage=self.stage.name,
                measure=name,
                group=encoded,
            ),
            stage=self.stage.name,
            measure=name,
            outcome=Outcome.WITHIN if judgement.within else Outcome.BREAK,
            difference_class=judgement.difference_class or DifferenceClass.OUTSIDE,
            presence=mask,
            odd_one_out=None if odd is None else self.stage.sources[odd],
            key=key,
            key_encoded=self._encoded_key(encoded, key),
            key_hash=key_hash(self.key, encoded),
            values=self._values(mask, judgement, rule),
            raw_values=self._raw_values(judgement, rule),
            raw_keys=self._raw_keys(group, key),
            deltas=tuple((self.stage.sources[index], each) for index, each in changes.items()),
            delta_percent=tuple(
                (self.stage.sources[index], each)
                for index, each in percents.items()
                if each is not None
            ),
        )

    def _encoded_key(self, encoded: bytes, key: Sequence[str | None]) -> bytes:
        """Unchanged, or from the masked texts where any part is masked."""
        if all(dimension.mask is None for dimension in self.stage.dimensions):
            return encoded
        return encode_tuple([NULL if part is None else text(part) for part in key])

    def _deltas(self, plan: MeasurePlan | None, judgement: MeasureJudgement) -> dict[int, Decimal]:
        if plan is None or plan.mask is not None or not plan.subtractable or not judgement.shown:
            return {}
        return deltas([cell.value for cell in judgement.shown], self.stage.reference)

    def _values(
        self, mask: int, judgement: MeasureJudgement, rule: MaskRule | None
    ) -> tuple[tuple[str, str | None], ...]:
        return tuple(
            (source, masked(self.key, rule, canonical_text(cell.value)))
            for index, (source, cell) in enumerate(
                zip(self.stage.sources, judgement.shown, strict=False)
            )
            if mask >> index & 1
        )

    def _raw_keys(self, group: Group, key: tuple[str | None, ...]) -> tuple[tuple[str, str], ...]:
        """Of sources that write the key otherwise, as they do."""
        raw_keys = []
        for index, spellings in sorted(group.spellings.items()):
            written = sorted({self._masked_key(each) for each in spellings}, key=_key_text)
            if written != [key]:
                shown = "; ".join(map(_key_text, written[:SHOWN_SPELLINGS]))
                more = f" ({len(written)} spellings)" if len(written) > SHOWN_SPELLINGS else ""
                raw_keys.append((self.stage.sources[index], f"{shown}{more}"))
        return tuple(raw_keys)

    def _masked_key(self, spelling: Spelling) -> Spelling:
        pairs = zip(self.stage.dimensions, spelling, strict=True)
        return tuple(masked(self.key, dimension.mask, part) for dimension, part in pairs)

    def _raw_values(
        self, judgement: MeasureJudgement, rule: MaskRule | None
    ) -> tuple[tuple[str, str | None], ...]:
        return tuple(
            (source, masked(self.key, rule, canonical_text(cell.raw)))
            for source, cell in zip(self.stage.sources, judgement.shown, strict=False)
            if canonical_text(cell.raw) != canonical_text(cell.value)
        )
