import json
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from datarecs_core.comparison.oracle.grouping import Outside
from datarecs_core.comparison.oracle.reference import compare_stage
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.planning.scan import (
    ExportedSnapshot,
    FileList,
    PinnedFile,
    TableSnapshot,
)
from datarecs_core.comparison.proof.pin_json import pin_document
from datarecs_core.comparison.proof.run_json import (
    MAX_BYTES,
    Sealing,
    proof_document,
    proof_hash,
    run_document,
)
from datarecs_core.comparison.proof.stage_json import stage_document
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.results import Difference, StageResults
from datarecs_core.comparison.results.verdict import (
    RunOutcome,
    SkipReason,
    StageOutcome,
    judge_run,
    judge_stage,
)
from datarecs_core.documents import from_document, to_document
from datarecs_core.hashing import canonical_json
from datarecs_core.jobs import types
from datarecs_core.jobs.definition import Accept, Normalize, StringRules
from datarecs_core.jobs.vocabulary import OnUnmatched, ToleranceBase, Trim
from datarecs_testing.comparisons import a_measure, absolute, counting, percentage, rows_by
from datarecs_testing.tables import NOON, Table, a_job, a_table, plan_of

D = Decimal
SEALING = Sealing(versions={"tzdata": "2026.6", "unicode": "14.0.0"}, key_id="k1")
TABLES = [
    a_table("ledger", "k text, v decimal(9,2)", ("a ", D("1.00")), ("b", D("2.00")), ("c", None)),
    a_table("lake", "k text, v text", ("a", "1.01"), ("b", "9.00")),
]
STAGE = rows_by(
    "k",
    a_measure("v", absolute("0.01"), percentage("1", ToleranceBase.MAX_ABS)),
    accept=Accept(max_outside=1),
    on_unmatched=OnUnmatched.STOP,
)


def a_run(
    tables: Iterable[Table] = TABLES,
    root: str = "memory:",
) -> tuple[ComparisonPlan, RunOutcome]:
    tables = list(tables)
    sources = {"lake": {"cast": {"v": types.decimal(9, 2)}}}
    rules = Normalize(strings=StringRules(trim=Trim.BOTH))
    job = a_job(
        tables, counting(), STAGE, rows_by("k", name="last"), sources=sources, normalize=rules
    )
    plan = plan_of(job, tables)
    pins = [replace(table.pin, root=root) for table in tables]
    plan = plan.with_scans(
        tuple(replace(scan, pin=pin) for scan, pin in zip(plan.scans, pins, strict=True))
    )
    done = []
    for stage in plan.stages[:2]:
        rows = [table.delivered(scan) for table, scan in zip(tables, plan.scans, strict=True)]
        comparison = compare_stage(stage, rows, Outside(key=COMPARE_KEY))
        done.append(judge_stage(stage, comparison.results))
    skipped = StageOutcome(plan=plan.stages[2], skipped=SkipReason.STOPPED_BY, stopped_by="rows")
    return plan, judge_run([*done, skipped], plan.warnings)


def read(document: Any) -> Any:  # noqa: ANN401 - JSON
    return json.loads(canonical_json(document))


def test_a_proof_contains_the_job_the_pins_and_the_results() -> None:
    proof = read(proof_document(*a_run(), SEALING))
    assert (proof["canonical"], proof["result"], proof["acceptance"]) == (
        "c1",
        "UNMATCHED",
        "REJECTED",
    )
    assert proof["sources"][1]["rules"] == {"v": {"cast": "decimal(9,2)", "zone": None, "map": {}}}
    assert proof["sources"][0]["closure"] == {
        "extracted": 3,
        "grouped": 3,
        "excluded": 0,
        "out_of_scope": 0,
    }
    rows = proof["stages"][1]
    assert (rows["status"], rows["result"], rows["acceptance"]) == (
        "EXECUTED",
        "UNMATCHED",
        "REJECTED" if rows["counts"]["rows_unmatched"] > 2 else "ACCEPTED",
    )
    assert rows["question"]["dimensions"] == [
        {"name": "k", "column": "k", "types": ["text", "text"], "rules": {"trim": "both"}}
    ]
    assert rows["counts"]["source_row_counts"] == {"source_0": 3, "source_1": 2}
    assert rows["counts"]["presence"] == [{"mask": 3, "groups": 2}, {"mask": 1, "groups": 1}]
    assert rows["measures"][0]["gap_by_source"] == {"source_0": "0", "source_1": "7.01"}
    assert [each["base"] for each in rows["measures"][0]["tolerances"]] == [None, "max_abs"]
    assert rows["measures"][1]["name"] == "$rows"


@pytest.mark.case("F20")
def test_a_skipped_stage_is_an_entry_with_its_reason() -> None:
    proof = read(proof_document(*a_run(), SEALING))
    assert proof["stages"][2] == {
        "name": "last",
        "type": "row",
        "status": "SKIPPED",
        "reason": "STOPPED_BY",
        "stopped_by": "rows",
    }
    plain = StageOutcome(plan=a_run()[0].stages[0], skipped=SkipReason.NOTHING_IN_SCOPE)
    assert "stopped_by" not in stage_document(plain)


