"""Pair the rows of matched groups with several rows.

Rows that every source has cancel, the others are paired in canonical order; all groups of a batch
at once, by counts of equal rows and never by copies. Separate from `measures` because only here
rows must be sorted before their values are compared.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datarecs_core.comparison.planning.plan import ROWS_MEASURE
from datarecs_core.comparison.results.results import DifferenceClass
from datarecs_core.jobs.vocabulary import NanRule
from datarecs_kernel.agreeing import Agreement, is_nan
from datarecs_kernel.columns import Flags, Numbers, Values
from datarecs_kernel.counted import Counted
from datarecs_kernel.decoding import number_orders
from datarecs_kernel.differing import (
    Differences,
    NoTexts,
    RowCounts,
    Texts,
    kinds_of,
    no_sizes,
)
from datarecs_kernel.forms import INTEGER, Form, FormKind
from datarecs_kernel.layout import Layout, compared_measures


class RepeatedKeys:
    """Such groups of one stage, in rows of one tuple each."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._copies = [f"c{index}" for index in layout.sources]
        self._ordered = compared_measures(layout)
        sources, reference = len(layout.sources), layout.stage.reference
        self._counts = Agreement(ROWS_MEASURE, INTEGER, sources=sources, reference=reference)

    def meet(self, rows: pa.RecordBatch, groups: Numbers) -> tuple[list[Numbers], Numbers]:
        """Pair the rows that remain after equal ones have cancelled.

        Args:
            rows: of groups with the same number of rows in every source, with their copies.
            groups: of each row; rows of a group are consecutive.

        Returns:
            Per source the row at each place, and the group of each place. Copies of the same rows
            that are paired are one place.
        """
        values, before = self._ranks(rows)
        order = np.lexsort((*before[::-1], *values[::-1], groups))
        starts = _starts([groups[order], *(each[order] for each in values)])
        copies = np.stack([_numbers(rows, name) for name in self._copies], axis=1)[order]
        left = _cancelled(copies, starts, self._is_strict(rows)[order])
        ends = np.cumsum(left, axis=0)
        # Every source has the same number of remaining copies of a group, so places are aligned.
        places = np.unique(ends)
        places = places[places > 0]
        met = [order[np.searchsorted(each, places)] for each in ends.T]
        return met, groups[met[0]]

    def _ranks(self, rows: pa.RecordBatch) -> tuple[list[Numbers], list[Numbers]]:
        """The sort keys of rows: their values, and if these are equal their texts before rules."""
        values, before = [], []
        for _, field in self._ordered:
            payloads = rows.column(field.payload) if field.payload in rows.schema.names else None
            values.append(_value_ranks(field.form, Values(rows.column(field.name), payloads)))
            if field.changes:
                before.append(_ranks(rows.column(field.raw_order)))
        return values, before

    def _is_strict(self, rows: pa.RecordBatch) -> Flags:
        """Rows that equal no other one."""
        strict = np.zeros(rows.num_rows, np.bool_)
        for measure, field in self._ordered:
            if measure.plan.rules.nan is NanRule.UNEQUAL:
                strict |= is_nan(field.form, rows.column(field.name))
        return strict

    def unlike(self, groups: Numbers, sizes: Numbers, counted: Counted) -> Iterator[Differences]:
        """The differences to store of groups with different numbers of rows: nothing is paired.

        Args:
            groups: their places.
            sizes: rows per group and source.
            counted: updated with the groups.
        """
        stage, many = self.layout.stage, len(groups)
        judged = self._counts.judge([Values(pa.array(each)) for each in sizes.T])
        counts = RowCounts(sizes, stage.reference)
        for at, plan in enumerate((*stage.measures, ROWS_MEASURE)):
            is_rows = plan is ROWS_MEASURE
            tally, kind = counted.tally(at), DifferenceClass.MULTIPLICITY
            tally.see([many] * len(plan.tolerances), outside=many, kinds={kind: many})
            tally.reach(judged.largest if is_rows else None)
            texts: Texts = counts if is_rows else NoTexts()
            yield Differences(
                measure=plan.name,
                groups=groups,
                presence=np.full(many, stage.everywhere),
                kinds=kinds_of(kind, many),
                within=np.zeros(many, np.bool_),
                odd=judged.odd,
                sizes=pa.array(judged.sizes) if is_rows else no_sizes(many),
                texts=texts,
            )


def _starts(columns: Sequence[Numbers]) -> Numbers:
    """The first row of each run of equal sorted rows."""
    is_new = np.zeros(len(columns[0]), np.bool_)
    is_new[:1] = True
    for each in columns:
        is_new[1:] |= each[1:] != each[:-1]
    return np.flatnonzero(is_new)


def _cancelled(copies: Numbers, starts: Numbers, strict: Flags) -> Numbers:
    """Copies per row and source that remain after equal rows have cancelled; first copies first.

    Args:
        copies: of sorted rows, by source.
        starts: first row of each run of equal rows.
        strict: rows that are not equal to any row; all rows of a run or none.
    """
    common: Numbers = np.add.reduceat(copies, starts).min(axis=1)
    common[strict[starts]] = 0
    run = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(copies)))
    before = np.cumsum(copies, axis=0) - copies
    before -= before[starts][run]
    cancelled: Numbers = np.clip(common[run, np.newaxis] - before, 0, copies)
    return copies - cancelled


def _numbers(rows: pa.RecordBatch, name: str) -> Numbers:
    return np.asarray(rows.column(name).to_numpy(zero_copy_only=False), np.int64)


def _value_ranks(form: Form, values: Values) -> Numbers:
    """Ranks in canonical order: NULL, values, INVALID values; equal values have one rank."""
    plain = values.plain
    if form.kind is FormKind.NUMBER:
        plain = number_orders(plain)
    ranks = _ranks(plain)
    if values.payloads is not None and values.has_invalid:
        invalid = _ranks(values.payloads)
        ranks = np.where(invalid > 0, invalid + ranks.max(initial=0), ranks)
    return ranks


def _ranks(column: pa.Array) -> Numbers:
    """Ranks from 1; 0 for NULL."""
    ranks: Numbers = pc.rank(column, "ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    if column.null_count:
        ranks[pc.is_null(column).to_numpy(zero_copy_only=False)] = 0
    return ranks
