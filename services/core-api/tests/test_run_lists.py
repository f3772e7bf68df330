"""GET /runs and /runs/{id}: filters, pages that lose and repeat nothing, versions, spellings."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from starlette.testclient import TestClient

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.runs.model import RunError, RunMode, RunResult, RunStatus
from datarecs_core.values import JobId, RunId, TenantId
from datarecs_testing.api import MemoryApiHouse, change_run, memory_api
from datarecs_testing.builders import A_TENANT, B_TENANT, a_run
from datarecs_testing.clock import NOON, FixedIds

JOB = JobId(FixedIds.nth(77))


@pytest.fixture
def house() -> MemoryApiHouse:
    return memory_api()


@pytest.fixture
def ana(house: MemoryApiHouse) -> TestClient:
    return house.caller()


def add(house: MemoryApiHouse, tenant: TenantId = A_TENANT, **fields: Any) -> str:  # noqa: ANN401  any field of Run
    run = a_run(tenant_id=tenant, **fields)
    with house.unit.begin(tenant) as tx:
        tx.runs.add(run)
    return str(run.run_id)


def ids(answer: dict[str, list[dict[str, str]]]) -> list[str]:
    return [one["run_id"] for one in answer["items"]]


def pages(caller: TestClient, **params: str) -> Iterator[list[str]]:
    cursor: str | None = None
    while True:
        more = {} if cursor is None else {"cursor": cursor}
        page = caller.get("/api/v1/runs", params={**params, **more}).json()
        yield ids(page)
        cursor = page["next"]
        if cursor is None:
            return


class TestAList:
    def test_is_newest_first_and_complete_over_its_pages(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        made = [add(house, created_at=NOON + timedelta(seconds=one // 3)) for one in range(25)]
        listed_runs = [run for page in pages(ana, limit="4") for run in page]
        assert sorted(listed_runs) == sorted(made)
        assert listed_runs == sorted(
            made, key=lambda run: (made.index(run) // 3, run), reverse=True
        )

    @pytest.mark.case("U28")
    def test_shows_each_run_once_while_others_are_made(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        made = {add(house, created_at=NOON + timedelta(seconds=one)) for one in range(1000)}
        seen: list[str] = []
        for page in pages(ana, limit="200"):
            seen += page
            add(house, created_at=NOON + timedelta(days=1))
        assert len(seen) == len(set(seen))
        assert made <= set(seen)

    def test_names_the_next_page_in_a_link_without_the_host(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        made = [add(house) for _ in range(3)]
        answer = ana.get("/api/v1/runs?limit=2&mode=IMMEDIATE", headers={"Host": "evil.example"})
        link = answer.headers["Link"]
        assert link.endswith('>; rel="next"')
        assert link.startswith("</api/v1/runs?limit=2&mode=IMMEDIATE&cursor=")
        rest = ana.get(link[1:].partition(">")[0])
        assert sorted(ids(answer.json()) + ids(rest.json())) == sorted(made)
        assert "Link" not in rest.headers

    def test_takes_every_filter(self, house: MemoryApiHouse, ana: TestClient) -> None:
        error = RunError(code=RunErrorCode.CRASHED, message="It crashed.")
        fields: dict[str, Any] = {
            "job_name": "other",
            "job_id": JOB,
            "status": RunStatus.ERRORED,
            "error": error,
            "mode": RunMode.SCHEDULED,
            "cancel_requested": True,
            "created_at": NOON + timedelta(hours=1),
        }
        wanted = add(house, **fields)
        matched = add(house, status=RunStatus.COMPLETED, result=RunResult.MATCHED)
        for query in (
            "job=other",
            f"job_id={JOB}",
            "status=ERRORED",
            "error_code=CRASHED",
            "mode=SCHEDULED",
            "cancel_requested=true",
            "since=2026-01-15T14:00:00%2B01:00",
        ):
            assert ids(ana.get(f"/api/v1/runs?{query}").json()) == [wanted], query
        for query in ("result=MATCHED", "until=2026-01-15T13:00:00Z", "status=COMPLETED"):
            assert ids(ana.get(f"/api/v1/runs?{query}").json()) == [matched], query

    @pytest.mark.parametrize(
        "query",
        [
            "status=DONE",
            "result=matched",
            "error_code=OOM",
            "mode=x",
            "job=UPPER",
            "job=a%00b",
            "job_id={01900000-0000-7000-8000-00000000000a}",
            "job_id=urn:uuid:01900000-0000-7000-8000-00000000000a",
            "job_id=01900000-0000-7000-8000-00000000000A",
            "since=2026-01-15",
            "since=2026-01-15T12:00:00",
            "since=1768478400",
            "until=2026-02-30T12:00:00Z",
            "limit=0",
            "limit=201",
            "limit=x",
            "cancel_requested=perhaps",
            "id_prefix=0123",
            "id_prefix=%25%25%25%25%25%25%25%25",
        ],
    )
    def test_refuses_a_filter_that_means_nothing(self, ana: TestClient, query: str) -> None:
        answer = ana.get(f"/api/v1/runs?{query}")
        assert answer.status_code == 422
        (fault,) = answer.json()["errors"]
        assert fault["pointer"] == f"/query/{query.partition('=')[0]}"
        value = query.partition("=")[2]
        assert value not in {fault["message"], answer.json()["detail"]}

    def test_shows_whether_an_abbreviated_id_is_unique(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        twins = [
            add(house, run_id=RunId(UUID(f"0190aaaa-0000-7000-8000-{n:012d}"))) for n in (1, 2)
        ]
        alone = add(house, run_id=RunId(UUID("0190bbbb-0000-7000-8000-000000000001")))
        add(house, B_TENANT, run_id=RunId(UUID("0190bbbb-0000-7000-8000-000000000002")))
        assert sorted(ids(ana.get("/api/v1/runs?id_prefix=0190aaaa").json())) == twins
        assert ids(ana.get("/api/v1/runs?id_prefix=0190bbbb-0000").json()) == [alone]
        assert ids(ana.get("/api/v1/runs?id_prefix=0190cccc").json()) == []


class TestACursor:
    @pytest.fixture
    def cursor(self, house: MemoryApiHouse, ana: TestClient) -> str:
        for _ in range(3):
            add(house)
        return str(ana.get("/api/v1/runs?limit=1&mode=IMMEDIATE").json()["next"])

    @pytest.mark.case("U28")
    @pytest.mark.parametrize(
        "query", ["", "mode=SCHEDULED", "mode=IMMEDIATE&job=other", "mode=IMMEDIATE&result=MATCHED"]
    )
    def test_belongs_to_its_filters(self, ana: TestClient, cursor: str, query: str) -> None:
        answer = ana.get(f"/api/v1/runs?{query}&cursor={cursor}")
        assert (answer.status_code, answer.json()["code"]) == (400, "DR4006")

    def test_goes_on_under_another_limit(self, ana: TestClient, cursor: str) -> None:
        page = ana.get(f"/api/v1/runs?limit=200&mode=IMMEDIATE&cursor={cursor}").json()
        assert len(page["items"]) == 2

    @pytest.mark.case("X03")
    def test_of_another_tenant_is_refused(self, house: MemoryApiHouse, cursor: str) -> None:
        answer = house.caller(B_TENANT).get(f"/api/v1/runs?mode=IMMEDIATE&cursor={cursor}")
        assert (answer.status_code, answer.json()["code"]) == (400, "DR4006")

    def test_lasts_a_day(self, house: MemoryApiHouse, ana: TestClient, cursor: str) -> None:
        house.clock.advance(timedelta(hours=24))
        assert ana.get(f"/api/v1/runs?mode=IMMEDIATE&cursor={cursor}").status_code == 200
        house.clock.advance(timedelta(seconds=1))
        assert ana.get(f"/api/v1/runs?mode=IMMEDIATE&cursor={cursor}").status_code == 400

    @pytest.mark.parametrize("text", ["", "x", "%00", "caf%C3%A9", "AAAA" * 100, "AAAA" * 5000])
    def test_of_another_making_is_refused(self, ana: TestClient, text: str) -> None:
        answer = ana.get(f"/api/v1/runs?cursor={text}")
        assert (answer.status_code, answer.json()["code"]) == (400, "DR4006")

    def test_altered_in_one_place_is_refused(self, ana: TestClient, cursor: str) -> None:
        for place in range(0, len(cursor), 7):
            other = "A" if cursor[place] != "A" else "B"
            altered = cursor[:place] + other + cursor[place + 1 :]
            answer = ana.get(f"/api/v1/runs?mode=IMMEDIATE&cursor={altered}")
            assert answer.status_code == 400, place


class TestOneRun:
    def test_is_not_sent_again_while_it_has_not_changed(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        run_id = add(house)
        first = ana.get(f"/api/v1/runs/{run_id}")
        known = {"If-None-Match": f'"x", W/{first.headers["ETag"]}'}
        same = ana.get(f"/api/v1/runs/{run_id}", headers=known)
        assert (same.status_code, same.content) == (304, b"")
        assert same.headers["ETag"] == first.headers["ETag"]
        change_run(house.unit, run_id, status=RunStatus.QUEUED)
        changed = ana.get(f"/api/v1/runs/{run_id}", headers=known)
        assert (changed.status_code, changed.json()["status"]) == (200, "QUEUED")

    @pytest.mark.case("X32")
    @pytest.mark.parametrize(
        "spelling",
        ["{{{}}}", "urn:uuid:{}", "{}/", "{}%20", "%20{}", "({})", "{}%00"],
    )
    def test_has_one_spelling(self, house: MemoryApiHouse, ana: TestClient, spelling: str) -> None:
        run_id = add(house)
        assert ana.get(f"/api/v1/runs/{spelling.format(run_id)}").status_code == 404
        assert ana.get(f"/api/v1/runs/{run_id}").status_code == 200

    @pytest.mark.case("X32")
    def test_has_one_spelling_of_its_letters(self, house: MemoryApiHouse, ana: TestClient) -> None:
        run_id = add(house, run_id=RunId(UUID("0190abcd-0000-7000-8000-00000000000a")))
        for other in (run_id.upper(), run_id.replace("-", "")):
            assert ana.get(f"/api/v1/runs/{other}").status_code == 404

    @pytest.mark.parametrize("code", list(RunErrorCode))
    def test_shows_its_error(
        self, house: MemoryApiHouse, ana: TestClient, code: RunErrorCode
    ) -> None:
        error = RunError(code=code, message="It did not work.", detail_code="OVERFLOW")
        run_id = add(house, status=RunStatus.ERRORED, error=error)
        shown = ana.get(f"/api/v1/runs/{run_id}").json()
        assert shown["error"] == {
            "code": code,
            "message": "It did not work.",
            "detail_code": "OVERFLOW",
        }
