"""Compare the measures of matched groups, after their rows are paired.

All data are columns: equality and tolerances (`agreeing`) are counted for all groups at once. Texts
are made of the same rows later, for the few groups that are stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datarecs_core.comparison.results.differences import masked
from datarecs_core.comparison.results.results import DifferenceClass
from datarecs_kernel.agreeing import Agreement, Judgements, has_invalid, has_nulls, is_nan
from datarecs_kernel.columns import Flags, Numbers, Runs, Values, distinct, flags_of
from datarecs_kernel.counted import MeasureTally
from datarecs_kernel.decoding import lossless_texts, texts
from datarecs_kernel.differing import (
    KINDS,
    NOBODY,
    By,
    Differences,
    NoTexts,
    SourceTexts,
    WrittenTexts,
    changes_of,
    delta_texts,
    kinds_of,
    no_sizes,
    percent_texts,
)
from datarecs_kernel.exact_amounts import Amounts, amounts_of, joined
from datarecs_kernel.forms import FormKind
from datarecs_kernel.layout import Layout, MeasureLayout
from datarecs_kernel.open_groups import Shape
from datarecs_kernel.whole_units import unit_key


class Columns(NamedTuple):
    """Columns of one source: values, payloads of INVALID values, texts before rules."""

    value: str
    payload: str | None
    before: str | None

    def of(self, rows: pa.RecordBatch) -> Values:
        payloads = None if self.payload is None else rows.column(self.payload)
        return Values(rows.column(self.value), payloads)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Paired rows of all sources, per place; the places of a group are consecutive."""

    rows: Sequence[Numbers]
    """Per source."""
    groups: Numbers
    """Of each place."""
    matched: Numbers
    """All compared groups; in some of them all rows may have cancelled."""


class _Cells(NamedTuple):
    """The places where the sources differ."""

    rows: pa.RecordBatch
    places: Sequence[Numbers]
    """Rows of every source."""

    def take(self, at: Numbers) -> "_Cells":
        return _Cells(self.rows, [each[at] for each in self.places])


class MeasureJudge:
    """One measure of a stage."""

    def __init__(
        self,
        layout: Layout,
        measure: MeasureLayout,
        names: frozenset[str],
        key: bytes,
        shape: Shape,
    ) -> None:
        """Create it for batches with columns of these names; `key` is the tenant's."""
        self.stage, self.plan, self.form, self.key = layout.stage, measure.plan, measure.result, key
        self.columns = columns_of(layout, measure, names, shape)
        self.flag = f"d{measure.index}" if f"d{measure.index}" in names else None
        """Name of the column that marks where the measure differs."""
        self.is_lossless = self.form.kind is FormKind.DOUBLE and not layout.pairs_rows
        """Whether texts before rules have the form of `canonical.lossless`."""
        self.has_deltas = self.plan.mask is None and self.plan.subtractable
        self.agreement = Agreement(
            self.plan, self.form, sources=len(layout.sources), reference=self.stage.reference
        )

    def judge(
        self, rows: pa.RecordBatch, places: Places, tally: MeasureTally
    ) -> Differences | None:
        """The differences to store of groups where sources differ.

        Args:
            rows: of open groups.
            places: the paired rows.
            tally: counts of the measure; updated with the groups.
        """
        if not self.columns:
            return self._not_comparable(places.matched, tally)
        cells, groups = self._unequal(rows, places)
        if not len(groups):
            return None
        values, runs = self.values(cells), Runs(groups)
        judged = self.agreement.judge(values)
        kinds = _kinds(judged, values, runs)
        self._count(judged, kinds, runs, tally)
        if tally.largest is None and self._has_equal_amounts(rows, places, runs.groups):
            tally.reach(unit_key(0, 0))
        within = runs.all_of(judged.within)
        stored = np.flatnonzero(~within | self.stage.caps.deltas)
        shown = runs.first_of(~judged.within)[stored]
        return Differences(
            measure=self.plan.name,
            groups=runs.groups[stored],
            presence=np.full(len(stored), self.stage.everywhere),
            kinds=kinds[stored],
            within=within[stored],
            odd=np.where(judged.within[shown], NOBODY, judged.odd[shown]),
            sizes=self._sizes(judged, shown),
            texts=_MeasureTexts(self, cells.take(shown)),
        )

    def values(self, cells: _Cells) -> list[Values]:
        """Values of every source."""
        return [
            each.of(cells.rows).take(places)
            for each, places in zip(self.columns, cells.places, strict=True)
        ]

    def _unequal(self, rows: pa.RecordBatch, places: Places) -> tuple[_Cells, Numbers]:
        """Places at which sources differ, and their groups."""
        if all(each is places.groups for each in places.rows):
            return self._unequal_in_place(rows, places.groups)
        cells = _Cells(rows, places.rows)
        at = np.flatnonzero(self.agreement.differs(self.values(cells)))
        return cells.take(at), places.groups[at]

    def _has_equal_amounts(self, rows: pa.RecordBatch, places: Places, groups: Numbers) -> bool:
        """Whether a place of these groups has a delta of 0, in addition to those that differ."""
        if not self.plan.subtractable or places.groups is places.matched:
            return False
        cells = _Cells(rows, places.rows).take(np.flatnonzero(np.isin(places.groups, groups)))
        values = self.values(cells)
        equal = ~self.agreement.differs(values)
        return any(
            bool((part.units[0].known & part.of(equal)).any())
            for part in amounts_of(self.form, values)
        )

    def _unequal_in_place(self, rows: pa.RecordBatch, groups: Numbers) -> tuple[_Cells, Numbers]:
        """The same if the group number is the row number: equal rows are not copied."""
        if self.flag is None:
            differs = self.agreement.differs([each.of(rows) for each in self.columns])
        else:
            differs = flags_of(pc.fill_null(rows.column(self.flag), fill_value=False))
            if self.agreement.is_strict:
                differs |= is_nan(self.form, self.columns[0].of(rows).plain)
        if len(groups) < len(differs):
            matched = np.zeros(len(differs), np.bool_)
            matched[groups] = True
            differs &= matched
        at = np.flatnonzero(differs)
        return _Cells(rows, [at] * len(self.columns)), at

    def _not_comparable(self, groups: Numbers, tally: MeasureTally) -> Differences:
        kind, many = DifferenceClass.NOT_COMPARABLE, len(groups)
        tally.see([many] * len(self.plan.tolerances), outside=many, kinds={kind: many})
        return Differences(
            measure=self.plan.name,
            groups=groups,
            presence=np.full(many, self.stage.everywhere),
            kinds=kinds_of(kind, many),
            within=np.zeros(many, np.bool_),
            odd=np.full(many, NOBODY),
            sizes=no_sizes(many),
            texts=NoTexts(),
        )

    def _count(self, judged: Judgements, kinds: Numbers, runs: Runs, tally: MeasureTally) -> None:
        numbers = np.bincount(kinds, minlength=len(KINDS)).tolist()
        groups = len(runs.groups)
        tally.see(
            [groups - _count(runs.all_of(each)) for each in judged.tolerance_within],
            outside=groups - _count(runs.all_of(judged.within)),
            kinds=dict(zip(KINDS, numbers, strict=True)),
        )
        tally.reach(judged.largest)

    def _sizes(self, judged: Judgements, shown: Numbers) -> pa.Array:
        if not self.has_deltas:
            return no_sizes(len(shown))
        return pa.array(judged.sizes[shown], pa.float64(), mask=~judged.has_size[shown])


