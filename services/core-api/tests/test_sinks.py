"""The kind SinkTable over REST: faults, commits, partitions, verbs, permissions and tenants."""

import re
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from starlette.testclient import TestClient

from datarecs_core.access.permissions import Role
from datarecs_core.resources.resource import Kind
from datarecs_core.sink.checkpoint import PartitionState, TableCommit, TaskReport, TaskWish
from datarecs_core.sink.control import TableReference
from datarecs_testing.api import MemoryApiHouse, declare, memory_api
from datarecs_testing.api_sinks import (
    ANY,
    FIRST,
    KAFKA,
    LINEAGE,
    PLACE,
    SECOND,
    SINKS,
    add_commit,
    declare_sink,
    read_status,
    reconcile,
    store_status,
)
from datarecs_testing.builders import A_TENANT, B_TENANT


@pytest.fixture
def house() -> MemoryApiHouse:
    return memory_api()


@pytest.fixture
def ana(house: MemoryApiHouse) -> TestClient:
    return house.caller()


def test_a_declared_sink_is_read_back_and_wants_its_tasks(
    house: MemoryApiHouse, ana: TestClient
) -> None:
    uid = declare_sink(house, ana)
    spec = ana.get(PLACE).json()["spec"]
    assert spec["tables"] == [{"catalog": "lake", "namespace": "sales", "name": "payments"}]
    wished = read_status(house, uid).wished
    assert wished is not None
    assert (wished.tasks, wished.wish) == (2, TaskWish.RUN)
    assert ana.get(PLACE).json()["status"]["phase"] == "Starting"
    assert ana.get(SINKS).json()["items"][0]["metadata"]["name"] == "payments-landing"
    assert "SinkTable" in {one["kind"] for one in ana.get("/api/v1/kinds").json()["items"]}


def test_every_fault_has_its_pointer(house: MemoryApiHouse, ana: TestClient) -> None:
    declare_sink(house, ana)
    document = ana.get(PLACE).json()
    body = {
        "apiVersion": "datarecs.io/v1",
        "kind": "SinkTable",
        "metadata": {"name": "payments-landing"},
        "spec": {**document["spec"], "mode": "merge", "verify": {}, "tasks": 0},
    }
    answer = ana.put(PLACE, json=body, headers=ANY)
    assert answer.status_code == 422
    pointers = {one["pointer"] for one in answer.json()["errors"]}
    assert pointers == {"/spec/mode", "/spec/verify", "/spec/tasks"}


def test_commits_are_listed_newest_first_with_their_snapshots(
    house: MemoryApiHouse, ana: TestClient
) -> None:
    uid = declare_sink(house, ana)
    table = TableReference(catalog="lake", namespace=("sales",), name="payments", uuid=UUID(int=99))
    snapshot = TableCommit(
        commit_id=UUID(int=3),
        table=table,
        snapshot_id=2**62 + 1,
        control_offset=40,
        valid_through=house.clock.now(),
        records=12,
        files=2,
        source_ends={FIRST: 5},
    )
    add_commit(house, uid, 1)
    add_commit(house, uid, 2, is_partial=True)
    add_commit(house, uid, 3, snapshots=(snapshot,))
    first = ana.get(f"{PLACE}/commits", params={"limit": 2})
    items = first.json()["items"]
    assert [one["commit_id"] for one in items] == [str(UUID(int=3)), str(UUID(int=2))]
    assert [one["partial"] for one in items] == [False, True]
    assert items[0]["snapshots"] == [
        {
            "catalog": "lake",
            "namespace": ["sales"],
            "table": "payments",
            "table_uuid": str(UUID(int=99)),
            "snapshot_id": "4611686018427387905",
            "records": 12,
            "files": 2,
            "valid_through_ts": "2026-01-15T12:00:00.000000Z",
        }
    ]
    assert "next" in first.headers["Link"]
    rest = ana.get(f"{PLACE}/commits", params={"limit": 2, "cursor": first.json()["next"]})
    assert [one["commit_id"] for one in rest.json()["items"]] == [str(UUID(int=1))]
    assert rest.json()["next"] is None


