"""Open groups are judged here, batch by batch, as the rows of a task pass by.

Which rows of a group meet is decided here; `unequal` and `several` say what their values are to
each other. Counts go to the task's numbers, what is to be stored goes on to `storing`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import repeat

import numpy as np
import pyarrow as pa

from datarecs_core.comparison.oracle.agreement import odd_presence
from datarecs_core.comparison.planning.plan import PRESENCE, StagePlan
from datarecs_core.comparison.results.results import DifferenceClass
from datarecs_core.jobs.vocabulary import StageType
from datarecs_core.values import EXACT
from datarecs_kernel.columns import Flags, Numbers
from datarecs_kernel.counted import Counted
from datarecs_kernel.decoding import cell
from datarecs_kernel.forms import Form
from datarecs_kernel.keyless import NOBODY, Differences, Given, kinds_of
from datarecs_kernel.layout import Layout
from datarecs_kernel.open_groups import OpenGroups, Waiting
from datarecs_kernel.several import Several
from datarecs_kernel.unequal import Columns, Meeting, Unequal
from datarecs_kernel.whole_units import summed, unit_texts, units_of


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedGroups:
    """Groups with everything that is stored of them."""

    keys: pa.RecordBatch
    """Key columns, one row per group."""
    differs: Flags
    repeated: Flags
    """Some source has the key several times, as `repeated_in` has it."""
    found: Sequence[Differences]
    """Of rows of `keys`; differences within tolerances only where the stage stores them."""


class Judge:
    """Takes the rows of open groups, which come next to each other, in the columns of `opening`."""

    def __init__(
        self, layout: Layout, key: bytes, columns: Sequence[str], counted: Counted
    ) -> None:
        """For rows of these columns; the key is the tenant's, all numbers go to `counted`."""
        self.layout, self.stage, self.key, self.counted = layout, layout.stage, key, counted
        names = frozenset(columns)
        self._measures = [Unequal(layout, each, names, key) for each in layout.measures]
        self._several = Several(layout)
        self._waiting = Waiting(layout)

    def add(self, rows: pa.RecordBatch) -> JudgedGroups | None:
        """Take rows; the groups that are complete now."""
        groups = self._waiting.add(rows)
        return None if groups is None else self._judged(groups)

    def finish(self) -> JudgedGroups | None:
        """The last group."""
        groups = self._waiting.finish()
        return None if groups is None else self._judged(groups)

    def _judged(self, groups: OpenGroups) -> JudgedGroups:
        everywhere = groups.masks == self.stage.everywhere
        lacking, unlike = ~everywhere, np.zeros_like(everywhere)
        if self.layout.pairs_rows:
            unlike = everywhere & (groups.sizes != groups.sizes[:, :1]).any(axis=1)
        if self.stage.type is StageType.CUSTOM_SQL:
            # Keys of a query must be unique: refused when all is counted.
            lacking, unlike = (groups.sizes != 1).any(axis=1), np.zeros_like(everywhere)
        found = [
            *self._missing(groups, np.flatnonzero(lacking)),
            *self._matched(groups, np.flatnonzero(~lacking & ~unlike)),
            *self._unlike(groups, np.flatnonzero(unlike)),
        ]
        repeated = repeated_in(self.stage, groups.sizes)
        differs = np.zeros(len(groups), dtype=np.bool_)
        for each in found:
            differs[each.groups[~each.within]] = True
        self._count(groups, repeated, differs, found)
        self._count_alone(groups, ~everywhere)
        return JudgedGroups(
            keys=groups.first(self.layout.key_names),
            differs=differs,
            repeated=repeated != 0,
            found=found,
        )

    def _missing(self, groups: OpenGroups, at: Numbers) -> Iterator[Differences]:
        if not len(at):
            return
        masks, mask_of = np.unique(groups.masks[at], return_inverse=True)
        odd = [odd_presence(mask, len(self.layout.sources)) for mask in masks.tolist()]
        yield Differences(
            measure=PRESENCE,
            groups=at,
            presence=groups.masks[at],
            kinds=kinds_of(DifferenceClass.MISSING, len(at)),
            within=np.zeros(len(at), np.bool_),
            odd=np.array([NOBODY if each is None else each for each in odd])[mask_of],
            values=tuple(
                Given(index, unit_texts(sizes, 0), sizes > 0)
                for index, sizes in enumerate(groups.sizes[at].T)
            ),
        )

    def _matched(self, groups: OpenGroups, at: Numbers) -> Iterator[Differences]:
        """Groups with as many rows of every source."""
        if not len(at):
            return
        meeting = self._meeting(groups, at)
        for measure in self._measures:
            tally = self.counted.tally(measure.plan.index)
            yield from measure.found(groups.rows, meeting, tally)

    def _meeting(self, groups: OpenGroups, at: Numbers) -> Meeting:
        """Rows of one tuple each: a row for every source, or one that holds all."""
        sources = self.layout.sources
        if not self.layout.pairs_rows:
            return Meeting(rows=[groups.starts[at]] * len(sources), groups=at, matched=at)
        several = groups.sizes[at, 0] > 1
        wanted = np.zeros(len(groups), np.bool_)
        wanted[at[~several]] = True
        chosen = wanted[groups.group_of_row]
        rows = [np.flatnonzero(chosen & (groups.numbers(f"c{index}") > 0)) for index in sources]
        parts = [(at[~several], np.stack(rows, axis=1))]
        for group in at[several].tolist():
            met = self._several.met(groups.rows_of(group)) + groups.starts[group]
            parts.append((np.full(len(met), group), met))
        met = np.concatenate([rows for _, rows in parts])
        return Meeting(
            rows=list(met.T), groups=np.concatenate([own for own, _ in parts]), matched=at
        )

    def _unlike(self, groups: OpenGroups, at: Numbers) -> Iterator[Differences]:
        if len(at):
            yield from self._several.unlike(at, groups.sizes[at], self.counted)

    def _count(
        self, groups: OpenGroups, repeated: Numbers, differs: Flags, found: Sequence[Differences]
    ) -> None:
        kinds = {
            "mask": groups.masks,
            "repeated": repeated,
            "differs": differs,
            "odd": self._common_odds(len(groups), found),
        }
        told = (
            pa.table(kinds).group_by(list(kinds), use_threads=False).aggregate([([], "count_all")])
        )
        for kind in told.to_pylist():
            odd = None if kind["odd"] == NOBODY else kind["odd"]
            place = (kind["mask"], kind["repeated"], kind["differs"], odd)
            self.counted.groups[place] += kind["count_all"]
        self.counted.opened += len(groups)
        for index, size in enumerate(groups.sizes.sum(axis=0).tolist()):
            self.counted.grouped[index] += size

    def _common_odds(self, groups: int, found: Sequence[Differences]) -> Numbers:
        """By group the source that all its breaks name; NOBODY where they name none, or several."""
        most, least = np.full(groups, NOBODY), np.full(groups, len(self.layout.sources))
        for each in found:
            at, odd = each.groups[~each.within], each.odd[~each.within]
            most[at], least[at] = np.maximum(most[at], odd), np.minimum(least[at], odd)
        return np.where(most == least, most, NOBODY)

    def _count_alone(self, groups: OpenGroups, lacking: Flags) -> None:
        """The finite amounts of every source in groups that another lacks, by presence."""
        for mask in np.unique(groups.masks[lacking]).tolist():
            chosen = groups.masks == mask
            rows = groups.rows.filter(pa.array(chosen[groups.group_of_row]))
            present = [index for index in self.layout.sources if mask >> index & 1]
            for index in present:
                if self.stage.compares_multisets:
                    many = groups.sizes[chosen, index].sum().item()
                    self.counted.add_alone((len(self._measures), index, mask), Decimal(many))
                for each in self._measures:
                    if each.columns and each.plan.has_total:
                        copies = f"c{index}" if self.layout.pairs_rows else None
                        amount = added(each.form, each.columns[index], rows, copies)
                        self.counted.add_alone((each.plan.index, index, mask), amount)