class _MeasureTexts:
    """Texts of the places of the differences."""

    def __init__(self, judge: MeasureJudge, cells: _Cells) -> None:
        self.judge, self.cells = judge, cells
        self.reference, self.form = judge.stage.reference, judge.form

    def written(self, at: Numbers) -> WrittenTexts:
        cells = self.cells.take(at)
        values = self.judge.values(cells)
        after = [texts(self.form, each) for each in values]
        deltas, percents = self._deltas(values)
        return WrittenTexts(
            values=tuple(
                SourceTexts(index, self._masked(each), np.ones(len(each), np.bool_))
                for index, each in enumerate(after)
            ),
            raw=self._raw(cells, after),
            deltas=deltas,
            percents=percents,
        )

    def _deltas(self, values: Sequence[Values]) -> tuple[By, By]:
        """Deltas, and their percents."""
        if not self.judge.has_deltas:
            return (), ()
        parts, deltas, percents = amounts_of(self.form, values), [], []
        for part in parts:
            changes = changes_of(part.units, self.reference)
            deltas.append(delta_texts(changes, part.scale))
            percents.append(percent_texts(changes, part.units[self.reference].numbers))
        return _joined_by(parts, deltas), _joined_by(parts, percents)

    def _raw(self, cells: _Cells, after: Sequence[pa.Array]) -> By:
        """Texts before rules, if those after rules differ from them."""
        raw = []
        for index, (columns, places) in enumerate(
            zip(self.judge.columns, cells.places, strict=True)
        ):
            if columns.before is None:
                continue
            before = cells.rows.column(columns.before).take(pa.array(places))
            if self.judge.is_lossless:
                before = lossless_texts(self.form, before)
            changed = distinct(before, after[index])
            raw.append(SourceTexts(index, self._masked(before), changed))
        return tuple(raw)

    def _masked(self, written: pa.Array) -> pa.Array:
        rule, key = self.judge.plan.mask, self.judge.key
        if rule is None:
            return written
        known = written.dictionary_encode()
        covered = [masked(key, rule, each) for each in known.dictionary.to_pylist()]
        return pa.array(covered, pa.string()).take(known.indices)


def _count(flags: Flags) -> int:
    return int(np.count_nonzero(flags))


def _joined_by(parts: Sequence[Amounts], written: Sequence[By]) -> By:
    return tuple(
        SourceTexts(
            columns[0].source,
            joined(parts, [each.texts for each in columns]),
            flags_of(joined(parts, [pa.array(each.where) for each in columns])),
        )
        for columns in zip(*written, strict=True)
    )


def _kinds(judged: Judgements, values: Sequence[Values], runs: Runs) -> Numbers:
    """Per group, the first class that fits all of its places outside."""
    within = judged.within
    fits = (
        (DifferenceClass.WITHIN, runs.all_of(within)),
        (DifferenceClass.INVALID, ~runs.all_of(within | ~has_invalid(values))),
        (DifferenceClass.NULL_MISMATCH, ~runs.all_of(within | ~has_nulls(values))),
        (DifferenceClass.PRECISION, runs.all_of(within | judged.is_cut)),
    )
    kinds = kinds_of(DifferenceClass.OUTSIDE, len(runs.groups))
    for kind, flags in reversed(fits):
        kinds[flags] = KINDS.index(kind)
    return kinds


def columns_of(
    layout: Layout, measure: MeasureLayout, names: frozenset[str], shape: Shape
) -> tuple[Columns, ...]:
    """Columns per source; none if the measure is not comparable."""

    def present(name: str) -> str | None:
        return name if name in names else None

    field = measure.field
    if not measure.plan.comparable:
        return ()
    if shape is Shape.TUPLES and field is not None:
        before = present(field.raw) if measure.changes else None
        return (Columns(field.name, present(field.payload), before),) * len(layout.sources)
    places = [f"{measure.index}_{index}" for index in layout.sources]
    return tuple(
        Columns(f"v{at}", present(f"x{at}"), present(f"r{at}") if measure.changes else None)
        for at in places
    )
