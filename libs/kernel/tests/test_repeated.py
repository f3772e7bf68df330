"""Keys that repeat: rows cancel and meet by counts, whatever their copies."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from datarecs_core.comparison.results.results import DifferenceClass
from datarecs_core.jobs.vocabulary import NanRule
from datarecs_kernel.counted import Counted
from datarecs_kernel.differing import KINDS, Differences
from datarecs_kernel.judging import Judge
from datarecs_kernel.layout import Layout, PlainColumns, layout_of
from datarecs_testing.comparisons import a_measure, rows_by
from datarecs_testing.tables import a_job, a_table, plan_of

MANY = 10**5


def a_layout() -> Layout:
    tables = [a_table(name, "k int, a int, b float64") for name in ("one", "two")]
    stage = plan_of(a_job(tables, rows_by("k", a_measure("a"), a_measure("b"))), tables).stages[0]
    return layout_of(stage, [PlainColumns()] * 2)


def judged(
    layout: Layout, values: list[int], floats: list[float], copies: list[tuple[int, int]]
) -> tuple[list[Differences], Counted]:
    """One group of such tuples."""
    counts = np.array(copies)
    rows = len(values)
    columns = {
        "k0": np.zeros(rows, np.int64),
        "m0": pa.array(values, pa.int64()),
        "m1": pa.array(floats, pa.float64()),
        **{f"n{at}": np.full(rows, counts[:, at].sum()) for at in range(2)},
        **{f"c{at}": counts[:, at] for at in range(2)},
        "is_first": np.arange(rows) == 0,
    }
    counted = Counted(2)
    judge = Judge(layout, b"k" * 32, list(columns), counted)
    assert judge.add(pa.RecordBatch.from_pydict(columns)) is None or rows == 0
    groups = judge.finish()
    assert groups is not None
    return list(groups.found), counted


@pytest.mark.case("P26")
def test_copies_are_counted_and_never_multiplied_or_repeated() -> None:
    billions = 10**12
    differences, _ = judged(
        a_layout(), [1, 2, 3], [0.5, 0.5, 0.5], [(billions, 1), (1, 1), (1, billions)]
    )
    (only,) = differences
    texts = only.written(np.array([0]))
    assert [each.texts.to_pylist() for each in texts.values] == [["1"], ["3"]]
    assert [each.texts.to_pylist() for each in texts.deltas] == [["2"]]


@pytest.mark.case("P26")
def test_many_different_rows_of_one_key_meet_in_order() -> None:
    values = list(range(2 * MANY))[::-1]
    copies = [(1, 0) if value % 2 else (0, 1) for value in values]
    differences, counted = judged(a_layout(), values, [0.0] * len(values), copies)
    (only,) = differences
    assert (only.measure, KINDS[only.kinds[0]]) == ("a", DifferenceClass.OUTSIDE)
    assert counted.tally(0).largest == "10001"
    texts = only.written(np.array([0]))
    assert [each.texts.to_pylist() for each in texts.values] == [["1"], ["0"]]


@pytest.mark.case("P26")
def test_many_equal_rows_of_one_key_cancel() -> None:
    differences, counted = judged(a_layout(), [1, 2], [0.5, -0.0], [(MANY, MANY), (1, 1)])
    assert (differences, dict(counted.measures[0].classes)) == ([], {})


@pytest.mark.case("P11")
def test_nans_of_one_key_cancel_unless_they_equal_nothing() -> None:
    layout, nan = a_layout(), float("nan")
    assert judged(layout, [1, 1], [nan, 2.0], [(2, 2), (1, 1)])[0] == []
    number, floating = layout.stage.measures
    rules = replace(floating.rules, nan=NanRule.UNEQUAL)
    stage = replace(layout.stage, measures=(number, replace(floating, rules=rules)))
    strict = layout_of(stage, [PlainColumns()] * 2)
    (only,) = judged(strict, [1, 1], [nan, 2.0], [(2, 2), (1, 1)])[0]
    assert [each.texts.to_pylist() for each in only.written(np.array([0])).values] == [["NaN"]] * 2


@pytest.mark.case("P25")
def test_other_numbers_of_rows_are_multiplicity() -> None:
    differences, counted = judged(a_layout(), [1, 2], [0.5, 0.5], [(3, 2), (1, 0)])
    kinds = {each.measure: KINDS[each.kinds[0]] for each in differences}
    assert kinds == dict.fromkeys(("a", "b", "$rows"), DifferenceClass.MULTIPLICITY)
    rows = differences[-1]
    assert rows.sizes.to_pylist() == [2.0]
    texts = rows.written(np.array([0]))
    assert [each.texts.to_pylist() for each in texts.values] == [["4"], ["2"]]
    assert [each.texts.to_pylist() for each in texts.percents] == [["-50"]]
    assert counted.tally(2).largest == "10002"
