"""The findings when a run.json, or a file beside it, was altered or is inconsistent."""

import copy
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from datarecs_core.comparison.planning.tolerance import tolerance_type
from datarecs_core.comparison.proof.reading import DocumentUnreadableError
from datarecs_core.comparison.proof.run_json import proof_hash
from datarecs_core.comparison.proof.sealed import SealedStage, sealed_run
from datarecs_core.comparison.proof.verification import verify_differences, verify_document
from datarecs_core.comparison.values.canonical import (
    NULL,
    Interval,
    Tag,
    Value,
    canonical_text,
    encode_tuple,
    invalid,
    number,
    text,
)
from datarecs_core.comparison.values.rereading import key_form, masked_key
from datarecs_core.jobs.definition import Accept, Breaks, Results, Tolerance
from datarecs_core.jobs.vocabulary import OnUnmatched, ToleranceType
from datarecs_testing.comparisons import (
    Compared,
    a_measure,
    absolute,
    compare,
    lasting,
    percentage,
    rows_by,
)
from datarecs_testing.finished_runs import MemoryBench, document
from datarecs_testing.tables import a_job, a_table

Json = dict[str, Any]
D = Decimal
TABLES = [
    a_table("ledger", "k text, v decimal(9,2)", *((f"k{at}", D(at)) for at in range(8))),
    a_table(
        "lake",
        "k text, v decimal(9,2)",
        *((f"k{at}", D(at) + D("0.01") * (at % 3)) for at in range(7)),
        ("only", D(1)),
        (None, None),
    ),
]
STAGE = rows_by("k", a_measure("v", absolute("0.01")), accept=Accept(max_outside=5))


def a_run() -> tuple[Json, Compared]:
    job = a_job(TABLES, STAGE)
    return document(job, TABLES), compare(MemoryBench(), job, TABLES)


def checks_of(made: Json) -> list[str]:
    return [finding.check for finding in verify_document(made).findings]


def sealed(made: Json) -> SealedStage:
    run = verify_document(made).run
    assert run is not None
    (stage,) = run.stages
    return stage


def stage_of(made: Json) -> Json:
    (stage,) = made["proof"]["stages"]
    assert isinstance(stage, dict)
    return stage


def resealed(made: Json, change: Callable[[Json], object]) -> Json:
    """Altered, with the hash computed again."""
    changed = copy.deepcopy(made)
    change(changed["proof"])
    changed["proof_hash"] = proof_hash(changed["proof"])
    return changed


def test_an_untouched_document_has_no_finding() -> None:
    made, verification = a_run()
    assert checks_of(made) == []
    assert list(verify_differences(sealed(made), verification.differences())) == []


@pytest.mark.case("P63")
@pytest.mark.parametrize(
    "change",
    [
        lambda made: made["proof"].update(result="MATCHED"),
        lambda made: made["proof"]["parameters"].update(day="2026-01-01"),
        lambda made: made["proof"]["sources"][0]["pin"].update(digest="sha256:00"),
        lambda made: stage_of(made)["differences"].update(digest="sha256:00"),
        lambda made: made.update(proof_hash="sha256:00"),
    ],
)
def test_whatever_changes_in_the_proof_breaks_its_hash(change: Callable[[Json], object]) -> None:
    made, _ = a_run()
    change(made)
    assert "proof_hash" in checks_of(made)


@pytest.mark.case("F01")
@pytest.mark.case("F02")
@pytest.mark.case("F03")
@pytest.mark.case("F04")
@pytest.mark.case("F05")
@pytest.mark.case("F07")
@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("F01", lambda stage: stage["counts"]["presence"][0].update(groups=6)),
        ("F02", lambda stage: stage["counts"]["missing_by_source"].update(source_0=9)),
        (
            "F03",
            lambda stage: (
                stage["counts"]["unmatched_by_source"].update(source_0=0),
                stage["counts"]["groups_by_source"].update(source_0=7),
                stage["counts"]["missing_by_source"].update(source_0=3),
            ),
        ),
        ("F04", lambda stage: stage["measures"][0].update(equal=1)),
        ("F05", lambda stage: stage["counts"].update(rows_matched=0)),
        ("F07", lambda stage: stage["counts"]["source_row_counts"].update(source_0=1)),
    ],
)
def test_counts_that_contradict_each_other_are_named_by_their_rule(
    rule: str, change: Callable[[Json], object]
) -> None:
    made, _ = a_run()
    broken = resealed(made, lambda proof: change(proof["stages"][0]))
    assert rule in checks_of(broken)


