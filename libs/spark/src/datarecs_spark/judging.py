"""Open groups are judged here, one after another, as the rows of a task pass by.

Which rows of a group meet is decided here; `agreeing` says what their values are to each other, and
core what is stored of a difference. Floats, and numbers wider than any decimal of Spark, are judged
by core's rules as well. What is equal is not looked at twice: only what differs costs anything.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from typing import Any

from datarecs_core.comparison.canonical import NULL, Value, canonical_order, encode_tuple, text
from datarecs_core.comparison.grouping import Cell, Group
from datarecs_core.comparison.judging import (
    DifferenceWriter,
    GroupJudgement,
    MeasureJudgement,
    equal_measure,
    judge_group,
    judge_measure,
    matched_group,
    not_comparable,
)
from datarecs_core.comparison.plan import StagePlan
from datarecs_core.comparison.results import Difference, Outcome
from datarecs_core.jobs.vocabulary import NanRule, StageType
from datarecs_core.values import EXACT
from datarecs_spark.agreeing import Agreeing, Plain
from datarecs_spark.decoding import cell, from_text
from datarecs_spark.forms import Form, FormKind
from datarecs_spark.grouping import compared_measures
from datarecs_spark.layout import Layout, MeasureLayout
from datarecs_spark.opening import FIRST

Row = tuple[Any, ...]
"""As Arrow gives it, in the order of the columns."""
Place = tuple[Row, ...]
"""One row of every source, at the same place of the canonical order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedGroup:
    """A group with everything that its task counts and stores."""

    key: tuple[Value, ...]
    typed: Row
    """The key columns as Arrow gave them."""
    sizes: tuple[int, ...]
    """Rows per source."""
    repeated: int
    """As `repeated_in` has it."""
    judgement: GroupJudgement
    differences: list[Difference]
    alone: list[tuple[int, int, Decimal]]
    """Measure, source and amount, of a group that some source lacks; rows are the last measure."""

    @property
    def common_odd(self) -> str | None:
        """The source that all breaks name; None when they differ or there is none."""
        named = {each.odd_one_out for each in self.differences if each.outcome is Outcome.BREAK}
        return named.pop() if len(named) == 1 else None


@dataclass(frozen=True, slots=True)
class _Column:
    """Where a value stands in a row: itself, its payload when INVALID, its text before rules."""

    value: int
    payload: int | None
    before: int | None


class Judge:
    """Takes the rows of open groups, which come next to each other, in the columns of `opening`."""

    def __init__(self, layout: Layout, key: bytes, columns: Sequence[str]) -> None:
        """For rows of these columns, in this order; the key is the tenant's."""
        self.layout, self.stage, self.pairs_rows = layout, layout.stage, layout.pairs_rows
        self._writer = DifferenceWriter(stage=layout.stage, key=key)
        self._at = {label: at for at, label in enumerate(columns)}
        self._first = self._at[FIRST]
        self._sizes = [self._at[f"n{index}"] for index in layout.sources]
        self._copies = [self._at.get(f"c{index}", -1) for index in layout.sources]
        self._key = [(each.form, self._column(each.name, each.payload)) for each in layout.keys]
        self._typed = [self._at[label] for label in layout.key_names]
        self._measures = [self._measure(each) for each in layout.measures]
        self._ordered = [
            (measure, field, self._column(field.name, field.payload, field.raw_order))
            for measure, field in (compared_measures(layout) if self.pairs_rows else ())
        ]
        self._rows: list[Row] = []

    def _column(self, value: str, payload: str, before: str = "") -> _Column:
        return _Column(self._at[value], self._at.get(payload), self._at.get(before))

    def _measure(self, measure: MeasureLayout) -> "_Measure":
        field, sources = measure.field, self.layout.sources
        if not measure.plan.comparable:
            columns = []
        elif self.pairs_rows and field is not None:
            columns = [self._column(field.name, field.payload, field.raw)] * len(sources)
        else:
            places = [f"{measure.index}_{index}" for index in sources]
            columns = [self._column(f"v{at}", f"x{at}", f"r{at}") for at in places]
        return _Measure(self.layout, measure, columns)

    def add(self, rows: Iterable[Row]) -> Iterator[JudgedGroup]:
        """Take rows; yields every group that is complete."""
        for row in rows:
            if row[self._first]:
                yield from self.finish()
            self._rows.append(row)

    def finish(self) -> Iterator[JudgedGroup]:
        """The last group."""
        if self._rows:
            rows, self._rows = self._rows, []
            yield self._judged(rows)

    def _judged(self, rows: Sequence[Row]) -> JudgedGroup:
        first = rows[0]
        sizes = [first[at] for at in self._sizes]
        mask = sum(1 << index for index, size in enumerate(sizes) if size)
        if self.layout.always_present:
            mask = self.stage.everywhere
        key = tuple(_value(form, first, column) for form, column in self._key)
        group = Group(key, [[()] * size for size in sizes], collapsed_from=sizes)
        if self.stage.type is StageType.CUSTOM_SQL and max(sizes) > 1:
            judgement = GroupJudgement(mask=mask, matched=False)  # refused when all is counted
        elif mask != self.stage.everywhere or (self.pairs_rows and len(set(sizes)) > 1):
            judgement = judge_group(self.stage, group, mask)
        else:
            judgement = self._compared(rows, sizes)
        return JudgedGroup(
            key=key,
            typed=tuple(first[at] for at in self._typed),
            sizes=tuple(sizes),
            repeated=repeated_in(self.stage, sizes),
            judgement=judgement,
            differences=self._writer.rows(encode_tuple(key), group, judgement),
            alone=[] if mask == self.stage.everywhere else list(self._alone(rows, sizes)),
        )

    def _alone(
        self, rows: Sequence[Row], sizes: Sequence[int]
    ) -> Iterator[tuple[int, int, Decimal]]:
        """The finite amounts of every source in a group that another lacks."""
        for index in (index for index, size in enumerate(sizes) if size):
            if self.stage.compares_multisets:
                yield len(self.layout.measures), index, Decimal(sizes[index])
            for each in self._measures:
                if each.columns and each.plan.has_total:
                    yield each.plan.index, index, self._amount(each, index, rows)

    def _amount(self, measure: "_Measure", index: int, rows: Sequence[Row]) -> Decimal:
        total, at = Decimal(0), self._copies[index]
        for row in rows:
            amount = _value(measure.form, row, measure.columns[index]).amount
            if amount is not None:
                copies = row[at] if self.pairs_rows else 1
                total = EXACT.add(total, EXACT.multiply(amount, Decimal(copies)))
        return total

    def _compared(self, rows: Sequence[Row], sizes: Sequence[int]) -> GroupJudgement:
        """A group whose rows can be paired."""
        if not self.pairs_rows:
            places = [(rows[0],) * len(sizes)]
        elif max(sizes) == 1:
            places = [tuple(next(row for row in rows if row[at]) for at in self._copies)]
        else:
            places = self._paired(rows)
        return matched_group(self.stage, [each.judged(places) for each in self._measures])

    def _paired(self, rows: Sequence[Row]) -> list[Place]:
        """What is left of every source once equal rows have cancelled, in canonical order."""
        found = sorted((self._named(row) for row in rows), key=itemgetter(0))
        left: list[list[Row]] = [[] for _ in self.layout.sources]
        for _, alike in groupby(found, key=itemgetter(1)):
            named = list(alike)
            copies = [sum(row[at] for *_, row in named) for at in self._copies]
            common = 0 if named[0][2] else min(copies)
            for at, kept in zip(self._copies, left, strict=True):
                cancelling = common
                for *_, row in named:
                    cancelled = min(row[at], cancelling)
                    cancelling -= cancelled
                    kept.extend([row] * (row[at] - cancelled))
        return list(zip(*left, strict=True))

    def _named(self, row: Row) -> tuple[object, bytes, bool, Row]:
        """What sorts a row, its values' encoding, whether it equals no other, and the row."""
        values, before, strict = [], [], False
        for measure, field, column in self._ordered:
            value = _value(field.form, row, column)
            values.append(value)
            strict |= value.is_nan and measure.plan.rules.nan is NanRule.UNEQUAL
            if column.before is not None:
                written = row[column.before]
                before.append((written is not None, written))
        return (
            ([canonical_order(value) for value in values], before),
            encode_tuple(values),
            strict,
            row,
        )


