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
import pyarrow.compute as pc

from datarecs_core.comparison.agreement import MIN_SOURCES_FOR_ODD
from datarecs_core.comparison.judging import ROWS_MEASURE
from datarecs_core.comparison.plan import StagePlan
from datarecs_core.jobs.vocabulary import StageType
from datarecs_core.values import EXACT
from datarecs_spark.counted import Counted
from datarecs_spark.decoding import cell
from datarecs_spark.forms import Form
from datarecs_spark.keyless import keyless_of, missing
from datarecs_spark.layout import Layout
from datarecs_spark.open_groups import Flags, Numbers, OpenGroups, Waiting
from datarecs_spark.several import Several
from datarecs_spark.unequal import Columns, Found, Unequal

_INT_DIGITS = 19
"""Of an integer of 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedGroups:
    """Groups with everything that is stored of them."""

    keys: pa.RecordBatch
    """Key columns, one row per group."""
    differs: Flags
    repeated: Flags
    """Some source has the key several times, as `repeated_in` has it."""
    found: Sequence[Found]
    """Differences by row of `keys`."""


class Judge:
    """Takes the rows of open groups, which come next to each other, in the columns of `opening`."""

    def __init__(
        self, layout: Layout, key: bytes, columns: Sequence[str], counted: Counted
    ) -> None:
        """For rows of these columns; the key is the tenant's, all numbers go to `counted`."""
        self.layout, self.stage, self.key, self.counted = layout, layout.stage, key, counted
        names = frozenset(columns)
        self._measures = [Unequal(layout, each, names, key) for each in layout.measures]
        self._several = Several(layout, self._measures)
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
        everywhere = np.array([mask == self.stage.everywhere for mask in groups.masks])
        single = everywhere
        if self.layout.pairs_rows:
            single = everywhere & (groups.sizes == 1).all(axis=1)
        found = [
            *self._missing(groups, ~everywhere),
            *self._single(groups, single),
            *self._of_several(groups, everywhere & ~single),
        ]
        differs = np.zeros(len(groups), dtype=np.bool_)
        differs[[at for at, each in found if not each.within]] = True
        kinds, kind_of = np.unique(groups.sizes, axis=0, return_inverse=True)
        told = [repeated_in(self.stage, sizes) for sizes in kinds.tolist()]
        repeated = [told[kind] for kind in kind_of.tolist()]
        self._count(groups, repeated, differs, found)
        self._count_alone(groups, ~everywhere)
        return JudgedGroups(
            keys=groups.first.select(self.layout.key_names),
            differs=differs,
            repeated=np.array(repeated) != 0,
            found=found,
        )

    def _missing(self, groups: OpenGroups, lacking: Flags) -> Iterator[Found]:
        """Groups of the same sizes share what is stored of them, and come one after another."""
        at = np.flatnonzero(lacking)
        kinds, kind_of = np.unique(groups.sizes[at], axis=0, return_inverse=True)
        for kind, sizes in enumerate(kinds.tolist()):
            own = at[kind_of == kind].tolist()
            yield from zip(own, repeat(missing(tuple(sizes), groups.masks[own[0]])))

    def _single(self, groups: OpenGroups, single: Flags) -> Iterator[Found]:
        """Groups with one row of every source: a row for each, or one that holds all."""
        at = np.flatnonzero(single)
        if not len(at):
            return
        places: list[Numbers] = [groups.starts[at]] * len(self.layout.sources)
        if self.layout.pairs_rows:
            wanted = single[groups.group_of_row]
            copies = [groups.numbers(f"c{index}") for index in self.layout.sources]
            places = [np.flatnonzero(wanted & (own > 0)) for own in copies]
        for measure in self._measures:
            tally = self.counted.tally(measure.plan.index)
            for place, difference in measure.found(groups.rows, places, tally):
                yield int(at[place]), difference

    def _of_several(self, groups: OpenGroups, several: Flags) -> Iterator[Found]:
        for at in np.flatnonzero(several).tolist():
            sizes = groups.sizes[at].tolist()
            if self.stage.type is StageType.CUSTOM_SQL:
                # Keys of a query must be unique: refused when all is counted.
                yield at, missing(tuple(sizes), groups.masks[at])
                continue
            judged = self._several.judged(groups.rows_of(at), sizes).all_measures
            plans = (*self.stage.measures, ROWS_MEASURE)
            for plan, (index, each) in zip(plans, enumerate(judged), strict=False):
                self.counted.tally(index).count(each)
                if not each.equal:
                    yield at, keyless_of(self.stage, plan, each, self.key)

    def _count(
        self,
        groups: OpenGroups,
        repeated: Sequence[int],
        differs: Flags,
        found: Sequence[Found],
    ) -> None:
        odd = _common_odds(found) if len(self.layout.sources) >= MIN_SOURCES_FOR_ODD else {}
        odds = map(odd.get, range(len(groups)))
        self.counted.opened += len(groups)
        self.counted.groups.update(zip(groups.masks, repeated, differs.tolist(), odds, strict=True))
        for index, size in enumerate(groups.sizes.sum(axis=0).tolist()):
            self.counted.grouped[index] += size

    def _count_alone(self, groups: OpenGroups, lacking: Flags) -> None:
        """The finite amounts of every source in groups that another lacks, by presence."""
        masks = np.array(groups.masks, dtype=np.uint64)
        for mask in set(masks[lacking].tolist()):
            chosen = masks == mask
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


def repeated_in(stage: StagePlan, sizes: Sequence[int]) -> int:
    """Bits of the sources that have the key several times; asked where rows have keys."""
    if stage.type not in (StageType.ROW, StageType.CUSTOM_SQL):
        return 0
    return sum(1 << index for index, size in enumerate(sizes) if size > 1)


def _common_odds(found: Sequence[Found]) -> dict[int, int | None]:
    """By group the source that all its breaks name; None where they name none, or several."""
    named: dict[int, int | None] = {}
    for at, each in found:
        if not each.within:
            named[at] = each.odd if named.get(at, each.odd) == each.odd else None
    return named


def added(form: Form, columns: Columns, rows: pa.RecordBatch, copies: str | None) -> Decimal:
    """The sum of a column's finite values, each as often as the column `copies` says."""
    values = rows.column(columns.value)
    many = None if copies is None else rows.column(copies)
    if form.is_exact and columns.payload is None:
        exact = values.cast(pa.decimal256(max(form.precision, _INT_DIGITS), form.scale))
        if many is not None:
            exact = pc.multiply(exact, many.cast(pa.decimal256(_INT_DIGITS, 0)))
        return pc.sum(exact).as_py() or Decimal(0)
    payloads = repeat(None) if columns.payload is None else rows.column(columns.payload).to_pylist()
    times = repeat(1) if many is None else many.to_pylist()
    total = Decimal(0)
    for value, payload, often in zip(values.to_pylist(), payloads, times, strict=False):
        amount = cell(form, value, payload).amount
        if amount is not None:
            total = EXACT.add(total, EXACT.multiply(amount, Decimal(often)))
    return total
