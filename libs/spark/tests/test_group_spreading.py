"""Groups added up in many tasks, without Spark: parts of groups, and what is refused."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from datarecs_core.jobs.vocabulary import Function
from datarecs_spark.group_kernel import GroupTask
from datarecs_spark.group_spreading import SpreadGroups, spread_groups_by
from datarecs_spark.native_errors import NotNativeError
from datarecs_spark.preaggregating import Room, group_task
from datarecs_spark.row_counts import rows_counted
from datarecs_testing.comparisons import a_measure, aggregate_by
from datarecs_testing.spreading import an_exchange
from datarecs_testing.stored_tables import stored_scan
from datarecs_testing.tables import a_job, pair, plan_of

D = Decimal
ROWS = [(k % 3, D(k) / 4) for k in range(40)]
Changed = Callable[[GroupTask], GroupTask]


def added(folder: Path, changed: Changed = lambda task: task) -> SpreadGroups:
    """Source `one` in row groups of seven rows, `two` without rows."""
    stage = aggregate_by("k", a_measure("v", function=Function.SUM))
    tables = pair("k int, v decimal(10,2)", ROWS, [])
    plan = plan_of(a_job(tables, stage), tables)
    scans = [stored_scan(each, tables[each.index], folder / each.source) for each in plan.scans]
    for file in folder.glob("one/*.parquet"):
        pq.write_table(pq.read_table(file), file, row_group_size=7)
    files = {each.name: each.stat().st_size for each in folder.glob("one/*.parquet")}
    pin: Any = scans[0].pin
    pinned = tuple(replace(each, size_bytes=files[each.path]) for each in pin.files)
    scans[0] = replace(scans[0], pin=replace(pin, files=pinned))
    (folder / "work").mkdir()
    room = Room(directory=str(folder / "work"), threads=2, memory_bytes=2**28)
    task = group_task(plan.with_scans(tuple(scans)).stages[0], room)
    return spread_groups_by(an_exchange(), changed(task), 3, "stage")


def test_parts_of_groups_hold_every_row_once(tmp_path: Path) -> None:
    """Also where a task ran twice: what its first attempt wrote is gone."""
    found = added(tmp_path)
    assert found.answer.read == found.answer.rows == found.answer.filtered == (40, 0)
    assert rows_counted(tmp_path / "work") >= 40
    rows: Counter[int] = Counter()
    totals: Counter[int] = Counter()
    for name, groups in found.files[0]:
        parts = pq.read_table(tmp_path / "work" / name).to_pylist()
        assert len(parts) == groups
        for part in parts:
            rows[part["k"]] += part["$n"]
            totals[part["k"]] += part["$sum.v"]
    assert rows == Counter(k for k, _ in ROWS)
    assert totals == {key: sum(v for k, v in ROWS if k == key) for key in range(3)}
    assert len(found.files[0]) > 1
    assert [groups for _, groups in found.files[1]] == [0]
    written = sorted(each.name for each in (tmp_path / "work" / "groups").iterdir())
    assert written == sorted(Path(name).name for own in found.files for name, _ in own)


def more_rows(task: GroupTask) -> GroupTask:
    one, *others = task.kernel.sources
    sources = (replace(one, rows=one.rows + 1), *others)
    return replace(task, kernel=replace(task.kernel, sources=sources))


def few_groups(task: GroupTask) -> GroupTask:
    return replace(task, most_groups=0.1)


def small_totals(task: GroupTask) -> GroupTask:
    """Each part stays below it, all together do not."""
    return replace(
        task, totals=tuple(tuple(replace(one, most=190.0) for one in own) for own in task.totals)
    )


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (more_rows, "not read every row once"),
        (few_groups, "of the rows would be groups"),
        (small_totals, "nearly all the digits"),
    ],
)
def test_what_does_not_add_up_over_all_tasks_is_left_to_spark(
    tmp_path: Path, changed: Changed, told: str
) -> None:
    with pytest.raises(NotNativeError, match=told):
        added(tmp_path, changed)
