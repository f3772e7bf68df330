"""The results of every engine besides counts: steps of a gap, row digests, query results."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from datarecs_core.comparison.oracle.grouping import Outside
from datarecs_core.comparison.oracle.reference import compare_stage
from datarecs_core.comparison.planning.faults import DuplicateKeysError
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.results import BucketSum, StageResults, Waterfall
from datarecs_core.comparison.results.verdict import judge_stage
from datarecs_core.jobs.definition import Execution, Normalize, NullRules, NumberRules, Stage
from datarecs_core.jobs.vocabulary import (
    DuplicatePolicy,
    Function,
    NanRule,
    NullKeys,
    ProofMode,
    StageType,
)
from datarecs_testing.comparisons import (
    EngineBench,
    a_measure,
    aggregate_by,
    compare,
    comparing_columns,
    counting,
    digest_by,
    rows_by,
)
from datarecs_testing.tables import Table, a_job, a_table, plan_of

D = Decimal
COLUMNS = "k int, t text, v decimal(9,2), f float64"
TABLES = [
    a_table(
        "a",
        COLUMNS,
        (1, "x", D("1.50"), 0.5),
        (1, "x", D("1.50"), 0.5),
        (2, None, None, float("nan")),
        (None, "y", D(7), 1e20),
        (5, "only a", D("-3.25"), None),
    ),
    a_table(
        "b",
        COLUMNS,
        (1, "x", D("1.75"), 0.5),
        (2, None, D(4), float("nan")),
        (6, "z", D("0.10"), 2.0),
        (6, "z", D("0.20"), 2.0),
    ),
    a_table("c", COLUMNS, (1, "x", D("1.50"), 0.1), (6, "z", D(100), -0.0), (5, "c", D(1), None)),
]
SEALED = Execution(proof=ProofMode.ROWS)
STAGES = {
    "counts": counting(),
    "schema": comparing_columns(),
    "row": rows_by("k", a_measure("v"), a_measure("t"), a_measure("f")),
    "whole rows": rows_by("", a_measure("v"), a_measure("t")),
    "collapsed": rows_by(
        "k", a_measure("v", function=Function.MAX), duplicates=DuplicatePolicy.AGGREGATE
    ),
    "digest": digest_by("k"),
    "aggregate": aggregate_by(
        "k",
        a_measure("v"),
        a_measure("n", function=Function.COUNT),
        a_measure("most", function=Function.MAX, column="t"),
    ),
    "total": aggregate_by("", a_measure("v")),
    "filtered": rows_by("k", a_measure("v"), where="v > 1"),
}


def by_the_oracle(tables: Sequence[Table], stage: Stage, normalize: Normalize) -> StageResults:
    plan = plan_of(a_job(tables, stage, normalize=normalize, execution=SEALED), tables).stages[0]
    rows = [table.delivered(scan) for table, scan in zip(tables, plan.scans, strict=True)]
    return compare_stage(plan, rows, Outside(key=COMPARE_KEY)).results


class EvidenceConformance:
    """Equal to the oracle amount by amount and byte by byte."""

    @pytest.fixture
    def bench(self) -> EngineBench:
        raise LookupError("a subclass gives the fixture `bench`")

    @pytest.mark.case("F15")
    @pytest.mark.parametrize("kind", ["row", "aggregate"])
    def test_the_steps_of_every_gap_add_up(self, bench: EngineBench, kind: str) -> None:
        measure = compare(bench, a_job(TABLES, STAGES[kind]), TABLES).measure("v")
        assert measure.waterfall_by_source == (
            Waterfall(missing_here=D(0), missing_in_reference=D(0), changed=D(0)),
            Waterfall(missing_here=D("3.75"), missing_in_reference=D("0.30"), changed=D("2.75")),
            Waterfall(missing_here=D(7), missing_in_reference=D(100), changed=D("2.75")),
        )

    @pytest.mark.case("F15")
    def test_copies_of_keys_have_steps_too(self, bench: EngineBench) -> None:
        measure = compare(bench, a_job(TABLES, STAGES["row"]), TABLES).measure("$rows")
        steps = [
            (each.missing_here, each.missing_in_reference, each.changed)
            for each in measure.waterfall_by_source
            if each is not None
        ]
        assert [tuple(map(int, each)) for each in steps] == [(0, 0, 0), (2, 2, -1), (2, 1, -1)]

    @pytest.mark.case("F17")
    @pytest.mark.parametrize("kind", STAGES)
    def test_row_digests_are_the_same_bytes(self, bench: EngineBench, kind: str) -> None:
        for normalize in (
            Normalize(),
            Normalize(
                nulls=NullRules(keys=NullKeys.EXCLUDE), numbers=NumberRules(nan=NanRule.UNEQUAL)
            ),
        ):
            job = a_job(TABLES, STAGES[kind], normalize=normalize, execution=SEALED)
            results = compare(bench, job, TABLES).results()
            expected = by_the_oracle(TABLES, STAGES[kind], normalize)
            assert sorted(results.digests, key=_place) == sorted(expected.digests, key=_place)

    def test_nothing_is_sealed_unless_it_is_requested(self, bench: EngineBench) -> None:
        assert compare(bench, a_job(TABLES, STAGES["row"]), TABLES).results().digests == ()

    def test_answers_of_queries_are_groups_of_one_row(self, bench: EngineBench) -> None:
        tables = [
            a_table("a", "k int, v decimal(9,2)", (1, D(1)), (2, D(2))),
            a_table("b", "k int, v decimal(9,2)", (1, D("1.01")), (3, D(3))),
        ]
        engine, plan = bench.prepare(
            plan_of(a_job(tables, rows_by("k", a_measure("v"))), tables), tables
        )
        stage = replace(plan.stages[0], type=StageType.CUSTOM_SQL, duplicates=DuplicatePolicy.ERROR)
        results = engine.compare(stage, lambda _: None)
        judge_stage(stage, results)
        assert results.rows is None
        assert (results.counts.matched_groups, results.counts.unmatched_by_source) == (1, (1, 1))
        assert results.measures[0].outside == 1

    def test_a_key_that_a_query_returns_twice_is_refused(self, bench: EngineBench) -> None:
        tables = [
            a_table("a", "k int, v int", (1, 1), (1, 2)),
            a_table("b", "k int, v int", (1, 1)),
        ]
        engine, plan = bench.prepare(
            plan_of(a_job(tables, rows_by("k", a_measure("v"))), tables), tables
        )
        stage = replace(plan.stages[0], type=StageType.CUSTOM_SQL, duplicates=DuplicatePolicy.ERROR)
        with pytest.raises(DuplicateKeysError):
            engine.compare(stage, lambda _: None)


def _place(each: BucketSum) -> tuple[int, int]:
    return each.source, each.bucket
