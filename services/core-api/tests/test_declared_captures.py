"""The kind Capture over REST: faults, permissions, tenants, actions and the end of its job."""

from collections.abc import Mapping
from typing import Any

import pytest
from starlette.testclient import TestClient

from datarecs_application.capturing.declared import CaptureController
from datarecs_application.loops.polling import Rhythm
from datarecs_application.loops.reconciling import Reconciling
from datarecs_application.source_conditions import ConnectionController
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.access.permissions import Role
from datarecs_core.captures.declared import Capture
from datarecs_core.resources.resource import Kind
from datarecs_runtime.clock import Latch
from datarecs_specs.documents import decode_stored
from datarecs_testing.api import MemoryApiHouse, declare, memory_api
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.metrics import RecordedMetrics

CAPTURES, JOBS = "/api/v1/captures", "/api/v1/capture-jobs"
PLACE = f"{CAPTURES}/exports-stats"
ANY = {"If-Match": "*"}


@pytest.fixture
def house() -> MemoryApiHouse:
    return memory_api()


@pytest.fixture
def ana(house: MemoryApiHouse) -> TestClient:
    return house.caller()


def read_capture(spec: Mapping[str, object]) -> Capture:
    capture = decode_stored(Kind.CAPTURE, "", spec)
    assert isinstance(capture, Capture)
    return capture


def reconcile(house: MemoryApiHouse) -> None:
    controllers = (
        CaptureController(captures=StoredSpecs(read_capture), ids=house.ids),
        ConnectionController(),
    )
    loop = Reconciling(
        unit=house.unit,
        finder=house.finder,
        controllers={one.kind: one for one in controllers},
        metrics=RecordedMetrics(),
        rhythm=Rhythm(clock=house.clock, wake=Latch()),
        fraction=lambda: 0.5,
    )
    while loop.step():
        loop.drain()


def declared(ana: TestClient) -> dict[str, Any]:
    """The connection and the Capture of the published example."""
    declare(ana, Kind.CONNECTION, name="exports-s3")
    declare(ana, Kind.CAPTURE)
    body: dict[str, Any] = ana.get(PLACE).json()
    return body


def test_a_declared_capture_is_read_back_and_starts_its_job(
    house: MemoryApiHouse, ana: TestClient
) -> None:
    assert declared(ana)["spec"]["interval"] == "PT15M"
    reconcile(house)
    (job,) = ana.get(JOBS).json()["items"]
    status = ana.get(PLACE).json()["status"]
    assert status["last_capture"]["job_id"] == job["job_id"]
    assert status["phase"] == "Capturing"
    assert ana.get(CAPTURES).json()["items"][0]["metadata"]["name"] == "exports-stats"
    assert "Capture" in {one["kind"] for one in ana.get("/api/v1/kinds").json()["items"]}


def test_every_fault_has_its_pointer(ana: TestClient) -> None:
    document = declared(ana)
    body = {
        "apiVersion": "datarecs.io/v1",
        "kind": "Capture",
        "metadata": {"name": "exports-stats"},
        "spec": {**document["spec"], "interval": "PT5S", "outputs": ["FINGERPRINT"], "cron": "x"},
    }
    answer = ana.put(PLACE, json=body, headers=ANY)
    assert answer.status_code == 422
    assert {one["pointer"] for one in answer.json()["errors"]} == {
        "/spec/interval",
        "/spec/outputs/0",
        "/spec/cron",
    }


def test_declaring_and_resuming_need_the_permission_to_start_captures(
    house: MemoryApiHouse, ana: TestClient
) -> None:
    document = declared(ana)
    body = {
        "apiVersion": "datarecs.io/v1",
        "kind": "Capture",
        "metadata": {"name": "exports-stats"},
        "spec": document["spec"],
    }
    writer = house.bearing(house.key(permissions=["resource.write", "read"]))
    for answer in (
        writer.post(CAPTURES, json=body),
        writer.put(PLACE, json=body, headers=ANY),
        writer.post(f"{PLACE}/actions/reconcile", json={}),
        writer.post(f"{PLACE}/actions/resume", json={}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "DR6012")
        assert "capture.trigger" in answer.json()["detail"]
    assert writer.post(f"{PLACE}/actions/pause", json={}).status_code == 200
    assert writer.delete(PLACE, headers=ANY).status_code == 200


@pytest.mark.parametrize(("role", "status"), [(Role.OPERATOR, 403), (Role.EDITOR, 202)])
def test_a_role_may_request_a_capture(
    house: MemoryApiHouse, ana: TestClient, role: Role, status: int
) -> None:
    declared(ana)
    answer = house.caller(A_TENANT, role).post(f"{PLACE}/actions/reconcile", json={})
    assert answer.status_code == status


@pytest.mark.case("R71")
def test_another_tenant_has_no_capture_of_this_name_and_starts_none_of_the_connection(
    house: MemoryApiHouse, ana: TestClient
) -> None:
    declared(ana)
    reconcile(house)
    bob = house.caller(B_TENANT, Role.ADMIN)
    assert bob.get(PLACE).status_code == 404
    assert bob.post(f"{PLACE}/actions/reconcile", json={}).status_code == 404
    assert bob.delete(PLACE, headers=ANY).status_code == 404
    declare(bob, Kind.CAPTURE)
    reconcile(house)
    assert bob.get(JOBS).json()["items"] == []
    conditions = {one["type"]: one for one in bob.get(PLACE).json()["status"]["conditions"]}
    assert conditions["Ready"]["reason"] == "ConnectionMissing"
    assert len(ana.get(JOBS).json()["items"]) == 1


@pytest.mark.case("R59", "R62")
def test_a_connection_waits_for_its_capture_and_a_deletion_cancels_the_job(
    house: MemoryApiHouse, ana: TestClient
) -> None:
    declared(ana)
    reconcile(house)
    connection = "/api/v1/connections/exports-s3"
    assert ana.delete(connection, headers=ANY).status_code == 202
    assert ana.delete(PLACE, headers=ANY).status_code == 200
    (job,) = ana.get(JOBS).json()["items"]
    assert job["state"] == "CANCELLED"
    reconcile(house)
    assert ana.get(connection).status_code == 404
