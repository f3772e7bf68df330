import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.comparison.oracle.grouping import Outside
from datarecs_core.comparison.oracle.reference import compare_stage, sums_of_source
from datarecs_core.comparison.planning.faults import InconsistentCountsError
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.fingerprints import (
    bucket_of,
    fingerprint_of,
    read_bucket_value,
)
from datarecs_core.comparison.results.results import BucketSum
from datarecs_core.comparison.results.row_digests import Leaf, expected_rows, leaves_of, merkle_root
from datarecs_core.comparison.results.verdict import judge_stage
from datarecs_core.comparison.values.canonical import encode, encode_tuple, number, text
from datarecs_core.jobs.definition import Execution, Normalize, NullRules, Stage
from datarecs_core.jobs.vocabulary import Function, NullKeys, ProofMode
from datarecs_testing.comparisons import (
    a_measure,
    aggregate_by,
    comparing_columns,
    counting,
    digest_by,
    rows_by,
)
from datarecs_testing.tables import Table, a_job, a_table, plan_of

COLUMNS = "k int, a text, b int"
TABLES = [
    a_table("one", COLUMNS, (1, "x", 10), (1, "x", 10), (2, None, 5), (None, "y", 1)),
    a_table("two", COLUMNS, (1, "x", 10), (3, "z", 7)),
]
STAGES = [
    rows_by("k", a_measure("b"), a_measure("a")),
    aggregate_by("k", a_measure("total", function=Function.SUM, column="b")),
    counting(),
    digest_by("k"),
    comparing_columns(),
]


def sealed(stage: Stage, tables: Sequence[Table] = TABLES, **job: Any) -> StagePlan:  # noqa: ANN401  any field of the job
    execution = Execution(proof=ProofMode.ROWS)
    job_declared = a_job(list(tables), stage, execution=execution, **job)
    return plan_of(job_declared, list(tables)).stages[0]


def sums(plan: StagePlan, tables: Sequence[Table] = TABLES) -> tuple[BucketSum, ...]:
    rows = [table.delivered(scan) for table, scan in zip(tables, plan.scans, strict=True)]
    return compare_stage(plan, rows, Outside(key=COMPARE_KEY)).results.digests


def a_leaf(number: int) -> Leaf:
    return Leaf(stage="s", source="a", bucket=number, rows=1, total=number)


def rfc_6962(hashes: Sequence[bytes]) -> bytes:
    """The tree hash as RFC 6962 section 2.1 writes it down."""
    if not hashes:
        return hashlib.sha256(b"").digest()
    if len(hashes) == 1:
        return hashes[0]
    split = 1
    while split * 2 < len(hashes):
        split *= 2
    both = rfc_6962(hashes[:split]) + rfc_6962(hashes[split:])
    return hashlib.sha256(b"\x01" + both).digest()


@pytest.mark.case("F17")
@pytest.mark.parametrize("leaves", range(18))
def test_the_root_is_the_tree_of_rfc_6962(leaves: int) -> None:
    made = [a_leaf(number) for number in range(leaves)]
    expected = rfc_6962([leaf.hashed() for leaf in made]).hex()
    assert merkle_root(made) == merkle_root(made[::-1]) == f"sha256:{expected}"


@pytest.mark.case("F17")
def test_a_leaf_is_hashed_as_in_the_specification() -> None:
    leaf = Leaf(stage="rows", source="lake", bucket=0x123, rows=2, total=2**127 + 1)
    prefix = b"\x00" + encode(text("rows")) + encode(text("lake")) + b"\x01\x23"
    prefix += (2).to_bytes(8) + b"\x80" + bytes(14) + b"\x01"
    assert leaf.hashed() == hashlib.sha256(prefix).digest()