@pytest.mark.case("F06")
def test_a_verdict_against_the_counts_is_detected_in_stage_and_run() -> None:
    made, _ = a_run()
    kinder = resealed(made, lambda proof: proof["stages"][0].update(result="MATCHED"))
    assert checks_of(kinder) == ["F06", "verdict"]
    passed = resealed(made, lambda proof: proof["stages"][0]["measures"][0].update(passed=True))
    assert checks_of(passed) == ["structure"]


def test_an_acceptance_against_the_limits_is_detected() -> None:
    made, _ = a_run()
    stricter = resealed(
        made, lambda proof: proof["stages"][0]["question"]["accept"].update(max_outside=1)
    )
    assert checks_of(stricter) == ["acceptance"]


@pytest.mark.case("F14")
def test_rows_that_were_lost_on_the_way_are_detected() -> None:
    made, _ = a_run()
    lost = resealed(made, lambda proof: proof["stages"][0]["closure"][1].update(extracted=10))
    (finding,) = verify_document(lost).findings
    assert (finding.check, finding.stage, finding.source) == ("F14", "rows", "lake")
    fewer = resealed(made, lambda proof: proof["stages"][0]["closure"].pop())
    assert checks_of(fewer) == ["F14"]


def test_a_digest_over_fewer_rows_than_counted_is_detected() -> None:
    made, _ = a_run()
    fewer = resealed(made, lambda proof: proof["stages"][0]["differences"].update(rows=1))
    assert checks_of(fewer) == ["differences"]


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        {},
        {"schema": "datarecs.run/1"},
        {"schema": "datarecs.run/1", "proof_hash": 1, "proof": {"result": 2.5}},
        {"schema": "datarecs.run/1", "proof_hash": "x", "proof": {"result": "\ud800"}},
        {"schema": "datarecs.run/1", "proof_hash": "x", "proof": {"result": 2**60}},
    ],
)
def test_what_is_no_run_json_is_a_finding_and_no_crash(broken: object) -> None:
    assert verify_document(broken).findings


@pytest.mark.parametrize("member", ["stages", "sources", "result", "acceptance"])
@pytest.mark.parametrize("value", [None, 1, "x", [1], {}])
def test_a_member_of_another_shape_is_named(member: str, value: object) -> None:
    made, _ = a_run()
    odd = resealed(made, lambda proof: proof.update({member: value}))
    verification = verify_document(odd)
    assert verification.run is None
    assert any(member in finding.message for finding in verification.findings)


@pytest.mark.case("P63")
def test_a_stored_row_that_changed_is_detected_by_the_digest() -> None:
    made, verification = a_run()
    rows = verification.differences()
    stage = sealed(made)
    touched = [replace(rows[0], presence=1, odd_one_out="lake"), *rows[1:]]
    assert [each.check for each in verify_differences(stage, touched)] == ["differences"]
    assert [each.check for each in verify_differences(stage, rows[1:])] == ["differences"] * 2
    (sample,) = verify_differences(stage, rows, ["nobody"])
    assert sample.message == "1 samples are no stored rows, such as nobody"


MOMENT = D(int(datetime(2026, 3, 1, 12, 30, 5, tzinfo=UTC).timestamp()) * 1_000_000)


@pytest.mark.case("F13")
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", number(-5)),
        ("decimal(9,2)", number(D("12.50"))),
        ("float64", number(D("1e300"))),
        ("float64", number(D("NaN"))),
        ("float64", number(D("-Infinity"))),
        ("text", text(" a\u0301,'\n")),
        ("bool", Value(Tag.BOOL, True)),  # noqa: FBT003  the content
        ("bool", Value(Tag.BOOL, False)),  # noqa: FBT003  the content
        ("date", Value(Tag.DATE, D(-1))),
        ("date", Value(Tag.DATE, D(-800_000))),
        ("date", Value(Tag.DATE, D(4_000_000))),
        ("date", Value(Tag.DATE, D("Infinity"))),
        ("instant(6)", Value(Tag.INSTANT, MOMENT + 1)),
        ("local_timestamp", Value(Tag.LOCAL, MOMENT + D("0.001"))),
        ("local_timestamp", Value(Tag.LOCAL, D(-100_000_000_000_000_000))),
        ("time", Value(Tag.TIME, D(45_296_000_007))),
        ("interval", Value(Tag.INTERVAL, Interval(1, -2, 3))),
        ("uuid", Value(Tag.UUID, UUID(int=7).bytes)),
        ("binary", Value(Tag.BINARY, b"\x00\xff")),
        ("binary", Value(Tag.BINARY, b"")),
        ("json", Value(Tag.JSON, '{"a":[1,2]}')),
        ("int", NULL),
        ("int", invalid("lake", b"1x")),
    ],
)
def test_a_key_read_back_from_its_text_has_the_bytes_it_had(kind: str, value: Value) -> None:
    form = key_form([kind], ["ledger", "lake"])
    assert form.encoded([canonical_text(value)], 0b10) == encode_tuple([value])


