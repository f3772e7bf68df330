"""Stages of custom queries: every source answers its SELECT; the answers are compared as groups."""

from dataclasses import replace
from typing import Any

import pytest

from datarecs_core.comparison.oracle.grouping import Outside, Rows
from datarecs_core.comparison.oracle.reference import OracleStage, compare_stage
from datarecs_core.comparison.planning.documents import plan_document, plan_from_document, plan_hash
from datarecs_core.comparison.planning.faults import DuplicateKeysError, PlanRefusedError
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.planning.planner import PlanRequest, plan_comparison
from datarecs_core.comparison.planning.scan import ExportedSnapshot, SourceColumn, SourceSchema
from datarecs_core.comparison.proof.stage_json import question_document
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.results import DifferenceClass, Verdict
from datarecs_core.comparison.results.verdict import judge_stage
from datarecs_core.jobs.definition import (
    ColumnMapping,
    Dimension,
    Measure,
    Parameter,
    ReconciliationJob,
    Source,
    Stage,
)
from datarecs_core.jobs.literals import parameters_written_in
from datarecs_core.jobs.types import parse_type
from datarecs_core.jobs.vocabulary import ParameterType, SourceKind, StageType
from datarecs_testing.comparisons import a_measure, absolute, counting
from datarecs_testing.tables import JOB_UID, NOON

QUERIES = {"ledger": "select 1 k, sum(amt) t from gl", "lake": "select 1 k, sum(x) t from f"}
PIN = ExportedSnapshot(
    snapshot_id="s", system_id="1", database="d", snapshot="1:1:", lsn="0/0", taken_at=NOON
)


def schema(columns: str) -> SourceSchema:
    pairs = (part.split(" ", 1) for part in columns.split(", "))
    return SourceSchema(
        columns=tuple(SourceColumn(name=name, type=parse_type(kind)) for name, kind in pairs)
    )


def control(*measures: Measure, keys: str = "k", **fields: Any) -> Stage:  # noqa: ANN401  any field
    return Stage(
        name="control",
        type=StageType.CUSTOM_SQL,
        dimensions=tuple(Dimension(name=name) for name in keys.split()),
        measures=measures or (a_measure("t"),),
        queries=QUERIES,
        **fields,
    )


def job_of(*stages: Stage, kind: SourceKind = SourceKind.POSTGRES) -> ReconciliationJob:
    sources = tuple(Source(name=name, kind=kind, connection="c", relation=name) for name in QUERIES)
    return ReconciliationJob(name="job", sources=sources, stages=stages)


def planned(
    job: ReconciliationJob, returned: str = "k int, t decimal(18,2)", other: str | None = None
) -> ComparisonPlan:
    answers = dict(zip(QUERIES, (schema(returned), schema(other or returned)), strict=True))
    return plan_comparison(
        PlanRequest(
            job=job,
            job_uid=JOB_UID,
            spec_hash="sha256:" + 64 * "0",
            schemas={name: schema("id int, amt decimal(18,2)") for name in QUERIES},
            pins=dict.fromkeys(QUERIES, PIN),
            queries={"control": answers},
        )
    )


def compared(plan: ComparisonPlan, *rows: Rows) -> OracleStage:
    return compare_stage(plan.stages[0], rows, Outside(key=COMPARE_KEY))


def test_each_source_is_read_by_its_query_and_other_stages_by_the_source() -> None:
    plan = planned(job_of(control(), counting()))
    query_stage, rows = plan.stages
    assert [scan.query for scan in query_stage.scans] == list(QUERIES.values())
    assert [scan.relation for scan in query_stage.scans] == [None, None]
    assert [column.name for column in query_stage.scans[0].columns] == ["k", "t"]
    assert [scan.relation for scan in rows.scans] == ["ledger", "lake"]
    assert question_document(query_stage)["queries"] == QUERIES
    assert "queries" not in question_document(rows)


