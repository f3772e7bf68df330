"""POST /runs/{id}/retry: a new run with the parameters of an ended one."""

from uuid import UUID

import pytest
from starlette.testclient import TestClient

from datarecs_core.resources.resource import Kind
from datarecs_core.runs.model import RunResult, RunStatus
from datarecs_core.values import RunId
from datarecs_core_api.request_examples import EXAMPLES
from datarecs_testing.api import MemoryApiHouse, change_run, memory_api
from datarecs_testing.builders import A_TENANT

JOB = "/api/v1/jobs/daily"


@pytest.fixture
def house() -> MemoryApiHouse:
    return memory_api()


@pytest.fixture
def ana(house: MemoryApiHouse) -> TestClient:
    """A caller with a job that has a parameter without default."""
    caller = house.caller()
    example = EXAMPLES[Kind.RECONCILIATION_JOB]
    spec = {**_mapping(example["spec"]), "parameters": {"day": {"type": "date"}}}
    body = {**example, "metadata": {"name": "daily"}, "spec": spec}
    assert caller.post("/api/v1/jobs", json=body).status_code == 201
    return caller


def _mapping(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


def ended(house: MemoryApiHouse, ana: TestClient, status: RunStatus) -> str:
    """The path of a run with this end."""
    path = str(
        ana.post(f"{JOB}/runs", json={"parameters": {"day": "2026-01-31"}}).headers["Location"]
    )
    result = RunResult.UNMATCHED if status is RunStatus.COMPLETED else None
    change_run(house.unit, path.rpartition("/")[2], status=status, result=result)
    return path


@pytest.mark.parametrize("status", [one for one in RunStatus if one.is_terminal])
def test_an_ended_run_is_triggered_again_with_its_parameters(
    house: MemoryApiHouse, ana: TestClient, status: RunStatus
) -> None:
    path = ended(house, ana, status)
    answer = ana.post(f"{path}/retry", json={"reason": "the export is complete"})
    assert answer.status_code == 202
    again, first = answer.json(), ana.get(path).json()
    assert answer.headers["Location"] == f"/api/v1/runs/{again['run_id']}"
    assert again["run_id"] != first["run_id"]
    assert (again["retry_of"], first["retry_of"]) == (first["run_id"], None)
    assert (again["status"], again["trigger_reason"]) == ("TRIGGERED", "the export is complete")
    assert again["parameters"] == first["parameters"]
    assert first["status"] == status
    assert again["parameters"] == {"day": "2026-01-31"}
    line = house.store.committed(A_TENANT).audit[-1].row
    assert (line.action, _mapping(line.detail)["retry_of"]) == ("run.retry", first["run_id"])


@pytest.mark.parametrize("status", [RunStatus.TRIGGERED, RunStatus.QUEUED, RunStatus.RUNNING])
def test_a_run_without_an_end_is_refused(
    house: MemoryApiHouse, ana: TestClient, status: RunStatus
) -> None:
    path = ended(house, ana, status)
    runs = len(ana.get("/api/v1/runs").json()["items"])
    answer = ana.post(f"{path}/retry", json={})
    assert (answer.status_code, answer.json()["reason"]) == (409, "RUN_NOT_TERMINAL")
    assert status in answer.json()["detail"]
    assert len(ana.get("/api/v1/runs").json()["items"]) == runs


def test_the_same_key_makes_one_run(house: MemoryApiHouse, ana: TestClient) -> None:
    path = ended(house, ana, RunStatus.ERRORED)
    key = {"Idempotency-Key": "k"}
    made = [ana.post(f"{path}/retry", json={}, headers=key).json()["run_id"] for _ in range(2)]
    assert made[0] == made[1]
    (stored,) = [
        run
        for run in house.store.committed(A_TENANT).runs.values()
        if run.run_id == RunId(UUID(made[0]))
    ]
    assert stored.idempotency_key == "k"


def test_a_run_whose_job_is_gone_cannot_be_retried(house: MemoryApiHouse, ana: TestClient) -> None:
    path = ended(house, ana, RunStatus.ERRORED)
    assert ana.delete(JOB, headers={"If-Match": "*"}).status_code == 200
    answer = ana.post(f"{path}/retry", json={})
    assert (answer.status_code, answer.json()["reason"]) == (404, "NOT_FOUND")
    assert "ReconciliationJob" in answer.json()["detail"]