def test_partitions_show_what_is_committed_read_and_waiting(
    house: MemoryApiHouse, ana: TestClient
) -> None:
    uid = declare_sink(house, ana)
    before = read_status(house, uid)
    report = TaskReport(positions={FIRST: 7, SECOND: 3}, ends={FIRST: 9, SECOND: 3})
    largest = PartitionState(accepted=5, largest=house.clock.now())
    checkpoint = replace(before.state.checkpoint, partitions={FIRST: largest})
    tasks = (replace(before.tasks[0], is_held=True, report=report), before.tasks[1])
    state = replace(before.state, checkpoint=checkpoint)
    store_status(house, uid, replace(before, state=state, tasks=tasks))
    page = ana.get(f"{PLACE}/partitions", params={"limit": 1}).json()
    assert page["items"] == [
        {
            "topic": "payments",
            "partition": 0,
            "committed": 5,
            "largest_ts": "2026-01-15T12:00:00.000000Z",
            "position": 7,
            "end": 9,
        }
    ]
    rest = ana.get(f"{PLACE}/partitions", params={"limit": 1, "cursor": page["next"]}).json()
    assert [(one["partition"], one["committed"]) for one in rest["items"]] == [(1, None)]
    assert rest["next"] is None
    again = ana.get(f"{PLACE}/commits", params={"cursor": page["next"]})
    assert (again.status_code, again.json()["code"]) == (400, "DR4006")


def test_commit_now_is_stored_once_for_its_key(house: MemoryApiHouse, ana: TestClient) -> None:
    uid = declare_sink(house, ana)
    key = {"Idempotency-Key": "k-1"}
    for _ in range(2):
        answer = ana.post(f"{PLACE}/actions/commit-now", json={}, headers=key)
        assert (answer.status_code, answer.json()["kind"]) == (202, "SinkTable")
    assert read_status(house, uid).state.commit_requests == 1


def test_retry_begins_halted_tasks_again(house: MemoryApiHouse, ana: TestClient) -> None:
    uid = declare_sink(house, ana)
    before = read_status(house, uid)
    halted = TaskReport(error_code="BAD_RECORD", error="a: no int", is_halted=True)
    tasks = (replace(before.tasks[0], is_held=True, report=halted), before.tasks[1])
    store_status(house, uid, replace(before, tasks=tasks))
    reconcile(house)
    assert ana.post(f"{PLACE}/actions/retry").status_code == 202
    assert [one.report for one in read_status(house, uid).tasks] == [None, None]


@pytest.mark.parametrize("verb", ["commit-now", "retry", "reset"])
def test_a_verb_needs_a_sink_that_has_begun(ana: TestClient, verb: str) -> None:
    declare(ana, Kind.SINK_TABLE)
    answer = ana.post(f"{PLACE}/actions/{verb}", json={})
    assert (answer.status_code, answer.json()["code"]) == (409, "DR7024")
    assert "condition Ready" in answer.json()["detail"]


def test_pause_and_resume_hold_the_tasks(house: MemoryApiHouse, ana: TestClient) -> None:
    uid = declare_sink(house, ana)
    assert ana.post(f"{PLACE}/actions/pause", json={}).status_code == 200
    reconcile(house)
    assert read_status(house, uid).state.wish is TaskWish.PAUSE
    assert ana.get(PLACE).json()["status"]["phase"] == "Paused"
    assert ana.post(f"{PLACE}/actions/resume", json={}).status_code == 200
    reconcile(house)
    assert read_status(house, uid).state.wish is TaskWish.RUN


@pytest.mark.parametrize("verb", ["commit-now", "retry", "reset", "pause", "resume"])
@pytest.mark.parametrize(("role", "may"), [(Role.OPERATOR, False), (Role.EDITOR, True)])
def test_a_verb_needs_the_permission_to_write(
    house: MemoryApiHouse, ana: TestClient, verb: str, role: Role, *, may: bool
) -> None:
    declare_sink(house, ana)
    answer = house.caller(A_TENANT, role).post(f"{PLACE}/actions/{verb}", json={})
    assert (answer.status_code < 300) is may
    if not may:
        assert (answer.status_code, answer.json()["code"]) == (403, "DR6012")


