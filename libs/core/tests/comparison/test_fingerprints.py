import hashlib
from decimal import Decimal

import pytest

from datarecs_core.comparison.oracle.grouping import Outside
from datarecs_core.comparison.oracle.reference import OracleStage, compare_stage
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.proof.stage_json import question_document
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.fingerprints import (
    bucket_key,
    bucket_of,
    bucket_value,
    fingerprint_of,
    key_hash,
)
from datarecs_core.comparison.values.canonical import Tag, encode_tuple, number, text
from datarecs_core.jobs.definition import Scope
from datarecs_testing.comparisons import a_measure, digest_by, rows_by
from datarecs_testing.tables import Table, a_job, a_table, pair, plan_of

KEY = b"key of a tenant"
ROWS = [(k, f"v{k}") for k in range(20)]


def run_stage(tables: list[Table], key: bytes = COMPARE_KEY) -> OracleStage:
    stage = stage_of(tables)
    rows = [table.delivered(scan) for table, scan in zip(tables, stage.scans, strict=True)]
    return compare_stage(stage, rows, Outside(key=key))


def stage_of(tables: list[Table]) -> StagePlan:
    return plan_of(a_job(tables, digest_by("k")), tables).stages[0]


def test_keys_buckets_and_fingerprints_are_the_first_bits_of_keyed_hashes() -> None:
    group, values = encode_tuple((number(7),)), encode_tuple((text("a"),))
    hashed = hashlib.sha256(KEY + b"\x02" + group).hexdigest()
    assert key_hash(KEY, group) == bytes.fromhex(hashed[:32])
    assert bucket_of(KEY, group) == int(hashed[:3], 16)
    assert bucket_key(KEY, group) == encode_tuple((number(bucket_of(KEY, group)),))
    hashed = hashlib.sha256(KEY + b"\x01" + group + values).hexdigest()
    assert fingerprint_of(KEY, group, values) == int(hashed[:32], 16)


@pytest.mark.case("F17")
def test_sums_are_modulo_2_to_128_and_do_not_depend_on_how_rows_are_split() -> None:
    prints = [fingerprint_of(KEY, encode_tuple((number(k),)), b"") for k in range(50)]
    halves = [sum(prints[:17]) % 2**128, sum(prints[17:]) % 2**128]
    assert bucket_value(50, sum(prints)) == bucket_value(50, sum(halves))
    value = bucket_value(3, 2**128 + 5)
    assert (value.tag, value.content) == (Tag.BINARY, bytes(7) + b"\x03" + bytes(15) + b"\x05")


@pytest.mark.case("F23")
def test_another_key_makes_other_buckets_and_other_sums() -> None:
    tables = pair("k int, v text", ROWS, [])
    first, second = (
        {row.key: row.values for row in run_stage(tables, key).differences}
        for key in (COMPARE_KEY, KEY)
    )
    assert first.keys() != second.keys()


def test_the_order_of_columns_and_rows_changes_nothing() -> None:
    one = a_table("one", "k int, b text, a int", *((k, v, k) for k, v in ROWS))
    two = a_table("two", "a int, k int, b text", *((k, k, v) for k, v in ROWS[::-1]))
    assert run_stage([one, two]).differences == ()


def test_the_plan_records_what_is_hashed_and_the_proof_contains_it() -> None:
    tables = [a_table("one", "k int, b text, x int"), a_table("two", "k int, b text")]
    stage = stage_of(tables)
    assert [each.name for each in stage.dimensions] == ["bucket"]
    assert [(each.name, each.comparable) for each in stage.measures] == [
        ("fingerprint", True),
        ("x", False),
    ]
    assert question_document(stage)["hashed"] == {
        "dimensions": [{"name": "k", "column": "k", "types": ["int", "int"], "rules": {}}],
        "measures": [{"name": "b", "rules": {}}],
    }
    assert [column.name for column in stage.scans[0].columns] == ["b", "k"]


def test_a_stage_that_is_scoped_to_buckets_gets_their_dimensions() -> None:
    tables = pair("k int, v text", ROWS, [])
    stages = (
        digest_by("k", where="k > 1"),
        rows_by("k", a_measure("v"), scope=Scope(from_stage="digests")),
    )
    scope = plan_of(a_job(tables, *stages), tables).stages[1].scope
    assert scope is not None
    assert (scope.buckets, scope.where) == (True, "k > 1")
    assert [each.name for each in scope.dimensions] == ["k"]


def test_decimals_of_any_scale_are_one_number() -> None:
    tables = [
        a_table("one", "k int, v decimal(9,2)", (1, Decimal("0.50"))),
        a_table("two", "k int, v float64", (1, 0.5)),
    ]
    assert run_stage(tables).results.counts.rows_unmatched == 0
