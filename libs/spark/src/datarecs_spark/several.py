"""Groups that every source has, some with several rows: put side by side, one after another.

What every source has cancels, the rest meets in canonical order and is judged as `unequal` does.
Apart from `unequal` because rows must be ordered here before values can meet.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa

from datarecs_core.comparison.canonical import NULL, canonical_order, encode_tuple, text
from datarecs_core.comparison.grouping import Cell, Group
from datarecs_core.comparison.judging import (
    GroupJudgement,
    MeasureJudgement,
    equal_measure,
    judge_group,
    judge_measure,
    matched_group,
    not_comparable,
)
from datarecs_core.jobs.vocabulary import NanRule
from datarecs_spark.agreeing import Plain
from datarecs_spark.decoding import cell
from datarecs_spark.forms import Form
from datarecs_spark.grouping import compared_measures
from datarecs_spark.layout import Layout
from datarecs_spark.unequal import Columns, Unequal

Row = dict[str, Any]
"""As Arrow gives it, by column."""
Place = tuple[Row, ...]
"""One row of every source, at the same place of the canonical order."""


class Several:
    """Such groups of one stage."""

    def __init__(self, layout: Layout, measures: Sequence[Unequal]) -> None:
        self.layout, self.stage, self.measures = layout, layout.stage, measures
        self._copies = [f"c{index}" for index in layout.sources]
        self._ordered = [
            (field, measures[measure.index]) for measure, field in compared_measures(layout)
        ]

    def judged(self, rows: pa.RecordBatch, sizes: list[int]) -> GroupJudgement:
        """Of one group: its rows in the columns of `opening`, and how many each source has."""
        if len(set(sizes)) > 1:
            group = Group((), [[()] * size for size in sizes])
            return judge_group(self.stage, group, self.stage.everywhere)
        places = self._paired(rows.to_pylist())
        return matched_group(self.stage, [_compared(each, places) for each in self.measures])

    def _paired(self, rows: Sequence[Row]) -> list[Place]:
        """What is left of every source once equal rows have cancelled, in canonical order."""
        found = sorted((self._named(row) for row in rows), key=itemgetter(0))
        left: list[list[Row]] = [[] for _ in self.layout.sources]
        for _, alike in groupby(found, key=itemgetter(1)):
            named = list(alike)
            copies = [sum(row[label] for *_, row in named) for label in self._copies]
            common = 0 if named[0][2] else min(copies)
            for label, kept in zip(self._copies, left, strict=True):
                cancelling = common
                for *_, row in named:
                    cancelled = min(row[label], cancelling)
                    cancelling -= cancelled
                    kept.extend([row] * (row[label] - cancelled))
        return list(zip(*left, strict=True))

    def _named(self, row: Row) -> tuple[object, bytes, bool, Row]:
        """What sorts a row, its values' encoding, whether it equals no other, and the row."""
        values, before, strict = [], [], False
        for field, measure in self._ordered:
            value = cell(field.form, row[field.name], row.get(field.payload))
            values.append(value)
            strict |= value.is_nan and measure.plan.rules.nan is NanRule.UNEQUAL
            if field.changes:
                written = row[field.raw_order]
                before.append((written is not None, written))
        return (
            ([canonical_order(value) for value in values], before),
            encode_tuple(values),
            strict,
            row,
        )


def _compared(measure: Unequal, places: Sequence[Place]) -> MeasureJudgement:
    plan, form = measure.plan, measure.form
    if not measure.columns:
        return not_comparable(len(plan.tolerances))
    columns = measure.columns[0]
    values = [[_plain(row, columns) for row in each] for each in places]
    unequal = [at for at, each in enumerate(values) if any(one != each[0] for one in each)]
    strict = measure.agreeing is None and plan.rules.nan is NanRule.UNEQUAL
    if not unequal and not strict:
        return equal_measure(len(plan.tolerances))
    if measure.agreeing is None:
        cells = [[_cell(form, row, columns) for row in each] for each in places]
        return judge_measure(plan, cells, measure.stage.reference)
    found = [measure.agreeing.found(values[at]) for at in unequal]
    outside = [at for at, each in enumerate(found) if not each.within]
    first = (outside or [0])[0]
    return MeasureJudgement(
        equal=False,
        within=not outside,
        own_within=tuple(map(all, zip(*(each.own_within for each in found), strict=True))),
        difference_class=measure.agreeing.class_of([found[at] for at in outside]),
        shown=tuple(_cell(form, row, columns) for row in places[unequal[first]]),
        odd_one_out=measure.agreeing.odd_one_out(found[first]) if outside else None,
        largest_delta=measure.agreeing.largest(found),
    )


def _plain(row: Row, columns: Columns) -> Plain:
    return row[columns.value], None if columns.payload is None else row[columns.payload]


def _cell(form: Form, row: Row, columns: Columns) -> Cell:
    value = cell(form, *_plain(row, columns))
    if columns.before is None:
        return Cell(value, value)
    before = row[columns.before]
    return Cell(NULL if before is None else text(before), value)