@pytest.mark.case("F17")
def test_a_row_stage_seals_source_rows_with_their_columns_by_name() -> None:
    plan = sealed(STAGES[0])
    group = encode_tuple((number(1),))
    values = encode_tuple((text("x"), number(10)))
    (part,) = (
        each
        for each in sums(plan)
        if (each.source, each.bucket) == (0, bucket_of(COMPARE_KEY, group))
    )
    assert part.rows == 2
    assert part.total == 2 * fingerprint_of(COMPARE_KEY, group, values) % 2**128


@pytest.mark.case("F17")
def test_other_stages_seal_the_results_of_their_groups() -> None:
    plan = sealed(STAGES[1])
    group = encode_tuple((number(1),))
    (part,) = (
        each
        for each in sums(plan)
        if (each.source, each.bucket) == (0, bucket_of(COMPARE_KEY, group))
    )
    assert part.rows == 1
    assert part.total == fingerprint_of(COMPARE_KEY, group, encode_tuple((number(20),)))


@pytest.mark.case("F17")
def test_row_and_digest_stages_over_the_same_columns_seal_the_same() -> None:
    assert sums(sealed(rows_by("k", a_measure("a"), a_measure("b")))) == tuple(
        sorted(sums(sealed(digest_by("k"))), key=lambda each: (each.source, each.bucket))
    )


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.type.value)
def test_as_many_rows_are_sealed_as_a_stage_counts(stage: Stage) -> None:
    plan = sealed(stage)
    rows = [table.delivered(scan) for table, scan in zip(TABLES, plan.scans, strict=True)]
    results = compare_stage(plan, rows, Outside(key=COMPARE_KEY)).results
    judge_stage(plan, results)
    counted = [0, 0]
    for leaf in leaves_of(results, plan.sources):
        counted[plan.sources.index(leaf.source)] += leaf.rows
    assert tuple(counted) == expected_rows(plan.type, results)
    with pytest.raises(InconsistentCountsError, match="the rule F17,"):
        judge_stage(plan, replace(results, digests=results.digests[1:]))


def test_rows_without_a_key_are_sealed_only_where_they_count() -> None:
    exclude = Normalize(nulls=NullRules(keys=NullKeys.EXCLUDE))
    assert sum(each.rows for each in sums(sealed(STAGES[0]))) == 6
    assert sum(each.rows for each in sums(sealed(STAGES[0], normalize=exclude))) == 5


def test_nothing_is_sealed_unless_it_is_declared() -> None:
    plan = plan_of(a_job(TABLES, STAGES[0]), TABLES).stages[0]
    assert sums(plan) == ()


@pytest.mark.case("F17")
@given(cut=st.integers(0, 4))
def test_sums_are_additive_over_any_split_of_rows(cut: int) -> None:
    plan = sealed(STAGES[0])
    rows = TABLES[0].delivered(plan.scans[0])
    outside = Outside(key=COMPARE_KEY)
    whole = sums_of_source(plan, 0, rows, outside)
    assert whole == tuple(each for each in sums(plan) if each.source == 0)
    parts = [*sums_of_source(plan, 0, rows[:cut], outside)]
    parts += sums_of_source(plan, 0, rows[cut:], outside)
    for each in whole:
        same_bucket = [part for part in parts if part.bucket == each.bucket]
        assert sum(part.rows for part in same_bucket) == each.rows
        assert sum(part.total for part in same_bucket) % 2**128 == each.total


def test_the_rows_of_one_source_determine_its_part_of_any_stage() -> None:
    for stage in STAGES[:4]:
        plan = sealed(stage)
        for index, table in enumerate(TABLES):
            rows = iter(table.delivered(plan.scans[index]))
            alone = sums_of_source(plan, index, rows, Outside(key=COMPARE_KEY))
            part = [each for each in sums(plan) if each.source == index]
            assert alone == tuple(sorted(part, key=lambda each: each.bucket))


def test_another_value_is_no_bucket() -> None:
    with pytest.raises(ValueError, match="no value of a bucket"):
        read_bucket_value(number(1))
