"""Amounts by unit: the kernel against the oracle on any rows, and the sum of what tasks counted."""

from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datarecs_core.comparison.results.results import StageResults
from datarecs_core.jobs.definition import Stage
from datarecs_kernel import units
from datarecs_kernel.counted import Counted, read_counted
from datarecs_testing.comparisons import EngineBench, a_measure, aggregate_by, compare, rows_by
from datarecs_testing.finished_runs import MemoryBench
from datarecs_testing.kernel_bench import KernelBench
from datarecs_testing.tables import Row, a_job, a_table

COLUMNS = "k int, ccy text, amount decimal(38,4), size float64"
AMOUNTS = st.none() | st.decimals(-(10**30), 10**30, places=4, allow_nan=False)
DOUBLES = st.none() | st.sampled_from([0.1, 0.2, 1e15, -1e-9, 7.0])
ROWS = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from(["USD", "EUR", None]), AMOUNTS, DOUBLES),
    max_size=8,
)
STAGES = (
    rows_by("k ccy", a_measure("amount"), a_measure("size")),
    aggregate_by("ccy", a_measure("amount"), a_measure("size")),
    aggregate_by("k ccy", a_measure("size")),
)


def results_of(bench: EngineBench, stage: Stage, rows: list[list[Row]]) -> StageResults:
    tables = [a_table(f"s{at}", COLUMNS, *each) for at, each in enumerate(rows)]
    return compare(bench, a_job(tables, stage), tables).results()


@settings(max_examples=15)
@given(stage=st.sampled_from(STAGES), rows=st.lists(ROWS, min_size=2, max_size=3))
def test_the_kernel_and_the_oracle_report_the_same_amounts_by_unit(
    stage: Stage, rows: list[list[Row]]
) -> None:
    with TemporaryDirectory() as folder:
        of_kernel = results_of(KernelBench(Path(folder)), stage, rows)
    assert of_kernel.units == results_of(MemoryBench(), stage, rows).units


@pytest.mark.parametrize("stage", STAGES[:2])
def test_the_steps_of_all_units_add_up_to_the_gap(stage: Stage) -> None:
    one: list[Row] = [(n, "USD" if n % 3 else "EUR", Decimal(n), 0.5) for n in range(20)]
    two: list[Row] = [(n, "USD" if n % 3 else "EUR", Decimal(2 * n), 0.5) for n in range(3, 25)]
    results = results_of(MemoryBench(), stage, [one, two])
    steps = [unit.measures[0].waterfall_by_source[1] for unit in results.units]
    assert sum(each.gap for each in steps if each) == results.measures[0].gap_by_source[1]


def test_tasks_add_up_and_cross_as_json() -> None:
    one, two = Counted(2), Counted(2)
    for each, amount in ((one, "1.5"), (two, "2")):
        each.unit_groups["USD", 3] += 1
        each.unit_differing["USD"] += 1
        each.add_in_unit((0, 1, 3, "USD"), Decimal(amount))
    one.add(read_counted(two.written(), 2))
    assert one.unit_groups == {("USD", 3): 2}
    assert one.unit_amounts == {(0, 1, 3, "USD"): Decimal("3.5")}
    refused = Counted(2)
    refused.refuse_units()
    one.add(read_counted(refused.written(), 2))
    assert one.units_are_no_words
    assert not one.unit_amounts


def test_a_column_of_very_many_values_is_no_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "MOST_SEEN", 3)
    one: list[Row] = [(n, f"U{n}", Decimal(1), 0.5) for n in range(9)]
    assert results_of(KernelBench(tmp_path), STAGES[0], [one, []]).units == ()
