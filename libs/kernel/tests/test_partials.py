"""Groups that a source made itself are merged to what its rows would have made."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from datarecs_core.comparison.oracle.grouping import Outside
from datarecs_core.comparison.oracle.reference import compare_stage
from datarecs_core.comparison.planning.faults import SumOverflowError
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.scan import Groups
from datarecs_core.comparison.results.results import StageResults
from datarecs_core.jobs.vocabulary import Function
from datarecs_kernel.database import Connection
from datarecs_kernel.groups import compare_groups
from datarecs_kernel.layout import Layout, Role
from datarecs_kernel.partials import partial_columns
from datarecs_kernel.results import stage_results
from datarecs_kernel.settling import SinkPlan, settle
from datarecs_kernel.tallies import tally
from datarecs_testing.comparisons import a_measure, aggregate_by
from datarecs_testing.relations import relations_of, rows_layout
from datarecs_testing.tables import Row, Table, a_job, pair, plan_of

KEY = b"k" * 32
OUTSIDE = Outside(key=KEY)
MEASURES = (
    a_measure("n", function=Function.COUNT),
    a_measure("c", column="v", function=Function.COUNT),
    a_measure("s", column="v", function=Function.SUM),
    a_measure("a", column="v", function=Function.AVG),
    a_measure("low", column="t", function=Function.MIN),
    a_measure("high", column="v", function=Function.MAX),
)
_MADE = {Function.SUM: "sum", Function.AVG: "sum", Function.MIN: "min", Function.MAX: "max"}


def a_stage(tables: Sequence[Table]) -> StagePlan:
    return plan_of(a_job(tables, aggregate_by("k", *MEASURES)), tables).stages[0]


def pushed(stage: StagePlan) -> StagePlan:
    """The same stage with a second source that returns groups."""
    first, second = stage.scans
    return replace(stage, scans=(first, replace(second, groups=Groups(dimensions=("k",)))))


def grouped_relation(connection: Connection, layout: Layout, relation: str) -> str:
    """What a source would hand over: two rows of each group, which rules have made one."""
    made = {"pw": "count(*)"}
    for measure in layout.compared:
        field = measure.field
        if field is not None:
            made[f"p{measure.index}n"] = f"count({field.name})"
            if field.role is not Role.PRESENCE:
                function = _MADE[measure.plan.function]
                made[f"p{measure.index}v"] = f"{function}({field.name})"
    columns = ", ".join(
        f"CAST({made[name]} AS {form.sql_type}) AS {name}" for name, form in partial_columns(layout)
    )
    keys = ", ".join(layout.key_names)
    connection.execute(
        f"CREATE TABLE groups_of_source AS SELECT {keys}, {columns}, 0 AS dst "
        f"FROM (SELECT *, row_number() OVER () % 2 AS half FROM {relation}) GROUP BY {keys}, half"
    ).fetchall()
    return "groups_of_source"


def answer(stage: StagePlan, tables: Sequence[Table], folder: Path) -> StageResults:
    rows = [each.delivered(scan) for each, scan in zip(tables, stage.scans, strict=True)]
    layout = rows_layout(stage, rows)
    plan = SinkPlan(layout=layout, key=KEY, directory=str(folder), scope_directory=None)
    with duckdb.connect() as connection:
        first, second = relations_of(connection, layout, rows, OUTSIDE)
        relations = [first, grouped_relation(connection, layout, second)]
        tallies = [tally(connection, layout, at, each) for at, each in enumerate(relations)]
        counted = settle(plan, compare_groups(connection, plan, relations, "0"), connection)
    results = stage_results(layout, counted, tallies, str(folder))
    plain = replace(results.differences, location=None)
    return replace(results, differences=plain, metrics=(), strategy=None)


AMOUNTS = st.integers(-(10**9), 10**9).map(lambda each: Decimal(each).scaleb(-2))
ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(0, 3),
        st.none() | AMOUNTS,
        st.none() | st.sampled_from(["", "a", "é"]),
    ),
    max_size=12,
)


@pytest.mark.case("P17")
@settings(
    max_examples=25,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(first=ROWS, second=ROWS)
def test_groups_of_a_source_mean_what_its_rows_mean(
    first: list[Row], second: list[Row], tmp_path_factory: pytest.TempPathFactory
) -> None:
    tables = pair("k int, v decimal(12,2), t text", first, [*first, *second])
    stage = a_stage(tables)
    rows = [each.delivered(scan) for each, scan in zip(tables, stage.scans, strict=True)]
    expected = compare_stage(stage, rows, OUTSIDE).results
    assert answer(pushed(stage), tables, tmp_path_factory.mktemp("stage")) == expected


@pytest.mark.case("P16")
def test_a_sum_that_a_source_could_not_hold_is_an_overflow(tmp_path: Path) -> None:
    tables = pair("k int, v decimal(12,2), t text", [(1, Decimal(1), "a")], [(1, Decimal(1), "a")])
    stage = pushed(a_stage(tables))
    rows = [each.delivered(scan) for each, scan in zip(tables, stage.scans, strict=True)]
    layout = rows_layout(stage, rows)
    plan = SinkPlan(layout=layout, key=KEY, directory=str(tmp_path), scope_directory=None)
    with duckdb.connect() as connection:
        first, second = relations_of(connection, layout, rows, OUTSIDE)
        name = grouped_relation(connection, layout, second)
        connection.execute(f"UPDATE {name} SET p2v = NULL").fetchall()
        connection.execute(f"INSERT INTO {name} SELECT * REPLACE (1 AS p2v) FROM {name}").fetchall()
        counted = settle(plan, compare_groups(connection, plan, [first, name], "0"), connection)
    with pytest.raises(SumOverflowError, match="two"):
        stage_results(layout, counted, [], str(tmp_path))
