"""Judge open groups, batch by batch, as they stream.

This module pairs the rows of a group; `measures` and `repeated` compare their values. Everything is
counted immediately, in columns; `storing` makes the stored rows of differences from them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa

from datarecs_core.comparison.planning.plan import MIN_SOURCES_FOR_ODD, PRESENCE, StagePlan
from datarecs_core.comparison.results.results import DifferenceClass
from datarecs_core.jobs.vocabulary import StageType
from datarecs_core.values import EXACT
from datarecs_kernel.columns import Flags, Numbers, Values
from datarecs_kernel.counted import Counted
from datarecs_kernel.differing import NOBODY, Differences, RowCounts, kinds_of, no_sizes
from datarecs_kernel.exact_amounts import amounts_of
from datarecs_kernel.forms import Form
from datarecs_kernel.layout import Layout
from datarecs_kernel.measures import MeasureJudge, Places
from datarecs_kernel.open_groups import GroupBatches, OpenGroups, Shape, shape_of
from datarecs_kernel.repeated import RepeatedKeys
from datarecs_kernel.units import UnitCounter
from datarecs_kernel.whole_units import summed


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedGroups:
    """Groups with their stored data."""

    keys: pa.RecordBatch
    """Key columns, one row per group."""
    differs: Flags
    repeated: Flags
    """Sources with several rows for the key, in the form of `repeated_in`."""
    differences: Sequence[Differences]
    """Differences of rows of `keys`; those within tolerances only if the stage stores them."""


class Judge:
    """Judges the rows of open groups."""

    def __init__(
        self,
        layout: Layout,
        key: bytes,
        columns: Sequence[str],
        counted: Counted,
        shape: Shape | None = None,
    ) -> None:
        """For rows of these columns.

        Args:
            layout: of the stage.
            key: the tenant's, for masks.
            columns: names in the batches that follow.
            counted: receives all numbers.
            shape: how rows represent groups; None as in `shape_of`.
        """
        self.layout, self.stage, self.counted = layout, layout.stage, counted
        self.shape, names = shape or shape_of(layout), frozenset(columns)
        self._measures = [
            MeasureJudge(layout, each, names, key, self.shape) for each in layout.measures
        ]
        self._repeated = RepeatedKeys(layout)
        self._batches = GroupBatches(layout, self.shape)
        self._units = UnitCounter(layout, self._measures, counted, self.shape)

    def add(self, rows: pa.RecordBatch) -> JudgedGroups | None:
        """Add rows; return the groups that are now complete."""
        groups = self._batches.add(rows)
        return None if groups is None else self._judged(groups)

    def finish(self) -> JudgedGroups | None:
        """The last group."""
        groups = self._batches.finish()
        return None if groups is None else self._judged(groups)

    def _judged(self, groups: OpenGroups) -> JudgedGroups:
        everywhere = groups.masks == self.stage.everywhere
        missing, unlike = ~everywhere, np.zeros_like(everywhere)
        if self.layout.pairs_rows:
            for other in groups.sizes.T[1:]:
                unlike |= other != groups.sizes[:, 0]
            unlike &= everywhere
        if self.stage.type is StageType.CUSTOM_SQL:
            # Keys of a query must be unique: refused after everything is counted.
            missing, unlike = (groups.sizes != 1).any(axis=1), np.zeros_like(everywhere)
        differences = [
            *self._missing(groups, np.flatnonzero(missing)),
            *self._matched(groups, np.flatnonzero(~missing & ~unlike)),
            *self._unlike(groups, np.flatnonzero(unlike)),
        ]
        repeated = repeated_in(self.stage, groups.sizes)
        differs = np.zeros(len(groups), dtype=np.bool_)
        for each in differences:
            differs[each.groups[~each.within]] = True
        self._count(groups, repeated, differs, differences)
        self._count_alone(groups, ~everywhere)
        self._units.add(groups, differs)
        return JudgedGroups(
            keys=groups.first(self.layout.key_names),
            differs=differs,
            repeated=repeated != 0,
            differences=differences,
        )

    def _missing(self, groups: OpenGroups, at: Numbers) -> Iterator[Differences]:
        if len(at):
            yield Differences(
                measure=PRESENCE,
                groups=at,
                presence=groups.masks[at],
                kinds=kinds_of(DifferenceClass.MISSING, len(at)),
                within=np.zeros(len(at), np.bool_),
                odd=odd_presence(groups.masks[at], len(self.layout.sources)),
                sizes=no_sizes(len(at)),
                texts=RowCounts(groups.sizes[at]),
            )

    def _matched(self, groups: OpenGroups, at: Numbers) -> Iterator[Differences]:
        """Groups with the same number of rows in every source."""
        if not len(at):
            return
        places = self._places(groups, at)
        for measure in self._measures:
            tally = self.counted.tally(measure.plan.index)
            differences = measure.judge(groups.rows, places, tally)
            if differences is not None:
                yield differences

    def _places(self, groups: OpenGroups, at: Numbers) -> Places:
        """The places: a row per source, or one row with the values of all sources."""
        sources = self.layout.sources
        if self.shape is Shape.WIDE:
            return Places(rows=[at] * len(sources), groups=at, matched=at)
        is_single, is_repeated = (np.zeros(len(groups), np.bool_) for _ in range(2))
        has_many = groups.sizes[at, 0] > 1
        is_single[at[~has_many]], is_repeated[at[has_many]] = True, True
        group_of_row = groups.group_of_row
        single = is_single[group_of_row]
        rows = [np.flatnonzero(single & (groups.numbers(f"c{index}") > 0)) for index in sources]
        single_groups = np.flatnonzero(is_single)
        repeated = np.flatnonzero(is_repeated[group_of_row])
        if len(repeated):
            met, met_groups = self._repeated.meet(
                groups.rows.take(pa.array(repeated)), group_of_row[repeated]
            )
            rows = [np.concatenate([a, repeated[b]]) for a, b in zip(rows, met, strict=True)]
            single_groups = np.concatenate([single_groups, met_groups])
        return Places(rows=rows, groups=single_groups, matched=at)

    def _unlike(self, groups: OpenGroups, at: Numbers) -> Iterator[Differences]:
        if len(at):
            yield from self._repeated.unlike(at, groups.sizes[at], self.counted)

    def _count(
        self,
        groups: OpenGroups,
        repeated: Numbers,
        differs: Flags,
        differences: Sequence[Differences],
    ) -> None:
        kinds = {
            "mask": groups.masks,
            "repeated": repeated,
            "differs": differs,
            "odd": self._common_odds(len(groups), differences),
        }
        counts = (
            pa.table(kinds).group_by(list(kinds), use_threads=False).aggregate([([], "count_all")])
        )
        for kind in counts.to_pylist():
            odd = None if kind["odd"] == NOBODY else kind["odd"]
            place = (kind["mask"], kind["repeated"], kind["differs"], odd)
            self.counted.groups[place] += kind["count_all"]
        self.counted.opened += len(groups)
        for index, size in enumerate(groups.sizes.sum(axis=0).tolist()):
            self.counted.grouped[index] += size

    def _common_odds(self, groups: int, differences: Sequence[Differences]) -> Numbers:
        """Per group, the odd one out of all its breaks; NOBODY if there is not exactly one."""
        if len(self.layout.sources) < MIN_SOURCES_FOR_ODD:
            return np.full(groups, NOBODY)
        most, least = np.full(groups, NOBODY), np.full(groups, len(self.layout.sources))
        for each in differences:
            at, odd = each.groups[~each.within], each.odd[~each.within]
            most[at], least[at] = np.maximum(most[at], odd), np.minimum(least[at], odd)
        return np.where(most == least, most, NOBODY)

    def _count_alone(self, groups: OpenGroups, missing: Flags) -> None:
        """The finite amounts of every source in groups missing in another source, by presence."""
        for mask in np.unique(groups.masks[missing]).tolist():
            chosen = groups.masks == mask
            at = np.flatnonzero(chosen[groups.group_of_row])
            for index in self.layout.sources:
                if mask >> index & 1:
                    if self.stage.compares_multisets:
                        many = groups.sizes[chosen, index].sum().item()
                        place = (len(self._measures), index, mask)
                        self.counted.add_alone(place, Decimal(many))
                    self._add_alone(groups, at, (index, mask))

    def _add_alone(self, groups: OpenGroups, at: Numbers, place: tuple[int, int]) -> None:
        """Of rows of one source and presence mask."""
        source, mask = place
        copies = np.ones(len(at), np.int64)
        if self.shape is Shape.TUPLES:
            copies = groups.numbers(f"c{source}")[at]
        for each in self._measures:
            if each.columns and each.plan.has_total:
                values = each.columns[source].of(groups.rows).take(at)
                amount = added(each.form, values, copies)
                self.counted.add_alone((each.plan.index, source, mask), amount)


def odd_presence(masks: Numbers, sources: int) -> Numbers:
    """The only source with, or without, a group, of three or more sources; else NOBODY."""
    odd = np.full(len(masks), NOBODY)
    if sources >= MIN_SOURCES_FOR_ODD:
        everywhere = (1 << sources) - 1
        for source in range(sources):
            odd[(masks == 1 << source) | (masks == everywhere & ~(1 << source))] = source
    return odd


def repeated_in(stage: StagePlan, sizes: Numbers) -> Numbers:
    """Bits of the sources with several rows for a key; called only if rows have keys.

    Takes rows per source, or per group and source.
    """
    bits = np.zeros(sizes.shape[:-1], np.int64)
    if stage.type in (StageType.ROW, StageType.CUSTOM_SQL) and sizes.max(initial=0) > 1:
        bits = (sizes > 1) @ (1 << np.arange(sizes.shape[-1]))
    return bits


def added(form: Form, values: Values, copies: Numbers) -> Decimal:
    """The sum of finite values, each multiplied by its copies."""
    total = Decimal(0)
    for part in amounts_of(form, [values]):
        (units,) = part.units
        amount = summed(np.where(units.known, units.numbers, 0), part.of(copies))
        total = EXACT.add(total, Decimal(amount).scaleb(-part.scale, EXACT))
    return total or Decimal(0)