def repeated_in(stage: StagePlan, sizes: Sequence[int]) -> int:
    """Bits of the sources that have the key several times; asked where rows have keys."""
    if stage.type not in (StageType.ROW, StageType.CUSTOM_SQL):
        return 0
    return sum(1 << index for index, size in enumerate(sizes) if size > 1)


class _Measure:
    """One measure at the places of a group."""

    def __init__(self, layout: Layout, measure: MeasureLayout, columns: Sequence[_Column]) -> None:
        """`columns` hold its values by source; there are none where it is not comparable."""
        self.layout, self.measure, self.columns = layout, measure, columns
        self.plan, self.form = measure.plan, measure.result
        self.reference = layout.stage.reference
        self.agreeing: Agreeing | None = None
        if columns and Agreeing.covers(measure.result):
            self.agreeing = Agreeing(
                self.plan, measure.result, sources=len(columns), reference=self.reference
            )
        self.nan_is_equal = self.agreeing is not None or self.plan.rules.nan is not NanRule.UNEQUAL

    def judged(self, places: Sequence[Place]) -> MeasureJudgement:
        if not self.columns:
            return not_comparable(len(self.plan.tolerances))
        values = [self._plain(place) for place in places]
        unequal = [at for at, each in enumerate(values) if any(one != each[0] for one in each)]
        if not unequal and self.nan_is_equal:
            return equal_measure(len(self.plan.tolerances))
        if self.agreeing is None:
            cells = [self._cells(place) for place in places]
            return judge_measure(self.plan, cells, self.reference)
        found = [self.agreeing.found(values[at]) for at in unequal]
        outside = [at for at, each in enumerate(found) if not each.within]
        first = (outside or [0])[0]
        sizes = [each.largest for each in found if each.largest is not None]
        return MeasureJudgement(
            equal=False,
            within=not outside,
            own_within=tuple(map(all, zip(*(each.own_within for each in found), strict=True))),
            difference_class=self.agreeing.class_of([found[at] for at in outside]),
            shown=self._cells(places[unequal[first]]),
            odd_one_out=self.agreeing.odd_one_out(found[first]) if outside else None,
            largest_delta=max(sizes, default=None),
        )

    def _plain(self, place: Place) -> list[Plain]:
        return [
            (row[column.value], _payload(row, column))
            for column, row in zip(self.columns, place, strict=True)
        ]

    def _cells(self, place: Place) -> tuple[Cell, ...]:
        return tuple(map(self._cell, place, self.columns))

    def _cell(self, row: Row, column: _Column) -> Cell:
        value = _value(self.form, row, column)
        if column.before is None or not self.measure.changes:
            return Cell(value, value)
        before = row[column.before]
        if before is None:
            return Cell(NULL, value)
        lossless = self.form.kind is FormKind.DOUBLE and not self.layout.pairs_rows
        return Cell(from_text(self.form, before) if lossless else text(before), value)


def _payload(row: Row, column: _Column) -> bytes | None:
    return None if column.payload is None else row[column.payload]


def _value(form: Form, row: Row, column: _Column) -> Value:
    return cell(form, row[column.value], _payload(row, column))