def test_a_masked_key_is_encoded_as_its_texts() -> None:
    assert masked_key(["h:00", None]) == encode_tuple([text("h:00"), NULL])


def test_keys_of_arrays_are_not_read_back() -> None:
    assert not key_form(["text", "array<element: int>"], ["ledger"]).readable
    assert key_form(["text", "int"], ["ledger"]).readable


@pytest.mark.parametrize(
    ("kind", "written"),
    [("int", "x"), ("date", "today"), ("instant", "2026-01-01"), ("uuid", "1"), ("bool", "no")],
)
def test_a_text_that_no_value_of_the_type_has_is_refused(kind: str, written: str) -> None:
    with pytest.raises(ValueError, match="is no "):
        key_form([kind], ["ledger"]).encoded([written], 1)


@pytest.mark.case("P63")
@pytest.mark.parametrize(
    ("place", "member", "value"),
    [
        ("stage", "type", "rows"),
        ("stage", "measures", [1]),
        ("counts", "matched_groups", -1),
        ("counts", "unmatched_groups", 9),
        ("counts", "source_row_counts", {"source_0": 8}),
        ("measure", "max_abs_delta", "much"),
        ("measure", "passed", 1),
        ("tolerance", "value", None),
        ("question", "reference", "nobody"),
        ("question", "accept", {"max_outside": "many"}),
        ("question", "accept", {"more": 1}),
    ],
)
def test_a_field_of_another_form_is_named(place: str, member: str, value: object) -> None:
    made, _ = a_run()

    def change(proof: Json) -> None:
        stage = proof["stages"][0]
        (tolerance,) = stage["measures"][0]["tolerances"]
        {
            "stage": stage,
            "counts": stage["counts"],
            "measure": stage["measures"][0],
            "tolerance": tolerance,
            "question": stage["question"],
        }[place][member] = value

    verification = verify_document(resealed(made, change))
    assert verification.run is None
    assert any(member in finding.message for finding in verification.findings)


def test_a_large_count_is_written_as_text() -> None:
    made, _ = a_run()
    large = resealed(made, lambda proof: proof["stages"][0]["differences"].update(rows=str(2**60)))
    run = verify_document(large).run
    assert run is not None
    assert run.stages[0].results is not None
    assert run.stages[0].results.differences.rows == 2**60


def test_every_kind_of_tolerance_and_a_run_without_limits_are_read_back() -> None:
    tables = [
        a_table("ledger", "k int, v decimal(9,2), t instant", (1, D(1), None)),
        a_table("lake", "k int, v decimal(9,2), t instant", (1, D(2), None)),
    ]
    measures = (
        a_measure("v", percentage("1"), Tolerance(type=ToleranceType.EXACT)),
        a_measure("t", lasting(timedelta(seconds=1))),
    )
    job = a_job(tables, rows_by("k", *measures), results=Results(breaks=Breaks(max_rows=0)))
    made = document(job, tables)
    assert checks_of(made) == []
    results = sealed(made).results
    assert results is not None
    kinds = [tolerance_type(each.tolerance) for one in results.measures for each in one.tolerances]
    assert kinds == ["PERCENTAGE", "EXACT", "DURATION"]


def test_a_run_with_contradicting_stages_is_detected() -> None:
    made, _ = a_run()
    assert checks_of(resealed(made, lambda proof: proof.update(stages=[]))) == ["verdict"]
    kinder = resealed(made, lambda proof: proof.update(acceptance="REJECTED"))
    assert checks_of(kinder) == ["acceptance"]
    other = copy.deepcopy(made)
    other["schema"] = "datarecs.run/2"
    assert checks_of(other) == ["schema"]


def test_what_is_no_object_is_no_run_json() -> None:
    with pytest.raises(DocumentUnreadableError, match="the document is not an object"):
        sealed_run([])


def test_a_skipped_stage_has_nothing_to_check() -> None:
    stopping = rows_by("k", a_measure("v"), on_unmatched=OnUnmatched.STOP)
    job = a_job(TABLES, stopping, rows_by("k", a_measure("v"), name="last"))
    made = document(job, TABLES)
    assert checks_of(made) == []
    run = verify_document(made).run
    assert run is not None
    assert run.stage("last") is run.stages[1]
    assert run.stages[1].compares_multisets is False
