"""Conditions, actions of controllers, and triggers of jobs that cannot run."""

from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from datarecs_application.job_references import JobController
from datarecs_application.loops.polling import Rhythm
from datarecs_application.loops.reconciling import Reconciling
from datarecs_application.source_conditions import ConnectionController
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.access.permissions import Role
from datarecs_core.resources.checks import CheckResult
from datarecs_core.resources.resource import Kind
from datarecs_runtime.clock import Latch
from datarecs_specs.documents import job_of
from datarecs_testing.api import MemoryApiHouse, declare, memory_api
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.checking import GOOD, REFUSED, WRONG_TYPE, report_checks
from datarecs_testing.metrics import RecordedMetrics

JOB = "/api/v1/jobs/ledger-vs-exports"


@pytest.fixture
def house() -> MemoryApiHouse:
    return memory_api()


@pytest.fixture
def ana(house: MemoryApiHouse) -> TestClient:
    return house.caller()


def reconcile(house: MemoryApiHouse, result: CheckResult = GOOD) -> None:
    """What the resource-controller and a worker do until nothing is due."""
    jobs = StoredSpecs(lambda spec: job_of("", spec))
    controllers = (JobController(jobs=jobs), ConnectionController())
    loop = Reconciling(
        unit=house.unit,
        finder=house.finder,
        controllers={one.kind: one for one in controllers},
        metrics=RecordedMetrics(),
        rhythm=Rhythm(clock=house.clock, wake=Latch()),
        fraction=lambda: 0.5,
    )
    while loop.step() or report_checks(house.unit, house.finder, result):
        loop.drain()


def connect(ana: TestClient, *names: str) -> None:
    for name in names:
        declare(ana, Kind.CONNECTION, name=name)


def connections(ana: TestClient) -> list[str]:
    return sorted({one["connection"] for one in ana.get(JOB).json()["spec"]["sources"]})


def condition(ana: TestClient, name: str) -> dict[str, object]:
    (one,) = (one for one in ana.get(JOB).json()["status"]["conditions"] if one["type"] == name)
    assert isinstance(one, dict)
    return one


def test_a_job_shows_its_conditions_and_phase(house: MemoryApiHouse, ana: TestClient) -> None:
    declare(ana)
    assert ana.get(JOB).json()["status"] == {"phase": "Pending", "observed_generation": 0}
    reconcile(house)
    missing = condition(ana, "ReferencesResolved")
    assert (missing["status"], missing["reason"]) == ("False", "ConnectionMissing")
    assert (missing["observed_generation"], bool(missing["last_transition_time"])) == (1, True)
    connect(ana, *connections(ana))
    reconcile(house)
    status = ana.get(JOB).json()["status"]
    assert (status["phase"], status["observed_generation"]) == ("Ready", 1)
    assert condition(ana, "Ready")["status"] == "True"
    assert ana.get("/api/v1/jobs").json()["items"][0]["status"]["phase"] == "Ready"


@pytest.mark.case("R61")
def test_a_trigger_is_refused_while_a_connection_is_missing(
    house: MemoryApiHouse, ana: TestClient
) -> None:
    declare(ana)
    first, *others = connections(ana)
    assert ana.post(f"{JOB}/runs").status_code == 202
    connect(ana, *others)
    reconcile(house)
    refused = ana.post(f"{JOB}/runs")
    assert (refused.status_code, refused.json()["reason"]) == (409, "JOB_NOT_READY")
    assert (
        f"connection {first} does not exist in namespace default; apply it"
        in (refused.json()["detail"])
    )
    connect(ana, first)
    # Before its controller has seen the connection: the rows decide, not an old status.
    assert condition(ana, "ReferencesResolved")["status"] == "False"
    assert ana.post(f"{JOB}/runs").status_code == 202


@pytest.mark.case("R61")
def test_a_trigger_of_a_job_that_does_not_fit_its_sources_is_refused(
    house: MemoryApiHouse, ana: TestClient
) -> None:
    declare(ana)
    connect(ana, *connections(ana))
    reconcile(house, WRONG_TYPE)
    refused = ana.post(f"{JOB}/runs")
    assert (refused.status_code, refused.json()["reason"]) == (409, "JOB_NOT_READY")
    assert "ABSOLUTE does not fit the text" in refused.json()["detail"]
    assert ana.get(JOB).json()["status"]["phase"] == "Invalid"
    ana.post(f"{JOB}/actions/reconcile")
    reconcile(house, GOOD)
    assert ana.post(f"{JOB}/runs").status_code == 202


