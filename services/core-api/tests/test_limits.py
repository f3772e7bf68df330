"""Limits of a principal and a tenant: rates with their headers, and quotas."""

from datetime import timedelta
from typing import ClassVar

import pytest
from starlette.testclient import TestClient

from datarecs_core.resources.resource import Kind
from datarecs_core.runs.model import RunStatus
from datarecs_runtime.api_sections import Limits
from datarecs_specs.kinds import KINDS
from datarecs_testing.api import MemoryApiHouse, change_run, declare, memory_api
from datarecs_testing.builders import B_TENANT

WHOAMI, KEYS = "/api/v1/whoami", "/api/v1/keys"
RUNS = "/api/v1/jobs/ledger-vs-exports/runs"


def limited(**limits: int) -> MemoryApiHouse:
    return memory_api(limits=Limits.model_validate(limits))


class TestRequests:
    @pytest.mark.case("X34")
    def test_of_a_principal_are_limited(self) -> None:
        house = limited(requests_per_minute=3)
        ana = house.caller()
        assert [ana.get(WHOAMI).status_code for _ in range(4)] == [200, 200, 200, 429]
        refused = ana.get(WHOAMI)
        assert (refused.json()["code"], refused.headers["Retry-After"]) == ("DR4016", "20")
        assert house.caller().get(WHOAMI).status_code == 200
        house.clock.advance(timedelta(seconds=20))
        assert ana.get(WHOAMI).status_code == 200

    def test_of_a_tenant_are_limited_over_all_its_keys(self) -> None:
        house = limited(tenant_requests_per_minute=3)
        assert [house.caller().get(WHOAMI).status_code for _ in range(4)] == [200, 200, 200, 429]
        assert house.caller(B_TENANT).get(WHOAMI).status_code == 200

    def test_of_a_principal_without_tokens_cost_the_tenant_none(self) -> None:
        house = limited(requests_per_minute=1, tenant_requests_per_minute=3)
        greedy, modest = house.caller(), house.caller()
        for _ in range(10):
            greedy.get(WHOAMI)
        assert modest.get(WHOAMI).status_code == 200

    def test_that_write_are_limited_apart(self) -> None:
        ana = limited(writes_per_minute=2).caller()
        statuses = [ana.post(KEYS, json={"name": "ci"}).status_code for _ in range(3)]
        assert statuses == [201, 201, 429]
        assert ana.get(WHOAMI).status_code == 200
        assert ana.head(WHOAMI).status_code == 200

    def test_that_fail_count_as_well(self) -> None:
        ana = limited(requests_per_minute=2).caller()
        statuses = [ana.get("/api/v1/runs/x").status_code for _ in range(3)]
        assert statuses == [404, 404, 429]


class TestTheHeaders:
    def test_show_every_limit_and_how_much_is_left(self) -> None:
        ana = memory_api(limits=Limits()).caller()
        answer = ana.get(WHOAMI)
        assert answer.headers["RateLimit-Policy"] == '"principal";q=600;w=60, "tenant";q=3000;w=60'
        assert answer.headers["RateLimit"] == '"principal";r=599;t=1, "tenant";r=2999;t=1'
        written = ana.post(KEYS, json={"name": "ci"})
        assert '"writes";q=120;w=60' in written.headers["RateLimit-Policy"]
        assert '"writes";r=119;t=1' in written.headers["RateLimit"]

    def test_of_a_refusal_show_the_time_of_the_next_token(self) -> None:
        ana = limited(requests_per_minute=1).caller()
        ana.get(WHOAMI)
        assert ana.get(WHOAMI).headers["RateLimit"] == '"principal";r=0;t=60'

    def test_are_on_problems_and_not_on_public_routes(self) -> None:
        house = memory_api()
        assert "RateLimit" in house.caller().get("/api/v1/runs/x").headers
        for path in ("/livez", WHOAMI, "/nowhere"):
            assert "RateLimit" not in house.bearing(None).get(path).headers