def test_the_plan_survives_its_document_and_its_hash_names_the_queries() -> None:
    plan = planned(job_of(control(), counting()))
    again = plan_from_document(plan_document(plan))
    assert again == plan
    assert again.stages[0].scans == plan.stages[0].queries
    changed = {**QUERIES, "lake": "select 1 k, 2 t"}
    other = planned(job_of(replace(control(), queries=changed), counting()))
    assert plan_hash(other) != plan_hash(plan)


def test_answers_are_compared_group_by_group() -> None:
    plan = planned(job_of(control(a_measure("t", absolute("0.01")))))
    comparison = compared(plan, [(1, "10.00"), (2, "5")], [(1, "10.01"), (3, "5")])
    counts = comparison.results.counts
    assert (counts.matched_groups, counts.unmatched_by_source) == (1, (1, 1))
    assert comparison.results.measures[0].within_not_equal == 1
    assert comparison.results.rows is None
    outcome = judge_stage(plan.stages[0], comparison.results)
    assert outcome.verdict is Verdict.UNMATCHED
    kinds = sorted(row.difference_class for row in comparison.differences)
    assert kinds == [DifferenceClass.MISSING, DifferenceClass.MISSING, DifferenceClass.WITHIN]


def test_two_rows_of_one_key_are_an_error() -> None:
    plan = planned(job_of(control()))
    with pytest.raises(DuplicateKeysError, match="lake"):
        compared(plan, [(1, "1")], [(1, "1"), (1, "2")])


def test_a_query_without_dimensions_returns_one_row_or_none() -> None:
    plan = planned(job_of(control(keys="")))
    comparison = compared(plan, [("1.00",)], [])
    assert comparison.results.counts.unmatched_by_source == (1, 0)
    assert judge_stage(plan.stages[0], comparison.results).verdict is Verdict.UNMATCHED
    assert compared(plan, [], []).results.counts.rows_compared == 0


def test_columns_that_a_query_does_not_return_are_named() -> None:
    with pytest.raises(PlanRefusedError, match="source lake has no column 't'") as refused:
        planned(job_of(control()), other="k int, total int")
    assert [fault.code.docs_id for fault in refused.value.faults] == ["DR1060"]
    with pytest.raises(PlanRefusedError, match="t") as refused:
        planned(job_of(control()), other="k int, t text")
    assert [fault.code.docs_id for fault in refused.value.faults] == ["DR1062"]


@pytest.mark.parametrize("kind", [SourceKind.PARQUET, SourceKind.ICEBERG])
def test_files_answer_with_the_rows_behind_their_filter(kind: SourceKind) -> None:
    job = job_of(control(), kind=kind)
    filtered = tuple(
        replace(each, filter="amt > 1", columns={"a": ColumnMapping(column="amt")})
        for each in job.sources
    )
    (query_stage,) = planned(replace(job, sources=filtered)).stages
    assert [(scan.query, scan.filter) for scan in query_stage.scans] == [
        (query, "amt > 1") for query in QUERIES.values()
    ]
    assert [column.physical for column in query_stage.scans[0].columns] == ["k", "t"]


def test_a_source_without_queries_is_refused_and_the_plan_names_the_fix() -> None:
    with pytest.raises(PlanRefusedError) as refused:
        planned(job_of(control(), kind=SourceKind.DELTA))
    faults = refused.value.faults
    assert [fault.code.docs_id for fault in faults] == ["DR1065", "DR1065"]
    assert "a query over a source of kind delta is not part of this release" in str(faults[0])
    assert "aggregate stage" in faults[0].hint


def test_parameters_are_literals_in_queries() -> None:
    queries = {"ledger": "select 1 k, :owner t", "lake": "select 1 k, 2 t"}
    job = replace(
        job_of(replace(control(), queries=queries)),
        parameters={"owner": Parameter(type=ParameterType.TEXT)},
    )
    for kind in (SourceKind.POSTGRES, SourceKind.CSV):
        sources = tuple(replace(each, kind=kind) for each in job.sources)
        written = parameters_written_in(replace(job, sources=sources), {"owner": "x\\' OR '1'='1"})
        assert written.stages[0].queries["ledger"] == "select 1 k, 'x\\'' OR ''1''=''1' t"
