"""What a finished run left behind: stages, differences, report, and who may see rows of it."""

import json
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest
from starlette.testclient import TestClient

from datarecs_application.ports.retention import Place
from datarecs_core.access.permissions import Role
from datarecs_core.catalog.layout import all_differences, differences_part, run_document
from datarecs_core.retention.policy import Target
from datarecs_core.runs.model import RunResult, RunStatus
from datarecs_core.values import RunId
from datarecs_memory.engine import MemoryEngine
from datarecs_reports.difference_file import stored_below
from datarecs_testing.api import MemoryApiHouse, change_run, declare, memory_api, subject_of
from datarecs_testing.builders import A_TENANT, NOON
from datarecs_testing.finished_runs import balance_check, books, document
from datarecs_testing.tables import plan_of


@dataclass(frozen=True)
class Finished:
    house: MemoryApiHouse
    run: str
    """Path of a run that compared the books of Source 001."""
    run_id: RunId


def triggered(house: MemoryApiHouse) -> Finished:
    caller = house.caller()
    declare(caller)
    run = str(caller.post("/api/v1/jobs/ledger-vs-exports/runs").headers["Location"])
    return Finished(house, run, RunId(UUID(run.rpartition("/")[2])))


@dataclass(frozen=True)
class Artefacts:
    document: bytes
    parts: tuple[bytes, ...]


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Artefacts:
    """What a comparison of the books leaves behind."""
    tables = books()
    job = balance_check(tables)
    folder = tmp_path_factory.mktemp("differences")
    engine = MemoryEngine(
        lambda scan: tables[scan.index].delivered(scan), write=stored_below(folder)
    )
    results = engine.compare(plan_of(job, tables).stages[0], lambda _: None)
    stored = sorted(Path(results.differences.location or "").glob("*.parquet"))
    return Artefacts(
        document=json.dumps(document(job, tables)).encode(),
        parts=tuple(part.read_bytes() for part in stored),
    )


@pytest.fixture
def finished(artefacts: Artefacts) -> Finished:
    run = triggered(memory_api())
    blobs = run.house.blobs.of(A_TENANT)
    blobs.put(run_document(A_TENANT, run.run_id), artefacts.document)
    for bucket, part in enumerate(artefacts.parts):
        key = differences_part(A_TENANT, run.run_id, "balance-check", bucket=bucket)
        blobs.put(key, part)
    change_run(
        run.house.unit,
        str(run.run_id),
        status=RunStatus.COMPLETED,
        result=RunResult.UNMATCHED,
    )
    return run


@pytest.fixture
def ana(finished: Finished) -> TestClient:
    return finished.house.caller()


@pytest.fixture
def viewer(finished: Finished) -> TestClient:
    return finished.house.caller(A_TENANT, Role.VIEWER, owner="u-vera")


def sample_reads(finished: Finished) -> list[str]:
    chain = finished.house.store.committed(A_TENANT).audit
    return [link.row.actor for link in chain if link.row.action == "sample.read"]


class TestStages:
    def test_are_unchanged(self, finished: Finished, viewer: TestClient) -> None:
        page = viewer.get(f"{finished.run}/stages").json()
        (stage,) = page["items"]
        assert (stage["name"], stage["result"]) == ("balance-check", "UNMATCHED")
        assert stage["counts"]["matched_groups"] == 980
        assert stage["counts"]["unmatched_by_source"] == {"source_0": 5, "source_1": 20}
        assert page["next"] is None
        assert viewer.get(f"{finished.run}/stages/balance-check").json() == stage

    @pytest.mark.parametrize("stage", ["other", "BALANCE-CHECK", "%00", 300 * "x"])
    def test_of_another_name_are_404(
        self, finished: Finished, viewer: TestClient, stage: str
    ) -> None:
        assert viewer.get(f"{finished.run}/stages/{stage}").status_code == 404

    @pytest.mark.parametrize("what", ["stages", "stages/balance-check", "mismatches", "report"])
    def test_of_a_run_under_way_are_404(self, what: str) -> None:
        run = triggered(memory_api())
        answer = run.house.caller().get(f"{run.run}/{what}")
        assert (answer.status_code, answer.json()["code"]) == (404, "DR4004")


@pytest.mark.parametrize("what", ["stages", "mismatches", "report", "report?format=json"])
def test_a_result_that_the_store_has_lost_is_named_with_its_fix(
    finished: Finished, ana: TestClient, what: str
) -> None:
    finished.house.blobs.of(A_TENANT).delete(run_document(A_TENANT, finished.run_id))
    answer = ana.get(f"{finished.run}/{what}")
    assert (answer.status_code, answer.json()["code"]) == (404, "DR4025")
    assert answer.json()["detail"] == (
        "the result of this run is missing in the store of artefacts; restore it from a backup"
    )


def test_a_document_of_another_form_is_our_fault(finished: Finished, ana: TestClient) -> None:
    blobs = finished.house.blobs.of(A_TENANT)
    blobs.put(run_document(A_TENANT, finished.run_id), b"[]")
    answer = ana.get(f"{finished.run}/stages")
    assert (answer.status_code, answer.json()["code"]) == (500, "DR4090")


