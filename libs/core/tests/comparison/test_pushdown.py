"""What databases send instead of rows, and every reason against it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from datarecs_core.comparison.planning.documents import plan_document, plan_from_document, plan_hash
from datarecs_core.comparison.planning.plan import ComparisonPlan, StagePlan
from datarecs_core.comparison.planning.planner import PlanRequest, plan_comparison
from datarecs_core.comparison.planning.pushdown import PUSH_FROM, reads_rows
from datarecs_core.comparison.planning.scan import Extract, Keys, Only, SourceColumn, SourceSchema
from datarecs_core.jobs.definition import (
    ColumnMapping,
    Confirm,
    Dimension,
    Execution,
    Measure,
    Normalize,
    NumberRules,
    ReconciliationJob,
    Scope,
    Source,
    Stage,
    StringRules,
)
from datarecs_core.jobs.spec_hash import spec_hash
from datarecs_core.jobs.types import parse_type
from datarecs_core.jobs.vocabulary import (
    Function,
    NullAs,
    OnUnmatched,
    SourceKind,
    StageType,
    Strategy,
    Trim,
)
from datarecs_testing.tables import JOB_UID, Table, a_table

COLUMNS = (
    "id int, account text, currency text, day date, uid uuid, flag bool, amount decimal(12,2), "
    "wide decimal(38,20), loose decimal, ratio float64, clock time, raw binary"
)
UNLIKE = {"ratio", "raw", "loose"}
"""Columns that no database groups as this product does."""
ROWS = PUSH_FROM
COUNTS = Stage(name="counts", type=StageType.COUNTS)


def groups_by(*dimensions: str, **fields: Any) -> Stage:  # noqa: ANN401  any field of a stage
    total = Measure(name="total", function=Function.SUM, column="amount")
    stage = Stage(
        name="groups",
        type=StageType.AGGREGATE,
        dimensions=tuple(Dimension(name=name) for name in dimensions),
        measures=(total,),
    )
    return replace(stage, **fields)


def measured(function: Function, column: str) -> Stage:
    return groups_by("account", measures=(Measure(name="m", function=function, column=column),))


def rows_by(*dimensions: str, **fields: Any) -> Stage:  # noqa: ANN401  any field of a stage
    stage = Stage(
        name="rows",
        type=StageType.ROW,
        dimensions=tuple(Dimension(name=name) for name in dimensions),
        measures=(Measure(name="amount"),),
    )
    return replace(stage, **fields)


def described(table: Table, rows: int | None, distinct: int | None) -> SourceSchema:
    columns = tuple(
        SourceColumn(name=name, type=kind, groups_exactly=name not in UNLIKE, distinct=distinct)
        for name, kind in table.columns
    )
    return SourceSchema(columns=columns, estimated_rows=rows)


def planned(  # noqa: PLR0913  every one is about the plan
    *stages: Stage,
    strategy: Strategy = Strategy.PUSHDOWN,
    rows: int | None = ROWS,
    distinct: int | None = 10,
    kinds: Sequence[SourceKind] = (SourceKind.POSTGRES, SourceKind.POSTGRES),
    columns: Sequence[str] = (COLUMNS, COLUMNS),
    source: dict[str, Any] | None = None,
    **fields: Any,  # noqa: ANN401  any field of the job
) -> ComparisonPlan:
    tables = [a_table(f"s{at}", each) for at, each in enumerate(columns)]
    sources = tuple(
        Source(name=each.name, kind=kind, connection="c", relation=each.name)
        if kind is SourceKind.POSTGRES
        else Source(name=each.name, kind=kind, connection="c", path=each.name)
        for each, kind in zip(tables, kinds, strict=True)
    )
    sources = (replace(sources[0], **(source or {})), *sources[1:])
    job = ReconciliationJob(
        name="job",
        sources=sources,
        stages=stages,
        execution=Execution(strategy=strategy),
        **fields,
    )
    schemas = {each.name: described(each, rows, distinct) for each in tables}
    return plan_comparison(
        PlanRequest(
            job=job,
            job_uid=JOB_UID,
            spec_hash=spec_hash(job),
            schemas=schemas,
            pins={each.name: each.pin for each in tables},
        )
    )


def reason_of(stage: StagePlan) -> str:
    """Why not every source sends groups."""
    return dict(stage.strategy.rejected)[Strategy.PUSHDOWN]


def test_groups_are_read_with_the_inputs_of_their_measures() -> None:
    measures = (
        Measure(name="rows", function=Function.COUNT),
        Measure(name="n", function=Function.COUNT, column="account"),
        Measure(name="total", function=Function.SUM, column="amount"),
        Measure(name="mean", function=Function.AVG, column="amount"),
        Measure(name="first", function=Function.MIN, column="day"),
        Measure(name="last", function=Function.MAX, column="account"),
    )
    where = "currency <> 'XXX'"
    stage = groups_by("account", "day", "uid", "flag", measures=measures, where=where)
    (stage_plan,) = planned(stage).stages
    assert stage_plan.strategy.chosen is Strategy.PUSHDOWN
    assert stage_plan.groups[0] == stage_plan.groups[1]
    groups_scan = stage_plan.groups[0]
    assert groups_scan is not None
    assert groups_scan.where == where
    assert groups_scan.dimensions == ("account", "day", "uid", "flag")
    assert [each.name for each in groups_scan.partials] == [
        "$count.account",
        "$sum.amount",
        "$count.amount",
        "$min.day",
        "$max.account",
    ]
    assert not any(reads_rows(stage_plan, index) for index in (0, 1))


@pytest.mark.parametrize(
    ("stage", "reason"),
    [
        (groups_by("ratio"), "s0 does not group ratio exactly"),
        (groups_by("clock"), "clock has the type time"),
        (groups_by("loose"), "loose is a number without declared digits"),
        (measured(Function.SUM, "ratio"), "s0 does not group m exactly"),
        (measured(Function.SUM, "loose"), "m is a number without declared digits"),
        (measured(Function.COUNT_DISTINCT, "account"), "m is count_distinct of text"),
        (measured(Function.MIN, "uid"), "m is min of uuid"),
        (measured(Function.MAX, "flag"), "m is max of bool"),
        (groups_by("account", where="ratio > 0.5"), "ratio is float64"),
        (groups_by("account", where="raw IS NULL"), "raw is binary"),
        (groups_by("account", confirm=Confirm(after=timedelta())), "`confirm` reads rows again"),
        (rows_by("id"), "only aggregate and counts stages"),
    ],
)
def test_what_a_database_would_answer_otherwise_is_read_as_rows(stage: Stage, reason: str) -> None:
    (stage_plan,) = planned(stage).stages
    assert stage_plan.strategy.chosen is Strategy.FULL
    assert stage_plan.groups == ()
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(reason_of(stage_plan))


@pytest.mark.parametrize(
    ("normalize", "reason"),
    [
        (Normalize(strings=StringRules(trim=Trim.BOTH)), "rules on the key column account"),
        (Normalize(numbers=NumberRules(round=1)), None),
        (Normalize(numbers=NumberRules(null=NullAs.ZERO)), None),
    ],
)
def test_rules_on_values_stay_here_and_rules_on_results_do_not_matter(
    normalize: Normalize, reason: str | None
) -> None:
    (stage,) = planned(groups_by("account"), normalize=normalize).stages
    assert (stage.strategy.chosen is Strategy.PUSHDOWN) == (reason is None)
    assert reason is None or reason_of(stage) == reason
    counted = (Measure(name="m", function=Function.COUNT, column="account"),)
    (stage,) = planned(groups_by("id", measures=counted), normalize=normalize).stages
    assert reason is None or reason_of(stage) == "rules on the values of m"


def test_casts_maps_and_wide_sums_stay_here() -> None:
    cast = {"cast": {"amount": parse_type("decimal(14,4)")}}
    (stage,) = planned(groups_by("account"), source=cast).stages
    assert reason_of(stage) == "s0 sends rows: total is mapped or cast"
    assert stage.groups[0] is None
    wide = "id int, account text, amount decimal(38,0)"
    (stage,) = planned(groups_by("account"), columns=(wide, COLUMNS)).stages
    assert stage.groups == ()
    assert "total is sum of decimal(38,0)" in reason_of(stage)
    floats = "id int, account text, amount float64"
    (stage,) = planned(groups_by("account"), columns=(COLUMNS, floats)).stages
    assert reason_of(stage) == "total is sum of decimal(12,2)"


def test_expressions_are_grouped_by_the_database_that_has_them() -> None:
    mapped = {"columns": {"account": ColumnMapping(expr="id * 3")}}
    stage = groups_by("account", measures=(Measure(name="n", function=Function.COUNT),))
    columns = (COLUMNS, "id int, account int")
    (stage_plan,) = planned(stage, source=mapped, columns=columns).stages
    assert all(stage_plan.groups)


def test_a_condition_beyond_comparisons_is_pushed_as_a_column() -> None:
    (stage,) = planned(groups_by("account", where="currency LIKE 'E%'")).stages
    assert all(stage.groups)
    where = "currency LIKE 'E%'"
    alone = planned(rows_by("id", where=where), strategy=Strategy.AUTO)
    assert [scan.only and scan.only.where for scan in alone.scans] == ['"$where.rows"'] * 2


def test_files_beside_a_database_deliver_rows() -> None:
    kinds = (SourceKind.POSTGRES, SourceKind.PARQUET)
    (stage,) = planned(groups_by("account"), kinds=kinds).stages
    assert stage.strategy.chosen is Strategy.PUSHDOWN
    assert reason_of(stage) == "s1 sends rows: parquet sources do not group"
    assert [reads_rows(stage, index) for index in (0, 1)] == [False, True]
    (stage,) = planned(groups_by("account"), kinds=(SourceKind.PARQUET,) * 2).stages
    assert reason_of(stage) == "no source is a database"


@pytest.mark.parametrize(
    ("rows", "distinct", "reason"),
    [
        (ROWS, 10, None),
        (ROWS // 2, 10, None),
        (ROWS // 2 - 1, 10, "fewer than 1,000,000 rows are expected"),
        (None, 10, "fewer than 1,000,000 rows are expected"),
        (ROWS, ROWS // 10, None),
        (ROWS, ROWS // 10 + 1, "100,001 groups of 1,000,000 rows are expected of s0"),
        (ROWS, None, "s0 has no statistics about its groups; run ANALYZE"),
    ],
)
def test_auto_reads_groups_where_they_are_few(
    rows: int | None, distinct: int | None, reason: str | None
) -> None:
    plan = planned(groups_by("account"), strategy=Strategy.AUTO, rows=rows, distinct=distinct)
    (stage,) = plan.stages
    assert (stage.strategy.chosen is Strategy.PUSHDOWN) == (reason is None)
    assert reason is None or reason_of(stage) == reason


def test_auto_reads_rows_once_where_another_stage_needs_them_anyway() -> None:
    plan = planned(COUNTS, groups_by("account"), rows_by("id"), strategy=Strategy.AUTO)
    assert [bool(stage.groups) for stage in plan.stages] == [False, False, False]
    assert reason_of(plan.stages[0]) == "stage rows reads every row of s0 anyway"
    plan = planned(COUNTS, groups_by("account"), rows_by("id"), strategy=Strategy.PUSHDOWN)
    assert [bool(stage.groups) for stage in plan.stages] == [True, True, False]


def test_rows_of_differing_groups_are_selected_by_the_database() -> None:
    groups = groups_by("account", on_unmatched=OnUnmatched.ESCALATE)
    plan = planned(COUNTS, groups, rows_by("id"), strategy=Strategy.AUTO)
    assert [bool(stage.groups) for stage in plan.stages] == [True, True, False]
    assert plan.stages[2].by_keys == (0, 1)
    whole = rows_by("currency", name="whole")
    plan = planned(groups, rows_by("id"), whole, strategy=Strategy.AUTO)
    assert plan.stages[1].by_keys == ()
    plan = planned(groups_by("ratio"), rows_by("id", scope=Scope(from_stage="groups")))
    assert plan.stages[1].by_keys == ()


def test_scoped_stages_have_no_groups_and_a_schema_reads_no_rows() -> None:
    groups = groups_by("account", on_unmatched=OnUnmatched.ESCALATE)
    again = groups_by("currency", name="again", scope=Scope(from_stage="groups"))
    shape = Stage(name="shape", type=StageType.SCHEMA)
    plan = planned(groups, shape, again)
    assert [stage.by_keys for stage in plan.stages] == [(), (), (0, 1)]
    assert reason_of(plan.stages[2]) == "a scoped stage reads few rows anyway"
    assert not reads_rows(plan.stages[1], 0)


def test_an_extract_of_groups_has_the_number_of_its_rows() -> None:
    (stage,) = planned(groups_by("account")).stages
    extract = Extract(root="/", files=(), rows=3, decoded_bytes=9)
    assert (extract.all_rows, replace(extract, source_rows=7).all_rows) == (3, 7)
    extracts = tuple(
        replace(scan, groups=groups) for scan, groups in zip(stage.scans, stage.groups, strict=True)
    )
    assert not stage.has_groups
    assert replace(stage, scans=extracts).has_groups


def test_a_condition_of_every_stage_leaves_rows_where_they_are() -> None:
    where = "currency = 'EUR'"
    alone = planned(rows_by("id", where=where), strategy=Strategy.AUTO)
    assert [scan.only and scan.only.where for scan in alone.scans] == [where, where]
    assert alone.stages[0].scans == alone.scans
    for stages, strategy in (
        ((rows_by("id", where=where), COUNTS), Strategy.AUTO),
        ((rows_by("id", where=where),), Strategy.FULL),
        ((rows_by("id", where="ratio > 0.5"),), Strategy.AUTO),
        ((rows_by("id", where=where, confirm=Confirm(after=timedelta())),), Strategy.AUTO),
    ):
        assert [scan.only for scan in planned(*stages, strategy=strategy).scans] == [None, None]


@pytest.mark.parametrize("strategy", [Strategy.FULL, Strategy.NARROW, Strategy.FINGERPRINT])
def test_another_strategy_reads_rows(strategy: Strategy) -> None:
    (stage,) = planned(groups_by("account"), strategy=strategy).stages
    assert (stage.groups, stage.by_keys) == ((), ())
    assert reason_of(stage) == f"`execution.strategy` is {strategy}"


def test_guesses_of_statistics_do_not_change_the_hash() -> None:
    one, other = (planned(groups_by("account"), rows=rows, distinct=7) for rows in (ROWS, ROWS * 2))
    assert one != other
    assert plan_hash(one) == plan_hash(other)


def test_a_plan_with_groups_and_conditions_travels_as_a_document() -> None:
    groups = groups_by("account", where="currency = 'EUR'", on_unmatched=OnUnmatched.ESCALATE)
    plan = planned(groups, rows_by("id", where="currency = 'EUR'"), strategy=Strategy.AUTO)
    assert plan.stages[1].by_keys == (0, 1)
    assert plan.scans[0].only == Only(where="currency = 'EUR'")
    keys = Keys(columns=("account", "day"), values=(("a", None), (None, None)))
    scans = tuple(replace(scan, only=Only(keys=keys)) for scan in plan.scans)
    for each in (plan, plan.with_scans(scans)):
        assert plan_from_document(plan_document(each)) == each
