"""Keys that repeat: rows cancel and meet by counts, whatever their copies."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from datarecs_core.comparison.results.results import DifferenceClass
from datarecs_core.jobs.definition import Normalize, NumberRules, StringRules
from datarecs_core.jobs.vocabulary import NanRule, Trim
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
    return list(groups.differences), counted


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


@pytest.mark.case("P26")
def test_of_rows_that_are_equal_after_rules_the_last_by_their_texts_is_left() -> None:
    """Texts of the first measure decide, those of the second only where these are equal."""
    tables = [a_table(name, "k int, a text, b text") for name in ("one", "two")]
    trimmed = Normalize(strings=StringRules(trim=Trim.BOTH))
    stage = plan_of(
        a_job(tables, rows_by("k", a_measure("a"), a_measure("b")), normalize=trimmed), tables
    ).stages[0]
    layout = layout_of(stage, [PlainColumns()] * 2)
    texts = [(" a", "b "), ("a ", " b"), ("a", "b"), ("c", "c")]
    columns: dict[str, object] = {"k0": [0] * 4, "n0": [2] * 4, "n1": [2] * 4}
    for at, column in enumerate(zip(*texts, strict=True)):
        columns |= {f"m{at}": [each.strip() for each in column], f"m{at}r": column}
        columns[f"m{at}q"] = [f"v{each}" for each in column]
    columns |= {"c0": [1, 1, 0, 0], "c1": [0, 0, 1, 1], "is_first": [True, False, False, False]}
    judge = Judge(layout, b"k" * 32, list(columns), Counted(2))
    judge.add(pa.RecordBatch.from_pydict(columns))
    groups = judge.finish()
    assert groups is not None
    raw = {
        each.measure: each.written(np.array([0])).raw[0].texts.to_pylist()
        for each in groups.differences
    }
    assert raw == {"a": ["a "], "b": [" b"]}


@pytest.mark.case("P11")
def test_a_nan_of_any_measure_prevents_its_row_from_cancelling() -> None:
    tables = [a_table(name, "k int, a float64, b float64") for name in ("one", "two")]
    strict = Normalize(numbers=NumberRules(nan=NanRule.UNEQUAL))
    job = a_job(tables, rows_by("k", a_measure("a"), a_measure("b")), normalize=strict)
    layout = layout_of(plan_of(job, tables).stages[0], [PlainColumns()] * 2)
    for floats, measure in ((["NaN", "1"], "a"), (["1", "NaN"], "b")):
        columns = {"k0": [0, 0], "n0": [3, 3], "n1": [3, 3], "is_first": [True, False]}
        columns |= {f"m{at}": [float(each), 2.0] for at, each in enumerate(floats)}
        columns |= {"c0": [2, 1], "c1": [2, 1]}
        judge = Judge(layout, b"k" * 32, list(columns), Counted(2))
        judge.add(pa.RecordBatch.from_pydict(columns))
        groups = judge.finish()
        assert groups is not None
        assert [each.measure for each in groups.differences] == [measure]
