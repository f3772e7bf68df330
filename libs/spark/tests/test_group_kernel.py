"""What the kernel adds up by itself, and what it hands back; without Spark."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.jobs.definition import Limits, Stage
from datarecs_core.jobs.vocabulary import Function
from datarecs_spark.group_kernel import GroupAnswer, grouped, groups_file, read_groups
from datarecs_spark.native_errors import NotNativeError
from datarecs_spark.preaggregating import Room, group_task
from datarecs_testing.comparisons import a_measure, aggregate_by
from datarecs_testing.stored_tables import stored_scan
from datarecs_testing.tables import Row, a_job, pair, plan_of

D = Decimal
SUM = a_measure("v", function=Function.SUM)
NINES = D("9" * 38)


def stage_over(
    folder: Path,
    columns: str,
    rows: Sequence[Row],
    stage: Stage = aggregate_by("k", SUM),  # noqa: B008 - frozen
    **source: Any,  # noqa: ANN401 - any field of a source
) -> StagePlan:
    """Source `one` holds the rows in files, `two` nothing."""
    tables = pair(columns, rows, [])
    plan = plan_of(a_job(tables, stage, sources={"one": source}), tables)
    scans = [stored_scan(each, tables[each.index], folder / each.source) for each in plan.scans]
    return plan.with_scans(tuple(scans)).stages[0]


def added(folder: Path, stage: StagePlan, most_groups: float | None = None) -> GroupAnswer:
    (folder / "groups").mkdir()
    room = Room(directory=str(folder / "groups"), threads=1, memory_bytes=2**28)
    task = replace(group_task(stage, room), most_groups=most_groups)
    return read_groups(grouped(task, None, "0").written())


def groups(folder: Path) -> list[dict[str, object]]:
    """Of source `one`, by their number of rows."""
    found: list[dict[str, Any]] = pq.read_table(folder / "groups" / groups_file(0)).to_pylist()
    return sorted(found, key=lambda each: each["$n"])


def test_rows_are_added_up_by_raw_dimensions_behind_both_conditions(tmp_path: Path) -> None:
    """Two files; NULL is a dimension like any other and adds nothing."""
    rows: list[Row] = [
        (1, D("0.10")),
        (1, None),
        (None, D(1)),
        (1, D("0.20")),
        (1, D(9)),
        (2, D(7)),
    ]
    rows.append((1, D("0.30")))
    stage = aggregate_by(
        "k", SUM, a_measure("n", function=Function.COUNT), where="v < 9 OR v IS NULL"
    )
    plan = stage_over(tmp_path, "k int, v decimal(10,2)", rows, stage, filter="k = 1 OR k IS NULL")
    answer = added(tmp_path, plan)
    assert answer.given_up is None
    assert (answer.read, answer.filtered, answer.rows) == ((7, 0), (6, 0), (5, 0))
    assert (answer.null_keys, answer.groups) == ((1, 0), (2, 0))
    assert groups(tmp_path) == [
        {"k": None, "$n": 1, "$sum.v": D("1.00"), "$count.v": 1},
        {"k": 1, "$n": 4, "$sum.v": D("0.60"), "$count.v": 3},
    ]


def test_counted_floats_may_be_anything_and_texts_are_ordered_by_their_bytes(
    tmp_path: Path,
) -> None:
    """UTF-16 would put the emoji before the last of the private characters."""
    rows = [
        (1, float("nan"), "\U0001f600"),
        (1, -0.0, "\uffee"),
        (1, None, "z"),
        (1, 0.0, "\u00e9"),
    ]
    stage = aggregate_by(
        "k",
        a_measure("f", function=Function.COUNT, column="f"),
        a_measure("least", function=Function.MIN, column="t"),
        a_measure("most", function=Function.MAX, column="t"),
    )
    assert (
        added(tmp_path, stage_over(tmp_path, "k int, f float64, t text", rows, stage)).rows[0] == 4
    )
    assert groups(tmp_path) == [
        {"k": 1, "$n": 4, "$count.f": 3, "$min.t": "z", "$max.t": "\U0001f600"}
    ]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([NINES, D(1)], "OutOfRangeException"),
        ([NINES], "nearly all the digits"),
        ([D(6) * 10**37, -D(6) * 10**37], "nearly all the digits"),
    ],
)
def test_totals_that_38_digits_might_not_hold_are_left_to_spark(
    tmp_path: Path, values: list[Decimal], told: str
) -> None:
    """Also where they cancel: rules might merge the groups in an order that passes the limit."""
    rows = [(at if told != "OutOfRangeException" else 0, value) for at, value in enumerate(values)]
    answer = added(tmp_path, stage_over(tmp_path, "k int, v decimal(38,0)", rows))
    assert told in (answer.given_up or "")


def test_wide_decimals_are_added_up_while_their_totals_are_not(tmp_path: Path) -> None:
    rows: list[Row] = [(1, D("0.123456789012345678")), (1, D(10) ** 19)]
    assert added(tmp_path, stage_over(tmp_path, "k int, v decimal(38,18)", rows)).given_up is None
    assert groups(tmp_path)[0]["$sum.v"] == D("10000000000000000000.123456789012345678")


def test_many_groups_and_large_values_are_left_to_spark(tmp_path: Path) -> None:
    rows: list[Row] = [(1, "a"), (1, "b"), (2, "c" * 9)]
    stage = aggregate_by("k", a_measure("v", function=Function.MAX))
    plan = stage_over(tmp_path, "k int, v text", rows, stage, limits=Limits(max_value_bytes=8))
    assert added(tmp_path, plan, 0.5).given_up == "67% of the rows would be groups"
    (tmp_path / "groups").rmdir()
    assert added(tmp_path, plan, 0.7).given_up == "a value is above its limit"


def test_names_of_our_own_columns_are_refused(tmp_path: Path) -> None:
    plan = stage_over(tmp_path, "$n int, v int", [(1, 1)], aggregate_by("$n", SUM))
    with pytest.raises(NotNativeError, match="begins with"):
        added(tmp_path, plan)
