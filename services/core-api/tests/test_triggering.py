"""POST /jobs/{name}/runs: what a trigger makes, and that a repetition makes nothing."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import httpx2
import pytest
from starlette.testclient import TestClient
from structlog.typing import EventDict

from datarecs_application.errors import KeyBusyError, StoreBusyError, StoreUnavailableError
from datarecs_core.resources.resource import Kind
from datarecs_core.runs.model import Backend, Run, RunResult, RunStatus
from datarecs_core.values import TenantId
from datarecs_core_api.preference import wait_of
from datarecs_core_api.request_examples import EXAMPLES
from datarecs_core_api.triggering import TriggerIn
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryTransaction, MemoryUnitOfWork
from datarecs_testing.api import MemoryApiHouse, change_run, declare, memory_api, subject_of
from datarecs_testing.builders import A_TENANT, B_TENANT

RUNS = "/api/v1/jobs/ledger-vs-exports/runs"
TRIGGERED = "io.datarecs.reconciliation.run.triggered"


@pytest.fixture
def house() -> MemoryApiHouse:
    return memory_api()


@pytest.fixture
def ana(house: MemoryApiHouse) -> TestClient:
    caller = house.caller()
    declare(caller)
    return caller


def runs_of(house: MemoryApiHouse) -> list[Run]:
    return list(house.store.committed(A_TENANT).runs.values())


def sent(house: MemoryApiHouse, wire_type: str = TRIGGERED) -> int:
    """How many events of the type wait in the outbox."""
    rows = house.store.committed(A_TENANT).outbox.values()
    return sum(one.row.type == wire_type for one in rows)


@pytest.mark.parametrize("backend", list(Backend))
def test_a_run_gets_the_backend_of_the_setting(backend: Backend) -> None:
    house = memory_api(backend=backend)
    caller = house.caller()
    declare(caller)
    answer = caller.post(RUNS, json={})
    (run,) = runs_of(house)
    assert (run.backend, answer.json()["backend"]) == (backend, backend.value)


def with_parameter(caller: TestClient) -> str:
    """The runs of a job with one parameter, a date without default."""
    example = EXAMPLES[Kind.RECONCILIATION_JOB]
    spec = example["spec"] | {"parameters": {"day": {"type": "date"}}}  # type: ignore[operator]  # a mapping
    body = {**example, "metadata": {"name": "daily"}, "spec": spec}
    assert caller.post("/api/v1/jobs", json=body).status_code == 201
    return "/api/v1/jobs/daily/runs"


class TestATrigger:
    def test_makes_a_run_that_freezes_the_job(self, house: MemoryApiHouse, ana: TestClient) -> None:
        answer = ana.post(RUNS, json={"reason": "month end"})
        job = ana.get("/api/v1/jobs/ledger-vs-exports").json()
        (run,) = runs_of(house)
        assert answer.status_code == 202
        assert answer.headers["Location"] == f"/api/v1/runs/{run.run_id}"
        assert answer.headers["Retry-After"] == "1"
        assert answer.json()["status"] == "TRIGGERED"
        assert answer.json()["triggered_by"] == subject_of(ana)
        assert (run.spec, str(run.job_id)) == (job["spec"], job["metadata"]["uid"])

    def test_is_announced_and_audited_in_its_commit(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        run_id = ana.post(RUNS, json={"reason": "month end"}).json()["run_id"]
        line = house.store.committed(A_TENANT).audit[-1].row
        assert sent(house) == 1
        assert (line.action, line.resource_uid) == ("run.trigger", run_id)
        assert line.actor == subject_of(ana)
        assert line.address == "192.0.2.7"
        assert line.request_id

    def test_is_logged_once(
        self, house: MemoryApiHouse, ana: TestClient, logs: list[EventDict]
    ) -> None:
        key = {"Idempotency-Key": "k"}
        for _ in range(2):
            ana.post(RUNS, headers=key)
        (line,) = (one for one in logs if one["event"] == "run_triggered")
        (run,) = runs_of(house)
        assert (line["run_id"], line["tenant_id"]) == (str(run.run_id), str(A_TENANT))

    @pytest.mark.usefixtures("ana")
    def test_has_the_mode_scheduled_only_with_its_permission(self, house: MemoryApiHouse) -> None:
        people = house.bearing(house.key(permissions=["run.trigger"]))
        refused = people.post(RUNS, json={"mode": "SCHEDULED"})
        assert refused.status_code == 403
        assert "run.schedule" in refused.json()["detail"]
        assert runs_of(house) == []
        scheduler = house.bearing(house.key(permissions=["run.trigger", "run.schedule"]))
        assert scheduler.post(RUNS, json={"mode": "SCHEDULED"}).json()["mode"] == "SCHEDULED"
        assert people.post(RUNS).json()["mode"] == "IMMEDIATE"
        assert [run.mode.value for run in runs_of(house)] == ["SCHEDULED", "IMMEDIATE"]

    def test_returns_the_current_row(self, ana: TestClient) -> None:
        answer = ana.post(RUNS)
        assert ana.get(answer.headers["Location"]).json() == answer.json()

    def test_takes_its_trace_from_the_caller(self, house: MemoryApiHouse, ana: TestClient) -> None:
        trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        ana.post(RUNS, headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
        (run,) = runs_of(house)
        assert run.traceparent is not None
        assert run.traceparent.split("-")[1] == trace

    def test_takes_deadline_and_priority_over_the_jobs(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        ana.post(RUNS, json={"deadline": "PT90S", "priority": 9})
        (run,) = runs_of(house)
        assert (run.deadline_seconds, run.priority) == (90, 9)

    def test_stores_its_reason_on_the_run_and_in_the_event(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        made = ana.post(RUNS, json={"reason": "the books were corrected"}).json()
        assert made["trigger_reason"] == "the books were corrected"
        place = f"/api/v1/runs/{made['run_id']}"
        assert ana.get(place).json()["trigger_reason"] == "the books were corrected"
        assert ana.get("/api/v1/runs").json()["items"] == [ana.get(place).json()]
        (event,) = ana.get(f"{place}/events").json()["items"]
        assert event["data"]["reason"] == "the books were corrected"
        assert runs_of(house)[0].trigger_reason == "the books were corrected"

    def test_without_a_reason_has_none_anywhere(self, ana: TestClient) -> None:
        made = ana.post(RUNS).json()
        assert made["trigger_reason"] is None
        (event,) = ana.get(f"/api/v1/runs/{made['run_id']}/events").json()["items"]
        assert "reason" not in event["data"]

    @pytest.mark.parametrize("name", TriggerIn.model_fields)
    def test_shows_the_effect_of_every_field_it_takes(self, ana: TestClient, name: str) -> None:
        """A new field of the body fails here until the run shows what it did."""
        values = {
            "parameters": {"day": "2026-01-31"},
            "deadline": "PT90S",
            "priority": 9,
            "mode": "SCHEDULED",
            "reason": "the books were corrected",
        }
        runs = with_parameter(ana)
        day = {"parameters": {"day": "2026-01-30"}}
        plain = ana.post(runs, json=day).json()
        changed = ana.post(runs, json={**day, name: values[name]}).json()
        always = {"run_id", "execution_name", "created_at"}
        differs = {field for field, value in plain.items() if changed[field] != value}
        assert differs - always

    def test_finds_the_job_by_its_uid_too(self, ana: TestClient) -> None:
        uid = ana.get("/api/v1/jobs/ledger-vs-exports").json()["metadata"]["uid"]
        assert ana.post(f"/api/v1/jobs/{uid}/runs").json()["job"] == "ledger-vs-exports"

    def test_types_its_parameters(self, house: MemoryApiHouse, ana: TestClient) -> None:
        ana.post(with_parameter(ana), json={"parameters": {"day": "2026-01-31"}})
        (run,) = runs_of(house)
        assert run.parameters == {"day": "2026-01-31"}

    @pytest.mark.parametrize(
        ("body", "pointer"),
        [
            ({}, "/parameters/day"),
            ({"parameters": {"day": "2026-02-30"}}, "/parameters/day"),
            ({"parameters": {"day": "2026-01-31", "dya": 1}}, "/parameters/dya"),
            ({"deadline": "PT59S", "parameters": {"day": "2026-01-31"}}, "/deadline"),
            ({"deadline": "P2D", "parameters": {"day": "2026-01-31"}}, "/deadline"),
            ({"deadline": "soon", "parameters": {"day": "2026-01-31"}}, "/deadline"),
            ({"priority": 10}, "/priority"),
            ({"priority": "5"}, "/priority"),
            ({"reason": "a\u0000b"}, "/reason"),
            ({"reason": "\u202eevil"}, "/reason"),
            ({"reason": "caf" + "e\u0301"}, "/reason"),
            ({"reason": 201 * "x"}, "/reason"),
        ],
    )
    def test_names_what_is_not_allowed(
        self, house: MemoryApiHouse, ana: TestClient, body: dict[str, object], pointer: str
    ) -> None:
        answer = ana.post(with_parameter(ana), json=body)
        assert answer.status_code == 422
        assert [one["pointer"] for one in answer.json()["errors"]] == [pointer]
        assert runs_of(house) == []

    @pytest.mark.case("X21")
    def test_takes_no_field_the_server_sets(self, ana: TestClient) -> None:
        server_fields = ("tenant_id", "status", "result", "uid", "cancel_requested", "run_id")
        answer = ana.post(RUNS, json=dict.fromkeys(server_fields, "x"))
        assert answer.status_code == 422
        pointers = {one["pointer"] for one in answer.json()["errors"]}
        assert pointers == {f"/{name}" for name in server_fields}

    @pytest.mark.parametrize("name", ["nothing", "UPPER", "a%00b", 300 * "a", "..%2fjobs"])
    def test_of_an_unknown_job_is_404(self, ana: TestClient, name: str) -> None:
        answer = ana.post(f"/api/v1/jobs/{name}/runs")
        assert (answer.status_code, answer.json()["code"]) == (404, "DR4004")

    def test_of_a_job_that_is_being_deleted_is_404(self, ana: TestClient) -> None:
        example = EXAMPLES[Kind.RECONCILIATION_JOB]
        metadata = {"name": "leaving", "finalizers": ["example.com/keep"]}
        ana.post("/api/v1/jobs", json={**example, "metadata": metadata})
        ana.delete("/api/v1/jobs/leaving", headers={"If-Match": "*"})
        assert ana.post("/api/v1/jobs/leaving/runs").status_code == 404


class TestAKey:
    @pytest.mark.case("L07", "U25")
    def test_used_fifty_times_at_once_makes_one_run(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        start = threading.Barrier(50)
        header = dict(ana.headers)

        def trigger(_: int) -> tuple[int, str, str]:
            start.wait()
            caller = house.bearing(None)
            answer = caller.post(
                RUNS, json={"priority": 3}, headers={**header, "Idempotency-Key": "night-7"}
            )
            return answer.status_code, answer.headers["Location"], answer.text

        with ThreadPoolExecutor(50) as pool:
            answers = set(pool.map(trigger, range(50)))
        (run,) = runs_of(house)
        assert sent(house) == 1
        assert {(status, place) for status, place, _ in answers} == {
            (202, f"/api/v1/runs/{run.run_id}")
        }
        assert len({text for *_, text in answers}) == 1

    def test_repeated_returns_the_first_answer(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        key = {"Idempotency-Key": "again"}
        first = ana.post(RUNS, json={"priority": 3, "reason": "x"}, headers=key)
        change_run(house.unit, first.json()["run_id"], status=RunStatus.QUEUED)
        text = '{ "reason":"x",  "priority":3}'
        second = ana.post(RUNS, content=text, headers={**key, "Content-Type": "application/json"})
        assert second.headers["Idempotency-Replayed"] == "true"
        assert "Idempotency-Replayed" not in first.headers
        assert (second.status_code, second.text) == (first.status_code, first.text)
        assert second.headers["Location"] == first.headers["Location"]

    @pytest.mark.case("L07", "U26")
    def test_used_for_another_body_is_refused(self, house: MemoryApiHouse, ana: TestClient) -> None:
        key = {"Idempotency-Key": "again"}
        ana.post(RUNS, json={"priority": 3}, headers=key)
        answer = ana.post(RUNS, json={"priority": 4}, headers=key)
        assert (answer.status_code, answer.json()["code"]) == (422, "DR4022")
        assert len(runs_of(house)) == 1

    def test_used_for_another_namespace_is_refused(self, ana: TestClient) -> None:
        key = {"Idempotency-Key": "again"}
        ana.post(RUNS, headers=key)
        answer = ana.post(f"{RUNS}?namespace=other", headers=key)
        assert answer.json()["code"] == "DR4022"

    @pytest.mark.case("U26")
    @pytest.mark.parametrize("key", ["", 256 * "k", "tab\there", "caf\u00e9"])
    def test_of_another_form_is_400(self, ana: TestClient, key: str) -> None:
        answer = ana.post(RUNS, headers={b"Idempotency-Key": key.encode("latin-1")})
        assert (answer.status_code, answer.json()["code"]) == (400, "DR4023")

    @pytest.mark.case("X03")
    def test_means_something_else_to_another_tenant(self, house: MemoryApiHouse) -> None:
        key = {"Idempotency-Key": "same"}
        places = set()
        for tenant in (A_TENANT, B_TENANT):
            caller = house.caller(tenant)
            declare(caller)
            answer = caller.post(RUNS, headers=key)
            assert "Idempotency-Replayed" not in answer.headers
            places.add(answer.headers["Location"])
        assert len(places) == 2

    def test_means_something_else_to_another_principal(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        key = {"Idempotency-Key": "same"}
        ana.post(RUNS, headers=key)
        house.caller(owner="u-bob").post(RUNS, headers=key)
        assert len(runs_of(house)) == 2

    def test_is_free_again_after_a_refusal(self, house: MemoryApiHouse, ana: TestClient) -> None:
        key, runs = {"Idempotency-Key": "again"}, with_parameter(ana)
        assert ana.post(runs, headers=key).status_code == 422
        answer = ana.post(runs, json={"parameters": {"day": "2026-01-31"}}, headers=key)
        assert answer.status_code == 202
        assert len(runs_of(house)) == 1


class Unlucky(MemoryUnitOfWork):
    """Loses this number of writing transactions behind their work."""

    def __init__(self, store: MemoryStore, error: Exception, *, times: int) -> None:
        super().__init__(store)
        self.error, self.times = error, times

    @contextmanager
    def begin(
        self, tenant: TenantId, *, feed: int = 0, read_only: bool = False
    ) -> Iterator[MemoryTransaction]:
        with super().begin(tenant, feed=feed, read_only=read_only) as tx:
            yield tx
            if feed and self.times:
                self.times -= 1
                raise self.error


class TestATransactionThatLoses:
    @pytest.fixture
    def house(self) -> MemoryApiHouse:
        house = memory_api()
        declare(house.caller())
        return house

    def trigger(self, house: MemoryApiHouse, error: Exception, times: int) -> httpx2.Response:
        losing = memory_api(
            unit=Unlucky(house.store, error, times=times),
            queries=house.queries,
            finder=house.finder,
        )
        return losing.caller().post(RUNS)

    def test_is_run_again_from_the_top(self, house: MemoryApiHouse) -> None:
        assert self.trigger(house, StoreBusyError(cause="deadlock"), 4).status_code == 202
        assert len(runs_of(house)) == 1

    def test_too_often_is_a_conflict_to_be_repeated(self, house: MemoryApiHouse) -> None:
        answer = self.trigger(house, StoreBusyError(cause="deadlock"), 5)
        assert (answer.status_code, answer.json()["code"]) == (409, "DR4011")
        assert answer.json()["retry_after_s"] == 1
        assert runs_of(house) == []

    def test_for_want_of_a_database_is_503(self, house: MemoryApiHouse) -> None:
        answer = self.trigger(house, StoreUnavailableError(cause="10.0.0.5 refused"), 1)
        assert (answer.status_code, answer.json()["code"]) == (503, "DR4091")
        assert int(answer.headers["Retry-After"]) > 0
        assert "10.0.0.5" not in answer.text

    def test_for_a_key_that_is_at_work_is_409(self, house: MemoryApiHouse) -> None:
        answer = self.trigger(house, KeyBusyError(route="POST /x"), 1)
        assert (answer.status_code, answer.json()["code"]) == (409, "DR4015")
        assert answer.headers["Retry-After"] == "1"


class TestPreferWait:
    @pytest.mark.case("U29")
    def test_answers_200_as_soon_as_the_run_has_ended(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        def finish(channel: str, run_id: str) -> None:
            """The new run ends as soon as it is announced."""
            run = house.store.committed(A_TENANT).runs
            if channel == "datarecs_run" and any(
                not one.status.is_terminal for one in run.values()
            ):
                change_run(house.unit, run_id, status=RunStatus.COMPLETED, result=RunResult.MATCHED)

        house.store.listen(finish)
        answer = ana.post(RUNS, headers={"Prefer": "respond-async, wait=20"})
        assert answer.status_code == 200
        assert answer.json()["result"] == "MATCHED"
        assert answer.headers["Preference-Applied"] == "wait=20"
        assert answer.headers["Location"].endswith(answer.json()["run_id"])
        assert "Retry-After" not in answer.headers

    @pytest.mark.case("U29")
    def test_answers_202_when_the_time_is_up(self, ana: TestClient) -> None:
        answer = ana.post(RUNS, headers={"Prefer": "wait=1"})
        assert answer.status_code == 202
        assert answer.headers["Preference-Applied"] == "wait=1"
        assert answer.headers["Retry-After"] == "1"

    @pytest.mark.parametrize(
        "wish", ["wait=-1", "wait=\u00b2", "wait", "x=1", 'wait="5', "wait=1s"]
    )
    def test_is_ignored_when_it_cannot_be_read(self, ana: TestClient, wish: str) -> None:
        answer = ana.post(RUNS, headers={b"Prefer": wish.encode("latin-1")})
        assert answer.status_code == 202
        assert "Preference-Applied" not in answer.headers

    @pytest.mark.parametrize("wish", ["wait=31", "wait=3600", f"wait={10**18}"])
    def test_above_the_limit_names_the_wait_that_was_used(
        self, house: MemoryApiHouse, ana: TestClient, wish: str
    ) -> None:
        house.following.end()  # no request waits
        answer = ana.post(RUNS, headers={"Prefer": wish})
        assert answer.headers["Preference-Applied"] == "wait=30"

    @pytest.mark.parametrize(
        ("lines", "seconds"),
        [
            (["wait=31"], 30),
            (["wait=0"], 0),
            (["WAIT = 7; because=slow"], 7),
            (['wait="7"'], 7),
            (["respond-async", "handling=strict, wait=7"], 7),
            (["wait=7, wait=9"], 7),
            (["wait=soon, wait=9"], None),
            (["waiting=9"], None),
        ],
    )
    def test_is_read_as_rfc_7240_writes_it(self, lines: list[str], seconds: int | None) -> None:
        limit = None if seconds is None else timedelta(seconds=seconds)
        assert wait_of(lines) == limit

    def test_ends_early_when_the_process_drains(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        house.following.end()
        assert ana.post(RUNS, headers={"Prefer": "wait=30"}).status_code == 202


def test_the_stored_answer_is_the_published_one(house: MemoryApiHouse, ana: TestClient) -> None:
    ana.post(RUNS, headers={"Idempotency-Key": "k"})
    (remembered,) = house.store.committed(A_TENANT).remembered.values()
    assert remembered.answer is not None
    assert json.loads(remembered.answer.body)["status"] == "TRIGGERED"
