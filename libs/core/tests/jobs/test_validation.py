"""Whole-job rules: every one with a job that breaks it alone."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, cast

import pytest

from datarecs_core.errors.faults import Gap, dotted
from datarecs_core.jobs.definition import (
    ALL_COLUMNS,
    Accept,
    Breaks,
    Confirm,
    Dimension,
    Measure,
    MeasureDefaults,
    Parameter,
    Partition,
    ReconciliationJob,
    Results,
    Scope,
    Snapshot,
    Source,
    Stage,
    Tolerance,
    TopicBound,
    WarnAt,
)
from datarecs_core.jobs.types import DATE, TEXT
from datarecs_core.jobs.validation import job_faults
from datarecs_core.jobs.vocabulary import (
    DuplicatePolicy,
    Function,
    MaskRule,
    OnUnmatched,
    ParameterType,
    SourceKind,
    StageType,
    ToleranceType,
    TopicEdge,
)

LEDGER = Source(name="ledger", kind=SourceKind.POSTGRES, connection="pg", relation="public.entries")
EXPORTS = Source(name="exports", kind=SourceKind.PARQUET, connection="files", path="*.parquet")
AMOUNT = Measure(name="amount", function=Function.SUM)
BALANCES = Stage(
    name="balances",
    type=StageType.AGGREGATE,
    dimensions=(Dimension(name="account"),),
    measures=(AMOUNT,),
)
ROWS = Stage(
    name="rows",
    type=StageType.ROW,
    dimensions=(Dimension(name="id"),),
    measures=(Measure(name="amount"),),
)
JOB = ReconciliationJob(name="orders", sources=(LEDGER, EXPORTS), stages=(BALANCES, ROWS))
PERCENT = Tolerance(type=ToleranceType.PERCENTAGE, value=Decimal(1))
DURATION = Tolerance(type=ToleranceType.DURATION, value=timedelta(seconds=1))
EXACT = Tolerance(type=ToleranceType.EXACT)


def faults_of(job: ReconciliationJob) -> list[tuple[str, str]]:
    return [(fault.code.docs_id, dotted(fault.path)) for fault in job_faults(job)]


def with_stage(stage: Stage, **changes: Any) -> ReconciliationJob:  # noqa: ANN401  any field
    return replace(JOB, stages=(replace(stage, **changes),))


def with_measure(stage: Stage, **changes: Any) -> ReconciliationJob:  # noqa: ANN401  any field
    measures = cast("tuple[Measure, ...]", stage.measures)
    return with_stage(stage, measures=(replace(measures[0], **changes),))


def test_a_good_job_has_no_fault() -> None:
    assert faults_of(JOB) == []


NAMES: Mapping[str, tuple[ReconciliationJob, list[tuple[str, str]]]] = {
    "two sources of one name": (
        replace(JOB, sources=(LEDGER, replace(EXPORTS, name="ledger"))),
        [("DR1020", "spec.sources[1].name")],
    ),
    "two stages of one name": (
        replace(JOB, stages=(BALANCES, BALANCES)),
        [("DR1020", "spec.stages[1].name")],
    ),
    "two measures of one name": (
        with_stage(BALANCES, measures=(AMOUNT, AMOUNT)),
        [("DR1020", "spec.stages[0].measures[1].name")],
    ),
    "two dimensions of one name": (
        with_stage(BALANCES, dimensions=(Dimension(name="a"), Dimension(name="a"))),
        [("DR1020", "spec.stages[0].dimensions[1].name")],
    ),
    "a reference that is no source": (
        replace(JOB, reference="legder"),
        [("DR1021", "spec.reference")],
    ),
    "a stage's reference that is no source": (
        with_stage(BALANCES, reference="x"),
        [("DR1021", "spec.stages[0].reference")],
    ),
    "a map for no source": (
        with_measure(ROWS, map={"lake": {"P": "PAID"}}),
        [("DR1021", "spec.stages[0].measures[0].map.lake")],
    ),
    "a scope from a later stage": (
        replace(JOB, stages=(replace(BALANCES, scope=Scope(from_stage="rows")), ROWS)),
        [("DR1022", "spec.stages[0].scope.from_stage")],
    ),
    "a scope from itself": (
        with_stage(BALANCES, scope=Scope(from_stage="balances")),
        [("DR1022", "spec.stages[0].scope.from_stage")],
    ),
    "a mask of no column": (
        replace(JOB, results=Results(breaks=Breaks(mask={"iban": MaskRule.HASH}))),
        [("DR1072", "spec.results.breaks.mask.iban")],
    ),
    "a bad default": (
        replace(JOB, parameters={"n": Parameter(type=ParameterType.INT, default="x")}),
        [("DR1034", "spec.parameters.n.default")],
    ),
}


@pytest.mark.parametrize("case", NAMES)
def test_names_and_references(case: str) -> None:
    job, expected = NAMES[case]
    assert faults_of(job) == expected


QUERIES = Stage(
    name="totals",
    type=StageType.CUSTOM_SQL,
    measures=(Measure(name="t"),),
    queries={"ledger": "select 1 t", "exports": "select 1 t"},
)
SHAPE = Stage(name="shape", type=StageType.SCHEMA)
STAGES: Mapping[str, tuple[ReconciliationJob, list[tuple[str, str]]]] = {
    "value in an aggregate": (
        with_measure(BALANCES, function=Function.VALUE),
        [("DR1050", "spec.stages[0].measures[0].function")],
    ),
    "sum in a row stage": (
        with_measure(ROWS, function=Function.SUM),
        [("DR1050", "spec.stages[0].measures[0].function")],
    ),
    "another measure than row_count in counts": (
        replace(
            JOB,
            stages=(Stage(name="c", type=StageType.COUNTS, measures=(Measure(name="amount"),)),),
        ),
        [("DR1050", "spec.stages[0].measures[0].name")],
    ),
    "a measure named as a dimension": (
        with_measure(BALANCES, name="account"),
        [("DR1051", "spec.stages[0].measures[0].name")],
    ),
    "a row measure over a dimension's column": (
        with_measure(ROWS, name="again", column="id"),
        [("DR1051", "spec.stages[0].measures[0].column")],
    ),
    "a tolerance in a digest": (
        replace(
            JOB,
            stages=(
                replace(
                    ROWS,
                    type=StageType.DIGEST,
                    measures=(Measure(name="amount", tolerances=(PERCENT,)),),
                ),
            ),
        ),
        [("DR1052", "spec.stages[0].measures[0].tolerances")],
    ),
    "the star in an aggregate": (
        with_stage(BALANCES, measures=ALL_COLUMNS),
        [("DR1053", "spec.stages[0].measures")],
    ),
    "except without the star": (
        with_stage(ROWS, except_=("load_ts",)),
        [("DR1006", "spec.stages[0].except")],
    ),
    "a query missing": (
        replace(JOB, stages=(replace(QUERIES, queries={"ledger": "select 1 t"}),)),
        [("DR1054", "spec.stages[0].queries.exports")],
    ),
    "a query for no source": (
        replace(JOB, stages=(replace(QUERIES, queries={**QUERIES.queries, "x": "select 1 t"}),)),
        [("DR1021", "spec.stages[0].queries.x")],
    ),
    "duplicates: aggregate without function": (
        with_stage(ROWS, duplicates=DuplicatePolicy.AGGREGATE),
        [("DR1055", "spec.stages[0].measures[0].function")],
    ),
    "duplicates: aggregate with the star": (
        with_stage(ROWS, duplicates=DuplicatePolicy.AGGREGATE, measures=ALL_COLUMNS),
        [("DR1055", "spec.stages[0].measures")],
    ),
    "duplicates: aggregate with value": (
        replace(with_measure(ROWS, function=Function.VALUE), duplicates=DuplicatePolicy.AGGREGATE),
        [("DR1055", "spec.stages[0].measures[0].function")],
    ),
    "a scope from the schema": (
        replace(JOB, stages=(SHAPE, replace(ROWS, scope=Scope(from_stage="shape")))),
        [("DR1056", "spec.stages[1].scope.from_stage")],
    ),
    "escalating into queries": (
        replace(JOB, stages=(replace(BALANCES, on_unmatched=OnUnmatched.ESCALATE), QUERIES)),
        [("DR1056", "spec.stages[0].on_unmatched")],
    ),
    "EXACT beside another": (
        with_measure(BALANCES, tolerances=(PERCENT, EXACT)),
        [("DR1045", "spec.stages[0].measures[0].tolerances[1]")],
    ),
    "a duration on a sum": (
        with_measure(BALANCES, tolerances=(DURATION,)),
        [("DR1042", "spec.stages[0].measures[0].tolerances[0].type")],
    ),
    "a duration on an aggregate without a function": (
        with_measure(BALANCES, function=None, tolerances=(DURATION,)),
        [("DR1042", "spec.stages[0].measures[0].tolerances[0].type")],
    ),
    "a percentage on a date": (
        replace(
            with_measure(ROWS, name="day", tolerances=(PERCENT,)),
            sources=(replace(LEDGER, cast={"day": DATE}), EXPORTS),
        ),
        [("DR1042", "spec.stages[0].measures[0].tolerances[0].type")],
    ),
    "defaults that do not fit their type": (
        with_stage(
            ROWS,
            measures=ALL_COLUMNS,
            measure_defaults={TEXT: MeasureDefaults(tolerances=(PERCENT,))},
        ),
        [("DR1042", "spec.stages[0].measure_defaults.text.tolerances[0].type")],
    ),
    "a gap limit for no measure": (
        with_stage(BALANCES, accept=Accept(max_gap={"amout": Decimal(1)})),
        [("DR1004", "spec.stages[0].accept.max_gap.amout")],
    ),
    "a gap warning for no measure": (
        with_stage(BALANCES, warn_at=WarnAt(gap={"x": Decimal(1)})),
        [("DR1004", "spec.stages[0].warn_at.gap.x")],
    ),
}


@pytest.mark.parametrize("case", STAGES)
def test_rules_of_stages(case: str) -> None:
    job, expected = STAGES[case]
    assert faults_of(job) == expected


GOOD: Mapping[str, ReconciliationJob] = {
    "counts with a tolerance and a gap limit": replace(
        JOB,
        stages=(
            Stage(
                name="c",
                type=StageType.COUNTS,
                measures=(Measure(name="row_count", tolerances=(PERCENT,)),),
                accept=Accept(max_gap={"row_count": Decimal(5)}),
            ),
        ),
    ),
    "all columns, masked ones unknown": replace(
        with_stage(ROWS, measures=ALL_COLUMNS, except_=("load_ts",)),
        results=Results(breaks=Breaks(mask={"iban": MaskRule.HASH})),
    ),
    "a masked dimension": replace(
        JOB, results=Results(breaks=Breaks(mask={"account": MaskRule.REDACT}))
    ),
    "counts that escalate": replace(
        JOB,
        stages=(
            Stage(name="c", type=StageType.COUNTS, on_unmatched=OnUnmatched.ESCALATE),
            ROWS,
        ),
    ),
    "queries for all": replace(JOB, stages=(QUERIES,)),
    "copies joined by max": replace(
        with_measure(ROWS, function=Function.MAX), duplicates=DuplicatePolicy.AGGREGATE
    ),
    "a duration on a min": with_measure(BALANCES, function=Function.MIN, tolerances=(DURATION,)),
    "a duration in custom SQL": replace(
        JOB, stages=(replace(QUERIES, measures=(Measure(name="t", tolerances=(DURATION,)),)),)
    ),
    "defaults that fit": with_stage(
        ROWS,
        measures=ALL_COLUMNS,
        measure_defaults={DATE: MeasureDefaults(tolerances=(DURATION,))},
    ),
}


@pytest.mark.parametrize("case", GOOD)
def test_what_is_allowed(case: str) -> None:
    assert faults_of(GOOD[case]) == []


FIXED = Source(
    name="lake",
    kind=SourceKind.ICEBERG,
    connection="c",
    relation="a.b",
    snapshot=Snapshot(snapshot_id=5),
)
CONFIRMED = replace(ROWS, confirm=Confirm(after=timedelta(minutes=1)))


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ((FIXED, replace(FIXED, name="two")), [("DR1057", "spec.stages[0].confirm")]),
        ((FIXED, LEDGER), []),
    ],
)
def test_a_recheck_needs_a_source_that_can_change(
    sources: tuple[Source, ...], expected: list[tuple[str, str]]
) -> None:
    assert faults_of(replace(JOB, sources=sources, stages=(CONFIRMED,))) == expected


def test_databases_alone_are_cut_into_ranges() -> None:
    by_id = Partition(by="id", count=8)
    cut = [replace(each, partition=by_id) for each in (LEDGER, EXPORTS)]
    assert faults_of(replace(JOB, sources=tuple(cut))) == [("DR1006", "spec.sources[1].partition")]
    assert faults_of(replace(JOB, sources=(cut[0], EXPORTS))) == []


def test_broken_parts_are_passed_over_and_their_names_count() -> None:
    """A Gap is no second fault: what refers to it by name is right."""
    gap: Any = Gap(name="ledger")
    nameless: Any = Gap()
    job = replace(
        JOB,
        reference="ledger",
        sources=(gap, EXPORTS, nameless),
        stages=(
            replace(BALANCES, dimensions=(nameless,), measures=(nameless, AMOUNT)),
            nameless,
            cast("Stage", Gap(name="middle")),
            replace(ROWS, scope=Scope(from_stage="middle")),
        ),
    )
    assert faults_of(job) == []


def test_a_duplicate_names_a_broken_part_too() -> None:
    gap: Any = Gap(name="ledger")
    assert faults_of(replace(JOB, sources=(gap, LEDGER))) == [("DR1020", "spec.sources[1].name")]


@pytest.mark.case("X30")
def test_a_job_of_the_largest_size_is_judged_at_once() -> None:
    sources = tuple(replace(LEDGER, name=f"s{index}") for index in range(32))
    measures = tuple(replace(AMOUNT, name=f"m{index}") for index in range(500))
    stages = tuple(replace(BALANCES, name=f"t{index}", measures=measures) for index in range(10))
    assert faults_of(replace(JOB, sources=sources, stages=stages)) == []


WATERMARK = Source(
    name="topic",
    kind=SourceKind.KAFKA,
    connection="k",
    topic="orders",
    snapshot=Snapshot(end=TopicBound(edge=TopicEdge.WATERMARK)),
)
LAKE = Source(name="lake", kind=SourceKind.ICEBERG, connection="lake", relation="sales.orders")


@pytest.mark.parametrize(
    ("others", "hint"),
    [
        ((LEDGER,), "add the table that the sink writes"),
        ((LAKE, replace(LAKE, name="copy")), "in a job of its own"),
    ],
)
def test_a_watermark_is_that_of_one_table(others: tuple[Source, ...], hint: str) -> None:
    job = replace(JOB, sources=(WATERMARK, *others), reference=None)
    (fault,) = [one for one in job_faults(job) if "watermark" in str(one.message)]
    assert (fault.code.docs_id, dotted(fault.path)) == ("DR1009", "spec.sources[0].snapshot.to")
    assert hint in fault.hint
    assert faults_of(replace(JOB, sources=(WATERMARK, LEDGER, LAKE))) == []
