"""What the judge counts beside differences: repeated keys, units, rows of a query, odd measures."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from datarecs_core.comparison.planning.plan import PRESENCE, StagePlan
from datarecs_core.comparison.results.results import DifferenceClass
from datarecs_core.jobs.vocabulary import StageType
from datarecs_kernel.counted import Counted
from datarecs_kernel.differing import KINDS
from datarecs_kernel.judging import Judge, JudgedGroups, repeated_in
from datarecs_kernel.layout import Layout, PlainColumns, layout_of
from datarecs_kernel.open_groups import FIRST, Shape
from datarecs_testing.comparisons import a_measure, rows_by
from datarecs_testing.tables import a_job, a_table, plan_of

KEY = b"k" * 80
Sizes = Sequence[tuple[int, int]]
"""Rows of a group in both sources."""


def a_stage(columns: str, keys: str, *measures: str) -> StagePlan:
    """A row stage of two sources."""
    tables = [a_table(name, columns) for name in ("one", "two")]
    job = a_job(tables, rows_by(keys, *map(a_measure, measures)))
    return plan_of(job, tables).stages[0]


def layout_for(stage: StagePlan) -> Layout:
    return layout_of(stage, [PlainColumns()] * 2)


def judged(
    stage: StagePlan, sizes: Sizes, columns: dict[str, Sequence[object]], shape: Shape
) -> tuple[list[JudgedGroups], Counted]:
    """Groups of one tuple each, whose copies are the rows of the sources."""
    head: dict[str, Sequence[object]] = {FIRST: [True] * len(sizes)}
    for at, counts in enumerate(zip(*sizes, strict=True)):
        head[f"n{at}"] = counts
        if shape is Shape.TUPLES:
            head[f"c{at}"] = counts
    rows = pa.RecordBatch.from_pydict(head | columns)
    counted = Counted(2)
    judge = Judge(layout_for(stage), KEY, rows.schema.names, counted, shape)
    batches = [judge.add(rows), judge.finish()]
    return [each for each in batches if each is not None], counted


@pytest.mark.parametrize(
    ("sizes", "bits"),
    [
        ([1, 2, 3], 0b110),
        ([1, 1, 0], 0),
        ([[1, 1], [2, 0], [1, 2], [3, 2]], [0, 0b01, 0b10, 0b11]),
        ([[1, 1], [0, 1]], [0, 0]),
        (np.empty((0, 2), np.int64), []),
    ],
)
def test_a_bit_says_which_sources_repeat_a_key(sizes: list[int], bits: list[int]) -> None:
    stage = a_stage("k int, a int", "k", "a")
    repeated = np.asarray(repeated_in(stage, np.asarray(sizes)))
    assert repeated.tolist() == bits
    assert repeated.dtype == np.dtype(np.int64)


def test_groups_of_an_aggregate_repeat_no_key() -> None:
    stage = replace(a_stage("k int, a int", "k", "a"), type=StageType.AGGREGATE)
    assert repeated_in(stage, np.array([[2, 5]])).tolist() == [0]


@pytest.mark.parametrize("shape", Shape)
def test_amounts_of_two_units_are_counted_apart(shape: Shape) -> None:
    """A tuple has one amount for both sources; a wide row has one for each."""
    stage = a_stage("k int, ccy text, a int", "k ccy", "a")
    sizes = [(1, 1), (1, 0), (0, 1)] if shape is Shape.WIDE else [(2, 2), (3, 0), (0, 1)]
    columns: dict[str, Sequence[object]] = {"k0": [0, 1, 2], "k1": ["EUR", "EUR", "USD"]}
    if shape is Shape.WIDE:
        columns |= {"v0_0": [10, 5, None], "v0_1": [11, None, 7]}
        both, here, there = (10, 11), 5, 7
    else:
        columns |= {"m0": [10, 5, 7]}
        both, here, there = (20, 20), 15, 7
    groups, counted = judged(stage, sizes, columns, shape)
    assert counted.unit_groups == {("EUR", 0b11): 1, ("EUR", 0b01): 1, ("USD", 0b10): 1}
    differing = sum(each.differs.sum() for each in groups)
    assert counted.unit_differing == {"EUR": differing - 1, "USD": 1}
    assert counted.unit_amounts == {
        (0, 0, 0b11, "EUR"): Decimal(both[0]),
        (0, 1, 0b11, "EUR"): Decimal(both[1]),
        (0, 0, 0b01, "EUR"): Decimal(here),
        (0, 1, 0b10, "USD"): Decimal(there),
    }


def test_each_key_of_a_query_has_one_row_in_every_source() -> None:
    stage = replace(a_stage("k int, a int", "k", "a"), type=StageType.CUSTOM_SQL)
    sizes = [(1, 1), (2, 1), (2, 2), (0, 1), (1, 1)]
    columns: dict[str, Sequence[object]] = {"k0": range(5), "m0": [7] * 5}
    groups, counted = judged(stage, sizes, columns, Shape.TUPLES)
    keys = [key for each in groups for key in each.keys.column("k0").to_pylist()]
    differs = [flag for each in groups for flag in each.differs.tolist()]
    repeated = [flag for each in groups for flag in each.repeated.tolist()]
    assert keys == [0, 1, 2, 3, 4]
    assert differs == [False, True, True, True, False]
    assert repeated == [False, True, True, False, False]
    names = {each.measure for batch in groups for each in batch.differences}
    assert names == {PRESENCE}
    assert counted.opened == len(sizes)


@pytest.mark.parametrize("shape", Shape)
def test_a_measure_without_a_common_type_differs_in_every_matched_group(shape: Shape) -> None:
    stage = a_stage("k int, a int, b int", "k", "a", "b")
    first, second = stage.measures
    stage = replace(stage, measures=(first, replace(second, comparable=False)))
    columns: dict[str, Sequence[object]] = {"k0": range(3)}
    columns |= {"v0_0": [1] * 3, "v0_1": [1] * 3} if shape is Shape.WIDE else {"m0": [1] * 3}
    groups, counted = judged(stage, [(1, 1), (1, 0), (1, 1)], columns, shape)
    written = [
        (each.measure, KINDS[kind], batch.keys.column("k0")[group].as_py())
        for batch in groups
        for each in batch.differences
        for group, kind in zip(each.groups.tolist(), each.kinds.tolist(), strict=True)
        if each.measure != PRESENCE
    ]
    assert written == [("b", DifferenceClass.NOT_COMPARABLE, key) for key in (0, 2)]
    assert counted.tally(1).outside == len(written)
