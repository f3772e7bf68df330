from typing import Any

import pytest

from datarecs_core.comparison.oracle.grouping import Outside
from datarecs_core.comparison.oracle.reference import OracleStage, compare_stage
from datarecs_core.comparison.planning.cataloguing import column_rows
from datarecs_core.comparison.planning.documents import plan_document, plan_from_document
from datarecs_core.comparison.planning.faults import PlanRefusedError
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.proof.run_json import Sealing, proof_document
from datarecs_core.comparison.proof.stage_json import question_document
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.verdict import judge_run, judge_stage
from datarecs_core.jobs import types
from datarecs_core.jobs.definition import ColumnMapping, SchemaPolicy
from datarecs_core.jobs.vocabulary import SchemaMode
from datarecs_testing.comparisons import comparing_columns, counting, digest_by
from datarecs_testing.tables import Table, a_job, a_table, pair, plan_of

COMPATIBLE = SchemaPolicy(mode=SchemaMode.COMPATIBLE)


def stage_of(tables: list[Table], **fields: Any) -> StagePlan:  # noqa: ANN401 - any field of the job
    return plan_of(a_job(tables, comparing_columns(), **fields), tables).stages[0]


def run_stage(tables: list[Table], **fields: Any) -> OracleStage:  # noqa: ANN401 - any field of the job
    return compare_stage(stage_of(tables, **fields), (), Outside(key=COMPARE_KEY))


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        ("array<int>", "array<decimal(9,2)>", True),
        ("array<text>", "array<uuid>", False),
        ("array<array<int>>", "array<array<float64>>", True),
        ("array<int>", "int", False),
        ("text", "uuid", True),
        ("time", "time(3)", True),
        ("interval", "text", False),
        ("json", "text", False),
    ],
)
@pytest.mark.case("P44")
def test_compatible_types_are_those_that_compare_without_a_cast(
    first: str, second: str, *, alike: bool
) -> None:
    tables = [a_table("one", f"v {first}"), a_table("two", f"v {second}")]
    assert (run_stage(tables, schema=COMPATIBLE).results.counts.rows_unmatched == 0) is alike
    assert run_stage(tables).results.counts.rows_unmatched == 1


def test_a_bare_decimal_in_an_equivalence_means_every_decimal() -> None:
    tables = [a_table("one", "v decimal(9,2)"), a_table("two", "v int")]
    for group, unmatched in (
        ((types.NUMERIC, types.INT), 0),
        ((types.decimal(9, 2), types.INT), 0),
        ((types.decimal(9, 3), types.INT), 1),
    ):
        policy = SchemaPolicy(equivalences=(group,))
        assert run_stage(tables, schema=policy).results.counts.rows_unmatched == unmatched


def test_positions_are_those_of_the_source_with_expressions_last() -> None:
    tables = [a_table("one", "b int, skip int, a int"), a_table("two", "b int, a int")]
    stage = stage_of(
        tables,
        sources={"one": {"columns": {"z": ColumnMapping(column="b")}}},
        schema=SchemaPolicy(ignore=("skip",)),
    )
    assert column_rows(stage) == [
        [("z", "int", True, 1), ("a", "int", True, 2)],
        [("b", "int", True, 1), ("a", "int", True, 2)],
    ]


@pytest.mark.case("P44")
def test_a_name_that_a_source_has_twice_is_ambiguous_unless_ignored() -> None:
    columns = (("k", types.INT), ("v", types.INT), ("v", types.TEXT))
    tables = [Table(name="one", columns=columns, rows=()), a_table("two", "k int, v int")]
    with pytest.raises(PlanRefusedError) as refusal:
        stage_of(tables)
    assert [fault.code.docs_id for fault in refusal.value.faults] == ["DR1061"]
    stage = stage_of(tables, schema=SchemaPolicy(ignore=("v",)))
    assert [len(rows) for rows in column_rows(stage)] == [1, 1]


def test_a_plan_of_columns_and_buckets_survives_the_pipe() -> None:
    tables = [a_table("one", "k int, v text"), a_table("two", "k int, v uuid")]
    policy = SchemaPolicy(
        mode=SchemaMode.COMPATIBLE, ignore=("x",), equivalences=((types.DATE, types.TEXT),)
    )
    job = a_job(tables, comparing_columns(), digest_by("k"), schema=policy)
    plan = plan_of(job, tables)
    assert plan_from_document(plan_document(plan)) == plan


def test_the_proof_has_the_policy_and_the_closure_of_rows_not_of_columns() -> None:
    tables = pair("k int, v int", [(1, 1)], [(1, 1)])
    plan = plan_of(a_job(tables, comparing_columns(), counting()), tables)
    rows = [table.delivered(scan) for table, scan in zip(tables, plan.scans, strict=True)]
    done = [
        judge_stage(stage, compare_stage(stage, rows, Outside(key=COMPARE_KEY)).results)
        for stage in plan.stages
    ]
    outcome = judge_run(done, plan.warnings)
    proof: Any = proof_document(plan, outcome, Sealing(versions={}, key_id="k1"))
    assert [each["closure"]["extracted"] for each in proof["sources"]] == [1, 1]
    assert proof["stages"][0]["counts"]["source_row_counts"] == {"source_0": 2, "source_1": 2}
    question: Any = question_document(plan.stages[0])
    assert question["schema"] == {
        "mode": "strict",
        "order": False,
        "nullability": False,
        "ignore": [],
        "equivalences": [],
    }
    only = proof_document(plan, judge_run(done[:1]), Sealing(versions={}, key_id="k1"))
    assert only["result"] == "MATCHED"
