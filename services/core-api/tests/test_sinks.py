"""The kind SinkTable over REST: faults, commits, partitions, verbs, permissions and tenants."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid5

import pytest
from starlette.testclient import TestClient

from datarecs_application.loops.polling import Rhythm
from datarecs_application.loops.reconciling import Reconciling
from datarecs_application.sinking.declared import SinkController
from datarecs_application.source_conditions import ConnectionController
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.access.permissions import Role
from datarecs_core.resources.resource import Kind
from datarecs_core.sink.checkpoint import (
    Checkpoint,
    Lineage,
    PartitionState,
    TableCommit,
    TaskReport,
    TaskWish,
)
from datarecs_core.sink.control import SourcePartition, TableReference
from datarecs_core.sink.decisions import TableDecision, WaitingRecords
from datarecs_core.sink.declared import CommitRecord, SinkStatus
from datarecs_core.sink.definition import SinkTable
from datarecs_core.values import ResourceUid
from datarecs_runtime.clock import Latch
from datarecs_specs.documents import decode_stored, job_of
from datarecs_testing.api import MemoryApiHouse, declare, memory_api
from datarecs_testing.builders import A_TENANT, B_TENANT, NOON
from datarecs_testing.metrics import RecordedMetrics

SINKS = "/api/v1/sink-tables"
PLACE = f"{SINKS}/payments-landing"
ANY = {"If-Match": "*"}
FIRST, SECOND = SourcePartition("payments", 0), SourcePartition("payments", 1)
KAFKA = {
    "type": "kafka",
    "auth": {"password": "env:DATARECS_CONN_DEFAULT_KAFKA"},
    "config": {"brokers": ["kafka.example.com:9093"], "user": "sink"},
}
LAKE = {
    "type": "iceberg",
    "config": {"catalog": {"type": "rest", "uri": "https://catalog.example.com"}},
}
COMMIT = CommitRecord(
    commit_id=UUID(int=1),
    epoch=3,
    completed_at=NOON,
    is_partial=False,
    control_offset=40,
    valid_through=None,
    records=12,
)


@pytest.fixture
def house() -> MemoryApiHouse:
    return memory_api()


@pytest.fixture
def ana(house: MemoryApiHouse) -> TestClient:
    return house.caller()


def read_sink(spec: Mapping[str, object]) -> SinkTable:
    sink = decode_stored(Kind.SINK_TABLE, "", spec)
    assert isinstance(sink, SinkTable)
    return sink


def reconcile(house: MemoryApiHouse) -> None:
    sinks = SinkController(sinks=StoredSpecs(read_sink), jobs=StoredSpecs(partial(job_of, "")))
    controllers = (sinks, ConnectionController())
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


def connect(caller: TestClient) -> None:
    for name, spec in (("events-kafka", KAFKA), ("lake", LAKE)):
        body = {
            "apiVersion": "datarecs.io/v1",
            "kind": "Connection",
            "metadata": {"name": name},
            "spec": spec,
        }
        answer = caller.post("/api/v1/connections", json=body)
        assert answer.status_code == 201, answer.text


def begun(house: MemoryApiHouse, caller: TestClient) -> ResourceUid:
    """The Sink of the published example, with its tasks wanted."""
    connect(caller)
    declare(caller, Kind.SINK_TABLE)
    reconcile(house)
    return ResourceUid(UUID(caller.get(PLACE).json()["metadata"]["uid"]))


def status(house: MemoryApiHouse, uid: ResourceUid) -> SinkStatus:
    with house.unit.begin(A_TENANT, read_only=True) as tx:
        return tx.sinks.status(uid)


def stored(house: MemoryApiHouse, uid: ResourceUid, status: SinkStatus) -> None:
    with house.unit.begin(A_TENANT) as tx:
        tx.sinks.set_status(uid, status)  # type: ignore[attr-defined]  # of the twin


def committed(house: MemoryApiHouse, uid: ResourceUid, number: int, **fields: Any) -> None:  # noqa: ANN401  of a record
    at = house.clock.now() + number * timedelta(minutes=1)
    record = replace(COMMIT, commit_id=UUID(int=number), completed_at=at, **fields)
    with house.unit.begin(A_TENANT) as tx:
        tx.sinks.add_commit(uid, record)  # type: ignore[attr-defined]  # of the twin


def test_a_declared_sink_is_read_back_and_wants_its_tasks(
    house: MemoryApiHouse, ana: TestClient
) -> None:
    uid = begun(house, ana)
    spec = ana.get(PLACE).json()["spec"]
    assert spec["tables"] == [{"catalog": "lake", "namespace": "sales", "name": "payments"}]
    wished = status(house, uid).wished
    assert wished is not None
    assert (wished.tasks, wished.wish) == (2, TaskWish.RUN)
    assert ana.get(PLACE).json()["status"]["phase"] == "Starting"
    assert ana.get(SINKS).json()["items"][0]["metadata"]["name"] == "payments-landing"
    assert "SinkTable" in {one["kind"] for one in ana.get("/api/v1/kinds").json()["items"]}


def test_every_fault_has_its_pointer(house: MemoryApiHouse, ana: TestClient) -> None:
    begun(house, ana)
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
    uid = begun(house, ana)
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
    committed(house, uid, 1)
    committed(house, uid, 2, is_partial=True)
    committed(house, uid, 3, snapshots=(snapshot,))
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
    uid = begun(house, ana)
    before = status(house, uid)
    report = TaskReport(positions={FIRST: 7, SECOND: 3}, ends={FIRST: 9, SECOND: 3})
    largest = PartitionState(accepted=5, largest=house.clock.now())
    checkpoint = replace(before.state.checkpoint, partitions={FIRST: largest})
    tasks = (replace(before.tasks[0], is_held=True, report=report), before.tasks[1])
    state = replace(before.state, checkpoint=checkpoint)
    stored(house, uid, replace(before, state=state, tasks=tasks))
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
    uid = begun(house, ana)
    key = {"Idempotency-Key": "k-1"}
    for _ in range(2):
        answer = ana.post(f"{PLACE}/actions/commit-now", json={}, headers=key)
        assert (answer.status_code, answer.json()["kind"]) == (202, "SinkTable")
    assert status(house, uid).state.commit_requests == 1


def test_retry_begins_halted_tasks_again(house: MemoryApiHouse, ana: TestClient) -> None:
    uid = begun(house, ana)
    before = status(house, uid)
    halted = TaskReport(error_code="BAD_RECORD", error="a: no int", is_halted=True)
    tasks = (replace(before.tasks[0], is_held=True, report=halted), before.tasks[1])
    stored(house, uid, replace(before, tasks=tasks))
    reconcile(house)
    assert ana.post(f"{PLACE}/actions/retry").status_code == 202
    assert [one.report for one in status(house, uid).tasks] == [None, None]


def test_reset_sets_positions_and_is_audited(house: MemoryApiHouse, ana: TestClient) -> None:
    uid = begun(house, ana)
    body = {"positions": {"payments": {"0": 5, "1": 7}}}
    answer = ana.post(f"{PLACE}/actions/reset", json=body)
    assert answer.status_code == 202
    after = status(house, uid).state
    assert (after.epoch, after.checkpoint.lineage) == (1, None)
    assert {name: one.accepted for name, one in after.checkpoint.partitions.items()} == {
        FIRST: 5,
        SECOND: 7,
    }
    last = house.store.committed(A_TENANT).audit[-1].row
    assert (last.action, last.resource_uid) == ("sink.reset", str(uid))
    assert isinstance(last.detail, Mapping)
    assert last.detail["positions"] == {"payments/0": 5, "payments/1": 7}


@pytest.mark.parametrize(
    ("positions", "pointer"),
    [
        ({"refunds": {"0": 1}}, "/positions/refunds"),
        ({"payments": {"00": 1}}, "/positions/payments/00/[key]"),
        ({"payments": {"x": 1}}, "/positions/payments/x/[key]"),
        ({"payments": {"0": -1}}, "/positions/payments/0"),
        ({"payments": {"0": 1.5}}, "/positions/payments/0"),
    ],
)
def test_positions_of_a_reset_are_checked(
    house: MemoryApiHouse, ana: TestClient, positions: Mapping[str, Any], pointer: str
) -> None:
    uid = begun(house, ana)
    answer = ana.post(f"{PLACE}/actions/reset", json={"positions": positions})
    assert answer.status_code == 422
    assert [one["pointer"] for one in answer.json()["errors"]] == [pointer]
    assert status(house, uid).state.epoch == 0


@pytest.mark.parametrize(
    ("positions", "pointer", "message"),
    [
        ({"9": 1}, "/positions/payments/9", "it knows 0, 1. Name one of these"),
        ({"0": 10}, "/positions/payments/0", "payments/0 ends at 9: name a position up to it"),
    ],
)
def test_a_reset_to_a_place_that_the_topic_does_not_have_is_refused(
    house: MemoryApiHouse, ana: TestClient, positions: Mapping[str, int], pointer: str, message: str
) -> None:
    uid = begun(house, ana)
    before = status(house, uid)
    checkpoint = replace(before.state.checkpoint, partitions={SECOND: PartitionState(accepted=5)})
    report = TaskReport(positions={FIRST: 7}, ends={FIRST: 9})
    tasks = (replace(before.tasks[0], report=report), before.tasks[1])
    state = replace(before.state, checkpoint=checkpoint)
    stored(house, uid, replace(before, state=state, tasks=tasks))
    answer = ana.post(f"{PLACE}/actions/reset", json={"positions": {"payments": positions}})
    (fault,) = answer.json()["errors"]
    assert (answer.status_code, fault["pointer"]) == (422, pointer)
    assert message in fault["message"]
    assert status(house, uid).state.epoch == 0
    body = {"positions": {"payments": {"0": 9, "1": 999}}}
    assert ana.post(f"{PLACE}/actions/reset", json=body).status_code == 202


LINEAGE = Lineage(cluster_id="c", topic_id="t", group="g")


def a_snapshot(number: int, name: str = "payments", *, end: int = 5) -> TableCommit:
    """A table has every record of partition 0 below the end."""
    return TableCommit(
        commit_id=UUID(int=number),
        table=TableReference(
            catalog="lake", namespace=("sales",), name=name, uuid=uuid5(UUID(int=7), name)
        ),
        snapshot_id=number,
        control_offset=10 * number,
        valid_through=None,
        records=5,
        files=1,
        source_ends={FIRST: end},
    )


def held(house: MemoryApiHouse, uid: ResourceUid, *snapshots: TableCommit) -> None:
    """The checkpoint is at position 3, control offset 15; snapshots are what tables hold."""
    before = status(house, uid)
    checkpoint = Checkpoint(
        lineage=LINEAGE,
        control_offset=15,
        partitions={FIRST: PartitionState(accepted=3)},
        tables=tuple({one.table.name: one.table for one in snapshots}.values()),
    )
    stored(house, uid, replace(before, state=replace(before.state, checkpoint=checkpoint)))
    committed(house, uid, 9, snapshots=snapshots)


def accepted(house: MemoryApiHouse, uid: ResourceUid) -> dict[SourcePartition, int]:
    partitions = status(house, uid).state.checkpoint.partitions
    return {name: one.accepted for name, one in partitions.items()}


@pytest.mark.parametrize(("number", "end"), [(1, 3), (2, 5)])
def test_a_reset_goes_on_at_what_the_one_table_holds(
    house: MemoryApiHouse, ana: TestClient, number: int, end: int
) -> None:
    uid = begun(house, ana)
    held(house, uid, a_snapshot(number))
    assert ana.post(f"{PLACE}/actions/reset", json={}).status_code == 202
    assert accepted(house, uid) == {FIRST: end}
    assert ana.post(f"{PLACE}/actions/reset", json={}).status_code == 202
    assert accepted(house, uid) == {FIRST: end}


def test_a_reset_is_refused_while_tables_hold_different_records(
    house: MemoryApiHouse, ana: TestClient
) -> None:
    uid = begun(house, ana)
    held(house, uid, a_snapshot(2), a_snapshot(1, "refunds"))
    answer = ana.post(f"{PLACE}/actions/reset", json={})
    assert (answer.status_code, answer.json()["code"]) == (409, "DR7025")
    assert (
        "table sales.payments holds records that table sales.refunds does not hold"
        in (answer.json()["detail"])
    )
    assert status(house, uid).state.epoch == 0
    body = {"positions": {"payments": {"0": 4}}}
    assert ana.post(f"{PLACE}/actions/reset", json=body).status_code == 202
    assert accepted(house, uid) == {FIRST: 4}


@pytest.mark.parametrize("catalog", [{}, {"catalog": "lake"}])
def test_a_decision_about_a_table_is_stored_and_audited(
    house: MemoryApiHouse, ana: TestClient, catalog: Mapping[str, str]
) -> None:
    uid = begun(house, ana)
    held(house, uid, a_snapshot(2))
    body = {"table": "sales.payments", "records": "commit", **catalog}
    for _ in range(2):
        answer = ana.post(
            f"{PLACE}/actions/accept-table", json=body, headers={"Idempotency-Key": "k-1"}
        )
        assert answer.status_code == 202
    after = status(house, uid).state
    assert after.epoch == 1
    assert after.checkpoint.decision == TableDecision(
        catalog="lake",
        namespace=("sales",),
        name="payments",
        records=WaitingRecords.COMMIT,
        since=20,
    )
    last = house.store.committed(A_TENANT).audit[-1].row
    assert last.action == "sink.accept_table"
    assert isinstance(last.detail, Mapping)
    assert (last.detail["table"], last.detail["records"]) == ("sales.payments", "commit")
    reconcile(house)
    assert ana.get(PLACE).json()["status"]["table_decision"] == {
        "catalog": "lake",
        "table": "sales.payments",
        "records": "commit",
        "state": "open",
        "message": "",
    }


def test_a_decision_waits_for_one_about_another_table(
    house: MemoryApiHouse, ana: TestClient
) -> None:
    uid = begun(house, ana)
    held(house, uid, a_snapshot(1), a_snapshot(2, "refunds"))
    place = f"{PLACE}/actions/accept-table"
    first = {"table": "sales.payments", "records": "commit"}
    assert ana.post(place, json=first).status_code == 202
    other = ana.post(place, json={**first, "table": "sales.refunds"})
    assert (other.status_code, other.json()["code"]) == (409, "DR7026")
    assert "sales.payments" in other.json()["detail"]
    assert ana.post(place, json={**first, "records": "leave_out"}).status_code == 202


@pytest.mark.parametrize(
    ("body", "pointer", "message"),
    [
        ({"table": "sales.none", "records": "commit"}, "/table", "it has sales.payments"),
        ({"table": "sales..x", "records": "commit"}, "/table", "it has sales.payments"),
        (
            {"table": "sales.payments", "records": "commit", "catalog": "pond"},
            "/catalog",
            "it has lake",
        ),
        ({"table": "sales.payments", "records": "drop"}, "/records", ""),
        ({"table": "sales.payments"}, "/records", ""),
    ],
)
def test_a_decision_names_a_table_of_the_sink(
    house: MemoryApiHouse, ana: TestClient, body: Mapping[str, str], pointer: str, message: str
) -> None:
    uid = begun(house, ana)
    held(house, uid, a_snapshot(1))
    answer = ana.post(f"{PLACE}/actions/accept-table", json=body)
    (fault,) = answer.json()["errors"]
    assert (answer.status_code, fault["pointer"]) == (422, pointer)
    assert message in fault["message"]
    assert status(house, uid).state.epoch == 0


def test_a_decision_needs_a_coordinator_that_has_begun(
    house: MemoryApiHouse, ana: TestClient
) -> None:
    begun(house, ana)
    body = {"table": "sales.payments", "records": "leave_out"}
    answer = ana.post(f"{PLACE}/actions/accept-table", json=body)
    assert (answer.status_code, answer.json()["code"]) == (409, "DR7024")
    reader = house.caller(A_TENANT, Role.OPERATOR)
    assert reader.post(f"{PLACE}/actions/accept-table", json=body).status_code == 403
    bob = house.caller(B_TENANT, Role.ADMIN)
    assert bob.post(f"{PLACE}/actions/accept-table", json=body).status_code == 404


@pytest.mark.parametrize("verb", ["commit-now", "retry", "reset"])
def test_a_verb_needs_a_sink_that_has_begun(ana: TestClient, verb: str) -> None:
    declare(ana, Kind.SINK_TABLE)
    answer = ana.post(f"{PLACE}/actions/{verb}", json={})
    assert (answer.status_code, answer.json()["code"]) == (409, "DR7024")
    assert "condition Ready" in answer.json()["detail"]


def test_pause_and_resume_hold_the_tasks(house: MemoryApiHouse, ana: TestClient) -> None:
    uid = begun(house, ana)
    assert ana.post(f"{PLACE}/actions/pause", json={}).status_code == 200
    reconcile(house)
    assert status(house, uid).state.wish is TaskWish.PAUSE
    assert ana.get(PLACE).json()["status"]["phase"] == "Paused"
    assert ana.post(f"{PLACE}/actions/resume", json={}).status_code == 200
    reconcile(house)
    assert status(house, uid).state.wish is TaskWish.RUN


@pytest.mark.parametrize("verb", ["commit-now", "retry", "reset", "pause", "resume"])
@pytest.mark.parametrize(("role", "may"), [(Role.OPERATOR, False), (Role.EDITOR, True)])
def test_a_verb_needs_the_permission_to_write(
    house: MemoryApiHouse, ana: TestClient, verb: str, role: Role, *, may: bool
) -> None:
    begun(house, ana)
    answer = house.caller(A_TENANT, role).post(f"{PLACE}/actions/{verb}", json={})
    assert (answer.status_code < 300) is may
    if not may:
        assert (answer.status_code, answer.json()["code"]) == (403, "DR6012")


def test_a_deleted_sink_waits_for_its_last_commit(house: MemoryApiHouse, ana: TestClient) -> None:
    uid = begun(house, ana)
    committed(house, uid, 1)
    assert ana.delete(PLACE, headers=ANY).status_code == 202
    reconcile(house)
    assert ana.get(PLACE).json()["metadata"]["finalizers"] == ["datarecs.io/drain-sink"]
    before = status(house, uid)
    assert before.state.wish is TaskWish.DRAIN
    stored(house, uid, replace(before, state=replace(before.state, is_drained=True)))
    house.clock.advance(timedelta(seconds=15))
    reconcile(house)
    assert ana.get(PLACE).status_code == 404


@pytest.mark.case("I67")
def test_another_tenant_has_no_sink_of_this_name(house: MemoryApiHouse, ana: TestClient) -> None:
    uid = begun(house, ana)
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
    uid = begun(house, ana)
    lineage = Lineage(cluster_id="c", topic_id="t", group="g")
    state = status(house, uid).state
    checkpoint = replace(state.checkpoint, lineage=lineage)
    stored(house, uid, replace(status(house, uid), state=replace(state, checkpoint=checkpoint)))
    tasks = tuple(
        replace(one, report=TaskReport(error_code="COMMIT_FAILED", error="409"))
        for one in status(house, uid).tasks
    )
    stored(house, uid, replace(status(house, uid), tasks=tasks))
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
