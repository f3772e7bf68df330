"""Groups that SQL cannot judge or write exactly, judged by core's own rules, group by group.

Floats, numbers beyond 38 digits and years beyond 9999 come here (spec comparison 12, E3), and only
those of their groups that are not equal everywhere.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from datarecs_core.comparison.canonical import NULL, Value, encode_tuple
from datarecs_core.comparison.grouping import Cell, Group
from datarecs_core.comparison.judging import DifferenceWriter, GroupJudgement, judge_group
from datarecs_core.comparison.results import Difference, Outcome
from datarecs_spark.decoding import cell_of, text_value
from datarecs_spark.forms import FormKind
from datarecs_spark.layout import Layout, MeasureLayout

Row = Mapping[str, Any]
"""A judged row of kind RESIDUE, as Arrow gives it."""
Places = list[tuple[tuple[Cell, ...], ...]]
"""Per place one row of cells per source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedGroup:
    """A group of the residue with everything that its task counts and stores."""

    row: Row
    """Its first row: key columns, counts, totals."""
    judgement: GroupJudgement
    differences: list[Difference]

    @property
    def common_odd(self) -> str | None:
        """The source that all breaks name; None when they differ or there is none."""
        named = {each.odd_one_out for each in self.differences if each.outcome is Outcome.BREAK}
        return named.pop() if len(named) == 1 else None


@dataclass(slots=True)
class Residue:
    """Collects the rows of one group after another; they come next to each other."""

    layout: Layout
    key: bytes
    _rows: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> Iterator[JudgedGroup]:
        """Take a row; yields the group before it, once that is complete."""
        if self._rows and _identity(self._rows[0]) != _identity(row):
            yield from self.finish()
        self._rows.append(row)

    def finish(self) -> Iterator[JudgedGroup]:
        """The last group."""
        if self._rows:
            rows, self._rows = self._rows, []
            yield self._judged(rows)

    def _judged(self, rows: list[Row]) -> JudgedGroup:
        first = rows[0]
        group = self._group(first, rows)
        judgement = judge_group(self.layout.stage, group, first["mask"])
        writer = DifferenceWriter(stage=self.layout.stage, key=self.key)
        found = writer.rows(encode_tuple(group.key), group, judgement)
        return JudgedGroup(row=first, judgement=judgement, differences=found)

    def _group(self, first: Row, rows: list[Row]) -> Group:
        sizes = [first[f"n{index}"] for index in self.layout.sources]
        if self.layout.pairs_rows and len(set(sizes)) > 1:
            # Only how many they are is asked of rows that cannot be paired.
            made: list[list[tuple[Cell, ...]]] = [[()] * size for size in sizes]
        else:
            places = [self._cells(row) for row in rows if row["at"] > 0]
            made = [
                [place[index] for place in places] if first["mask"] >> index & 1 else []
                for index in self.layout.sources
            ]
        return Group(self.key_of(first), made, collapsed_from=sizes)

    def key_of(self, row: Row) -> tuple[Value, ...]:
        """The group's key as canonical values."""
        return tuple(
            cell_of(field.form, cell, payload)
            for field, cell, payload in zip(
                self.layout.keys, row["key_cells"], row["key_payloads"], strict=True
            )
        )

    def _cells(self, row: Row) -> tuple[tuple[Cell, ...], ...]:
        sources = len(self.layout.sources)
        cells: list[list[Cell]] = [[] for _ in self.layout.sources]
        at = before = 0
        for measure in self.layout.measures:
            for index in self.layout.sources:
                if not measure.plan.comparable:
                    cells[index].append(Cell(NULL, NULL))
                    continue
                cells[index].append(self._cell(measure, row, at + index, before + index))
            at += sources if measure.plan.comparable else 0
            before += sources if measure.plan.comparable and measure.changes else 0
        return tuple(tuple(each) for each in cells)

    def _cell(self, measure: MeasureLayout, row: Row, at: int, before: int) -> Cell:
        value = cell_of(measure.result, row["cells"][at], row["payloads"][at])
        if not measure.changes:
            return Cell(value, value)
        written = row["befores"][before]
        if measure.result.kind is FormKind.DOUBLE and not self.layout.pairs_rows:
            return Cell(cell_of(measure.result, written, None), value)
        return Cell(text_value(written), value)


def _identity(row: Row) -> tuple[object, ...]:
    return (*row["key_cells"], *row["key_payloads"])