def repeated_in(stage: StagePlan, sizes: Numbers) -> Numbers:
    """Bits of the sources that have a key several times; asked where rows have keys.

    Of rows per source, or per group and source.
    """
    if stage.type not in (StageType.ROW, StageType.CUSTOM_SQL):
        return np.zeros(sizes.shape[:-1], np.int64)
    return (sizes > 1) @ (1 << np.arange(sizes.shape[-1]))


def added(form: Form, columns: Columns, rows: pa.RecordBatch, copies: str | None) -> Decimal:
    """The sum of a column's finite values, each as often as the column `copies` says."""
    values = rows.column(columns.value)
    many = None if copies is None else rows.column(copies)
    if form.is_exact and columns.payload is None:
        numbers, _ = units_of(form, values)
        often = np.ones(len(numbers), np.int64) if many is None else many.to_numpy()
        return Decimal(summed(numbers, often)).scaleb(-form.scale, EXACT) or Decimal(0)
    payloads = repeat(None) if columns.payload is None else rows.column(columns.payload).to_pylist()
    times = repeat(1) if many is None else many.to_pylist()
    total = Decimal(0)
    for value, payload, often in zip(values.to_pylist(), payloads, times, strict=False):
        amount = cell(form, value, payload).amount
        if amount is not None:
            total = EXACT.add(total, EXACT.multiply(amount, Decimal(often)))
    return total
