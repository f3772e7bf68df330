"""Schedules over REST: declared like every kind, and previewed."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from starlette.testclient import TestClient

from datarecs_application.ports.schedules import DecidedTick
from datarecs_core.access.permissions import Role
from datarecs_core.resources.resource import Kind
from datarecs_core.scheduling.schedule import Tick, TickOutcome
from datarecs_testing.api import MemoryApiHouse, declare, memory_api
from datarecs_testing.builders import A_TENANT, B_TENANT

PLACE = "/api/v1/schedules/nightly"
JOB = "ledger-vs-exports"
BERLIN = {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}
HOUR = timedelta(hours=1)
BEFORE_SPRING = datetime(2026, 3, 27, 12, tzinfo=UTC)


@pytest.fixture
def house() -> MemoryApiHouse:
    return memory_api()


@pytest.fixture
def client(house: MemoryApiHouse) -> TestClient:
    return house.caller()


def applied(client: TestClient, *, namespace: str = "default", **spec: object) -> Mapping[str, str]:
    answer = client.put(
        PLACE,
        params={"apply": "true", "namespace": namespace},
        headers={"If-Match": "*"},
        json={
            "apiVersion": "datarecs.io/v1",
            "kind": "Schedule",
            "metadata": {"name": "nightly"},
            "spec": {"job": JOB, **spec},
        },
    )
    assert answer.status_code in {200, 201}, answer.text
    body: Mapping[str, str] = answer.json()
    return body


def previewed(client: TestClient, *, namespace: str = "default") -> Mapping[str, list[object]]:
    answer = client.post(f"{PLACE}/actions/preview", params={"namespace": namespace})
    assert answer.status_code == 200, answer.text
    body: Mapping[str, list[object]] = answer.json()
    return body


def test_a_schedule_is_declared_like_every_kind(client: TestClient) -> None:
    assert applied(client, **BERLIN)["outcome"] == "created"
    assert applied(client, **BERLIN, jitter="PT0S")["outcome"] == "unchanged"
    assert applied(client, **BERLIN, suspend=True)["outcome"] == "configured"
    stored = client.get(PLACE)
    assert stored.json()["spec"]["suspend"] is True
    assert client.get("/api/v1/schedules").json()["items"] == [stored.json()]
    assert client.delete(PLACE, headers={"If-Match": stored.headers["ETag"]}).status_code == 200
    assert client.get(PLACE).status_code == 404


@pytest.mark.case("R40")
def test_a_refusal_has_the_pointer_of_its_field(client: TestClient) -> None:
    spec = {"job": JOB, "cron": "* * * * * *", "timezone": "Mars/X"}
    body = {"apiVersion": "datarecs.io/v1", "kind": "Schedule", "metadata": {"name": "x"}}
    answer = client.post("/api/v1/schedules", json={**body, "spec": spec})
    assert answer.status_code == 422
    errors = {(one["code"], one["pointer"]) for one in answer.json()["errors"]}
    assert errors == {("DR1073", "/spec/cron"), ("DR1071", "/spec/timezone")}


@pytest.mark.case("R38")
def test_a_preview_has_ten_times_with_notes_about_clock_changes(house: MemoryApiHouse) -> None:
    house.clock.advance(BEFORE_SPRING - house.clock.now())
    client = house.caller()
    declare(client, Kind.RECONCILIATION_JOB, name=JOB)
    applied(client, **BERLIN)
    preview = previewed(client)
    assert preview["held"] == []
    times = preview["times"]
    assert len(times) == 10
    assert times[0] == {
        "fire_time": "2026-03-28T01:30:00.000000Z",
        "local": "2026-03-28T02:30:00+01:00",
        "note": None,
    }
    moved = times[1]
    assert isinstance(moved, dict)
    assert (moved["fire_time"], moved["local"]) == (
        "2026-03-29T01:00:00.000000Z",
        "2026-03-29T03:00:00+02:00",
    )
    assert "2026-03-29" in moved["note"]
    assert house.store.committed(A_TENANT).runs == {}


def test_a_preview_has_the_reasons_why_no_run_starts(
    house: MemoryApiHouse, client: TestClient
) -> None:
    applied(client, **BERLIN, suspend=True, end_at=house.clock.now().isoformat())
    assert previewed(client) == {
        "times": [],
        "held": [
            "the schedule is suspended: no run starts until suspend is false",
            "the schedule has ended: it has no time before end_at",
            f"namespace default has no job {JOB}",
        ],
    }
    declare(client, Kind.RECONCILIATION_JOB, name=JOB)
    applied(client, **BERLIN)
    assert previewed(client)["held"] == []
    applied(client, **BERLIN, namespace="books")
    assert previewed(client, namespace="books")["held"] == [f"namespace books has no job {JOB}"]
    job = client.get(f"/api/v1/jobs/{JOB}").json()
    spec = {
        **job["spec"],
        "parameters": {"day": {"type": "date"}, "zone": {"type": "text", "default": "UTC"}},
    }
    document = {**{name: job[name] for name in ("apiVersion", "kind")}, "spec": spec}
    put = client.put(
        f"/api/v1/jobs/{JOB}",
        json={**document, "metadata": {"name": JOB}},
        headers={"If-Match": "*"},
    )
    assert put.status_code == 200, put.text
    reason = f"job {JOB} requires day; give the parameters defaults"
    assert previewed(client)["held"] == [reason]


def test_a_job_with_schedules_can_be_deleted_and_the_schedules_stay(client: TestClient) -> None:
    job = declare(client, Kind.RECONCILIATION_JOB, name=JOB)
    applied(client, **BERLIN)
    assert client.delete(job, headers={"If-Match": "*"}).status_code == 200
    assert client.get(PLACE).status_code == 200
    assert len(previewed(client)["held"]) == 1


def test_an_interval_counts_from_the_creation_of_its_schedule(
    house: MemoryApiHouse, client: TestClient
) -> None:
    created = house.clock.now().replace(second=0, microsecond=0)
    applied(client, interval="PT1H")
    house.clock.advance(timedelta(minutes=90, seconds=30))
    first = previewed(client)["times"][0]
    assert isinstance(first, dict)
    assert datetime.fromisoformat(first["fire_time"]) == created + timedelta(hours=2)


def test_who_may_read_may_preview(house: MemoryApiHouse, client: TestClient) -> None:
    applied(client, **BERLIN)
    path = f"{PLACE}/actions/preview"
    assert house.caller(A_TENANT, Role.VIEWER).post(path).status_code == 200
    assert house.caller(B_TENANT).post(path).status_code == 404


def test_a_key_that_may_start_no_runs_declares_no_schedule(
    house: MemoryApiHouse, client: TestClient
) -> None:
    applied(client, **BERLIN, suspend=True)
    writer = house.bearing(house.key(permissions=["resource.write", "read"]))
    document = {
        "apiVersion": "datarecs.io/v1",
        "kind": "Schedule",
        "metadata": {"name": "nightly"},
        "spec": {"job": JOB, **BERLIN},
    }
    for answer in (
        writer.post("/api/v1/schedules", json=document),
        writer.put(PLACE, json=document, headers={"If-Match": "*"}),
        writer.put(PLACE, params={"dry_run": "true"}, json=document, headers={"If-Match": "*"}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "DR6012")
        assert "run.schedule" in answer.json()["detail"]
    assert client.get(PLACE).json()["spec"]["suspend"] is True
    assert writer.delete(PLACE, headers={"If-Match": "*"}).status_code == 200


def test_a_preview_takes_no_fields(client: TestClient) -> None:
    applied(client, **BERLIN)
    answer = client.post(f"{PLACE}/actions/preview", json={"count": 5})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/count"


def decided(house: MemoryApiHouse, *ticks: Tick) -> None:
    """What the resource-controller stores."""
    with house.unit.begin(A_TENANT) as tx:
        stored = tx.resources.get(Kind.SCHEDULE, "default", "nightly")
        assert stored is not None
        state = tx.schedules.for_update(stored.uid)[stored.uid]
        tx.schedules.record(stored.uid, [DecidedTick(tick=tick) for tick in ticks])
        newest = max(tick.fire_time for tick in ticks)
        tx.schedules.save(replace(state, last_fire_time=newest, due_at=newest + HOUR))


def test_the_history_has_what_became_of_each_time_newest_first(house: MemoryApiHouse) -> None:
    client = house.caller()
    applied(client, **BERLIN)
    late = Tick(
        fire_time=BEFORE_SPRING,
        outcome=TickOutcome.MISSED_CATCHUP,
        first_fire_time=BEFORE_SPRING - HOUR,
        missed=2,
        reason="late",
    )
    decided(house, late, Tick(fire_time=BEFORE_SPRING + HOUR, outcome=TickOutcome.FIRED))
    answer = client.get(f"{PLACE}/history", params={"limit": 1}).json()
    assert answer["next_start_at"] == "2026-03-27T14:00:00.000000Z"
    assert answer["active_runs"] == []
    assert [tick["outcome"] for tick in answer["items"]] == ["FIRED"]
    following = client.get(f"{PLACE}/history", params={"cursor": answer["next"]}).json()
    (tick,) = following["items"]
    assert (tick["outcome"], tick["missed"], tick["reason"]) == ("MISSED_CATCHUP", 2, "late")
    assert following["next"] is None


@pytest.mark.case("R71")
def test_the_history_of_another_tenant_does_not_exist(house: MemoryApiHouse) -> None:
    applied(house.caller(), **BERLIN)
    assert house.caller(B_TENANT).get(f"{PLACE}/history").status_code == 404


def test_a_namespace_in_another_form_is_explained_without_patterns(client: TestClient) -> None:
    answer = client.get(PLACE, params={"namespace": "Books"})
    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert fault["message"].startswith("not in its form; write 1 to 63 small letters")