@pytest.mark.case("R60")
def test_a_trigger_of_a_job_with_a_wrong_password_is_allowed(
    house: MemoryApiHouse, ana: TestClient
) -> None:
    declare(ana)
    connect(ana, *connections(ana))
    reconcile(house, REFUSED)
    assert condition(ana, "Valid")["status"] == "Unknown"
    assert ana.post(f"{JOB}/runs").status_code == 202


@pytest.mark.case("R61")
def test_a_trigger_of_an_unreadable_job_is_refused(house: MemoryApiHouse, ana: TestClient) -> None:
    declare(ana)
    connect(ana, *connections(ana))
    state = house.store.committed(A_TENANT)
    (uid,) = (uid for uid, one in state.resources.items() if one.kind is Kind.RECONCILIATION_JOB)
    with house.unit.begin(A_TENANT, feed=1) as tx:
        stored = tx.resources.get_by_uid(uid)
        assert stored is not None
        older = replace(stored, spec={"sources": "x"}, rv=tx.next_rv())
        assert tx.resources.replace(older, expected_rv=stored.rv)
    reconcile(house)
    refused = ana.post(f"{JOB}/runs")
    assert (refused.status_code, refused.json()["reason"]) == (409, "JOB_NOT_READY")
    assert "cannot read the stored spec" in refused.json()["detail"]
    assert ana.get(JOB).json()["status"]["phase"] == "Invalid"


@pytest.mark.case("R30")
def test_a_paused_job_is_left_alone_until_it_is_resumed(
    house: MemoryApiHouse, ana: TestClient
) -> None:
    declare(ana)
    reconcile(house)
    paused = ana.post(f"{JOB}/actions/pause")
    assert paused.status_code == 200
    assert paused.json()["metadata"]["annotations"]["datarecs.io/paused"] == "true"
    connect(ana, *connections(ana))
    reconcile(house)
    assert ana.get(JOB).json()["status"]["phase"] == "Paused"
    assert condition(ana, "ReferencesResolved")["status"] == "False"
    resumed = ana.post(f"{JOB}/actions/resume")
    assert resumed.status_code == 200
    assert "datarecs.io/paused" not in resumed.json()["metadata"]["annotations"]
    reconcile(house)
    assert ana.get(JOB).json()["status"]["phase"] == "Ready"


@pytest.mark.case("R21")
def test_a_request_makes_the_job_due_and_is_audited(house: MemoryApiHouse, ana: TestClient) -> None:
    declare(ana)
    reconcile(house)
    before = ana.get(JOB).json()["metadata"]
    answer = ana.post(f"{JOB}/actions/reconcile")
    assert answer.status_code == 202
    after = answer.json()["metadata"]
    assert after["generation"] == before["generation"]
    assert "datarecs.io/reconcile-at" in after["annotations"]
    (backlog,) = house.finder.resource_backlog()
    assert backlog.due == 1
    for action in ("pause", "pause", "resume"):
        ana.post(f"{JOB}/actions/{action}")
    audited = [one.row.action for one in house.store.committed(A_TENANT).audit]
    assert audited[-3:] == ["resource.reconcile", "resource.pause", "resource.resume"]


@pytest.mark.parametrize("action", ["reconcile", "pause", "resume"])
def test_who_may_act_is_who_may_write(house: MemoryApiHouse, ana: TestClient, action: str) -> None:
    declare(ana)
    path = f"{JOB}/actions/{action}"
    assert house.caller(A_TENANT, Role.VIEWER).post(path).status_code == 403
    assert house.caller(A_TENANT, Role.EDITOR).post(path).status_code in {200, 202}
    assert house.caller(B_TENANT).post(path).status_code == 404
    assert ana.post(path, json={"now": True}).status_code == 422
    assert ana.post(f"/api/v1/jobs/nix/actions/{action}").status_code == 404
