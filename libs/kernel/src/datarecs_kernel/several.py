"""Groups that every source has, some with several rows: which of their rows meet.

What every source has cancels, the rest meets in canonical order. Apart from `unequal` because only
here rows must be ordered, one group after another, before values can meet.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from datarecs_core.comparison.oracle.judging import ROWS_MEASURE
from datarecs_core.comparison.planning.plan import ROWS
from datarecs_core.comparison.results.results import DifferenceClass
from datarecs_core.comparison.values.canonical import canonical_order, encode_tuple
from datarecs_core.jobs.vocabulary import NanRule
from datarecs_kernel.agreeing import Agreeing
from datarecs_kernel.columns import Numbers, Values
from datarecs_kernel.counted import Counted
from datarecs_kernel.decoding import cell
from datarecs_kernel.forms import INTEGER
from datarecs_kernel.keyless import NO_DELTAS, Differences, Given, changes_of, deltas_of, kinds_of
from datarecs_kernel.layout import Layout, compared_measures
from datarecs_kernel.whole_units import largest_of, unit_key, unit_texts

_Row = dict[str, Any]
"""As Arrow gives it, by column."""


class Several:
    """Such groups of one stage."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._copies = [f"c{index}" for index in layout.sources]
        self._ordered = compared_measures(layout)
        sources, reference = len(layout.sources), layout.stage.reference
        self._rows = Agreeing(ROWS_MEASURE, INTEGER, sources=sources, reference=reference)

    def met(self, rows: pa.RecordBatch) -> Numbers:
        """Of one group of as many rows in every source: a line per place, a row per source."""
        told = [self._named(at, row) for at, row in enumerate(rows.to_pylist())]
        left: list[list[int]] = [[] for _ in self.layout.sources]
        for _, alike in groupby(sorted(told, key=itemgetter(0)), key=itemgetter(1)):
            named = list(alike)
            copies = [sum(row[label] for *_, row in named) for label in self._copies]
            common = 0 if named[0][2] else min(copies)
            for label, kept in zip(self._copies, left, strict=True):
                cancelling = common
                for *_, at, row in named:
                    cancelled = min(row[label], cancelling)
                    cancelling -= cancelled
                    kept.extend([at] * (row[label] - cancelled))
        return np.array(left, np.int64).T

    def _named(self, at: int, row: _Row) -> tuple[object, bytes, bool, int, _Row]:
        """What sorts a row, its values' encoding, whether it equals no other, and the row."""
        values, before, strict = [], [], False
        for measure, field in self._ordered:
            value = cell(field.form, row[field.name], row.get(field.payload))
            values.append(value)
            strict |= value.is_nan and measure.plan.rules.nan is NanRule.UNEQUAL
            if field.changes:
                written = row[field.raw_order]
                before.append((written is not None, written))
        order = ([canonical_order(value) for value in values], before)
        return order, encode_tuple(values), strict, at, row

    def unlike(self, groups: Numbers, sizes: Numbers, counted: Counted) -> Iterator[Differences]:
        """What is stored of groups with other numbers of rows in some source: nothing is paired.

        Args:
            groups: their places.
            sizes: rows per group and source.
            counted: where they are counted.
        """
        stage, many = self.layout.stage, len(groups)
        found = self._rows.found([Values(pa.array(each)) for each in sizes.T])
        changes = changes_of(found.units, stage.reference)
        everywhere = np.ones(many, np.bool_)
        rows = Differences(
            measure=ROWS,
            groups=groups,
            presence=np.full(many, stage.everywhere),
            kinds=kinds_of(DifferenceClass.MULTIPLICITY, many),
            within=~everywhere,
            odd=found.odd,
            values=tuple(
                Given(index, unit_texts(each, 0), everywhere) for index, each in enumerate(sizes.T)
            ),
            deltas=deltas_of(changes, sizes[:, stage.reference], 0),
        )
        for at, plan in enumerate((*stage.measures, ROWS_MEASURE)):
            not_own = [many] * len(plan.tolerances)
            counted.tally(at).see(not_own, outside=many, kinds={DifferenceClass.MULTIPLICITY: many})
            if plan is not ROWS_MEASURE:
                yield replace(rows, measure=plan.name, values=(), deltas=NO_DELTAS)
        largest = max(largest_of(each.numbers) for each in changes.values())
        counted.tally(len(stage.measures)).reach(unit_key(largest, 0))
        yield rows