@pytest.mark.case("F12")
def test_equal_inputs_have_an_equal_proof_in_any_place() -> None:
    reversed_rows = [replace(table, rows=table.rows[::-1]) for table in TABLES]
    first = proof_document(*a_run(), SEALING)
    second = proof_document(*a_run(reversed_rows, root="/elsewhere"), SEALING)
    assert canonical_json(first) == canonical_json(second)
    assert proof_hash(first) == proof_hash(second)


def test_the_document_seals_its_proof_and_nothing_else() -> None:
    plan, outcome = a_run()
    document = run_document(plan, outcome, sealing=SEALING, run={"run_id": "r"})
    other = run_document(plan, outcome, sealing=SEALING, run={"run_id": "s"})
    assert document["proof_hash"] == other["proof_hash"] == proof_hash(document["proof"])
    written_document = read(document)
    assert written_document["schema"] == "datarecs.run/1"
    assert written_document["run"]["run_id"] == "r"
    assert written_document["run"]["sources"][0] == {
        "name": "ledger",
        "kind": "parquet",
        "path": "ledger.parquet",
    }
    assert {row["measure"] for row in written_document["samples"]["rows"]} == {"v", "$presence"}
    assert "memory:" not in json.dumps(written_document)


def test_samples_shrink_until_the_document_fits() -> None:
    plan, outcome = a_run()
    judged = outcome.stages[1]
    assert judged.results is not None
    sample = judged.results.differences.samples[0]
    many = tuple(replace(sample, key=("x" * 40_000,)) for _ in range(1000))
    results = replace(judged.results, differences=replace(judged.results.differences, samples=many))
    swollen = replace(outcome, stages=(replace(judged, results=results),))
    document = run_document(plan, swollen, sealing=SEALING, run={})
    assert len(canonical_json(document)) <= MAX_BYTES
    written_document = read(document)
    assert written_document["samples_cut"] is True
    assert len(written_document["samples"]["rows"]) == 125


def test_one_sample_that_is_too_large_is_left_out() -> None:
    plan, outcome = a_run()
    judged = outcome.stages[1]
    assert judged.results is not None
    huge = replace(judged.results.differences.samples[0], key=("x" * MAX_BYTES,))
    differences = replace(judged.results.differences, samples=(huge,))
    results = replace(judged.results, differences=differences)
    swollen = replace(outcome, stages=(replace(judged, results=results),))
    assert read(run_document(plan, swollen, sealing=SEALING, run={}))["samples"] == {}


def test_a_database_pin_contains_no_session() -> None:
    pin = ExportedSnapshot(
        snapshot_id="00000003-1",
        system_id="7",
        database="books",
        snapshot="10:20:",
        lsn="0/1",
        taken_at=NOON,
    )
    pin_fields = pin_document(pin)
    assert pin_fields["kind"] == "exported_snapshot"
    assert pin_fields["taken_at"] == "2026-01-31T12:00:00.000000Z"
    assert "00000003-1" not in pin_fields.values()


def test_a_table_pin_preserves_every_digit_of_its_snapshot() -> None:
    pin = TableSnapshot(
        catalog="sql lake",
        table="books.entries",
        table_uuid="6f9619ff-8b86-d011-b42d-00c04fc964ff",
        snapshot_id=2**63 - 1,
        schema_id=3,
        taken_at=NOON,
    )
    pin_fields = pin_document(pin)
    assert (pin_fields["kind"], pin_fields["snapshot_id"]) == (
        "table_snapshot",
        "9223372036854775807",
    )
    assert (pin_fields["table"], pin_fields["schema_id"]) == ("books.entries", 3)
    assert pin_document(replace(pin, snapshot_id=None))["snapshot_id"] is None
    assert from_document(TableSnapshot, to_document(pin)) == pin


def test_a_long_file_list_is_replaced_by_its_digest() -> None:
    files = tuple(PinnedFile(path=f"{n}.csv", size_bytes=n) for n in range(1001))
    pin_fields = pin_document(FileList(root="/data", files=files, taken_at=NOON))
    assert (pin_fields["count"], pin_fields["size_bytes"], "files" in pin_fields) == (
        1001,
        "500500",
        False,
    )
    changed = (*files[:-1], replace(files[-1], size_bytes=1))
    other = pin_document(FileList(root="/data", files=changed, taken_at=NOON))
    assert other["digest"] != pin_fields["digest"]


def test_results_come_back_from_their_documents() -> None:
    _, outcome = a_run()
    for stage in outcome.stages[:2]:
        assert stage.results is not None
        assert from_document(StageResults, to_document(stage.results)) == stage.results
        for row in stage.results.differences.samples:
            assert from_document(Difference, to_document(row)) == row
