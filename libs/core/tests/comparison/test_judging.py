from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from datarecs_core.comparison.oracle.grouping import Cell, Group, Outside, group_rows
from datarecs_core.comparison.oracle.judging import agreed_group, agrees, judge_group
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.values.canonical import NULL, Tag, Value, invalid, number, text
from datarecs_core.jobs.definition import ColumnRules, Normalize
from datarecs_core.jobs.vocabulary import NanRule
from datarecs_testing.comparisons import a_measure, rows_by
from datarecs_testing.tables import Table, a_job, a_table, plan_of

NAN = Decimal("NaN")
VALUES = [
    NULL,
    number(0),
    number(Decimal("-0.0")),
    number(Decimal("1.10")),
    number(Decimal("1.1")),
    number(NAN),
    number(Decimal("Infinity")),
    text("1.1"),
    Value(Tag.DATE, Decimal(1)),
    Value(Tag.BOOL, content=True),
    invalid("one", b"raw"),
]
CELLS = st.builds(Cell, st.sampled_from(VALUES), st.sampled_from(VALUES))
ROWS = st.lists(st.tuples(CELLS, CELLS), max_size=3)


def a_stage(*tables: Table, **job: Any) -> StagePlan:  # noqa: ANN401  any field of the job
    stage = rows_by("k", a_measure("a"), a_measure("b"))
    return plan_of(a_job(list(tables), stage, **job), list(tables)).stages[0]


TWO = [a_table(name, "k int, a float64, b float64", (1, NAN, 2.0)) for name in ("one", "two")]
PLAN = a_stage(*TWO)


@given(st.lists(ROWS, min_size=2, max_size=2))
@example([[(Cell(NULL, NULL), Cell(NULL, NULL))]] * 2)
def test_a_group_that_agrees_is_judged_as_any_other(rows: Sequence[list[tuple[Cell, ...]]]) -> None:
    group = Group((number(1),), list(rows))
    if agrees(PLAN, group):
        assert judge_group(PLAN, group, group.mask) == agreed_group(PLAN)


def test_equal_rows_agree_and_a_nan_that_equals_nothing_does_not() -> None:
    rule = Normalize(columns={"a": ColumnRules(nan=NanRule.UNEQUAL)})
    row: tuple[Cell, ...] = tuple(Cell(one, one) for one in (number(NAN), number(1)))
    rows = [[row], [row]]
    assert agrees(PLAN, Group((number(1),), rows))
    assert not agrees(a_stage(*TWO, normalize=rule), Group((number(1),), rows))


def test_groups_of_delivered_rows_agree() -> None:
    tables = [a_table(name, "k int, a text, b int", (1, "x", 2)) for name in ("one", "two")]
    plan = a_stage(*tables)
    delivered = [table.delivered(scan) for table, scan in zip(tables, plan.scans, strict=True)]
    (group,) = group_rows(plan, delivered, Outside(key=COMPARE_KEY)).groups.values()
    assert agrees(plan, group)