def test_a_deleted_sink_waits_for_its_last_commit(house: MemoryApiHouse, ana: TestClient) -> None:
    uid = declare_sink(house, ana)
    add_commit(house, uid, 1)
    assert ana.delete(PLACE, headers=ANY).status_code == 202
    reconcile(house)
    assert ana.get(PLACE).json()["metadata"]["finalizers"] == ["datarecs.io/drain-sink"]
    before = read_status(house, uid)
    assert before.state.wish is TaskWish.DRAIN
    store_status(house, uid, replace(before, state=replace(before.state, is_drained=True)))
    house.clock.advance(timedelta(seconds=15))
    reconcile(house)
    assert ana.get(PLACE).status_code == 404


@pytest.mark.case("I67")
def test_another_tenant_has_no_sink_of_this_name(house: MemoryApiHouse, ana: TestClient) -> None:
    uid = declare_sink(house, ana)
    bob = house.caller(B_TENANT, Role.ADMIN)
    assert bob.get(PLACE).status_code == 404
    for path in ("commits", "partitions"):
        assert bob.get(f"{PLACE}/{path}").status_code == 404
        assert bob.get(f"{SINKS}/{uid}/{path}").status_code == 404
    for verb in ("commit-now", "retry", "reset", "pause", "resume"):
        assert bob.post(f"{PLACE}/actions/{verb}", json={}).status_code == 404
    declare(bob, Kind.SINK_TABLE)
    reconcile(house)
    conditions = {one["type"]: one for one in bob.get(PLACE).json()["status"]["conditions"]}
    assert conditions["Ready"]["reason"] == "ConnectionMissing"


@pytest.mark.parametrize(("kind", "value"), [("Connection", "true"), ("SinkTable", "yes")])
def test_skipping_the_drain_is_refused_where_it_has_no_effect(
    ana: TestClient, kind: str, value: str
) -> None:
    body = {
        "apiVersion": "datarecs.io/v1",
        "kind": kind,
        "metadata": {"name": "x", "annotations": {"datarecs.io/skip-drain": value}},
        "spec": KAFKA,
    }
    path = "/api/v1/connections" if kind == "Connection" else SINKS
    answer = ana.post(path, json=body)
    assert answer.status_code == 422
    assert "/metadata/annotations/datarecs.io~1skip-drain" in {
        one["pointer"] for one in answer.json()["errors"]
    }


def test_a_deleted_sink_that_cannot_commit_goes_when_its_drain_is_skipped(
    house: MemoryApiHouse, ana: TestClient
) -> None:
    """As its condition says, by the declaration that is applied again."""
    uid = declare_sink(house, ana)
    state = read_status(house, uid).state
    checkpoint = replace(state.checkpoint, lineage=LINEAGE)
    store_status(
        house, uid, replace(read_status(house, uid), state=replace(state, checkpoint=checkpoint))
    )
    tasks = tuple(
        replace(one, report=TaskReport(error_code="COMMIT_FAILED", error="409"))
        for one in read_status(house, uid).tasks
    )
    store_status(house, uid, replace(read_status(house, uid), tasks=tasks))
    assert ana.delete(PLACE, headers=ANY).status_code == 202
    reconcile(house)
    resource = ana.get(PLACE).json()
    conditions = {one["type"]: one for one in resource["status"]["conditions"]}
    (name,) = re.findall(r"datarecs\.io/[a-z-]+", conditions["DeletionBlocked"]["message"])
    body = {
        "apiVersion": resource["apiVersion"],
        "kind": resource["kind"],
        "metadata": {"name": resource["metadata"]["name"], "annotations": {name: "true"}},
        "spec": resource["spec"],
    }
    assert ana.put(PLACE, json=body, headers=ANY).status_code == 200
    reconcile(house)
    assert ana.get(PLACE).status_code == 404