class TestMismatches:
    def test_come_largest_first_with_both_sides(self, finished: Finished, ana: TestClient) -> None:
        items = ana.get(f"{finished.run}/mismatches").json()["items"]
        assert len(items) == 30
        assert items[0]["key"] == {"account": "4711"}
        assert items[0]["values"] == {"ledger": "1677.75", "exports": "677.75"}

    @pytest.mark.parametrize(
        ("query", "count"),
        [
            ("limit=7", 7),
            ("only=missing:ledger", 20),
            ("only=missing:exports", 5),
            ("only=outside:total_amount", 5),
            ("only=null", 0),
            ("only=type", 0),
            ("measure=total_amount", 5),
            ("stage=balance-check", 30),
            ("stage=other", 0),
        ],
    )
    def test_can_be_filtered(
        self, finished: Finished, ana: TestClient, query: str, count: int
    ) -> None:
        items = ana.get(f"{finished.run}/mismatches?{query}").json()["items"]
        assert len(items) == count

    @pytest.mark.parametrize("query", ["only=x", "only=missing", "only=", "limit=0", "limit=1001"])
    def test_refuse_a_filter_that_means_nothing(
        self, finished: Finished, ana: TestClient, query: str
    ) -> None:
        answer = ana.get(f"{finished.run}/mismatches?{query}")
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"].startswith("/query/")

    def test_need_a_separate_permission(self, finished: Finished, viewer: TestClient) -> None:
        assert viewer.get(f"{finished.run}/mismatches").status_code == 403
        assert sample_reads(finished) == []

    def test_are_read_under_audit(self, finished: Finished, ana: TestClient) -> None:
        ana.get(f"{finished.run}/mismatches")
        assert sample_reads(finished) == [subject_of(ana)]


class TestAfterRetention:
    @pytest.fixture
    def reduced(self, finished: Finished) -> Finished:
        """A policy removed the differences."""
        blobs = finished.house.blobs.of(A_TENANT)
        blobs.delete_prefix(all_differences(A_TENANT, finished.run_id))
        change_run(finished.house.unit, str(finished.run_id), differences_deleted_at=NOON)
        return finished

    def test_removed_differences_are_named_with_the_time(self, reduced: Finished) -> None:
        answer = reduced.house.caller().get(f"{reduced.run}/mismatches")
        assert (answer.status_code, answer.json()["code"]) == (404, "DR4004")
        assert answer.json()["detail"] == (
            "a retention policy removed the differences of this run at "
            "2026-01-15T12:00:00.000000Z; its counts and measures are in the report"
        )
        run = reduced.house.caller().get(reduced.run).json()
        assert run["differences_deleted_at"] == "2026-01-15T12:00:00.000000Z"

    @pytest.mark.parametrize("what", ["stages", "report", "report?format=json"])
    def test_counts_and_report_stay(self, reduced: Finished, what: str) -> None:
        answer = reduced.house.caller().get(f"{reduced.run}/{what}")
        assert answer.status_code == 200
        assert "balance-check" in answer.text

    @pytest.mark.parametrize("what", ["", "/stages", "/mismatches", "/report", "/events"])
    def test_of_a_removed_run_nothing_is_left(self, finished: Finished, what: str) -> None:
        place = Place(finished.house.clock.now(), finished.run_id)
        change_run(finished.house.unit, str(finished.run_id), closed_at=NOON)
        with finished.house.unit.begin(A_TENANT) as tx:
            assert tx.retention.remove(Target.RUNS, [place]) == 1
        answer = finished.house.caller().get(f"{finished.run}{what}")
        assert (answer.status_code, answer.json()["detail"]) == (
            404,
            "there is no such run; a retention policy may have removed it",
        )


class TestTheReport:
    def test_is_a_file_that_runs_nothing(self, finished: Finished, ana: TestClient) -> None:
        answer = ana.get(f"{finished.run}/report")
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["content-disposition"] == (
            f'attachment; filename="run-{finished.run_id}.html"'
        )
        assert answer.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
        assert "4711" in answer.text
        assert sample_reads(finished) == [subject_of(ana)]

    def test_holds_no_rows_for_those_who_may_see_none(
        self, finished: Finished, viewer: TestClient
    ) -> None:
        page = viewer.get(f"{finished.run}/report")
        assert page.status_code == 200
        assert "4711" not in page.text
        report = viewer.get(f"{finished.run}/report?format=json")
        assert report.json()["samples"] == {}
        assert "4711" not in report.text
        assert sample_reads(finished) == []

    def test_is_also_the_document_itself(self, finished: Finished, ana: TestClient) -> None:
        answer = ana.get(f"{finished.run}/report?format=json")
        assert answer.headers["content-disposition"].endswith('.json"')
        assert answer.json()["schema"] == "datarecs.run/1"
        assert answer.json()["samples"]["balance-check"]
        assert sample_reads(finished) == [subject_of(ana)]

    @pytest.mark.parametrize(
        "status", [RunStatus.ERRORED, RunStatus.CANCELLED, RunStatus.QUEUE_ERRORED]
    )
    def test_of_a_run_without_a_verdict_shows_how_it_ended(self, status: RunStatus) -> None:
        run = triggered(memory_api())
        change_run(run.house.unit, str(run.run_id), status=status)
        ana = run.house.caller()
        answer = ana.get(f"{run.run}/report")
        assert answer.status_code == 200
        assert "attachment" in answer.headers["content-disposition"]
        assert ana.get(f"{run.run}/report?format=json").status_code == 404

    def test_has_two_formats(self, finished: Finished, ana: TestClient) -> None:
        answer = ana.get(f"{finished.run}/report?format=pdf")
        assert (answer.status_code, answer.json()["code"]) == (422, "DR4020")