class TestWaitingRuns:
    @pytest.mark.case("X33")
    def test_of_a_job_are_at_most_ten_of_a_thousand_triggers(self) -> None:
        house = memory_api(limits=Limits(writes_per_minute=10_000, requests_per_minute=10_000))
        ana = house.caller()
        declare(ana)
        answers = [ana.post(RUNS) for _ in range(100)]
        assert [one.status_code for one in answers] == [202] * 10 + [429] * 90
        refused = answers[-1]
        assert (refused.json()["code"], refused.headers["Retry-After"]) == ("DR6029", "10")

    @pytest.mark.case("X33")
    def test_make_room_when_they_start(self) -> None:
        house = limited(waiting_runs_per_job=1)
        ana = house.caller()
        declare(ana)
        run_id = ana.post(RUNS).json()["run_id"]
        assert ana.post(RUNS).status_code == 429
        change_run(house.unit, run_id, status=RunStatus.RUNNING)
        assert ana.post(RUNS).status_code == 202

    def test_of_a_tenant_are_limited_over_all_jobs(self) -> None:
        ana = limited(waiting_runs_per_tenant=2).caller()
        jobs = [declare(ana, name=f"job-{number}") for number in range(3)]
        assert [ana.post(f"{job}/runs").status_code for job in jobs] == [202, 202, 429]

    def test_that_are_requested_again_with_their_key_are_not_new_ones(self) -> None:
        ana = limited(waiting_runs_per_job=1).caller()
        declare(ana)
        header = {"Idempotency-Key": "k"}
        first = ana.post(RUNS, headers=header)
        again = ana.post(RUNS, headers=header)
        assert (again.status_code, again.json()) == (202, first.json())


class TestOpenCaptures:
    CAPTURE: ClassVar = {"mode": "METADATA_ONLY", "snapshots": {"select": "CURRENT"}}
    PATH: ClassVar = "/api/v1/capture-jobs"

    def _started(self, caller: TestClient, connection: str) -> int:
        body = {**self.CAPTURE, "connection": connection}
        return caller.post(self.PATH, json=body).status_code

    def test_of_a_tenant_are_limited_until_they_end(self) -> None:
        house = limited(open_captures_per_tenant=1)
        ana, ben = house.caller(), house.caller(B_TENANT)
        for caller, name in ((ana, "lake"), (ana, "pond"), (ben, "lake")):
            declare(caller, Kind.CONNECTION, name=name)
        assert [self._started(ana, "lake") for _ in range(2)] == [202, 200]
        assert self._started(ben, "lake") == 202
        for path in (self.PATH, f"{self.PATH}/now"):
            refused = ana.post(path, json={**self.CAPTURE, "connection": "pond"})
            assert (refused.status_code, refused.json()["code"]) == (429, "DR6029")
            assert refused.headers["Retry-After"] == "10"
        (capture,) = ana.get(self.PATH).json()["items"]
        assert ana.post(f"{self.PATH}/{capture['job_id']}/cancel", json={}).status_code < 300
        assert self._started(ana, "pond") == 202


class TestObjects:
    @pytest.mark.parametrize("kind", Kind)
    @pytest.mark.parametrize("by_apply", [True, False])
    def test_of_each_kind_are_limited(self, kind: Kind, *, by_apply: bool) -> None:
        quotas = (
            "jobs",
            "connections",
            "schedules",
            "endpoints",
            "rules",
            "retention_policies",
            "captures",
            "sinks",
        )
        house = limited(**{f"{name}_per_tenant": 1 for name in quotas})
        ana = house.caller()
        first = declare(ana, kind)
        body = ana.get(first).json()
        declared = {name: body[name] for name in ("apiVersion", "kind", "spec")}
        declared["metadata"] = {"name": "one-more"}
        path = f"/api/v1/{KINDS[kind].path}"
        answer = (
            ana.put(f"{path}/one-more?apply=1", json=declared, headers={"If-Match": "*"})
            if by_apply
            else ana.post(path, json=declared)
        )
        assert (answer.status_code, answer.json()["code"]) == (429, "DR6029"), answer.text
        same = {**declared, "metadata": {"name": first.rpartition("/")[2]}}
        replaced = ana.put(first, json=same, headers={"If-Match": "*"})
        assert replaced.status_code == 200
